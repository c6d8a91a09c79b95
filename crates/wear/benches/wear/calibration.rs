//! Whether 90 % intervals hold the end of 90 of 100 drawn cards.
//!
//! Each card has drawn endurance of its blocks and drawn rates; the estimate sees the erase counts
//! of the first 5 % of the life only. Limit: endurance and rates are drawn as the estimate assumes,
//! so this tests its arithmetic and not its assumptions.

use flashfit_device::random::Random;
use flashfit_wear::UsedLife;
use flashfit_wear::extrapolation::{EraseRates, Interval, LifeModel, Uncertainty};

const CARDS: u64 = 100;
const BLOCKS: usize = 400;
/// Erases of an average block in the first 5 % of a life of 1000 cycles.
const SEEN: f64 = 50.0;

pub fn run() {
    println!("## Calibration\n");
    let unknown = Uncertainty { volume_factor: 1.2, ..Uncertainty::default() };
    let mut held = 0;
    for card in 0..CARDS {
        let mut random = Random::new(0xCA11 + card);
        let part = |random: &mut Random| random.below(1 << 20) as f64 / (1 << 20) as f64;
        // A tenth to a half of the blocks rotate; the others hold cold data.
        let rotating = 0.1 + 0.4 * part(&mut random);
        let rates: Vec<f64> = (0..BLOCKS)
            .map(|block| {
                let rotates = (block as f64) < rotating * BLOCKS as f64;
                if rotates { 0.9 + 0.2 * part(&mut random) } else { 0.05 }
            })
            .collect();
        let model = |rates: Vec<f64>| LifeModel {
            courses: vec![EraseRates::new(rates)],
            gib_a_day: 1.0,
            spare_share: 0.05,
            uncertainty: unknown,
            used: UsedLife::NEW,
        };
        let truth = model(rates.iter().map(|rate| rate / 1000.0).collect());
        let end = truth.ends(1, 7 * card + 1, 7 * card + 2)[0].years;
        // Counters show whole erases.
        let seen = rates.iter().map(|rate| (rate * SEEN).floor() / SEEN / 1000.0);
        let estimate = model(seen.collect());
        let years = estimate.ends(500, 1, 2).iter().map(|end| end.years).collect();
        let interval = Interval::of(years);
        held += u32::from((interval.low..=interval.high).contains(&end));
    }
    println!(
        "{held} of {CARDS} drawn cards end within the 90 % interval that is estimated from the \
         erase counts of the first\n5 % of their life. Endurance, volume and early failures are \
         drawn as the estimate assumes them: this tests its\narithmetic, not its assumptions.\n"
    );
}
