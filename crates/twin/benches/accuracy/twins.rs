//! Fits twins to half of the cells of published open-block tables and predicts the other half, and
//! fits twins to the whole tables. What the probe infers from the visible cells is where a fit
//! starts.

use std::fmt::Write;

use flashfit_device::random::Random;
use flashfit_geometry::flashbench::groups::is_good;
use flashfit_geometry::flashbench::{Comparison, Imported, OpenBlockTable, inference};
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
        "\n## 4. Fitted card models (twins)\n\nIn each published table of open erase blocks, half of the cells are hidden, drawn with seeds 1 to {SPLITS}. A card model is fitted to the other half, starting from the findings of `probe --import` on it, and the same procedure is simulated on the model. The ratios compare the hidden cells, simulated to real. The rows \"all\" are fitted to whole tables and compared with the same cells.\n\n\
         | table | cells | layer | median ratio | 90 % within | compared | good for |\n|---|---|---|---|---|---|---|\n"
    );
    let mut all = Errors(Vec::new());
    let mut counts = [[0, 0]; 2];
    for (card, runs) in published("open-au") {
        for (file, imported) in runs {
            let Some(target) = FitTarget::from_tables(&imported.open_erase_blocks) else {
                continue;
            };
            let mut known = SimulatedCounts::default();
            for seed in 0..=SPLITS {
                let (visible, compared) = match seed {
                    0 => (target.clone(), target.clone()),
                    seed => split(&target, seed),
                };
                let cells = if seed == 0 { "all" } else { "half hidden" };
                let [within, fits] = &mut counts[usize::from(seed > 0)];
                *fits += 1;
                let watch = &mut NoObserver;
                let twin = fit_to(&visible, &mut known, hints(&visible), ("twin", &card), watch);
                let twin = match twin {
                    Ok(twin) => twin,
                    Err(error) => {
                        let _ = writeln!(text, "| {card} {file} | {cells} | {error} | | | | |");
                        continue;
                    }
                };
                let compared = OpenBlockTable { cells: compared.cells };
                let rates = predict::predict(&twin.model, &target, &twin.structure)
                    .expect("the model was simulated")
                    .rates;
                let comparison = Comparison::of(&compared, &rates).expect("half of the cells");
                let (median, ninth) = (
                    comparison.median_error_thousandths,
                    comparison.ninth_decile_error_thousandths,
                );
                *within += usize::from(is_good(median, ninth));
                let _ = writeln!(
                    text,
                    "| {card} {file} | {cells} | {:?} | {:.2} | {:.2} | {} | {} |",
                    twin.structure.kind,
                    median as f64 / 1000.0,
                    ninth as f64 / 1000.0,
                    comparison.cells,
                    if seed == 0 { twin.good_for().to_string() } else { String::new() },
                );
                if seed > 0 {
                    all.0.extend(compared.cells.iter().filter_map(|cell| {
                        let rate = rates.rate(cell.units, cell.access, cell.write)? as f64;
                        let real = cell.bytes_per_second as f64;
                        Some((rate / real).max(real / rate))
                    }));
                }
            }
        }
    }
    let (median, ninth) = (all.at(0.5), all.at(0.9));
    let [[whole, tables], [within, fits]] = counts;
    let _ = writeln!(
        text,
        "\nOver the {} hidden cells of all tables, the median ratio is {median:.2}, and 90 % are within {ninth:.2}. {within} of {fits} fits have a median within 1.3 and 90 % of the hidden cells within 2, and {whole} of {tables} fits of whole tables.",
        all.0.len(),
    );
    text
}

/// What the probe infers from these cells.
fn hints(visible: &FitTarget) -> DeviceHints {
    let table = OpenBlockTable { cells: visible.cells.clone() };
    let imported = Imported { open_erase_blocks: vec![table], ..Imported::default() };
    DeviceHints::from_findings(&imported, &inference::infer(&imported).findings)
}

/// The visible half of the cells, and the hidden half.
fn split(target: &FitTarget, seed: u64) -> (FitTarget, FitTarget) {
    let mut order: Vec<usize> = (0..target.cells.len()).collect();
    Random::new(seed).shuffle(&mut order);
    let visible = &order[..order.len() / 2];
    (target.with_cells(|at| visible.contains(&at)), target.with_cells(|at| !visible.contains(&at)))
}
