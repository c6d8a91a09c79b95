//! An image with a partition behind a loop device, and what is done to it.

use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, LayoutStart, PartitionEnd, PartitionLayout,
    PartitionTable, Recipe, Scheduler, Setup, facts, plan_layout_in,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::{Program, ProgramOutcome, Runner, SystemRunner};
use flashfit_test_support::{self as test_support, TestNeed, block_devices, skip, skip_part};

pub const ERASE_BLOCK: Bytes = Bytes::mib(4);
pub const WRITE_UNIT: Bytes = Bytes::kib(16);

/// A device with a cache that takes discards, and the numbers that a plan would compute.
pub fn conditions() -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    let planned = [
        ("cluster_bytes", 32 << 10),
        ("cluster_sectors", 64),
        ("reserved_sectors", 7040),
        ("vendor_reserved_sectors", 7040),
    ];
    Conditions {
        geometry: Geometry::of_sizes(known(ERASE_BLOCK), known(WRITE_UNIT)),
        discard: true,
        volatile_cache: true,
        planned: planned.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Conditions::default()
    }
}

pub fn built_in(name: &str) -> FileSystem {
    FileSystemCatalog::load(None).unwrap().filesystem(name).unwrap().clone()
}

pub fn recipe(filesystem: &FileSystem, options: &[&str]) -> Recipe {
    let setup = Setup::new(filesystem, options, Scheduler::new("none"), &conditions()).unwrap();
    Recipe::new(filesystem, &setup, &conditions()).unwrap()
}

/// Whether these programs are here; says which is not.
pub fn installed(programs: &[&str]) -> bool {
    !skip(test_support::programs(programs))
}

/// Whether the kernel can mount it; says where it cannot.
pub fn mountable(filesystem: &FileSystem) -> bool {
    let listed = std::fs::read_to_string("/proc/filesystems").unwrap();
    let mountable = filesystem.is_listed_in(&listed);
    if !mountable {
        let reason = format!("this kernel does not list {}", filesystem.kind);
        assert!(skip_part(Some(TestNeed::Kernel.missing(reason))));
    }
    mountable
}

pub fn run(program: &Program) -> ProgramOutcome {
    SystemRunner::default().run_checked(program).unwrap()
}

/// Writes a file in its own process: a file that is open here is open in every child that
/// another test starts meanwhile, and keeps what it lies on from being unmounted.
pub fn write(file: &Path, text: &str) {
    run(&Program::new("tee").arg(file).stdin(text));
}

/// Reads a file in its own process.
pub fn read(file: &Path) -> String {
    run(&Program::new("cat").arg(file)).stdout
}

/// A partition that starts and ends on erase blocks, as long as the value lives.
pub struct Card {
    _device: LoopDevice,
    node: PathBuf,
    /// Of the partition, on the device.
    pub start_bytes: u64,
    folder: tempfile::TempDir,
}

impl Card {
    /// Takes this thread into its own mount namespace: what is mounted in the common one is
    /// copied into every other that is made meanwhile, and is in use there.
    pub fn new(size: Bytes) -> Option<Self> {
        if let Err(error) = enter_private_namespace() {
            let refused = TestNeed::Isolation.missing(error.to_string());
            assert!(skip(block_devices().or(Some(refused))));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(size.0).unwrap();
        std::fs::create_dir(folder.path().join("point")).unwrap();
        let place = (LayoutStart::Auto, PartitionEnd::Grid);
        let layout =
            plan_layout_in(PartitionTable::Gpt, size.0, 512, &conditions().geometry, place)
                .unwrap()
                .layout;
        if !installed(&["sfdisk", "partx", "blkid"]) {
            return None;
        }
        run(&layout.partitioning(&image, 512).unwrap());
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = match LoopDevice::attach(&image, options) {
            Ok(device) => device,
            Err(error) => {
                let refused = TestNeed::Loop.missing(error.to_string());
                assert!(skip(block_devices().or(Some(refused))));
                return None;
            }
        };
        let node = layout.node(device.node());
        // Not every kernel reads this table by itself.
        run(&Program::new("partx").arg("--update").arg(device.node()));
        if !node.exists() {
            let reason = format!("no {} came up", node.display());
            assert!(skip(Some(TestNeed::Loop.missing(reason))));
            return None;
        }
        let PartitionLayout::Partition { start_bytes, .. } = layout else { panic!("{layout:?}") };
        Some(Self { _device: device, node, start_bytes, folder })
    }

    pub fn node(&self) -> &Path {
        &self.node
    }

    pub fn point(&self) -> PathBuf {
        self.folder.path().join("point")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes it; the reason where a program refuses.
    pub fn make(&self, recipe: &Recipe) -> Result<(), String> {
        let runner = SystemRunner::default();
        let programs = std::iter::once(recipe.mkfs(&self.node)).chain(recipe.tune(&self.node));
        for program in programs {
            runner.run_checked(&program).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    pub fn mount(&self, recipe: &Recipe) -> Result<Mounted, String> {
        let runner = SystemRunner::default();
        Mounted::new(&runner, &self.node, recipe.kind(), &self.point(), recipe.mount_options())
            .map_err(|error| error.to_string())
    }

    /// Mounts it, writes to it, and mounts it again to read; the reason where the kernel refuses.
    pub fn write_and_read(&self, recipe: &Recipe) -> Result<(), String> {
        let text = "flash".repeat(10_000);
        let mounted = self.mount(recipe)?;
        write(&mounted.point().join("file"), &text);
        mounted.unmount().unwrap();
        let mounted = self.mount(recipe)?;
        assert_eq!(read(&mounted.point().join("file")), text);
        mounted.unmount().unwrap();
        Ok(())
    }

    pub fn facts(&self) -> facts::FileSystemFacts {
        facts::read(&SystemRunner::default(), &self.node).unwrap().unwrap()
    }
}
