//! A fake test bed: its results are a function of the setup.

use flashfit_bench::Workload;
use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_filesystem::Setup;
use flashfit_testbed::{
    BytesWritten, TestBed, TestBedFacts, TrialError, TrialPhases, TrialReport, TrialRequest,
};
use flashfit_tune::{Observer, RunProgress, TrialKey, TrialRecord};

use super::{Answer, facts, point};

/// The figures of a setup under a workload.
pub type Answers<'a> = &'a dyn Fn(&Setup, &str) -> Answer;

/// Returns figures of a landscape; can fail after a number of trials.
pub struct FakeTestBed<'a> {
    facts: TestBedFacts,
    landscape: Answers<'a>,
    /// The figures of trials with a longer time limit; without it those of the others.
    pub longer: Option<Answers<'a>>,
    /// The trials made or failed, each with its seed.
    pub made: Vec<(String, String, u64)>,
    /// Duration of a trial.
    pub trial_ns: u64,
    /// The number of trials after which the device fails.
    pub gone_after: Option<usize>,
    /// Whether the bytes written in a trial cannot be counted, by its number from 0 and workload.
    pub is_uncounted: fn(usize, &str) -> bool,
}

impl<'a> FakeTestBed<'a> {
    /// One that does not fail.
    pub fn new(landscape: Answers<'a>) -> Self {
        Self {
            facts: facts(),
            landscape,
            longer: None,
            made: Vec::new(),
            trial_ns: 1_000_000_000,
            gone_after: None,
            is_uncounted: |_, _| false,
        }
    }
}

impl TestBed for FakeTestBed<'_> {
    fn facts(&self) -> &TestBedFacts {
        &self.facts
    }

    fn run_trial(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError> {
        if self.gone_after == Some(self.made.len()) {
            return Err(TrialError::Device { what: "is gone".into() });
        }
        let workload = request.workload.name.clone();
        let is_uncounted = (self.is_uncounted)(self.made.len(), &workload);
        let longer = self.longer.filter(|_| request.runtime_ns > 2_000_000_000);
        let answer = longer.unwrap_or(self.landscape)(request.setup, &workload);
        self.made.push((request.setup.label(), workload, request.seed));
        let mut report = TrialReport {
            phases: TrialPhases {
                total_ns: self.trial_ns,
                fio_ns: self.trial_ns / 2,
                ..TrialPhases::default()
            },
            written: Some(BytesWritten { trial_bytes: 1 << 20, workload_bytes: 1 << 19 }),
            kernel_messages: vec!["a line of the kernel's".into()],
            ..TrialReport::default()
        };
        if is_uncounted {
            report.written = None;
        }
        let mut measured = |rate: u64, p99_ns: u64| {
            let mut measured = point(rate);
            for write in measured.stages.iter_mut().filter_map(|stage| stage.write.as_mut()) {
                write.latency.p99_ns = p99_ns;
            }
            report.points = vec![measured];
        };
        match answer {
            Answer::Kib(rate) => {
                measured(rate, 0);
                Ok(report)
            }
            Answer::SlowAt99(rate) => {
                measured(rate, 1_000_000_000);
                Ok(report)
            }
            Answer::P99(rate, p99_ns) => {
                measured(rate, p99_ns);
                Ok(report)
            }
            Answer::Fails => {
                let message = format!("{} fails", request.setup);
                Err(TrialError::Setup { message, report: Box::new(report) })
            }
        }
    }
}

pub fn workload(name: &str) -> Workload {
    let text = "#: title = \"T\"\n#: explanation = \"E\"\n#: source = \"S\"\n\
        #: parameter = \"none\"\n#: [[stage]]\n#: name = \"write\"\n#: sections = [\"job\"]\n\
        #: kind = \"throughput\"\n#: yields = [\"write\"]\n\
        [global]\ndirectory=${DIRECTORY}\ngroup_reporting=1\n[job]\nrw=write\n";
    let origin = Origin::File(format!("{name}.fio").into());
    Workload::parse(&CatalogEntry { name: name.to_owned(), text: text.to_owned(), origin }).unwrap()
}

/// Records the remaining trials reported, and the recorded trials.
#[derive(Debug, Default)]
pub struct Watcher {
    /// As reported before each trial.
    pub left: Vec<Option<u64>>,
    /// The length of the history at the end of each batch.
    pub thoughts: Vec<usize>,
    /// The numbers of the recorded trials.
    pub kept: Vec<u32>,
}

impl Observer for Watcher {
    fn on_trial_start(&mut self, _key: &TrialKey, so_far: &RunProgress<'_>) {
        self.left.push(so_far.left);
    }

    fn on_trial_end(&mut self, record: &TrialRecord) {
        self.kept.push(record.number);
    }

    fn on_batch_end(&mut self, so_far: &RunProgress<'_>, _leader: Option<usize>) {
        self.thoughts.push(so_far.history.len());
    }
}
