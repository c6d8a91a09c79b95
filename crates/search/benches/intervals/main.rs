//! Simulates confirming trials alone, without a search, and prints how often the 95 % interval of a
//! gain contains the true one, and how its width compares with that of the same estimate with a
//! known standard error.
//!
//! Noise: 5 to 15 % by workload, normal or Student's t with 3 degrees of freedom; 3 % of the trials
//! are 20 to 70 % slower; all trials of a candidate in a batch share 2 %. The search before made
//! two trials of some setups (`repeated`). The ideal width is that of a normal interval with the
//! simulated standard error. `--runs N` sets the number of simulated searches per row.

#![expect(clippy::print_stdout, reason = "it prints the table")]

use flashfit_search::landscape::LandscapeNoise;
use flashfit_search::{
    Batch, Candidate, ConfirmingTrials, Factor, FactorRole, Gain, Observation, Proposal, Purpose,
    RandomStream, SearchSpace, TrialLength, TrialOutcome, Weighted,
};

const RUNS: u64 = 1000;
/// From this many workloads, a round consists of two batches.
const HALVED: usize = 4;
const NORMAL_95: f64 = 1.96;

#[derive(Debug, Clone, Copy)]
struct Case {
    workloads: usize,
    finalists: usize,
    rounds: u32,
    heavy_tails: bool,
    /// Setups that the search measured twice under each workload.
    repeated: usize,
    /// Kinds of states that rounds start in; a kind changes a comparison by 5 % (standard
    /// deviation).
    states: u64,
}

fn main() {
    let runs = std::env::args().skip_while(|argument| argument != "--runs").nth(1);
    let runs = runs.and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    println!(
        "| workloads | finalists | rounds | noise | repeated | states | covered % | error % \
         | width % | width / ideal |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let (mut all, mut inside) = (0.0, 0.0);
    for (workloads, finalists) in [(1, 1), (1, 4), (2, 3), (6, 2), (8, 1), (8, 4)] {
        for rounds in [4, 6, 12, 20] {
            for heavy_tails in [false, true] {
                for repeated in [0, 3] {
                    let case =
                        Case { workloads, finalists, rounds, heavy_tails, repeated, states: 1 };
                    inside += case.report(runs) * runs as f64;
                    all += runs as f64;
                }
            }
        }
    }
    for rounds in [4, 8, 12] {
        for workloads in [1, 6] {
            for repeated in [0, 3] {
                Case { workloads, finalists: 2, rounds, heavy_tails: true, repeated, states: 4 }
                    .report(runs);
            }
        }
    }
    println!("\nWith one kind of state: {:.1} %", 100.0 * inside / all);
}

impl Case {
    /// Prints a row; returns the share of intervals that contain the true gain.
    fn report(self, runs: u64) -> f64 {
        let (mut inside, mut squares, mut width) = (0.0, 0.0, 0.0);
        for run in 0..runs {
            let (gain, truth) = self.simulate(run);
            let (low, high) = gain.interval.expect("several rounds");
            inside += f64::from(u8::from(low <= truth && truth <= high)) / runs as f64;
            squares += (gain.mean - truth).powi(2) / runs as f64;
            width += (high - low) / runs as f64;
        }
        let error = squares.sqrt();
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.1} | {:.2} | {:.2} | {:.2} |",
            self.workloads,
            self.finalists,
            self.rounds,
            if self.heavy_tails { "t" } else { "normal" },
            self.repeated,
            self.states,
            100.0 * inside,
            100.0 * error,
            100.0 * width,
            width / (2.0 * NORMAL_95 * error),
        );
        inside
    }

    /// The gain of the first finalist over the baseline, and the true one.
    fn simulate(self, run: u64) -> (Gain, f64) {
        let mut random = RandomStream::stream(run, 0x696e_7476);
        let noise = LandscapeNoise {
            sigma: (0..self.workloads).map(|_| random.unit().mul_add(0.1, 0.05)).collect(),
            heavy_tails: self.heavy_tails,
            outliers: 0.03,
            visit: 0.02,
            drift: 0.0,
            short_ratio: 1.0,
            seed: random.next_u64(),
        };
        let mut history: Vec<Observation> = Vec::new();
        let mut effects = Vec::new();
        let mut truth = 0.0;
        for _ in 0..self.workloads {
            let of: Vec<f64> = (0..self.states)
                .map(|_| if self.states > 1 { 0.05 * random.normal() } else { 0.0 })
                .collect();
            truth += of.iter().sum::<f64>() / (self.states as usize * self.workloads) as f64;
            effects.push(of);
        }
        let mut add = |proposal: Proposal, start: u64| {
            let visit = history.len() as u64;
            let mut log_merit = noise.draw(&proposal, visit);
            if proposal.candidate == 1 {
                log_merit += effects[proposal.workload][start as usize];
            }
            let outcome = TrialOutcome::Measured { log_merit, excess: None };
            history.push(Observation { proposal, visit, start, outcome });
        };
        let length = TrialLength::Full;
        for repeat in 0..2 {
            for candidate in 10..10 + self.repeated {
                for workload in 0..self.workloads {
                    let batch = Batch { number: repeat, size: 16 };
                    let purpose = Purpose::Search;
                    add(Proposal { candidate, workload, length, purpose, repeat, batch }, 0);
                }
            }
        }
        for repeat in 0..self.rounds {
            let mut workloads: Vec<usize> = (0..self.workloads).collect();
            random.shuffle(&mut workloads);
            let half = if self.workloads < HALVED { self.workloads } else { self.workloads / 2 };
            for (number, batch) in (0..).zip(workloads.chunks(half)) {
                for candidate in 0..=self.finalists {
                    for &workload in batch {
                        let batch = Batch { number: 100 + 2 * repeat + number, size: 1 };
                        let purpose = Purpose::Confirm;
                        let proposal =
                            Proposal { candidate, workload, length, purpose, repeat, batch };
                        add(proposal, u64::from(repeat) % self.states);
                    }
                }
            }
        }
        let confirmed = ConfirmingTrials::of(&space(self.workloads), &history);
        (confirmed.gain_among(1, 0, 1).expect("compared"), truth)
    }
}

fn space(workloads: usize) -> SearchSpace {
    let candidate =
        |distance| Candidate { levels: vec![Some(0)], allowed: true, safety: 0, distance };
    SearchSpace {
        factors: vec![Factor {
            name: "setup".to_owned(),
            levels: vec!["0".to_owned()],
            role: FactorRole::Choice,
            default: 0,
        }],
        candidates: (0..20).map(candidate).collect(),
        workloads: (0..workloads)
            .map(|workload| Weighted { name: workload.to_string(), weight: 1.0 })
            .collect(),
        baseline: 0,
    }
}
