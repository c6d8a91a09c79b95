//! Chooses block and compressor of an image.
//!
//! A compressed image has no grid of erase blocks that its blocks could lie on, and it is written
//! once, from start to end. So the block is a matter of reading: a small read unpacks a whole one.
//!
//! Sources: the Gentoo wiki's page on SD cards, which measured blocks of 4, 16 and 256 KiB with xz
//! and gzip; mksquashfs(1); what the kernel's commit that brought squashfs zstd (4.14) says of the
//! compressors. Limits: that measurement changes block and compressor at once.

use flashfit_device::Bytes;

use crate::conditions::Conditions;
use crate::filesystem::{FileSystem, FsOption};
use crate::recipe::Recipe;
use crate::setup::Setup;

use super::layers::PlannedSetting;

const BLOCK_FLAG: &str = "-b";
const COMPRESSOR_FLAG: &str = "-comp";
/// What mksquashfs takes by itself.
const DEFAULT_BLOCK: u64 = 128 << 10;
const DEFAULT_COMPRESSOR: &str = "gzip";
/// Less packs worse, and was no faster to read.
const MIN_BLOCK: u64 = 16 << 10;
/// Packs nearly as small as gzip or smaller, and is unpacked faster than gzip and xz.
const USUAL_COMPRESSOR: &str = "zstd";

/// The options of the image where the user names none.
pub(super) fn usual(filesystem: &FileSystem, write_unit_bytes: Option<u64>) -> Vec<String> {
    let block = usual_block(filesystem, write_unit_bytes).to_string();
    let named = [(BLOCK_FLAG, block.as_str()), (COMPRESSOR_FLAG, USUAL_COMPRESSOR)];
    named.into_iter().filter_map(|(flag, value)| option_of(filesystem, flag, value)).collect()
}

/// The smallest offered block of at least a write unit, within bounds.
fn usual_block(filesystem: &FileSystem, write_unit_bytes: Option<u64>) -> u64 {
    let wanted = write_unit_bytes.unwrap_or(0).clamp(MIN_BLOCK, DEFAULT_BLOCK);
    let offered = filesystem.options.iter().filter_map(|option| value_of(option, BLOCK_FLAG));
    let offered = offered.filter_map(|value| value.parse::<u64>().ok());
    offered.filter(|block| (wanted..DEFAULT_BLOCK).contains(block)).min().unwrap_or(DEFAULT_BLOCK)
}

fn option_of(filesystem: &FileSystem, flag: &str, value: &str) -> Option<String> {
    let is_it = |option: &&FsOption| value_of(option, flag).as_deref() == Some(value);
    filesystem.options.iter().find(is_it).map(|option| option.name.clone())
}

fn value_of(option: &FsOption, flag: &str) -> Option<String> {
    let (_, values) = option.mkfs.iter().find(|(known, _)| known == flag)?;
    values.first()?.fill(0, &Conditions::default()).ok()
}

/// Block and compressor of a setup, each with its reason.
pub(super) fn settings(
    filesystem: &FileSystem,
    setup: &Setup,
    recipe: &Recipe,
    write_unit_bytes: Option<u64>,
) -> Vec<PlannedSetting> {
    let pack = recipe.pack("".as_ref(), "".as_ref());
    let given = |flag: &str| {
        let mut arguments =
            pack.arguments().iter().skip_while(|argument| argument.as_os_str() != flag);
        arguments.nth(1)?.to_str().map(str::to_owned)
    };
    let block = given(BLOCK_FLAG).and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_BLOCK);
    let compressor = given(COMPRESSOR_FLAG).unwrap_or_else(|| DEFAULT_COMPRESSOR.to_owned());
    let chosen = |flag: &str| {
        let options = filesystem.options.iter().filter(|one| setup.options.contains(&one.name));
        let option = options.into_iter().find(|option| value_of(option, flag).is_some());
        match option {
            None => "the default of mksquashfs".to_owned(),
            Some(option) => match &option.note {
                None => format!("the option `{}`", option.name),
                Some(note) => format!("the option `{}`. {note}", option.name),
            },
        }
    };
    let is_usual = setup.options == usual(filesystem, write_unit_bytes);
    let (why_block, why_compressor) = if is_usual {
        (why_block(write_unit_bytes), why_compressor())
    } else {
        (chosen(BLOCK_FLAG), chosen(COMPRESSOR_FLAG))
    };
    let setting =
        |name: &str, value: String, reason| PlannedSetting { name: name.to_owned(), value, reason };
    vec![
        setting("image block", Bytes(block).to_string(), why_block),
        setting("compressor", compressor, why_compressor),
    ]
}

fn why_block(write_unit_bytes: Option<u64>) -> String {
    let least = match write_unit_bytes {
        Some(write_unit) if write_unit > DEFAULT_BLOCK => format!(
            "the write unit of {} is more, but a small read unpacks a whole block",
            Bytes(write_unit)
        ),
        Some(write_unit) if write_unit > MIN_BLOCK => format!(
            "a small read unpacks a whole block, so it is small, but not less than the write unit \
             of {}, of which the device reads much anyway",
            Bytes(write_unit)
        ),
        Some(write_unit) => format!(
            "a small read unpacks a whole block, so it is small; it holds a write unit of {}",
            Bytes(write_unit)
        ),
        None => "a small read unpacks a whole block, so it is small".to_owned(),
    };
    format!(
        "{least}. The Gentoo wiki measured 4 KiB with xz and 16 KiB with gzip alike, and 256 KiB \
         with xz five times as slow. The erase block does not matter: the image is written once, from \
         start to end"
    )
}

fn why_compressor() -> String {
    "unpacked faster than gzip, and much faster than xz, which packs smallest; a slow device gains \
     by every byte that it need not read"
        .to_owned()
}

/// Versions without which the image cannot be packed or mounted.
pub(super) fn warnings(filesystem: &FileSystem, setup: &Setup) -> Vec<String> {
    let chosen = filesystem.options.iter().filter(|one| setup.options.contains(&one.name));
    let of = |option: &FsOption| {
        let kernel = option.since.kernel.as_ref().map(|version| format!("Linux {version}"));
        let program = &filesystem.mkfs.tool.program;
        let tool = option.since.tool.as_ref().map(|version| format!("{program} {version}"));
        let needed: Vec<String> = kernel.into_iter().chain(tool).collect();
        let needed = (!needed.is_empty()).then(|| needed.join(" and "))?;
        Some(format!("`{}` of the image needs {needed}, or later", option.name))
    };
    let overlay = "the kernel needs squashfs with this compressor, and overlayfs";
    chosen.filter_map(of).chain([overlay.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::FileSystemCatalog;

    fn usual_for(write_unit_bytes: Option<u64>) -> Vec<String> {
        let catalog = FileSystemCatalog::load(None).unwrap();
        usual(catalog.filesystem("squashfs").unwrap(), write_unit_bytes)
    }

    #[test]
    fn the_block_holds_a_write_unit_and_is_small() {
        assert_eq!(usual_for(None), ["block-16k", "zstd"]);
        assert_eq!(usual_for(Some(8 << 10)), ["block-16k", "zstd"]);
        assert_eq!(usual_for(Some(16 << 10)), ["block-16k", "zstd"]);
        // 128 KiB is the program's own and no option.
        assert_eq!(usual_for(Some(48 << 10)), ["zstd"]);
        assert_eq!(usual_for(Some(4 << 20)), ["zstd"]);
    }
}
