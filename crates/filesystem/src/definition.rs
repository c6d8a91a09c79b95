//! How a file of `catalog/filesystems/` is written, and what makes it valid.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use flashfit_catalogue::Entry;
use flashfit_medium::Bytes;
use serde::Deserialize;
use toml::Spanned;

use crate::conditions::Need;
use crate::durability::Durability;
use crate::filesystem::{BASE, FileSystem, Flag, FsOption, Fsck, Mkfs, Tool, Trial};
use crate::template::Template;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSystemToml {
    name: Spanned<String>,
    title: String,
    kind: String,
    least_medium_bytes: Bytes,
    block_bytes: Spanned<u64>,
    mkfs: MkfsToml,
    tune: Option<ToolToml>,
    fsck: FsckToml,
    #[serde(default)]
    trial: TrialToml,
    #[serde(default)]
    option: Vec<OptionToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MkfsToml {
    program: String,
    version_args: Vec<String>,
    #[serde(default)]
    args: Vec<Spanned<String>>,
    #[serde(default)]
    flags: BTreeMap<String, Vec<Spanned<String>>>,
    #[serde(default)]
    joined: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolToml {
    program: String,
    #[serde(default)]
    args: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FsckToml {
    program: String,
    args: Vec<String>,
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
    #[serde(default)]
    mount: Vec<Spanned<String>>,
    #[serde(default)]
    needs: Vec<Need>,
    #[serde(default)]
    excludes: Vec<Spanned<String>>,
    durability: Spanned<Durability>,
    #[serde(default)]
    risk: String,
    note: Option<String>,
    source: String,
}

/// What is wrong in a file, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) reason: String,
}

struct At {
    span: Range<usize>,
    reason: String,
}

fn at<T>(place: &Spanned<T>, reason: impl Into<String>) -> At {
    At { span: place.span(), reason: reason.into() }
}

/// Reads a file of the catalogue.
pub(crate) fn read(entry: &Entry) -> Result<FileSystem, Fault> {
    let fault = |at: At| {
        let before = entry.text.get(..at.span.start).unwrap_or(&entry.text);
        Fault { line: before.matches('\n').count() + 1, reason: at.reason }
    };
    let raw: FileSystemToml = toml::from_str(&entry.text).map_err(|error| {
        fault(At { span: error.span().unwrap_or(0..0), reason: error.message().to_owned() })
    })?;
    check(&raw, entry).map_err(fault)?;
    build(raw, entry).map_err(fault)
}

fn check(raw: &FileSystemToml, entry: &Entry) -> Result<(), At> {
    if *raw.name.get_ref() != entry.name {
        let reason = format!("the name is not that of the file, `{}`", entry.name);
        return Err(at(&raw.name, reason));
    }
    if !raw.block_bytes.get_ref().is_power_of_two() || *raw.block_bytes.get_ref() > 1 << 20 {
        return Err(at(&raw.block_bytes, "a block is a power of two of at most 1 MiB"));
    }
    let names: Vec<&str> = raw.option.iter().map(|option| option.name.get_ref().as_str()).collect();
    let mut seen = BTreeSet::new();
    for option in &raw.option {
        let name = option.name.get_ref().as_str();
        if !seen.insert(name) {
            return Err(at(&option.name, format!("the option `{name}` is defined twice")));
        }
        check_name(&option.name)?;
        check_option(raw, option, &names)?;
    }
    check_single_flags(raw)
}

fn check_name(name: &Spanned<String>) -> Result<(), At> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let text = name.get_ref();
    if text == BASE {
        return Err(at(name, format!("`{BASE}` is the name of the setup without options")));
    }
    if text.is_empty() || !text.chars().all(plain) {
        return Err(at(name, format!("`{text}` is no name: write a-z, 0-9, - and _")));
    }
    Ok(())
}

fn check_option(raw: &FileSystemToml, option: &OptionToml, names: &[&str]) -> Result<(), At> {
    let name = option.name.get_ref();
    for excluded in &option.excludes {
        let other = excluded.get_ref();
        if other == name {
            return Err(at(excluded, format!("`{name}` excludes itself")));
        }
        if !names.contains(&other.as_str()) {
            let hint = flashfit_catalogue::nearest(other, names.iter().copied())
                .map(|nearest| format!("; did you mean `{nearest}`?"));
            let hint = hint.unwrap_or_default();
            return Err(at(excluded, format!("`{name}` excludes the unknown `{other}`{hint}")));
        }
    }
    let has_effect = [option.mkfs.len(), option.mkfs_if_known.len()].iter().any(|n| *n > 0)
        || !option.tune.is_empty()
        || !option.mount.is_empty();
    if !has_effect {
        return Err(at(&option.name, format!("`{name}` sets nothing: give mkfs, tune or mount")));
    }
    if !option.tune.is_empty() && raw.tune.is_none() {
        return Err(at(&option.name, format!("`{name}` has `tune`, but there is no [tune]")));
    }
    if *option.durability.get_ref() != Durability::Safe && option.risk.trim().is_empty() {
        return Err(at(&option.durability, format!("`{name}` is not safe, but tells no risk")));
    }
    Ok(())
}

/// A flag that does not join its values can be set only once in any setup that is allowed.
fn check_single_flags(raw: &FileSystemToml) -> Result<(), At> {
    let single = |flag: &str| !raw.mkfs.joined.iter().any(|joined| joined == flag);
    for (index, option) in raw.option.iter().enumerate() {
        for flag in option.mkfs.keys().chain(option.mkfs_if_known.keys()) {
            let text = flag.get_ref();
            if !single(text) {
                continue;
            }
            if raw.mkfs.flags.contains_key(text) || raw.trial.flags.contains_key(text) {
                return Err(at(flag, format!("`{text}` is always set and is not in `joined`")));
            }
            let rival = raw.option[..index]
                .iter()
                .find(|other| sets(other, text) && !exclude_each_other(option, other));
            if let Some(rival) = rival {
                let (name, rival) = (option.name.get_ref(), rival.name.get_ref());
                return Err(at(
                    flag,
                    format!("`{name}` and `{rival}` both set `{text}` and do not exclude another"),
                ));
            }
        }
    }
    Ok(())
}

fn sets(option: &OptionToml, flag: &str) -> bool {
    option.mkfs.keys().chain(option.mkfs_if_known.keys()).any(|known| known.get_ref() == flag)
}

fn exclude_each_other(a: &OptionToml, b: &OptionToml) -> bool {
    let says = |x: &OptionToml, y: &OptionToml| {
        x.excludes.iter().any(|excluded| excluded.get_ref() == y.name.get_ref())
    };
    says(a, b) || says(b, a)
}

fn build(raw: FileSystemToml, entry: &Entry) -> Result<FileSystem, At> {
    let block_bytes = *raw.block_bytes.get_ref();
    let fixed = |text: &Spanned<String>| {
        let template = parse(text)?;
        // With no geometry given, only what does not depend on one has a value.
        template
            .fill(block_bytes, &flashfit_geometry::Geometry::default())
            .map_err(|_| at(text, "only an option can depend on the geometry"))
    };
    let fixed_all =
        |texts: &[Spanned<String>]| texts.iter().map(fixed).collect::<Result<Vec<_>, _>>();
    let fixed_flags = |flags: &BTreeMap<String, Vec<Spanned<String>>>| {
        let fixed = |(flag, values): (&String, &Vec<_>)| Ok((flag.clone(), fixed_all(values)?));
        flags.iter().map(fixed).collect::<Result<_, At>>()
    };
    let trial =
        Trial { flags: fixed_flags(&raw.trial.flags)?, mount: fixed_all(&raw.trial.mount)? };
    let mkfs = Mkfs {
        tool: Tool { program: raw.mkfs.program, args: fixed_all(&raw.mkfs.args)? },
        version_args: raw.mkfs.version_args,
        flags: fixed_flags(&raw.mkfs.flags)?,
        joined: raw.mkfs.joined,
    };
    Ok(FileSystem {
        name: raw.name.into_inner(),
        title: raw.title,
        kind: raw.kind,
        least_medium: raw.least_medium_bytes,
        block_bytes,
        mkfs,
        trial,
        tune: raw.tune.map(|tune| Tool { program: tune.program, args: tune.args }),
        fsck: Fsck {
            tool: Tool { program: raw.fsck.program, args: raw.fsck.args },
            pass: raw.fsck.pass,
        },
        options: raw.option.into_iter().map(build_option).collect::<Result<_, _>>()?,
        origin: entry.origin.clone(),
    })
}

fn build_option(raw: OptionToml) -> Result<FsOption, At> {
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
        mount: strict_all(&raw.mount)?,
        name: raw.name.into_inner(),
        title: raw.title,
        excludes: raw.excludes.into_iter().map(Spanned::into_inner).collect(),
        durability: raw.durability.into_inner(),
        risk: raw.risk,
        note: raw.note,
        source: raw.source,
        needs,
    })
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
