//! What makes a file of the catalog valid besides its form: names, what options set, and what
//! cannot be set twice.

use std::collections::BTreeSet;

use flashfit_catalog::CatalogEntry;
use flashfit_device::Bytes;
use toml::Spanned;

use super::{At, FileSystemToml, OptionToml, at, implied, programs};
use crate::durability::Durability;
use crate::filesystem::BASE;

/// The largest device of a log of crash states.
const MOST_CRASH_DEVICE: Bytes = Bytes::mib(16 * 1024);
const SETTABLE: &str = "mkfs, tune, mount, sysctl, sysfs, timer or implies";

pub(super) fn check(raw: &FileSystemToml, entry: &CatalogEntry) -> Vec<At> {
    let mut found = Vec::new();
    let mut require = |holds: bool, at: At| {
        if !holds {
            found.push(at);
        }
    };
    let reason = format!("the name is not that of the file, `{}`", entry.name);
    require(*raw.name.get_ref() == entry.name, at(&raw.name, reason));
    let block = *raw.block_bytes.get_ref();
    let reason = "a block is a power of two of at most 1 MiB";
    require(block.is_power_of_two() && block <= 1 << 20, at(&raw.block_bytes, reason));
    let has_risk = raw.durability == Durability::Safe || !raw.risk.trim().is_empty();
    require(has_risk, at(&raw.name, "the file system is not safe, but has no `risk`"));
    let exceptions = &raw.promises.exceptions;
    let reason = "`exceptions` of [promises] are among `keeps`, and `risk` describes them";
    let is_described = exceptions.is_empty() || !raw.risk.trim().is_empty();
    let are_kept = exceptions.is_subset(&raw.promises.keeps);
    require(is_described && are_kept, at(&raw.name, reason));
    if let Some(layered) = &raw.layered {
        let reason = "[layered] needs `from_folder` in [mkfs]";
        require(raw.mkfs.from_folder, at(&raw.name, reason));
        let is_plain = !layered.image.contains('/') && !layered.image.is_empty();
        let reason = "[layered] needs a plain file name and at least one host";
        require(is_plain && !layered.hosts.is_empty(), at(&raw.name, reason));
    }
    found.extend(programs::check(raw).err());
    found.extend(check_options(&raw.option, raw.tune.is_some()));
    found.extend(check_single_flags(raw).err());
    found
}

/// The options of the machine set nothing on the device.
pub(super) fn check_knobs(options: &[OptionToml]) -> Vec<At> {
    let mut found = check_options(options, false);
    for option in options {
        let on_device =
            !option.mkfs.is_empty() || !option.mkfs_if_known.is_empty() || !option.mount.is_empty();
        if on_device {
            let reason = "an option of the machine sets sysctl, sysfs or timer only";
            found.push(at(&option.name, reason));
        }
    }
    found
}

fn check_options(options: &[OptionToml], has_tune: bool) -> Vec<At> {
    let names: Vec<&str> = options.iter().map(|option| option.name.get_ref().as_str()).collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for option in options {
        let name = option.name.get_ref().as_str();
        if !seen.insert(name) {
            found.push(at(&option.name, format!("the option `{name}` is defined twice")));
        }
        found.extend(check_name(&option.name).err());
        found.extend(programs::check_option(option).err());
        found.extend(check_option(option, has_tune, &names).err());
    }
    // What options imply can be followed only if the names are right.
    if found.is_empty() {
        found.extend(implied::check(options).err());
        found.extend(check_single_settings(options).err());
    }
    found
}

fn check_name(name: &Spanned<String>) -> Result<(), At> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let text = name.get_ref();
    if text == BASE {
        return Err(at(name, format!("`{BASE}` is the name of the setup without options")));
    }
    if text.is_empty() || !text.chars().all(plain) {
        return Err(at(name, format!("`{text}` is not a valid name: write a-z, 0-9, - and _")));
    }
    Ok(())
}

