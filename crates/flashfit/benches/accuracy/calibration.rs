//! Section 10: stated confidence against correctness, for every quantity.

use flashfit_card::model::LayerKind;
use flashfit_geometry::{GeometryFinding, GeometryFindings, QuantityValue};

use crate::share::Share;
use crate::trials::{State, Trial, is_close};

/// Bounds of the confidences that are put together.
const BUCKETS: [(f64, f64); 3] = [(0.95, 0.99), (0.99, 0.999), (0.999, 1.1)];

/// A quantity: its name, its finding, and whether a value is right.
struct Quantity {
    name: &'static str,
    finding: fn(&GeometryFindings) -> &GeometryFinding,
    /// `None` if there is no true value to compare.
    is_right: fn(&Trial, QuantityValue) -> Option<bool>,
}

/// The section, as Markdown.
pub fn section(trials: &[Trial]) -> String {
    let mut text = String::from(
        "\n## 10. Confidence and correctness\n\nAll answers for the cards of section 1; numbers \
         of open erase blocks count if they are right to within one, fast areas to within a tenth. \
         Numbers for random writes to an update log, which has none, are left out. \
         The columns from 0.95 on are by the confidence of the answer. `too sure`: the interval of \
         the correct ones lies below the mean of the stated confidences.\n\n| quantity | mean \
         confidence | correct | 0.95 to 0.99 | 0.99 to 0.999 | 0.999 to 1 | |\n|---|---|---|---|---|---|---|\n",
    );
    for quantity in QUANTITIES {
        let by_writing = |t: &'_ Trial| judged(t, &t.written.findings, &quantity);
        text += &row(&format!("{}, by writing", quantity.name), trials, by_writing);
        let by_reading = |t: &'_ Trial| judged(t, &t.read, &quantity);
        if trials.iter().any(|t| by_reading(t).is_some()) {
            text += &row(&format!("{}, by reading", quantity.name), trials, by_reading);
        }
    }
    text
}

/// The confidence of an answer, and whether it is right.
fn judged(trial: &Trial, findings: &GeometryFindings, of: &Quantity) -> Option<(f64, bool)> {
    let found = (of.finding)(findings);
    Some((found.confidence?, (of.is_right)(trial, found.value?)?))
}

fn row(name: &str, trials: &[Trial], judged: impl Fn(&Trial) -> Option<(f64, bool)>) -> String {
    let all: Vec<(f64, bool)> = trials.iter().filter_map(judged).collect();
    let right = Share::of(all.iter().map(|(_, is_right)| *is_right));
    let stated = all.iter().map(|(confidence, _)| confidence).sum::<f64>() / all.len() as f64;
    let buckets = BUCKETS.map(|(low, high)| {
        let within = all.iter().filter(|(confidence, _)| (low..high).contains(confidence));
        let share = Share::of(within.map(|(_, is_right)| *is_right));
        if share.of == 0 { String::new() } else { format!("{} of {}", share.count, share.of) }
    });
    if all.is_empty() {
        return format!("| {name} | | no answer | | | | |\n");
    }
    let verdict = if right.interval().1 < stated { "too sure" } else { "" };
    format!("| {name} | {stated:.4} | {right} | {} | {verdict} |\n", buckets.join(" | "))
}

const QUANTITIES: [Quantity; 10] = [
    Quantity {
        name: "erase block",
        finding: |of| &of.erase_block,
        is_right: |trial, value| Some(value == QuantityValue::Bytes(trial.erase_block())),
    },
    Quantity {
        name: "start of the first erase block",
        finding: |of| &of.erase_block_offset,
        is_right: |trial, value| match value {
            QuantityValue::Bytes(start) => Some(start % trial.erase_block() == 0),
            _ => Some(false),
        },
    },
    Quantity {
        name: "write unit",
        finding: |of| &of.write_unit,
        is_right: |trial, value| Some(value == QuantityValue::Bytes(trial.write_unit())),
    },
    Quantity {
        name: "page",
        finding: |of| &of.page,
        is_right: |trial, value| Some(value == QuantityValue::Bytes(trial.card.model.nand.page.0)),
    },
    Quantity {
        name: "open erase blocks, linear",
        finding: |of| &of.open_erase_blocks_linear,
        is_right: |trial, value| is_near(trial.open_linear(), value),
    },
    Quantity {
        name: "open erase blocks, random",
        finding: |of| &of.open_erase_blocks_random,
        is_right: |trial, value| match trial.kind() {
            // It keeps none open in random order.
            LayerKind::UpdateLog => None,
            _ => is_near(trial.open_random(), value),
        },
    },
    Quantity {
        name: "small-write log",
        finding: |of| &of.small_write_log,
        is_right: |trial, value| {
            Some(trial.small_write_log().map(QuantityValue::Bytes) == Some(value))
        },
    },
    Quantity {
        name: "special zone",
        finding: |of| &of.special_zone,
        is_right: |trial, value| Some(trial.zone().map(QuantityValue::Bytes) == Some(value)),
    },
    Quantity {
        name: "fast area",
        finding: |of| &of.pslc_cache,
        is_right: |trial, value| match (trial.fast_area(), value) {
            (Some(area), QuantityValue::Bytes(found)) => Some(is_close(found, area)),
            _ => Some(false),
        },
    },
    Quantity {
        name: "faster reads from unwritten areas",
        finding: |of| &of.unwritten_is_faster,
        is_right: |trial, value| {
            Some(trial.state == State::Fresh && value == QuantityValue::Is(true))
        },
    },
];

/// A page-mapped card has no number, so every answer is wrong.
fn is_near(truth: Option<u32>, value: QuantityValue) -> Option<bool> {
    Some(match (truth, value) {
        (Some(truth), QuantityValue::Count(found)) => found.abs_diff(truth) <= 1,
        _ => false,
    })
}
