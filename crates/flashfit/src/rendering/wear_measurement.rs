//! What a command costs a device: each counter for a run, with its interval.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_host::path_text::to_text;
use flashfit_report::text::{plain, wrap};
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_wear_counters::interval::CountInterval;
use flashfit_wear_counters::measurement::MeasuredCounter;
use flashfit_wear_counters::{
    CounterDifference, CounterUnit, FEWEST_RUNS, MeasurementEnd, WearMeasurement, WearQuantity,
};

use super::wear_counters::unanswered;

/// The measurement, `columns` wide.
pub fn text(found: &WearMeasurement, columns: usize) -> String {
    let runs = if found.runs == 1 { "1 run".to_owned() } else { format!("{} runs", found.runs) };
    let device = plain(&to_text(&found.device));
    let mut text = format!("{device} ({}), {runs}\n\n", found.kind);
    text.push_str(&table(found).render(columns));
    text.push('\n');
    let mut line = |line: &str| {
        for part in wrap(&plain(line), columns) {
            writeln!(text, "{part}").expect("a string takes any text");
        }
    };
    if let Some(ratio) = &found.write_amplification {
        let interval = bounds(ratio);
        let interval =
            interval.map(|(low, high)| format!(" (95 % interval {low:.2} to {high:.2})"));
        line(&format!("write amplification: {:.2}{}", ratio.middle, interval.unwrap_or_default()));
    }
    if !found.reports_wear {
        line(match found.unanswered.is_empty() {
            true => {
                "The device reports nothing about the wear of its flash: this is what the host \
                 wrote, not the wear."
            }
            false => {
                "This is what the host wrote, not the wear: not every source of the device's own \
                 counters answered."
            }
        });
        found.unanswered.iter().for_each(|asked| line(&unanswered(asked)));
    }
    if found.end == MeasurementEnd::Spread {
        line(
            "The runs differ by more than the wanted error. More runs make the interval narrower.",
        );
    }
    match found.runs {
        1 => line("The spread between runs is unknown after one run, so there is no interval."),
        runs if runs < FEWEST_RUNS => {
            line("With fewer than three runs, the spread between runs is not known well.");
        }
        _ => {}
    }
    if found.is_simulated {
        line("A simulated card counted: these are figures of its model.");
    }
    found.notes.iter().for_each(|note| line(&format!("note: {note}")));
    text
}

/// What the device's own counters counted in trials, as far as ten times more than their steps:
/// each trial can be a step off.
pub fn of_trials<'a>(trials: impl Iterator<Item = &'a [CounterDifference]>) -> Option<String> {
    let mut sums: Vec<(&CounterDifference, u64, u64)> = Vec::new();
    for one in trials.flatten() {
        match sums.iter_mut().find(|(first, ..)| first.id == one.id) {
            Some((_, counted, trials)) => {
                *counted = counted.saturating_add(one.counted);
                *trials += 1;
            }
            None => sums.push((one, one.counted, 1)),
        }
    }
    let resolved = sums.iter().filter(|(first, counted, trials)| {
        let is_shown = first.measures.is_wear() || first.measures == WearQuantity::HostWritten;
        is_shown && !first.is_saturated && *counted / first.step / 10 >= *trials
    });
    let texts: Vec<String> = resolved
        .map(|(first, counted, _)| {
            let amount = super::wear_counters::amount(*counted, first.unit);
            format!("{amount} {} ({})", first.measures.text(), first.id)
        })
        .collect();
    (!texts.is_empty()).then(|| format!("by the device's counters: {}", texts.join(", ")))
}

fn table(found: &WearMeasurement) -> TextTable {
    let mut table = TextTable::new([
        Column::text("WHAT"),
        Column::number("A RUN"),
        Column::text("95 % INTERVAL"),
        Column::number("STEPS"),
        Column::text("COUNTER").shorten(Shorten::End),
    ]);
    for counter in found.counters.iter().filter(|counter| counter.total > 0) {
        table.row([
            counter.measures.text().to_owned(),
            amount(counter.per_run.middle, counter.unit),
            interval(&counter.per_run, counter),
            steps(found, counter),
            counter.id.clone(),
        ]);
    }
    table
}

fn interval(per_run: &CountInterval, counter: &MeasuredCounter) -> String {
    if counter.not_believed.is_some() {
        return "not believed".to_owned();
    }
    let shown = |value| amount(value, counter.unit);
    let text = bounds(per_run).map(|(low, high)| format!("{} to {}", shown(low), shown(high)));
    text.unwrap_or_else(|| "–".to_owned())
}

fn bounds(interval: &CountInterval) -> Option<(f64, f64)> {
    interval.low.zip(interval.high)
}

