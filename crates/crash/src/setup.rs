//! A setup under test, from its name: `ext4`, or `ext4:nobarrier+noatime`.

use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, OptionRequirement, Promise, Promises, Recipe,
    Scheduler, Setup, SetupError, kernel_list,
};
use flashfit_host::{Program, Runner};

use crate::CrashError;

/// A file system with options, and what it promises.
#[derive(Debug, Clone)]
pub struct CrashSetup {
    /// `ext4` or `ext4:nobarrier`.
    pub label: String,
    pub recipe: Recipe,
    /// Those of the file system with default options, by which it is judged.
    pub promises: Promises,
    /// What the catalog says a power cut can do to the file system with default options; may be
    /// empty.
    pub risk: String,
    /// Those of them that its options withdraw.
    pub withdrawn: std::collections::BTreeSet<Promise>,
    pub device_bytes: u64,
    /// Whether discards reach the device.
    pub discards: bool,
}

/// Devices are multiples of this size.
const STEP_BYTES: u64 = 64 << 20;

impl CrashSetup {
    /// The setup of this name on a device with these conditions.
    ///
    /// # Errors
    /// For an unknown file system or option, or options that cannot be combined or used.
    pub fn parse(
        text: &str,
        catalog: &FileSystemCatalog,
        conditions: &Conditions,
    ) -> Result<Self, CrashError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let filesystem = catalog.filesystem(name).map_err(unknown)?;
        let options = options.split('+').filter(|option| !option.is_empty());
        Self::new(filesystem, options, conditions)
    }

    /// The setup with these options.
    ///
    /// # Errors
    /// See [`Self::parse`].
    pub fn new<'a>(
        filesystem: &FileSystem,
        options: impl IntoIterator<Item = &'a str>,
        conditions: &Conditions,
    ) -> Result<Self, CrashError> {
        if filesystem.plan_only.is_some() || filesystem.mkfs.from_folder {
            return Err(CrashError::NotWritable { filesystem: filesystem.name.clone() });
        }
        let setup = Setup::new(filesystem, options, Scheduler::new("none"), conditions)?;
        let recipe = Recipe::for_crash(filesystem, &setup, conditions)?;
        let label = match setup.options.is_empty() {
            true => filesystem.name.clone(),
            false => format!("{}:{}", filesystem.name, setup.options.join("+")),
        };
        let options = setup.checked_options(filesystem, conditions)?;
        let discards = options.iter().any(|o| o.needs.contains(&OptionRequirement::Discard));
        let needed = options.iter().filter_map(|option| option.crash_device_bytes).max();
        Ok(Self {
            label,
            recipe,
            promises: filesystem.promises.clone(),
            risk: filesystem.risk.clone(),
            withdrawn: filesystem.withdrawn_by(&setup.options),
            device_bytes: device_bytes(filesystem.min_device_size.max(needed.unwrap_or_default())),
            discards,
        })
    }

    /// Checks that this kernel can mount it; a module is loaded.
    ///
    /// # Errors
    /// [`CrashError::NoFileSystem`].
    pub fn check_kernel(&self, runner: &dyn Runner) -> Result<(), CrashError> {
        let kind = self.recipe.kind();
        if kernel_list::has(kind) {
            return Ok(());
        }
        // Whether it helped is seen in the list.
        let _ = runner.run(&Program::new("modprobe").arg(kind));
        match kernel_list::has(kind) {
            true => Ok(()),
            false => Err(CrashError::NoFileSystem { kind: kind.to_owned() }),
        }
    }
}

fn unknown(error: CatalogEntryError) -> CrashError {
    CrashError::Setup(SetupError::Unknown(error))
}

fn device_bytes(least: Bytes) -> u64 {
    least.0.max(1).div_ceil(STEP_BYTES) * STEP_BYTES
}

#[cfg(test)]
mod tests {
    use flashfit_geometry::{Geometry, QuantitySource, Sourced};

    use super::*;

    fn parse(text: &str) -> Result<CrashSetup, CrashError> {
        let catalog = FileSystemCatalog::load(None).unwrap();
        let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
        let geometry = Geometry::of_sizes(known(Bytes::mib(4)), known(Bytes::kib(8)));
        let conditions =
            Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() };
        CrashSetup::parse(text, &catalog, &conditions)
    }

    #[test]
    fn a_name_has_a_file_system_and_options() {
        let setup = parse("ext4").unwrap();
        assert_eq!((setup.label.as_str(), setup.device_bytes >> 20), ("ext4", 64));
        assert!(setup.withdrawn.is_empty() && !setup.discards);
        let setup = parse("ext4:nobarrier+noatime").unwrap();
        assert_eq!(setup.label, "ext4:noatime+nobarrier");
        assert_eq!(setup.withdrawn.len(), Promise::ALL.len());
        assert!(parse("ext4:discard").unwrap().discards);
        assert_eq!(parse("xfs").unwrap().device_bytes >> 20, 320);
    }

    #[test]
    fn an_option_can_need_a_larger_device() {
        let size = |text: &str| parse(text).unwrap().device_bytes >> 20;
        let plain = size("btrfs");
        assert_eq!(size("btrfs:noatime"), plain);
        assert!(size("btrfs:data-dup") > plain && size("btrfs:nodesize-64k") > plain);
        assert_eq!(size("xfs:swalloc"), 1024);
    }

    #[test]
    fn what_cannot_be_tested_is_refused() {
        for bad in ["ext5", "ext4:nobarier", "ext4:nojournal+writeback", "squashfs"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
