//! The configuration file of the CELF methodology (section 7.2): assignments of bash.
//!
//! Read are `NAME=VALUE` with or without quotes, `export`, comments and blank lines. A later
//! line takes precedence, as in a sourced file. Limits: no expansions, no values of several lines,
//! and no other commands, because nothing is executed. Source: the methodology, sections 7.2 and
//! 7.4.

use flashfit_catalog::{CatalogEntryError, nearest};
use flashfit_filesystem::FileSystemCatalog;

use crate::config::Config;

/// Its keys, besides `FILESYSTEM_default` and `FILESYSTEM_exclude`.
const KEYS: [&str; 5] =
    ["device", "mount_dir", "result_dir", "media_page_size", "media_erase_block_size"];
/// Documents that were typeset have these instead of straight quotes.
const TYPESET_QUOTES: [char; 2] = ['\u{201c}', '\u{201d}'];

/// What is wrong, and in which line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct ShellConfigMistake {
    pub line: usize,
    pub reason: String,
    /// The key that may have been meant.
    pub nearest: Option<String>,
}

/// Whether `text` is such a file and not TOML: it assigns options as they are only named here, or
/// names a device or a folder without quotes.
pub fn is_shell_config(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let is_telling = |line: &str| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        line.split_once('=').is_some_and(|(key, value)| {
            let is_path = KEYS[..3].contains(&key) && value.starts_with(|c: char| !is_quote(c));
            option_list(key.trim()).is_some() || (is_path && !value.starts_with(' '))
        })
    };
    !lines.clone().any(|line| line.starts_with('[')) && lines.any(is_telling)
}

/// Reads such a file.
pub fn read(text: &str) -> Result<Config, ShellConfigMistake> {
    let mut config = Config::default();
    for (number, line) in text.lines().enumerate() {
        let mistake =
            |reason: String| ShellConfigMistake { line: number + 1, reason, nearest: None };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((key, rest)) = line.split_once('=') else {
            return Err(mistake(format!("`{line}` is not an assignment such as device=/dev/sdb")));
        };
        if key.ends_with(char::is_whitespace) || rest.starts_with(' ') && !rest.trim().is_empty() {
            return Err(mistake("spaces are not possible around `=`".to_owned()));
        }
        let value = value_of(rest).map_err(mistake)?;
        assign(&mut config, key, value).map_err(|(reason, nearest)| ShellConfigMistake {
            line: number + 1,
            reason,
            nearest,
        })?;
        if option_list(key).is_some() {
            config.option_lines.insert(key.to_owned(), number + 1);
        }
    }
    Ok(config)
}

fn is_quote(character: char) -> bool {
    matches!(character, '"' | '\'') || TYPESET_QUOTES.contains(&character)
}

/// The file system and the list of `ext4_default` or `ext4_exclude`.
fn option_list(key: &str) -> Option<(&str, &str)> {
    let (filesystem, list) = key.rsplit_once('_')?;
    let is_name = !filesystem.is_empty() && filesystem.chars().all(|c| c.is_ascii_alphanumeric());
    (is_name && ["default", "exclude"].contains(&list)).then_some((filesystem, list))
}

/// Whether `catalog` knows the file systems and options of these lists.
pub fn check_names(config: &Config, catalog: &FileSystemCatalog) -> Result<(), ShellConfigMistake> {
    for (key, &line) in &config.option_lines {
        let Some((name, list)) = option_list(key) else { continue };
        let choice = config.options.get(name).cloned().unwrap_or_default();
        let options = if list == "default" { choice.always } else { choice.exclude };
        let unknown = match catalog.filesystem(name) {
            Ok(found) => options.iter().find_map(|option| found.option(option).err()),
            Err(error) => Some(error),
        };
        if let Some(error) = unknown {
            let nearest = match &error {
                CatalogEntryError::Unknown { nearest, .. } => nearest.clone(),
                CatalogEntryError::Unreadable { .. } => None,
            };
            return Err(ShellConfigMistake { line, reason: format!("{key}: {error}"), nearest });
        }
    }
    Ok(())
}

/// The value that bash would assign.
fn value_of(rest: &str) -> Result<&str, String> {
    let (value, behind) = match rest.chars().next() {
        Some(quote) if is_quote(quote) => {
            let inner = &rest[quote.len_utf8()..];
            let closes = |c: char| {
                if TYPESET_QUOTES.contains(&quote) {
                    TYPESET_QUOTES.contains(&c)
                } else {
                    c == quote
                }
            };
            let end = inner.find(closes);
            let end = end.ok_or("the quotation does not end in this line")?;
            let behind = inner[end..].chars().next().map_or(0, char::len_utf8);
            (&inner[..end], &inner[end + behind..])
        }
        _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
    };
    let is_plain = rest.starts_with('\'') || !value.contains(['$', '`', '\\']);
    if !is_plain
        || (!rest.starts_with(is_quote) && value.contains([';', '&', '|', '<', '>', '(', '"']))
    {
        return Err(format!("`{value}` would be changed by bash; only plain values are read"));
    }
    let is_comment =
        behind.trim_start().starts_with('#') && behind.starts_with(char::is_whitespace);
    if behind.trim().is_empty() || is_comment {
        Ok(value)
    } else {
        Err(format!("`{}` after the value is not a comment", behind.trim()))
    }
}

