//! The options of one file system, tried one after another.

use flashfit_filesystem::{Conditions, FileSystem, FsOption, Recipe, SetupError};
use flashfit_host::ProgramError;
use flashfit_user_error::UserError;

use crate::attempt::{self, AttemptResult, AttemptTools};
use crate::finding::{
    EvidenceSource, OptionEvidence, OptionFinding, OptionFindings, OptionVerdict,
};
use crate::judge::{self, ObservedFileSystem, OptionParts};
use crate::{OptionProbeError, guard, recipe, settings};

/// The same kind of finding for every option.
pub(super) fn all(
    filesystem: &FileSystem,
    not_mounted: Option<String>,
    finding: impl Fn(&FsOption) -> OptionFinding,
) -> OptionFindings {
    OptionFindings {
        filesystem: filesystem.name.clone(),
        not_mounted,
        options: filesystem.options.iter().map(finding).collect(),
    }
}

pub(super) fn tool_missing(option: &FsOption, missing: &ProgramError) -> OptionFinding {
    OptionFinding {
        option: option.name.clone(),
        verdict: OptionVerdict::ToolMissing,
        evidence: vec![OptionEvidence::new(EvidenceSource::Flashfit, missing.to_string())],
        hint: missing.hint().and_then(|hint| hint.text().map(str::to_owned)),
    }
}

fn finding(
    option: &FsOption,
    verdict: OptionVerdict,
    evidence: Vec<OptionEvidence>,
) -> OptionFinding {
    OptionFinding { option: option.name.clone(), verdict, evidence, hint: None }
}

fn not_tried(option: &FsOption, reason: String) -> OptionFinding {
    finding(
        option,
        OptionVerdict::NotMeasured,
        vec![OptionEvidence::new(EvidenceSource::Flashfit, reason)],
    )
}

/// What an option is compared with.
struct Without {
    recipe: Recipe,
    seen: ObservedFileSystem,
}

/// Options of one file system under trial.
pub(super) struct OptionTrial<'a> {
    pub(super) bench: AttemptTools<'a>,
    pub(super) filesystem: &'a FileSystem,
    pub(super) conditions: &'a Conditions,
    pub(super) in_kernel: bool,
    pub(super) not_mounted: Option<String>,
    /// What would help against it.
    pub(super) hint: Option<String>,
}

