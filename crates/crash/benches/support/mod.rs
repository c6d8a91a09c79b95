//! Campaigns for the figures of `docs/crash.md` and `docs/crash-catalog.md`.
//!
//! File systems that this kernel lacks are tested in a virtual machine, if `FLASHFIT` names the
//! program that is to work there.

use std::path::PathBuf;
use std::time::Instant;

use flashfit_crash::CrashError;
use flashfit_crash::campaign::{
    Campaign, CampaignFolder, CampaignLimits, CampaignPlan, CampaignStart, MountPoints, SetupResult,
};
use flashfit_crash::cuts::MachineChoice;
use flashfit_crash::mounting::MachineKernel;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::state::{ENUMERATION, FlushFault};
use flashfit_crash::workload::CrashWorkload;
use flashfit_device::Bytes;
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::SystemRunner;

pub const WORKERS: usize = 2;

/// Figures of one campaign.
pub struct Measured {
    pub result: SetupResult,
    /// States an hour of this machine, recording included.
    pub per_hour: u64,
    /// Its release.
    pub kernel: String,
}

/// What runs campaigns, in its own mount namespace.
pub struct Bench {
    pub catalog: FileSystemCatalog,
    points: MountPoints,
    runner: SystemRunner,
    /// Works in virtual machines.
    program: Option<PathBuf>,
}

impl Bench {
    /// Before any thread.
    pub fn take() -> Result<Self, CrashError> {
        let points = MountPoints::take(&[&std::env::temp_dir()])?;
        let catalog = FileSystemCatalog::load(None).expect("the built-in catalog");
        let program = std::env::var_os("FLASHFIT").map(PathBuf::from);
        Ok(Self { catalog, points, runner: SystemRunner::default(), program })
    }

    pub fn setup(&self, label: &str) -> Result<CrashSetup, CrashError> {
        let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
        let geometry = Geometry::of_sizes(known(Bytes::mib(4)), known(Bytes::kib(8)));
        let conditions =
            Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() };
        CrashSetup::parse(label, &self.catalog, &conditions)
    }

    /// Whether this kernel has the file system.
    pub fn is_here(&self, setup: &CrashSetup) -> bool {
        setup.check_kernel(&self.runner).is_ok()
    }

    pub fn run(
        &self,
        label: &str,
        workload: &str,
        seed: u64,
        states: u64,
        how: (FlushFault, bool),
    ) -> Result<Measured, CrashError> {
        let (flushes, looks_at_all) = how;
        let setup = self.setup(label)?;
        let plan = plan(&setup, workload, seed, states, flushes);
        self.run_plan(&plan, setup, looks_at_all)
    }

    /// A campaign on one setup.
    pub fn run_plan(
        &self,
        plan: &CampaignPlan,
        setup: CrashSetup,
        looks_at_all: bool,
    ) -> Result<Measured, CrashError> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let setups = [setup];
        let arguments = ["crash", "guest"].map(str::to_owned).to_vec();
        let choice = |program| MachineChoice { kernel: None, program, arguments, seed: plan.seed };
        let choice = self.program.clone().map(choice);
        let machine = match (setups[0].check_kernel(&self.runner), &choice) {
            (Err(error), None) => return Err(error),
            (Err(_), Some(choice)) => Some(MachineKernel::find(choice, &setups, &self.runner)?),
            (Ok(()), _) => None,
        };
        let kernel = machine.as_ref().map(|machine| machine.release().to_owned());
        let plan = &CampaignPlan { kernel, ..plan.clone() };
        let folder = CampaignFolder::open(dir.path(), plan)?;
        let campaign = Campaign {
            plan,
            setups: &setups,
            folder: &folder,
            points: &self.points,
            machine: machine.as_ref(),
            requests: None,
            runner: &self.runner,
        };
        let limits =
            CampaignLimits { time: None, workers: WORKERS, keeps_logs: false, looks_at_all };
        let start = Instant::now();
        let result = campaign.run(&limits, &|_| {})?.remove(0);
        let hours = start.elapsed().as_secs_f64() / 3600.0;
        let per_hour = (result.counts.states as f64 / hours) as u64;
        Ok(Measured { result, per_hour, kernel: plan.kernel.clone().unwrap_or_else(kernel_here) })
    }
}

/// States of one setup, without a card.
pub fn plan(
    setup: &CrashSetup,
    workload: &str,
    seed: u64,
    states: u64,
    flushes: FlushFault,
) -> CampaignPlan {
    CampaignPlan {
        setups: vec![setup.label.clone()],
        workload: CrashWorkload::parse(workload).expect("a workload of this program"),
        seed,
        states: Some(states),
        unit_sectors: 8,
        flushes,
        card: None,
        kernel: None,
        board: None,
        requests: None,
        start: CampaignStart { enumeration: Some(ENUMERATION), ..CampaignStart::default() },
    }
}

/// A number from the environment.
pub fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

pub fn kernel_here() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or("an unknown release".to_owned(), |text| text.trim().to_owned())
}
