//! Creates, looks at and deletes empty files of one directory.

use std::fs::File;
use std::path::{Path, PathBuf};

use flashfit_device::random::Random;

use super::{FileOrder, Meter, TaskPlan, ordered};
use crate::error::BenchError;
use crate::fio::system;

/// Sets the order of each task apart.
const STAT_SEED: u64 = 0x57A7;
const DELETE_SEED: u64 = 0xDE1E;
/// bonnie++ puts up to so many characters after or before the number.
const MOST_EXTRA: u64 = 12;

pub fn create(plan: &TaskPlan<'_>, meter: &mut Meter<'_>) -> Result<u64, BenchError> {
    let folder = make_folder(plan)?;
    let mut names = Names::new(plan);
    let mut done = 0;
    meter.restart();
    while done < plan.files && meter.goes_on()? {
        let path = folder.join(names.next(done));
        meter.operation(|| File::create_new(&path).map_err(system(&path)))?;
        done += 1;
    }
    Ok(done * plan.file_bytes)
}

pub fn stat(plan: &TaskPlan<'_>, meter: &mut Meter<'_>) -> Result<u64, BenchError> {
    each(plan, meter, STAT_SEED, |path| std::fs::symlink_metadata(path).map(drop))
}

pub fn delete(plan: &TaskPlan<'_>, meter: &mut Meter<'_>) -> Result<u64, BenchError> {
    each(plan, meter, DELETE_SEED, |path| std::fs::remove_file(path))
}

fn each(
    plan: &TaskPlan<'_>,
    meter: &mut Meter<'_>,
    seed: u64,
    work: impl Fn(&Path) -> std::io::Result<()>,
) -> Result<u64, BenchError> {
    let folder = make_folder(plan)?;
    let mut names = Names::new(plan);
    let paths: Vec<PathBuf> =
        (0..plan.files).map(|number| folder.join(names.next(number))).collect();
    let mut done = 0;
    meter.restart();
    for number in ordered(plan.files, plan.order, plan.seed ^ seed) {
        if !meter.goes_on()? {
            break;
        }
        let path = &paths[number as usize];
        meter.operation(|| work(path).map_err(system(path)))?;
        done += 1;
    }
    Ok(done * plan.file_bytes)
}

fn make_folder(plan: &TaskPlan<'_>) -> Result<PathBuf, BenchError> {
    let name = match plan.order {
        FileOrder::Name => "in-order",
        FileOrder::Random => "random",
    };
    let folder = plan.folder.join(name);
    std::fs::create_dir_all(&folder).map_err(system(&folder))?;
    Ok(folder)
}

/// The names of the files, which depend only on the seed: the number first if they are used in
/// their order, otherwise random characters first.
struct Names {
    random: Random,
    order: FileOrder,
}

impl Names {
    fn new(plan: &TaskPlan<'_>) -> Self {
        Self { random: Random::new(plan.seed), order: plan.order }
    }

    fn next(&mut self, number: u64) -> String {
        let count = self.random.below(MOST_EXTRA + 1);
        // FAT does not tell upper from lower case.
        let extra: String = (0..count)
            .map(|_| {
                char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[self.random.below(36) as usize])
            })
            .collect();
        match self.order {
            FileOrder::Name => format!("{number:07}{extra}"),
            FileOrder::Random => format!("{extra}{number:07}"),
        }
    }
}
