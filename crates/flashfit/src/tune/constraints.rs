//! What the user asks of a setup, from flags and configuration file together; what contradicts
//! itself is refused.

use std::collections::BTreeMap;

use flashfit_filesystem::Durability;
use flashfit_tune::{Config, OptionChoice};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::tune::args::{GoalArgs, TuneArgs};

/// The least safety of a recommended setup, where it is given.
pub fn allow(args: &TuneArgs, config: &Config) -> Result<Option<Durability>, CommandError> {
    let agreed = |allow: Option<Durability>, require: Option<Durability>, names: [&str; 2]| match (
        allow, require,
    ) {
        (Some(allow), Some(require)) if allow != require => Err(contradiction(
            format!("{} {allow} and {} {require} contradict each other", names[0], names[1]),
            "they set the same choice: give one of them",
        )),
        (allow, require) => Ok(allow.or(require)),
    };
    let typed = agreed(args.what.allow, args.asked.require, ["--allow", "--require"])?;
    let written = agreed(config.allow, config.require, ["allow", "require"])?;
    Ok(typed.or(written))
}

/// Options fixed and left out: the file's, and those of the flags, which go before them.
pub fn options(
    asked: &GoalArgs,
    config: &Config,
    filesystems: &[String],
) -> Result<BTreeMap<String, OptionChoice>, CommandError> {
    let mut choices = config.options.clone();
    if let Some(both) = asked.with.iter().find(|option| asked.without.contains(option)) {
        let name = format!("{}:{}", both.0, both.1);
        return Err(contradiction(
            format!("--with {name} and --without {name} contradict each other"),
            "give one of them",
        ));
    }
    for (flag, list) in [("--with", &asked.with), ("--without", &asked.without)] {
        for (filesystem, option) in list {
            if !filesystems.contains(filesystem) {
                return Err(contradiction(
                    format!("{flag} {filesystem}:{option} names a file system that is not tried"),
                    &format!("tried are {}; name others with --fs", filesystems.join(", ")),
                ));
            }
            let choice = choices.entry(filesystem.clone()).or_default();
            let (into, from) = match flag {
                "--with" => (&mut choice.always, &mut choice.exclude),
                _ => (&mut choice.exclude, &mut choice.always),
            };
            from.retain(|known| known != option);
            if !into.contains(option) {
                into.push(option.clone());
            }
        }
    }
    for (filesystem, choice) in &choices {
        if let Some(both) = choice.always.iter().find(|option| choice.exclude.contains(option)) {
            return Err(contradiction(
                format!("{filesystem} {both} is both always on and excluded"),
                "remove it from `always` or from `exclude`",
            ));
        }
    }
    Ok(choices)
}

/// How much workloads count, in thousandths; those of the flags go before the file's.
pub fn weights(
    asked: &GoalArgs,
    config: &Config,
    workloads: &[String],
) -> Result<BTreeMap<String, u32>, CommandError> {
    let typed = asked.weights.iter().map(|(name, weight)| (name, weight));
    let mut weights = BTreeMap::new();
    for (name, weight) in config.weights.iter().chain(typed) {
        if !workloads.contains(name) {
            return Err(contradiction(
                format!("the weight of `{name}` names a workload that is not measured"),
                &format!("measured are {}; name others with --workload", workloads.join(", ")),
            ));
        }
        weights.insert(name.clone(), weight.0);
    }
    let mut seen = Vec::new();
    for (name, _) in &asked.weights {
        if seen.contains(&name) {
            return Err(contradiction(
                format!("the weight of `{name}` is given twice"),
                "give one of them",
            ));
        }
        seen.push(name);
    }
    Ok(weights)
}

pub fn contradiction(message: String, hint: &str) -> CommandError {
    CommandError::new(ExitClass::Usage, message, Some(hint))
}
