//! Files as programs write them: created, overwritten, appended to, replaced by renaming, synced or
//! not.
//!
//! Limits: one process, at most a few dozen files of at most a few hundred sectors.

use super::Operation;
use super::generator::Generator;

/// Enough for a few hundred requests.
const STEPS: u32 = 45;
const MOST_SECTORS: u32 = 256;

pub(super) fn operations(seed: u64) -> Vec<Operation> {
    let mut generator = Generator::new(seed);
    generator.make_dir("a");
    generator.make_dir("b");
    generator.reference_files(3);
    for _ in 0..STEPS {
        step(&mut generator);
    }
    generator.operations
}

fn step(generator: &mut Generator) {
    let kind = generator.below(100);
    let Some(path) = generator.any_file().filter(|_| kind >= 22) else {
        let path = generator.new_path("file-");
        generator.create(&path);
        let sectors = generator.write_sectors();
        generator.write(&path, 0, sectors, false);
        if generator.percent(65) {
            generator.fsync(&path);
        }
        return;
    };
    let size = generator.files[&path];
    match kind {
        22..=37 => {
            let sector = generator.below(size + 1);
            let sectors = generator.write_sectors();
            let synchronous = generator.percent(15);
            generator.write(&path, sector, sectors, synchronous);
            sync_perhaps(generator, &path);
        }
        38..=53 if size < MOST_SECTORS => {
            let sectors = generator.write_sectors();
            generator.write(&path, size, sectors, false);
            sync_perhaps(generator, &path);
        }
        54..=71 => replace(generator, &path),
        72..=77 => generator.unlink(&path),
        78..=81 => {
            let sectors = generator.below(size + 1);
            generator.files.insert(path.clone(), sectors);
            generator.operations.push(Operation::Truncate { path: path.clone(), sectors });
            sync_perhaps(generator, &path);
        }
        82..=88 => generator.operations.push(Operation::StartWriteback { path }),
        89..=93 => {
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
            generator.operations.push(Operation::FsyncDir { path: dir });
        }
        94..=96 => generator.operations.push(Operation::SyncAll),
        _ => generator.fsync(&path),
    }
}

fn sync_perhaps(generator: &mut Generator, path: &str) {
    match generator.below(10) {
        0..=5 => generator.fsync(path),
        6 => generator.operations.push(Operation::StartWriteback { path: path.to_owned() }),
        _ => {}
    }
}

/// Writes a new file and renames it over the old one.
fn replace(generator: &mut Generator, path: &str) {
    let dir = path.rsplit_once('/').map(|(dir, _)| format!("{dir}/")).unwrap_or_default();
    let draft = format!("{dir}draft");
    generator.create(&draft);
    let sectors = generator.write_sectors();
    generator.write(&draft, 0, sectors, false);
    if generator.percent(45) {
        generator.fsync(&draft);
    }
    generator.rename(&draft, path);
    match generator.below(10) {
        0..=2 => generator
            .operations
            .push(Operation::FsyncDir { path: dir.trim_end_matches('/').to_owned() }),
        3..=6 => {
            if let Some(other) = generator.any_file() {
                generator.fsync(&other);
            }
        }
        7 => generator.fsync(path),
        _ => {}
    }
}