fn check_option(option: &OptionToml, has_tune: bool, names: &[&str]) -> Result<(), At> {
    let name = option.name.get_ref();
    check_others(option, "excludes", &option.excludes, names)?;
    check_others(option, "implies", &option.implies, names)?;
    check_settings(option)?;
    let has_effect = [option.mkfs.len(), option.mkfs_if_known.len()].iter().any(|n| *n > 0)
        || !option.tune.is_empty()
        || !option.mount.is_empty()
        || !option.sysctl.is_empty()
        || !option.sysfs.is_empty()
        || !option.implies.is_empty()
        || option.timer.is_some();
    if !has_effect {
        return Err(at(&option.name, format!("`{name}` sets nothing: give {SETTABLE}")));
    }
    if !option.tune.is_empty() && !has_tune {
        return Err(at(&option.name, format!("`{name}` has `tune`, but there is no [tune]")));
    }
    if let Some(existing) = option.existing.as_ref().filter(|_| !has_tune) {
        return Err(at(existing, format!("`{name}` has `existing`, but there is no [tune]")));
    }
    if *option.durability.get_ref() != Durability::Safe && option.risk.trim().is_empty() {
        return Err(at(&option.durability, format!("`{name}` is not safe, but has no `risk`")));
    }
    if let Some(size) =
        option.crash_device_bytes.as_ref().filter(|size| *size.get_ref() > MOST_CRASH_DEVICE)
    {
        let reason = format!("power cuts are tested on a device of at most {MOST_CRASH_DEVICE}");
        return Err(at(size, reason));
    }
    if *option.durability.get_ref() == Durability::Safe && !option.withdraws.is_empty() {
        let reason = format!("`{name}` is safe, but withdraws promises");
        return Err(at(&option.durability, reason));
    }
    Ok(())
}

fn check_others(
    option: &OptionToml,
    verb: &str,
    others: &[Spanned<String>],
    names: &[&str],
) -> Result<(), At> {
    let name = option.name.get_ref();
    for place in others {
        let other = place.get_ref();
        if other == name {
            return Err(at(place, format!("`{name}` {verb} itself")));
        }
        if !names.contains(&other.as_str()) {
            let hint = flashfit_catalog::nearest(other, names.iter().copied())
                .map(|nearest| format!("; did you mean `{nearest}`?"));
            let hint = hint.unwrap_or_default();
            return Err(at(place, format!("`{name}` {verb} the unknown `{other}`{hint}")));
        }
    }
    Ok(())
}

/// Whatever is written below `/proc/sys` and `/sys` stays below the folder that is meant.
fn check_settings(option: &OptionToml) -> Result<(), At> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let sound =
        |key: &str| key.chars().all(plain) && key.split(['/', '.']).all(|part| !part.is_empty());
    for key in option.sysctl.keys() {
        let text = key.get_ref();
        // A shared catalog must not reach `kernel.panic` and its like.
        if !sound(text) || text.contains('/') || !text.starts_with("vm.") {
            let form = "write it as vm.dirty_bytes; only those of vm can be set";
            return Err(at(key, format!("`{text}` is not a sysctl of the virtual memory: {form}")));
        }
    }
    for key in option.sysfs.keys() {
        let text = key.get_ref();
        if !sound(text) || !text.starts_with("queue/") {
            let form = "write it as queue/read_ahead_kb";
            return Err(at(key, format!("`{text}` is not an attribute of a queue: {form}")));
        }
    }
    let unit = |name: &str| name.ends_with(".timer") && name.chars().all(plain);
    match option.timer.as_ref().filter(|timer| !unit(timer.get_ref())) {
        Some(timer) => {
            Err(at(timer, format!("`{}` is not a valid name of a timer", timer.get_ref())))
        }
        None => Ok(()),
    }
}

fn check_single_settings(options: &[OptionToml]) -> Result<(), At> {
    for (index, option) in options.iter().enumerate() {
        for key in option.sysctl.keys().chain(option.sysfs.keys()) {
            let text = key.get_ref();
            let sets = |other: &OptionToml| {
                other.sysctl.keys().chain(other.sysfs.keys()).any(|known| known.get_ref() == text)
            };
            let rival = options[..index]
                .iter()
                .find(|other| sets(other) && !exclude_each_other(option, other));
            if let Some(rival) = rival {
                return Err(at(key, both_set(option, rival, text)));
            }
        }
    }
    Ok(())
}

fn both_set(option: &OptionToml, rival: &OptionToml, what: &str) -> String {
    let (name, rival) = (option.name.get_ref(), rival.name.get_ref());
    format!("`{name}` and `{rival}` both set `{what}` and do not exclude another")
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
                return Err(at(flag, both_set(option, rival, text)));
            }
        }
    }
    Ok(())
}

fn sets(option: &OptionToml, flag: &str) -> bool {
    option.mkfs.keys().chain(option.mkfs_if_known.keys()).any(|known| known.get_ref() == flag)
}

pub(super) fn exclude_each_other(a: &OptionToml, b: &OptionToml) -> bool {
    let says = |x: &OptionToml, y: &OptionToml| {
        x.excludes.iter().any(|excluded| excluded.get_ref() == y.name.get_ref())
    };
    says(a, b) || says(b, a)
}