fn steps(found: &WearMeasurement, counter: &MeasuredCounter) -> String {
    let steps = counter.total / counter.step;
    let is_enough = steps >= found.steps_wanted;
    if is_enough { steps.to_string() } else { format!("{steps}, too few") }
}

fn amount(value: f64, unit: CounterUnit) -> String {
    match unit {
        CounterUnit::Bytes => bytes(value),
        CounterUnit::Pages => format!("{value:.0} pages"),
        CounterUnit::Percent => format!("{value:.3} %"),
        CounterUnit::Count | CounterUnit::Hours => format!("{value:.1}"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of bytes")]
fn bytes(value: f64) -> String {
    Bytes(value.max(0.0) as u64).si()
}

#[cfg(test)]
mod tests {
    use flashfit_device::DeviceKind;
    use flashfit_wear_counters::needed_volume::{NeededVolume, VolumeBasis};
    use flashfit_wear_counters::{SourceAnswer, SourceOutcome};

    use super::*;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wear-measure.txt");

    fn counter(id: &str, measures: WearQuantity, mean: f64, step: u64) -> MeasuredCounter {
        let half = mean / 20.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small count"
        )]
        let total = (mean * 3.0) as u64;
        MeasuredCounter {
            id: id.to_owned(),
            measures,
            unit: CounterUnit::Bytes,
            step,
            source: "test".to_owned(),
            is_simulated: false,
            total,
            per_run: CountInterval {
                low: Some(mean - half),
                middle: mean,
                high: Some(mean + half),
            },
            is_resolved: total / step >= 10,
            not_believed: None,
        }
    }

    fn found() -> WearMeasurement {
        WearMeasurement {
            device: "/dev/nvme0n1".into(),
            kind: DeviceKind::Nvme,
            runs: 3,
            counters: vec![
                counter("kernel.written", WearQuantity::HostWritten, 1.2e9, 512),
                counter("nvme.host_written", WearQuantity::HostWritten, 1.2e9, 512_000),
                counter("nvme.group_flash_written", WearQuantity::FlashWritten, 3e9, 1_000_000_000),
            ],
            write_amplification: Some(CountInterval {
                low: Some(2.2),
                middle: 2.5,
                high: Some(2.8),
            }),
            goal: "nvme.group_flash_written".to_owned(),
            steps_wanted: 10,
            steps_counted: 9,
            end: MeasurementEnd::Runs,
            needed: NeededVolume { bytes: 4_000_000_000, basis: VolumeBasis::Measured },
            is_simulated: false,
            reports_wear: true,
            unanswered: Vec::new(),
            notes: Vec::new(),
            command: Vec::new(),
            measured_device: None,
            created_unix_s: None,
        }
    }

    #[test]
    fn trials_are_summed_where_the_steps_suffice() {
        let difference = |id: &str, step: u64, counted: u64| CounterDifference {
            id: id.to_owned(),
            measures: WearQuantity::FlashWritten,
            unit: CounterUnit::Bytes,
            step,
            counted,
            source: "test".to_owned(),
            is_simulated: false,
            wrapped_bits: None,
            is_saturated: false,
        };
        let trials = [
            vec![difference("fine", 1000, 10_000), difference("coarse", 1000, 9000)],
            vec![difference("fine", 1000, 10_000), difference("coarse", 1000, 10_000)],
        ];
        let text = of_trials(trials.iter().map(|trial| &trial[..])).unwrap();
        assert_eq!(text, "by the device's counters: 20 kB written to the flash (fine)");
        assert_eq!(of_trials(std::iter::empty()), None);
    }

    #[test]
    fn measurements_look_as_the_golden_file_has_them() {
        let mut host_only = WearMeasurement {
            runs: 1,
            write_amplification: None,
            reports_wear: false,
            end: MeasurementEnd::Volume,
            notes: vec!["`a` passed the end of its 32 bits and began again at 0".to_owned()],
            ..found()
        };
        host_only.counters.truncate(2);
        for counter in &mut host_only.counters {
            counter.per_run = CountInterval { low: None, high: None, ..counter.per_run };
        }
        host_only.counters[1].not_believed = Some("reason".to_owned());
        let spread = WearMeasurement { end: MeasurementEnd::Spread, ..found() };
        let unanswered = vec![SourceAnswer {
            source: "simulated card".to_owned(),
            outcome: SourceOutcome::NeedsRoot,
            counters: 0,
            reason: Some("only root may ask".to_owned()),
        }];
        let not_asked = WearMeasurement { unanswered, ..host_only.clone() };
        let text = [found(), host_only, spread, not_asked].map(|found| text(&found, 80)).join("\n");
        flashfit_test_support::golden(GOLDEN, &text);
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }
}
