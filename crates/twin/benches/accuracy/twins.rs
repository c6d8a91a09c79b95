//! Fits twins to half of the cells of published open-block tables and predicts the other half.

use std::fmt::Write;

use flashfit_device::random::Random;
use flashfit_geometry::flashbench::{Comparison, OpenBlockTable};
use flashfit_geometry::probed::NoObserver;
use flashfit_twin::fit_target::FitTarget;
use flashfit_twin::search::SimulatedCounts;
use flashfit_twin::{DeviceHints, fit_to, predict};

use super::tables::published;

/// Number of random splits of each table.
const SPLITS: u64 = 2;

/// Prediction errors: the ratio of the larger rate to the smaller.
struct Errors(Vec<f64>);

impl Errors {
    fn at(&mut self, share: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        let index = ((self.0.len() as f64 * share).ceil() as usize).clamp(1, self.0.len()) - 1;
        self.0[index]
    }
}

/// The section of the document. This takes minutes.
pub fn section() -> String {
    let mut text = format!(
        "\n## 4. Fitted card models (twins)\n\nIn each published table of open erase blocks, half of the cells are hidden, drawn with seeds 1 to {SPLITS}. A card model is fitted to the other half, and the same procedure is simulated on it. The ratios compare the hidden cells, simulated to real.\n\n\
         | table | layer | median ratio | 90 % within | hidden cells |\n|---|---|---|---|---|\n"
    );
    let mut all = Errors(Vec::new());
    let (mut tables, mut within) = (0, 0);
    for (card, runs) in published("open-au") {
        for (file, imported) in runs {
            let Some(target) = FitTarget::from_tables(&imported.open_erase_blocks) else {
                continue;
            };
            let mut known = SimulatedCounts::default();
            for seed in 1..=SPLITS {
                let (visible, hidden) = split(&target, seed);
                let twin = fit_to(
                    &visible,
                    &mut known,
                    DeviceHints::default(),
                    ("twin", &card),
                    &mut NoObserver,
                );
                let Ok(twin) = twin else {
                    let _ = writeln!(text, "| {card} {file} | none: too few cells | | | |");
                    continue;
                };
                let hidden = OpenBlockTable { cells: hidden.cells };
                let rates =
                    predict::predict(&twin.model, &target).expect("the model was simulated");
                let comparison = Comparison::of(&hidden, &rates).expect("half of the cells");
                let (median, ninth) = (
                    comparison.median_error_thousandths,
                    comparison.ninth_decile_error_thousandths,
                );
                tables += 1;
                within += usize::from(median <= 1300 && ninth <= 2000);
                let _ = writeln!(
                    text,
                    "| {card} {file} | {:?} | {:.2} | {:.2} | {} |",
                    twin.structure.kind,
                    median as f64 / 1000.0,
                    ninth as f64 / 1000.0,
                    comparison.cells
                );
                all.0.extend(hidden.cells.iter().filter_map(|cell| {
                    let rate = rates.rate(cell.units, cell.access, cell.write)? as f64;
                    let real = cell.bytes_per_second as f64;
                    Some((rate / real).max(real / rate))
                }));
            }
        }
    }
    let (median, ninth) = (all.at(0.5), all.at(0.9));
    let _ = writeln!(
        text,
        "\nOver the {} hidden cells of all tables, the median ratio is {median:.2}, and 90 % are within {ninth:.2}. {within} of {tables} fits have a median within 1.3 and 90 % of the cells within 2.",
        all.0.len(),
    );
    text
}

/// The visible half of the cells, and the hidden half.
fn split(target: &FitTarget, seed: u64) -> (FitTarget, FitTarget) {
    let mut order: Vec<usize> = (0..target.cells.len()).collect();
    Random::new(seed).shuffle(&mut order);
    let visible = &order[..order.len() / 2];
    (target.with_cells(|at| visible.contains(&at)), target.with_cells(|at| !visible.contains(&at)))
}
