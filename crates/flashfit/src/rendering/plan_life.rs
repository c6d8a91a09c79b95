//! What the file systems and options of plans cost or save in the life of simulated devices.

use flashfit_filesystem::plan::Plan;
use flashfit_wear::{MeasuredLife, MeasuredLives};
use schemars::JsonSchema;
use serde::Serialize;

/// The comparisons that matter to the plans.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PlanLives {
    /// Always true: no life was measured on a device.
    simulated: bool,
    /// Card models that were used.
    cards: Vec<String>,
    /// Usage models that were used.
    usages: Vec<String>,
    measured: Vec<MeasuredLife>,
}

impl PlanLives {
    pub fn of(plans: &[Plan], lives: &MeasuredLives) -> Self {
        let mut measured = Vec::new();
        for plan in plans {
            let filesystem = &plan.setup.filesystem;
            measured.extend(lives.of_filesystem(filesystem).cloned());
            let options = plan.setup.options.iter();
            measured.extend(options.filter_map(|it| lives.of_option(filesystem, it)).cloned());
        }
        Self { simulated: true, cards: lives.cards.clone(), usages: lives.usages.clone(), measured }
    }

    /// In words; `None` where nothing was measured for the plan.
    pub fn text(&self, plan: &Plan) -> Option<String> {
        let is_of_it = |life: &&MeasuredLife| {
            let options = &plan.setup.options;
            life.filesystem == plan.setup.filesystem
                && life.option.as_ref().is_none_or(|option| options.contains(option))
        };
        let pairs = self.cards.len() * self.usages.len();
        let parts: Vec<String> =
            self.measured.iter().filter(is_of_it).map(|life| part(life, pairs)).collect();
        let conditions = format!(
            "simulated, {} card models, usage {}",
            self.cards.len(),
            self.usages.join(" and ")
        );
        (!parts.is_empty()).then(|| format!("{} ({conditions})", parts.join("; ")))
    }
}

/// One comparison, of so many pairs of a card model and a usage model.
fn part(life: &MeasuredLife, pairs: usize) -> String {
    let MeasuredLife { filesystem, option, against, middle, low, high, .. } = life;
    let (what, than) = match option {
        Some(option) => (option, "without it".to_owned()),
        None => (filesystem, format!("with {against}")),
    };
    let text = if *low <= 1.0 && 1.0 <= *high {
        format!("{what}: no clear difference, {low} to {high} times as long as {than}")
    } else {
        format!("{what}: {low} to {high} times as long as {than}, typically {middle}")
    };
    match life.too_slow {
        0 => text,
        _ => format!(
            "{text}, in {} of {pairs} pairs of card and usage; in the others the card cannot write \
             as much",
            life.comparisons
        ),
    }
}
