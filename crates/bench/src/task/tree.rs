//! A tree of programs: directories of small modules, and one large file for each program.
//!
//! A program has [`MODULES`] modules in [`FOLDERS`] directories, and a library of an eighth of its
//! bytes. Half of each block of 4 KiB is random, so a compressing file system compresses the tree
//! as it does programs.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_device::random::Random;
use flashfit_host::Runner;

use super::{FileOrder, Meter, TaskPlan, ordered};
use crate::error::BenchError;
use crate::fio::system;

const MODULES: u64 = 48;
const FOLDERS: u64 = 4;
const PAGE_BYTES: u64 = 4096;
/// A library is read in random order, and not all of it.
const LIBRARY_SHARE: u64 = 2;

struct Program {
    folder: PathBuf,
}

impl Program {
    fn module(&self, folder: u64, module: u64) -> PathBuf {
        self.folder.join(format!("modules{folder}")).join(format!("module{module}"))
    }

    fn library(&self) -> PathBuf {
        self.folder.join("library")
    }
}

fn programs(plan: &TaskPlan<'_>) -> Vec<Program> {
    let count = (plan.files / MODULES).max(2);
    let root = plan.folder;
    (0..count).map(|number| Program { folder: root.join(format!("program{number}")) }).collect()
}

pub fn lay_out(runner: &dyn Runner, plan: &TaskPlan<'_>) -> Result<u64, BenchError> {
    if plan.folder.exists() {
        return Ok(0);
    }
    let mut random = Random::new(plan.seed);
    let mut written = 0;
    for program in programs(plan) {
        runner.wait(Duration::ZERO)?;
        let modules = (plan.files / programs_of(plan)).max(1);
        for folder in 0..FOLDERS {
            let path = program.folder.join(format!("modules{folder}"));
            std::fs::create_dir_all(&path).map_err(system(&path))?;
        }
        for module in 0..modules {
            // Between a quarter and seven quarters of the mean; an eighth is the library's.
            let mean = plan.file_bytes * 7 / 8;
            let bytes = mean / 4 + random.below(mean * 3 / 2 + 1);
            let path = program.module(module % FOLDERS, module);
            written += write(&path, bytes.max(1), &mut random)?;
        }
        let library = (plan.file_bytes * modules / 8).max(4 * PAGE_BYTES);
        written += write(&program.library(), library, &mut random)?;
    }
    Ok(written)
}

fn programs_of(plan: &TaskPlan<'_>) -> u64 {
    programs(plan).len() as u64
}

fn write(path: &Path, bytes: u64, random: &mut Random) -> Result<u64, BenchError> {
    let mut content = Vec::with_capacity(bytes as usize + PAGE_BYTES as usize);
    while (content.len() as u64) < bytes {
        let half = PAGE_BYTES as usize / 2;
        let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
        content.extend(words.flatten().take(half));
        content.extend(b"import module\n".iter().cycle().take(half));
    }
    let mut file = File::create_new(path).map_err(system(path))?;
    file.write_all(&content[..bytes as usize]).map_err(system(path))?;
    Ok(bytes)
}

/// Visits everything; an operation is one entry. Returns no bytes: only attributes are read.
pub fn walk(plan: &TaskPlan<'_>, meter: &mut Meter<'_>) -> Result<u64, BenchError> {
    let mut folders = vec![plan.folder.to_owned()];
    meter.restart();
    while let Some(folder) = folders.pop() {
        let mut entries = std::fs::read_dir(&folder).map_err(system(&folder))?;
        while meter.goes_on()? {
            let is_folder = meter.operation(|| {
                let Some(entry) = entries.next() else { return Ok(None) };
                let path = entry.map_err(system(&folder))?.path();
                let found = std::fs::symlink_metadata(&path).map_err(system(&path))?;
                Ok(Some((path, found.is_dir())))
            })?;
            match is_folder {
                Some((path, true)) => folders.push(path),
                Some(_) => {}
                None => break,
            }
        }
        if !meter.goes_on()? {
            break;
        }
    }
    Ok(0)
}

/// Starts one program after the other; an operation is one start. Returns the bytes that were read.
pub fn start_programs(plan: &TaskPlan<'_>, meter: &mut Meter<'_>) -> Result<u64, BenchError> {
    let programs = programs(plan);
    let mut read = 0;
    meter.restart();
    for number in ordered(programs.len() as u64, FileOrder::Random, plan.seed) {
        if !meter.goes_on()? || (read > 0 && meter.is_over()) {
            break;
        }
        read += meter.operation(|| start(&programs[number as usize], plan.seed ^ number))?;
    }
    Ok(read)
}

fn start(program: &Program, seed: u64) -> Result<u64, BenchError> {
    let mut read = 0;
    let mut content = Vec::new();
    for module in 0.. {
        // It is looked for in each directory until it is found.
        let found = (0..FOLDERS)
            .map(|folder| program.module(folder, module))
            .find_map(|path| File::open(&path).ok().map(|file| (path, file)));
        let Some((path, mut file)) = found else { break };
        content.clear();
        file.read_to_end(&mut content).map_err(system(&path))?;
        read += content.len() as u64;
    }
    let path = program.library();
    let library = File::open(&path).map_err(system(&path))?;
    let pages = library.metadata().map_err(system(&path))?.size() / PAGE_BYTES;
    let mut page = [0; PAGE_BYTES as usize];
    for number in ordered(pages, FileOrder::Random, seed).into_iter().take(share(pages)) {
        library.read_exact_at(&mut page, number * PAGE_BYTES).map_err(system(&path))?;
        read += PAGE_BYTES;
    }
    Ok(read)
}

fn share(pages: u64) -> usize {
    usize::try_from(pages.div_ceil(LIBRARY_SHARE)).unwrap_or(usize::MAX)
}
