//! Changes of names: rename, link, unlink, mkdir, rmdir, truncate, fallocate, with syncs between.
//!
//! Limits: directories are neither renamed nor replaced.

use std::collections::BTreeMap;

use super::Operation;
use super::generator::Generator;

const STEPS: u32 = 90;
const MOST_DIRS: usize = 8;

pub(super) fn operations(seed: u64) -> Vec<Operation> {
    let mut generator = Generator::new(seed);
    generator.make_dir("a");
    generator.make_dir("b");
    generator.make_dir("a/c");
    generator.reference_files(2);
    // Names of one file: only those of a group share a size.
    let mut links: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..STEPS {
        step(&mut generator, &mut links, number);
    }
    generator.operations
}

fn step(generator: &mut Generator, links: &mut BTreeMap<String, u32>, number: u32) {
    let kind = generator.below(100);
    let Some(path) = generator.any_file().filter(|_| kind >= 20) else {
        let path = generator.new_path("file-");
        generator.create(&path);
        if generator.percent(40) {
            let sectors = generator.write_sectors();
            generator.write(&path, 0, sectors, false);
        }
        return;
    };
    match kind {
        20..=39 => {
            let to = match generator.percent(30).then(|| generator.any_file()).flatten() {
                Some(other) => other,
                None => generator.new_path("name-"),
            };
            // Renaming a name to another of the same file does nothing (rename(2)).
            let same = links.contains_key(&path) && links.get(&path) == links.get(&to);
            if to != path && !same {
                links.remove(&to);
                if let Some(group) = links.remove(&path) {
                    links.insert(to.clone(), group);
                }
                generator.rename(&path, &to);
            }
        }
        40..=51 => {
            let to = generator.new_path("link-");
            let group = *links.entry(path.clone()).or_insert(number);
            links.insert(to.clone(), group);
            let size = generator.files[&path];
            generator.files.insert(to.clone(), size);
            generator.operations.push(Operation::Link { from: path, to });
        }
        52..=63 => {
            links.remove(&path);
            generator.unlink(&path);
        }
        64..=69 if generator.dirs.len() < MOST_DIRS => {
            let dir = generator.new_path("dir-");
            generator.make_dir(&dir);
        }
        70..=72 => remove_empty_dir(generator),
        // The size of a file with several names is not followed here.
        73..=76 if !links.contains_key(&path) => {
            let sectors = generator.below(40);
            generator.files.insert(path.clone(), sectors);
            generator.operations.push(Operation::Truncate { path, sectors });
        }
        77..=80 if !links.contains_key(&path) => {
            let (sector, sectors) = (generator.below(16), 1 + generator.below(32));
            let size = generator.files.get_mut(&path).expect("chosen from the files");
            *size = (*size).max(sector + sectors);
            generator.operations.push(Operation::Allocate { path, sector, sectors });
        }
        81..=88 => generator.fsync(&path),
        89..=93 => {
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
            generator.operations.push(Operation::FsyncDir { path: dir });
        }
        94..=96 => generator.operations.push(Operation::SyncAll),
        _ => generator.operations.push(Operation::StartWriteback { path }),
    }
}

fn remove_empty_dir(generator: &mut Generator) {
    let is_used = |dir: &String| {
        let inside = format!("{dir}/");
        let mut names = generator.files.keys().chain(&generator.dirs);
        names.any(|name| name.starts_with(&inside))
    };
    if let Some(at) = generator.dirs.iter().rposition(|dir| !is_used(dir)) {
        let path = generator.dirs.remove(at);
        generator.operations.push(Operation::RemoveDir { path });
    }
}
