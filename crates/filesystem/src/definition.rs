//! How the files of `catalog/filesystems/` and `catalog/knobs/` are written.

mod checks;
mod implied;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use flashfit_catalog::{
    CatalogEntry, FileMistake, FileMistakes, Origin, ReadToml, line_at, read_toml,
};
use flashfit_device::Bytes;
use serde::Deserialize;
use toml::Spanned;

use crate::conditions::{Conditions, OptionRequirement};
use crate::durability::Durability;
use crate::filesystem::{
    ExistingChange, FileSystem, Flag, FsOption, Fsck, Layered, Mkfs, Setting, Suggestion, Tool,
    TrialOptions,
};
use crate::label::LabelRule;
use crate::promises::{Promise, Promises};
use crate::template::Template;
use crate::version::Versions;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSystemToml {
    name: Spanned<String>,
    title: String,
    kind: Spanned<String>,
    #[serde(rename = "least_medium_bytes")]
    least_device_bytes: Bytes,
    block_bytes: Spanned<u64>,
    most_page_bytes: Option<u64>,
    #[serde(default = "yes", rename = "try")]
    tried: bool,
    plan_only: Option<String>,
    suggested: Option<Suggestion>,
    #[serde(default)]
    durability: Durability,
    #[serde(default)]
    risk: String,
    mkfs: MkfsToml,
    tune: Option<ToolToml>,
    fsck: FsckToml,
    #[serde(default)]
    promises: Promises,
    #[serde(default)]
    trial: TrialToml,
    #[serde(default)]
    crash: TrialToml,
    layered: Option<LayeredToml>,
    label: Option<LabelRule>,
    #[serde(default)]
    option: Vec<OptionToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnobsToml {
    #[serde(default)]
    option: Vec<OptionToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayeredToml {
    image: String,
    hosts: Vec<Spanned<String>>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MkfsToml {
    program: Spanned<String>,
    version_args: Vec<Spanned<String>>,
    #[serde(default)]
    args: Vec<Spanned<String>>,
    #[serde(default)]
    whole_device_args: Vec<Spanned<String>>,
    #[serde(default)]
    flags: BTreeMap<String, Vec<Spanned<String>>>,
    #[serde(default)]
    joined: Vec<String>,
    #[serde(default)]
    from_folder: bool,
    #[serde(default)]
    no_discard: BTreeMap<String, Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolToml {
    program: Spanned<String>,
    #[serde(default)]
    args: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FsckToml {
    program: Spanned<String>,
    args: Vec<Spanned<String>>,
    repair: Option<Vec<Spanned<String>>>,
    pass: u8,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialToml {
    #[serde(default)]
    flags: BTreeMap<String, Vec<Spanned<String>>>,
    #[serde(default)]
    mount: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionToml {
    name: Spanned<String>,
    title: String,
    #[serde(default)]
    mkfs: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    #[serde(default)]
    mkfs_if_known: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    #[serde(default)]
    tune: Vec<Spanned<String>>,
    existing: Option<Spanned<ExistingChange>>,
    #[serde(default)]
    mount: Vec<Spanned<String>>,
    #[serde(default)]
    sysctl: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    sysfs: BTreeMap<Spanned<String>, Spanned<String>>,
    timer: Option<Spanned<String>>,
    #[serde(default)]
    needs: Vec<OptionRequirement>,
    #[serde(default)]
    excludes: Vec<Spanned<String>>,
    #[serde(default)]
    implies: Vec<Spanned<String>>,
    #[serde(default)]
    since: Versions,
    #[serde(default)]
    until: Versions,
    #[serde(default = "yes", rename = "try")]
    tried: bool,
    crash_device_bytes: Option<Spanned<Bytes>>,
    durability: Spanned<Durability>,
    #[serde(default)]
    withdraws: BTreeSet<Promise>,
    #[serde(default)]
    risk: String,
    note: Option<String>,
    source: String,
}

struct At {
    span: Range<usize>,
    reason: String,
}

fn at<T>(place: &Spanned<T>, reason: impl Into<String>) -> At {
    At { span: place.span(), reason: reason.into() }
}

pub(crate) fn read(entry: &CatalogEntry) -> Result<FileSystem, FileMistakes> {
    let raw = parsed(entry, |raw| checks::check(raw, entry))?;
    build(raw, entry).map_err(|found| mistakes(entry, Vec::new(), &found))
}

/// Reads a file of `catalog/knobs/`: options of the machine that any file system can be given.
pub(crate) fn read_knobs(entry: &CatalogEntry) -> Result<Vec<FsOption>, FileMistakes> {
    let raw = parsed(entry, |raw: &KnobsToml| checks::check_knobs(&raw.option))?;
    let built = build_options(raw.option, &entry.origin);
    built.map_err(|found| mistakes(entry, Vec::new(), &found))
}

/// Reads the form of a file, and checks what `check` wants if that can be told.
fn parsed<T: serde::de::DeserializeOwned>(
    entry: &CatalogEntry,
    check: impl Fn(&T) -> Vec<At>,
) -> Result<T, FileMistakes> {
    let ReadToml { value, mistakes: of_form } = read_toml::<T>(&entry.text);
    let found = value.as_ref().map(check).unwrap_or_default();
    match value {
        Some(value) if of_form.is_empty() && found.is_empty() => Ok(value),
        _ => Err(mistakes(entry, of_form, &found)),
    }
}

fn mistakes(entry: &CatalogEntry, mut all: Vec<FileMistake>, more: &[At]) -> FileMistakes {
    all.extend(more.iter().map(|at| FileMistake {
        line: line_at(&entry.text, at.span.start),
        reason: at.reason.clone(),
    }));
    FileMistakes::new(&entry.origin, all)
}

fn build(mut raw: FileSystemToml, entry: &CatalogEntry) -> Result<FileSystem, Vec<At>> {
    let options = build_options(std::mem::take(&mut raw.option), &entry.origin)?;
    build_fixed(raw, options, entry).map_err(|at| vec![at])
}

fn build_options(raw: Vec<OptionToml>, origin: &Origin) -> Result<Vec<FsOption>, Vec<At>> {
    let (mut built, mut found) = (Vec::new(), Vec::new());
    for option in raw {
        match build_option(option, origin) {
            Ok(option) => built.push(option),
            Err(at) => found.push(at),
        }
    }
    if found.is_empty() { Ok(built) } else { Err(found) }
}

fn build_fixed(
    raw: FileSystemToml,
    options: Vec<FsOption>,
    entry: &CatalogEntry,
) -> Result<FileSystem, At> {
    let block_bytes = *raw.block_bytes.get_ref();
    let fixed = |text: &Spanned<String>| {
        let template = parse(text)?;
        // With no geometry given, only what does not depend on one has a value.
        template
            .fill(block_bytes, &Conditions::default())
            .map_err(|_| at(text, "only an option can depend on the geometry"))
    };
    let fixed_all =
        |texts: &[Spanned<String>]| texts.iter().map(fixed).collect::<Result<Vec<_>, _>>();
    let fixed_flags = |flags: &BTreeMap<String, Vec<Spanned<String>>>| {
        let fixed = |(flag, values): (&String, &Vec<_>)| Ok((flag.clone(), fixed_all(values)?));
        flags.iter().map(fixed).collect::<Result<_, At>>()
    };
    let additions = |toml: &TrialToml| -> Result<TrialOptions, At> {
        Ok(TrialOptions { flags: fixed_flags(&toml.flags)?, mount: fixed_all(&toml.mount)? })
    };
    let (trial, crash) = (additions(&raw.trial)?, additions(&raw.crash)?);
    let mkfs = Mkfs {
        tool: Tool { program: raw.mkfs.program.into_inner(), args: fixed_all(&raw.mkfs.args)? },
        version_args: plain(raw.mkfs.version_args),
        whole_device_args: plain(raw.mkfs.whole_device_args),
        flags: fixed_flags(&raw.mkfs.flags)?,
        joined: raw.mkfs.joined,
        from_folder: raw.mkfs.from_folder,
        no_discard: fixed_flags(&raw.mkfs.no_discard)?,
    };
    Ok(FileSystem {
        name: raw.name.into_inner(),
        title: raw.title,
        kind: raw.kind.into_inner(),
        min_device_size: raw.least_device_bytes,
        block_bytes,
        most_page_bytes: raw.most_page_bytes,
        tried: raw.tried,
        plan_only: raw.plan_only,
        suggested: raw.suggested,
        durability: raw.durability,
        risk: raw.risk,
        mkfs,
        trial,
        crash,
        layered: raw.layered.map(|layered| Layered {
            image: layered.image,
            hosts: layered.hosts.into_iter().map(Spanned::into_inner).collect(),
        }),
        tune: raw
            .tune
            .map(|tune| Tool { program: tune.program.into_inner(), args: plain(tune.args) }),
        fsck: Fsck {
            repair: raw.fsck.repair.map(|args| Tool {
                program: raw.fsck.program.get_ref().clone(),
                args: plain(args),
            }),
            tool: Tool { program: raw.fsck.program.into_inner(), args: plain(raw.fsck.args) },
            pass: raw.fsck.pass,
        },
        label: raw.label,
        promises: raw.promises,
        options,
        origin: entry.origin.clone(),
    })
}

fn plain(texts: Vec<Spanned<String>>) -> Vec<String> {
    texts.into_iter().map(Spanned::into_inner).collect()
}

fn build_option(raw: OptionToml, origin: &Origin) -> Result<FsOption, At> {
    let needs = raw.needs;
    let strict = |text: &Spanned<String>| {
        let template = parse(text)?;
        let lacking = template.needs().find(|need| !needs.contains(need));
        lacking.map_or(Ok(template), |need| {
            Err(at(text, format!("`{}` needs {need}, which `needs` lacks", text.get_ref())))
        })
    };
    let strict_all = |texts: &[Spanned<String>]| texts.iter().map(strict).collect::<Result<_, _>>();
    let parse_all = |texts: &[Spanned<String>]| texts.iter().map(parse).collect::<Result<_, _>>();
    Ok(FsOption {
        mkfs: flags(&raw.mkfs, strict_all)?,
        mkfs_if_known: flags(&raw.mkfs_if_known, parse_all)?,
        tune: strict_all(&raw.tune)?,
        existing: raw.existing.map(Spanned::into_inner),
        mount: strict_all(&raw.mount)?,
        sysctl: settings(&raw.sysctl, strict)?,
        sysfs: settings(&raw.sysfs, strict)?,
        timer: raw.timer.map(Spanned::into_inner),
        name: raw.name.into_inner(),
        title: raw.title,
        excludes: raw.excludes.into_iter().map(Spanned::into_inner).collect(),
        implies: raw.implies.into_iter().map(Spanned::into_inner).collect(),
        since: raw.since,
        until: raw.until,
        tried: raw.tried,
        origin: origin.clone(),
        crash_device_bytes: raw.crash_device_bytes.map(Spanned::into_inner),
        durability: raw.durability.into_inner(),
        withdraws: raw.withdraws,
        risk: raw.risk,
        note: raw.note,
        source: raw.source,
        needs,
    })
}

fn settings(
    raw: &BTreeMap<Spanned<String>, Spanned<String>>,
    read: impl Fn(&Spanned<String>) -> Result<Template, At>,
) -> Result<Vec<Setting>, At> {
    raw.iter().map(|(key, value)| Ok((key.get_ref().clone(), read(value)?))).collect()
}

fn flags(
    raw: &BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    read: impl Fn(&[Spanned<String>]) -> Result<Vec<Template>, At>,
) -> Result<Vec<Flag>, At> {
    raw.iter().map(|(flag, values)| Ok((flag.get_ref().clone(), read(values)?))).collect()
}

fn parse(text: &Spanned<String>) -> Result<Template, At> {
    Template::parse(text.get_ref()).map_err(|reason| at(text, reason))
}
