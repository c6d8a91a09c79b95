//! Cards that differ from their siblings: the other individual, real cards of the product.
//!
//! A card is compared in the cells that it has: there, the effect of a card is the mean of the
//! logarithm of its figure minus that of the cell. So the effects of a card with few figures and
//! of its siblings are means of equally few. Siblings with less than half of the cells do not
//! count, nor do cells of fewer than four cards. A card is flagged if its effect lies outside what
//! those of its siblings predict for one more card (Student's prediction interval, 95 % for all
//! cards of the product together by Bonferroni's inequality) and is at least a tenth away. What
//! others measured, from bundles, does not count. Limits: fewer than four cards show nothing; two
//! odd cards of four hide each other.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_device::Bytes;
use flashfit_search::student;

use super::cells::{CellFigure, CellTable};
use super::listed::ListedCard;
use super::statistics::FigureSample;
use crate::database::ResultTable;
use crate::metric::SurveyMetric;

/// The fewest cards of a product of which one can be odd.
const LEAST_CARDS: usize = 4;
/// The least difference that is worth a flag.
const LEAST_EFFECT: f64 = 0.1;
/// Siblings are not more alike than this, whatever few of them seem to show.
const LEAST_DEVIATION: f64 = 0.01;
/// The figures that are compared, and what is worse.
const METRICS: [(SurveyMetric, &str, bool); 2] =
    [(SurveyMetric::Rate, "rates", true), (SurveyMetric::LatencyP99, "latencies", false)];

/// Adds to each card in what it differs from its siblings.
pub fn flag(cards: &mut [ListedCard], results: &ResultTable) {
    let mut products: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (index, listed) in cards.iter().enumerate() {
        if listed.card.is_individual && !listed.card.is_simulated && !listed.is_bundled() {
            products.entry(listed.product_key()).or_default().push(index);
        }
    }
    for indexes in products.values().filter(|indexes| indexes.len() >= LEAST_CARDS) {
        let mut siblings: Vec<ListedCard> =
            indexes.iter().map(|index| cards[*index].clone()).collect();
        for metric in METRICS {
            flag_figures(&mut siblings, results, metric);
        }
        flag_construction(&mut siblings);
        for (index, sibling) in indexes.iter().zip(siblings) {
            cards[*index] = sibling;
        }
    }
}

fn flag_figures(
    cards: &mut [ListedCard],
    results: &ResultTable,
    metric: (SurveyMetric, &str, bool),
) {
    let (metric, figures, more_is_better) = metric;
    let wants = |_: &ListedCard, _: &_, _, measure: usize| {
        results.measures[measure].metric == metric.name()
    };
    let table = CellTable::of(cards, results, &wants);
    let cells: Vec<Vec<Option<f64>>> = table
        .cells
        .values()
        .filter(|values| values.len() >= LEAST_CARDS)
        .map(|values| {
            let mut means = vec![None; cards.len()];
            for (card, figures) in values {
                means[*card] = mean_of_logs(figures);
            }
            means
        })
        .collect();
    // Cards with the same cells are compared at once.
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for card in 0..cards.len() {
        let own: Vec<usize> =
            (0..cells.len()).filter(|cell| cells[*cell][card].is_some()).collect();
        if !own.is_empty() {
            groups.entry(own).or_default().push(card);
        }
    }
    // Two sides, all cards, both metrics.
    let compared = groups.values().map(Vec::len).sum::<usize>().max(1);
    let tail = 0.025 / compared as f64 / METRICS.len() as f64;
    for (own, members) in groups {
        let own: Vec<&[Option<f64>]> = own.iter().map(|cell| cells[*cell].as_slice()).collect();
        let effects = effects(&own, cards.len());
        if effects.len() >= LEAST_CARDS {
            flag_effects(cards, (figures, more_is_better), (&effects, &members), tail);
        }
    }
}

fn mean_of_logs(figures: &[CellFigure]) -> Option<f64> {
    let logs = figures.iter().map(|figure| figure.value.ln());
    let logs: Vec<f64> = logs.filter(|log| log.is_finite()).collect();
    Some(FigureSample::of(&logs)?.mean)
}