impl OptionTrial<'_> {
    /// What is found of each option.
    pub(super) fn all_options(mut self) -> Result<OptionFindings, OptionProbeError> {
        let recipe = self.recipe::<&str>(&[])?;
        let base = match self.bench.attempt(&recipe, &[])? {
            AttemptResult::Done(seen) => seen,
            AttemptResult::NotMounted(seen, evidence) => {
                self.not_mounted = Some(format!(
                    "even without options it is not mounted ({})",
                    evidence.first().map_or("no reason told", |first| &first.text)
                ));
                self.bench.mounting = false;
                seen
            }
            AttemptResult::Missing(missing) => {
                return Ok(all(self.filesystem, None, |option| tool_missing(option, &missing)));
            }
            AttemptResult::NotMade(evidence) => return Ok(self.none_tried(&evidence)),
            AttemptResult::Unclear(what) => {
                return Ok(self.none_tried(&[OptionEvidence::new(EvidenceSource::Program, what)]));
            }
        };
        let base = Without { recipe, seen: base };
        let found = self.filesystem.options.iter().map(|option| self.one(option, &base));
        let options = found.collect::<Result<_, _>>()?;
        let not_mounted = self.not_mounted.clone();
        Ok(OptionFindings { filesystem: self.filesystem.name.clone(), not_mounted, options })
    }

    /// Where the file system cannot be made even without options.
    fn none_tried(&self, evidence: &[OptionEvidence]) -> OptionFindings {
        let not_made =
            OptionEvidence::new(EvidenceSource::Flashfit, "even without options it is not made");
        let evidence: Vec<OptionEvidence> = evidence.iter().cloned().chain([not_made]).collect();
        all(self.filesystem, self.not_mounted.clone(), |option| {
            finding(option, OptionVerdict::NotMeasured, evidence.clone())
        })
    }

    fn recipe<S: AsRef<str>>(&self, options: &[S]) -> Result<Recipe, SetupError> {
        recipe(self.filesystem, self.conditions, options)
    }

    fn one(&self, option: &FsOption, base: &Without) -> Result<OptionFinding, OptionProbeError> {
        let recipe = match self.recipe(&[option.name.as_str()]) {
            Ok(recipe) => recipe,
            Err(SetupError::Unusable { reason, .. }) => return Ok(not_tried(option, reason)),
            Err(error) => return Err(error.into()),
        };
        if let Some(reason) = forbidden(&recipe, &base.recipe) {
            let evidence = vec![OptionEvidence::new(EvidenceSource::Flashfit, reason)];
            return Ok(finding(option, OptionVerdict::Refused, evidence));
        }
        if option.implies.is_empty() {
            return self.beside(option, &recipe, base);
        }
        // Else what is implied would be taken for the option's own effect.
        let without = self.recipe(&option.implies)?;
        match self.bench.attempt(&without, &[])? {
            AttemptResult::Done(seen) => {
                self.beside(option, &recipe, &Without { recipe: without, seen })
            }
            _ => {
                let names = option.implies.join(", ");
                Ok(not_tried(option, format!("it implies {names}, which does not work here")))
            }
        }
    }

    /// An option, against what is seen without it.
    fn beside(
        &self,
        option: &FsOption,
        recipe: &Recipe,
        without: &Without,
    ) -> Result<OptionFinding, OptionProbeError> {
        let parts = parts(recipe, &without.recipe);
        if parts == OptionParts::default() {
            if let Some((verdict, evidence)) = settings::judge(option, recipe) {
                return Ok(finding(option, verdict, evidence));
            }
        }
        if parts == OptionParts::default() || (!parts.making && !self.bench.mounting) {
            let (verdict, evidence) = judge::judge(&parts, &without.seen, &without.seen);
            return Ok(self.told(option, &parts, verdict, evidence));
        }
        Ok(match self.bench.attempt(recipe, &parts.words)? {
            AttemptResult::Done(seen) => {
                let (verdict, evidence) = judge::judge(&parts, &without.seen, &seen);
                self.told(option, &parts, verdict, evidence)
            }
            AttemptResult::NotMade(evidence) | AttemptResult::NotMounted(_, evidence) => {
                finding(option, OptionVerdict::Refused, evidence)
            }
            AttemptResult::Missing(missing) => tool_missing(option, &missing),
            AttemptResult::Unclear(what) => not_tried(option, what),
        })
    }

    /// A finding that also names what was not mounted, and why.
    fn told(
        &self,
        option: &FsOption,
        parts: &OptionParts,
        verdict: OptionVerdict,
        mut evidence: Vec<OptionEvidence>,
    ) -> OptionFinding {
        let Some(reason) = self.not_mounted.as_ref().filter(|_| *parts != OptionParts::default())
        else {
            return finding(option, verdict, evidence);
        };
        let unmounted = verdict == OptionVerdict::NotMeasured;
        let verdict =
            if unmounted && !self.in_kernel { OptionVerdict::NotInKernel } else { verdict };
        evidence
            .push(OptionEvidence::new(EvidenceSource::Flashfit, format!("not mounted: {reason}")));
        let hint = self.hint.clone().filter(|_| unmounted && self.in_kernel);
        OptionFinding { hint, ..finding(option, verdict, evidence) }
    }
}

/// What an option adds to the commands.
fn parts(recipe: &Recipe, base: &Recipe) -> OptionParts {
    let split = |recipe: &Recipe| -> Vec<String> {
        let options = recipe.mount_options().iter().flat_map(|option| option.split(','));
        options.map(str::to_owned).collect()
    };
    let before = split(base);
    OptionParts {
        making: attempt::making(recipe) != attempt::making(base),
        words: split(recipe).into_iter().filter(|word| !before.contains(word)).collect(),
    }
}

/// Why an option is not tried at all.
fn forbidden(recipe: &Recipe, base: &Recipe) -> Option<String> {
    guard::forbidden_mount(&parts(recipe, base).words).or_else(|| {
        let before = attempt::making(base);
        let node = "/dev/node";
        let new = attempt::making(recipe).into_iter().filter(|line| !before.contains(line));
        let words: Vec<String> = new
            .flat_map(|line| line.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| word != node && !before.iter().any(|line| is_word_of(line, word)))
            .collect();
        guard::forbidden_argument(&words)
    })
}

fn is_word_of(line: &str, word: &str) -> bool {
    line.split(' ').any(|found| found == word)
}