type KeyMistake = (String, Option<String>);

fn assign(config: &mut Config, key: &str, value: &str) -> Result<(), KeyMistake> {
    let given = (!value.is_empty()).then_some(value);
    let size = || match given.map(str::parse).transpose() {
        Ok(size) => Ok(size),
        Err(_) => Err((format!("{key}: `{value}` is not a size, such as 16384 or 4MiB"), None)),
    };
    match key {
        "device" => config.device = given.map(str::to_owned),
        "mount_dir" => config.mount_dir = given.map(Into::into),
        "result_dir" => config.result_dir = given.map(Into::into),
        "media_page_size" => config.media_page_size = size()?,
        "media_erase_block_size" => config.media_erase_block_size = size()?,
        _ => {
            let Some((filesystem, list)) = option_list(key) else {
                let reason = format!("unknown key `{key}` in a configuration of the methodology");
                return Err((reason, nearest(key, KEYS)));
            };
            let names = value.split_whitespace().map(str::to_owned).collect();
            let choice = config.options.entry(filesystem.to_owned()).or_default();
            if list == "default" { choice.always = names } else { choice.exclude = names }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flashfit_device::Bytes;

    use super::*;

    const EXAMPLE: &str = "\
device=/dev/mmcblk0p3 # device used for testing
mount_dir=/media/mmc # test mount point
result_dir=result-kingston-sd8g4c # result directory location
media_page_size=16384 # media page size
media_erase_block_size=4194304 # media erase block size

ext4_default=\"nobarrier\" # current configuration for ext4
ext4_exclude=\"geometry\" # list of excluded configurations for ext4
btrfs_default=\"noatime ssd\" # current configuration for btrfs
f2fs_exclude='geometry'
";

    #[test]
    fn the_methodologys_example() {
        assert!(is_shell_config(EXAMPLE));
        let config = read(EXAMPLE).unwrap();
        assert_eq!(config.device.as_deref(), Some("/dev/mmcblk0p3"));
        assert_eq!(config.mount_dir.as_deref(), Some("/media/mmc".as_ref()));
        assert_eq!(config.result_dir.as_deref(), Some("result-kingston-sd8g4c".as_ref()));
        assert_eq!(config.media_page_size, Some(Bytes(16384)));
        assert_eq!(config.media_erase_block_size, Some(Bytes::mib(4)));
        assert_eq!(config.options["ext4"].always, ["nobarrier"]);
        assert_eq!(config.options["ext4"].exclude, ["geometry"]);
        assert_eq!(config.options["btrfs"].always, ["noatime", "ssd"]);
        assert_eq!(config.options["f2fs"].exclude, ["geometry"]);
    }

    #[test]
    fn later_lines_and_typeset_quotes_as_in_section_7_4() {
        let text = "ext4_default=\"\"\nmedia_page_size=8192\n#\n# Guessed media geometry\n#\n\
                    media_page_size=16384\n ext4_default=\u{201d}nojournal noatime\u{201d}\n";
        let config = read(text).unwrap();
        assert_eq!(config.options["ext4"].always, ["nojournal", "noatime"]);
        assert_eq!(config.media_page_size, Some(Bytes(16384)));
    }

    #[test]
    fn toml_is_not_taken_for_it() {
        for toml in [
            "device = \"/dev/sdb\"\nseed = 1\n",
            "device=\"/dev/sdb\"\n[options.ext4]\nalways = [\"x_default\"]\n",
            "# ext4_default=x\nseed = 2\n",
            "device = /dev/sdb\n",
        ] {
            assert!(!is_shell_config(toml), "{toml}");
        }
        assert!(is_shell_config("device=/dev/sdb\n") && is_shell_config("xfs_default=noatime\n"));
    }

    #[test]
    fn a_mistake_names_its_line() {
        for (line, reason) in [
            ("devise=/dev/sdb", "unknown key `devise`"),
            ("media_page_size=big", "is not a size"),
            ("ext4_default=\"noatime", "does not end"),
            ("ext4_default = noatime", "spaces are not possible"),
            ("ext4_default=noatime discard", "`discard` after the value"),
            ("result_dir=$HOME/x", "would be changed by bash"),
            ("device=/dev/sdb;reboot", "would be changed by bash"),
            ("run geometry", "is not an assignment"),
        ] {
            let mistake = read(&format!("ext4_default=\n{line}\n")).unwrap_err();
            assert!(mistake.line == 2 && mistake.reason.contains(reason), "{mistake:?}");
        }
        assert_eq!(read("devise=x").unwrap_err().nearest.as_deref(), Some("device"));
    }
}