/// The effects, in these cells, of the cards that have at least half of them.
fn effects(cells: &[&[Option<f64>]], cards: usize) -> Vec<(usize, f64)> {
    let has_half: Vec<bool> = (0..cards)
        .map(|card| 2 * cells.iter().filter(|cell| cell[card].is_some()).count() >= cells.len())
        .collect();
    let mut sums = vec![(0.0, 0_usize); cards];
    for cell in cells {
        let values = cell.iter().enumerate().filter(|(card, _)| has_half[*card]);
        let values: Vec<(usize, f64)> =
            values.filter_map(|(card, value)| Some((card, (*value)?))).collect();
        if values.len() < LEAST_CARDS {
            continue;
        }
        let middle = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
        for (card, value) in values {
            sums[card].0 += value - middle;
            sums[card].1 += 1;
        }
    }
    let effect = |(card, (sum, count)): (usize, (f64, usize))| {
        (count > 0).then(|| (card, sum / count as f64))
    };
    sums.into_iter().enumerate().filter_map(effect).collect()
}

/// Flags these members by their effects.
fn flag_effects(
    cards: &mut [ListedCard],
    (figures, more_is_better): (&str, bool),
    (effects, members): (&[(usize, f64)], &[usize]),
    tail: f64,
) {
    for (card, effect) in effects.iter().filter(|(card, _)| members.contains(card)) {
        let others: Vec<f64> =
            effects.iter().filter(|(other, _)| other != card).map(|(_, effect)| *effect).collect();
        let Some(sample) = FigureSample::of(&others) else { continue };
        let count = others.len() as f64;
        let deviation = sample.deviation.unwrap_or(0.0).max(LEAST_DEVIATION);
        let reach =
            student::quantile(1.0 - tail, count - 1.0) * deviation * (1.0 + 1.0 / count).sqrt();
        let difference = effect - sample.mean;
        if difference.abs() <= reach || difference.abs() < (1.0 + LEAST_EFFECT).ln() {
            continue;
        }
        let percent = (difference.exp() - 1.0) * 100.0;
        let direction = if percent < 0.0 { "lower" } else { "higher" };
        let (low, high) = ((-reach).exp_m1() * 100.0, reach.exp_m1() * 100.0);
        let is_worse = (percent < 0.0) == more_is_better;
        let causes = if is_worse {
            "counterfeit, worn or another revision"
        } else {
            "another revision, or another card"
        };
        cards[*card].oddities.push(format!(
            "{figures} {:.0} % {direction} than those of {} siblings, which vary by {low:+.0} to \
             {high:+.0} %: {causes}",
            percent.abs(),
            others.len(),
        ));
    }
}

/// Flags what most siblings have in common and one has not.
fn flag_construction(cards: &mut [ListedCard]) {
    let erase_blocks: Vec<Option<u64>> =
        cards.iter().map(|card| only(&card.erase_blocks)).collect();
    let write_units: Vec<Option<u64>> = cards.iter().map(|card| only(&card.write_units)).collect();
    let size = |size: &u64| Bytes(*size).to_string();
    flag_values(cards, "erase block", &erase_blocks, size);
    flag_values(cards, "write unit", &write_units, size);
    // Explains a difference, and is none by itself.
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    let revisions: Vec<Option<String>> =
        cards.iter().map(|card| known(&card.card.revision)).collect();
    let odd: BTreeSet<usize> =
        (0..cards.len()).filter(|card| !cards[*card].oddities.is_empty()).collect();
    let mut explained: Vec<ListedCard> = cards.to_vec();
    flag_values(&mut explained, "revision", &revisions, Clone::clone);
    for card in odd {
        cards[card].oddities.clone_from(&explained[card].oddities);
    }
}

fn only(values: &[u64]) -> Option<u64> {
    if let [value] = values { Some(*value) } else { None }
}

fn flag_values<T: Ord + Clone>(
    cards: &mut [ListedCard],
    what: &str,
    values: &[Option<T>],
    shown: impl Fn(&T) -> String,
) {
    let mut counts: BTreeMap<&T, usize> = BTreeMap::new();
    for value in values.iter().flatten() {
        *counts.entry(value).or_default() += 1;
    }
    let known: usize = counts.values().sum();
    let Some((usual, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
    // At least three of one kind, and more than two thirds.
    if count + 1 < LEAST_CARDS || count * 3 <= known * 2 {
        return;
    }
    for (card, value) in cards.iter_mut().zip(values) {
        if let Some(value) = value.as_ref().filter(|value| *value != usual) {
            card.oddities.push(format!(
                "{what} {}, that of {count} siblings is {}",
                shown(value),
                shown(usual)
            ));
        }
    }
}
