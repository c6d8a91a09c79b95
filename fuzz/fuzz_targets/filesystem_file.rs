//! File system files of the catalog: every option that is said to be usable makes a recipe,
//! whatever the geometry.

#![no_main]

use std::path::Path;

use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_device::Bytes;
use flashfit_filesystem::{Conditions, FileSystem, FileSystemCatalog, Recipe, Scheduler, Setup};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// Erase block and write unit.
const GEOMETRIES: [(u64, u64); 5] =
    [(4 << 20, 16 << 10), (3 << 20, 12 << 10), (0, 0), (1, 1), (u64::MAX, 1 << 63)];

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let Some(name) = name(text) else { return };
    let origin = Origin::File("filesystem.toml".into());
    let entry = CatalogEntry { name, text: text.to_owned(), origin };
    let Ok(catalogue) = FileSystemCatalog::from_entries(&[entry]) else { return };
    for filesystem in catalogue.filesystems() {
        try_options(filesystem, &Conditions::default());
        for (erase_block, write_unit) in GEOMETRIES {
            try_options(filesystem, &conditions(erase_block, write_unit));
        }
    }
});

/// The name that the file gives itself, so that not every input is refused for its name.
fn name(text: &str) -> Option<String> {
    text.parse::<toml::Table>().ok()?.get("name")?.as_str().map(str::to_owned)
}

fn conditions(erase_block: u64, write_unit: u64) -> Conditions {
    let known = |bytes| Some(Sourced::new(Bytes(bytes), QuantitySource::Given));
    let geometry = Geometry::of_sizes(known(erase_block), known(write_unit));
    Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() }
}

fn try_options(filesystem: &FileSystem, conditions: &Conditions) {
    let (usable, others) = filesystem.usable_options(conditions);
    assert_eq!(usable.len() + others.len(), filesystem.options.len());
    for option in usable {
        let scheduler = Scheduler::new("none");
        let setup = Setup::new(filesystem, [&option.name], scheduler, conditions)
            .expect("an option that is usable alone");
        let recipe = Recipe::new(filesystem, &setup, conditions).expect("a possible setup");
        let _ = recipe.mkfs(Path::new("/dev/node")).command_line();
        let _ = recipe.fstab_line("UUID=1", Path::new("/mnt"));
        setup.durability(filesystem).expect("an option of the file");
    }
}
