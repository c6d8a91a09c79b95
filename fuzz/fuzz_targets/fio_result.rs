//! fio's result, as a damaged or unusual fio may write it.

#![no_main]

use flashfit_bench::result::{ExpectedRun, read};
use flashfit_bench::{Direction, FigureKind, StageSpec};
use flashfit_host::ProgramOutcome;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|output: &str| {
    let outcome = ProgramOutcome { code: Some(0), ..ProgramOutcome::default() };
    for direction in [Direction::Read, Direction::Write] {
        let stage = StageSpec::of_jobs("stage", "job", FigureKind::Throughput, vec![direction]);
        let asked = ExpectedRun { stage: &stage, bytes: 1 << 20, runtime_ns: 1_000_000_000 };
        let Ok(result) = read(&outcome, output, asked) else { continue };
        assert!(output.ends_with(&result.json));
        for figures in [result.read, result.write].into_iter().flatten() {
            assert!(figures.latency.p50_ns <= figures.latency.max_ns);
            assert!(figures.latency.p999_ns <= figures.latency.max_ns);
            assert!(figures.operations > 0);
        }
    }
});
