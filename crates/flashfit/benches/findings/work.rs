//! The work of a case on a mounted file system, and what has to be there before.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_bench::plan::Points;
use flashfit_bench::{PointProfile, RunPlan, WorkloadTarget, Workloads, run_workload};
use flashfit_device::random::Random;
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::finding::{Image, Work};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// dd's block in the Dreamplug's test.
const PIECE_BYTES: u64 = 16 << 10;
const RANDOM_FILE_BYTES: u64 = 64 << 20;
const DIRECT_ALIGNMENT: usize = 4096;
/// Files in a folder of the tree, and files that are read of it.
const FILES_PER_FOLDER: u64 = 32;
const FILES_READ: usize = 100;
/// The most that a file of the tree has.
const MOST_TREE_BYTES: u64 = 24 << 10;
/// What workloads of the catalog are run with.
const WORKLOAD_BYTES: u64 = 32 << 20;
const WORKLOAD_TIME: Duration = Duration::from_secs(20);

/// What was done, in what the work is counted in, and how long it took.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    pub amount: f64,
    pub elapsed: Duration,
}

/// A file system with what the work needs.
pub struct Prepared<'a> {
    runner: &'a SystemRunner,
    work: &'a Work,
    mounted: &'a Mounted,
    node: &'a Path,
    /// Where the tree is, if it is in an image.
    layered: Option<Layered>,
}

/// An image with a writable layer, mounted; after an error the private mount namespace ends with
/// the process.
struct Layered {
    image: tempfile::TempDir,
    root: tempfile::TempDir,
}

impl<'a> Prepared<'a> {
    pub fn new(
        runner: &'a SystemRunner,
        work: &'a Work,
        mounted: &'a Mounted,
        node: &'a Path,
    ) -> Fallible<Self> {
        let folder = mounted.point();
        let mut layered = None;
        match work {
            Work::RandomDirectWrites { .. } | Work::LinearDirectWrites { .. } => {
                let mut file = File::create(folder.join("file"))?;
                let piece = vec![0x5a; 1 << 20];
                for _ in 0..RANDOM_FILE_BYTES >> 20 {
                    file.write_all(&piece)?;
                }
                file.sync_all()?;
            }
            Work::DeleteFiles { count } => create_files(folder, *count)?,
            Work::ReadTree { count, image: None } => write_tree(&folder.join("tree"), *count)?,
            Work::ReadTree { count, image: Some(image) } => {
                layered = Some(Layered::new(runner, image, folder, *count)?);
            }
            _ => {}
        }
        rustix::fs::syncfs(File::open(folder)?.as_fd())?;
        Ok(Self { runner, work, mounted, node, layered })
    }

    /// Does the work.
    pub fn run(&self) -> Fallible<Done> {
        let folder = self.mounted.point();
        let begin = Instant::now();
        let amount = match *self.work {
            Work::CreateFiles { count } => {
                create_files(folder, count)?;
                count as f64
            }
            Work::DeleteFiles { count } => {
                for number in 0..count {
                    std::fs::remove_file(folder.join(name(number)))?;
                }
                count as f64
            }
            Work::FilesAndSync { count, bytes } => {
                let (root, data) = (File::open(folder)?, vec![0xa5; usize::try_from(bytes)?]);
                for number in 0..count {
                    write_pieces(&folder.join(name(number)), &data)?;
                    rustix::fs::syncfs(root.as_fd())?;
                }
                kilobytes(count * bytes)
            }
            Work::LargeFileAndSync { count, bytes } => {
                let root = File::open(folder)?;
                write_pieces(&folder.join("test"), &vec![0xa5; usize::try_from(count * bytes)?])?;
                rustix::fs::syncfs(root.as_fd())?;
                kilobytes(count * bytes)
            }
            Work::LargeFile { count, bytes } => {
                let (mut file, data) =
                    (File::create(folder.join("test"))?, vec![0xa5; usize::try_from(bytes)?]);
                for _ in 0..count {
                    file.write_all(&data)?;
                }
                kilobytes(count * bytes)
            }
            Work::RandomDirectWrites { count, bytes } => {
                let mut random = Random::new(bytes);
                direct_writes(folder, count, bytes, |_| random.below(RANDOM_FILE_BYTES / bytes))?
            }
            Work::LinearDirectWrites { count, bytes } => {
                direct_writes(folder, count, bytes, |number| number)?
            }
            Work::ReadTree { count, .. } => return self.read_tree(count),
            Work::Workload { ref name } => return self.workload(name),
        };
        Ok(Done { amount, elapsed: begin.elapsed() })
    }

    fn read_tree(&self, count: u64) -> Fallible<Done> {
        let root = self.layered.as_ref().map_or(self.mounted.point(), |on| on.root.path());
        let mut random = Random::new(count);
        let mut numbers: Vec<u64> = (0..count).collect();
        random.shuffle(&mut numbers);
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        let begin = Instant::now();
        for number in numbers.iter().take(FILES_READ) {
            let mut content = Vec::new();
            let path = in_tree(&root.join("tree"), *number);
            File::open(path)?.read_to_end(&mut content)?;
        }
        Ok(Done { amount: FILES_READ as f64, elapsed: begin.elapsed() })
    }

    fn workload(&self, name: &str) -> Fallible<Done> {
        let workloads = Workloads::load(None)?;
        let workload = workloads.find(name)?;
        let scratch = tempfile::tempdir()?;
        let plan = RunPlan {
            points: Points::Profile(PointProfile::Quick),
            data_size_bytes: WORKLOAD_BYTES,
            memory_bytes: WORKLOAD_BYTES,
            runtime_ns: u64::try_from(WORKLOAD_TIME.as_nanos())?,
            seed: 1,
            scratch: scratch.path().to_owned(),
        };
        let target = WorkloadTarget::Mounted(self.mounted, self.node);
        let result = run_workload(self.runner, workload, &plan, target, None)?;
        let stages = result.points.first().ok_or("no point was measured")?.stages.iter();
        let figures: Vec<_> =
            stages.flat_map(|stage| [stage.read, stage.write]).flatten().collect();
        let longest = figures.iter().map(|figures| figures.runtime_ns).max().unwrap_or(1);
        let bytes: u64 = figures.iter().map(|figures| figures.bytes).sum();
        Ok(Done { amount: kilobytes(bytes), elapsed: Duration::from_nanos(longest) })
    }

    /// Unmounts what lies on the file system.
    pub fn unmount(self) -> Fallible<()> {
        if let Some(Layered { image, root }) = &self.layered {
            for point in [root, image] {
                self.runner.run_checked(&Program::new("umount").arg(point.path()))?;
            }
        }
        Ok(())
    }
}

impl Layered {
    fn new(runner: &SystemRunner, image: &Image, folder: &Path, count: u64) -> Fallible<Self> {
        let source = tempfile::tempdir()?;
        write_tree(&source.path().join("tree"), count)?;
        let file = folder.join("image");
        let pack = Program::new("mksquashfs").args([source.path(), file.as_path()]);
        let pack = pack.args(["-quiet", "-no-progress", "-b", &image.block]);
        runner.run_checked(&pack.args(["-comp", &image.compressor]))?;
        let mounted = Self { image: tempfile::tempdir()?, root: tempfile::tempdir()? };
        let mount = |kind: &str, options: &str, what: &Path, point: &tempfile::TempDir| {
            let program = Program::new("mount").args(["-t", kind, "-o", options]);
            runner.run_checked(&program.args([what, point.path()]))
        };
        mount("squashfs", "loop,ro", &file, &mounted.image)?;
        let [upper, work] = ["upper", "work"].map(|name| folder.join(name));
        for path in [&upper, &work] {
            std::fs::create_dir(path)?;
        }
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            mounted.image.path().display(),
            upper.display(),
            work.display()
        );
        mount("overlay", &layers, Path::new("overlay"), &mounted.root)?;
        Ok(mounted)
    }
}

fn name(number: u64) -> String {
    format!("{number:05}")
}

fn create_files(folder: &Path, count: u64) -> Fallible<()> {
    for number in 0..count {
        File::create(folder.join(name(number)))?;
    }
    Ok(())
}

fn write_pieces(path: &Path, data: &[u8]) -> Fallible<()> {
    let mut file = File::create(path)?;
    for piece in data.chunks(usize::try_from(PIECE_BYTES)?) {
        file.write_all(piece)?;
    }
    Ok(())
}

fn in_tree(root: &Path, number: u64) -> PathBuf {
    root.join(name(number / FILES_PER_FOLDER)).join(name(number))
}

/// Writes files of words, which compress about as well as programs and texts do.
fn write_tree(root: &Path, count: u64) -> Fallible<()> {
    let mut random = Random::new(7);
    for number in 0..count {
        let path = in_tree(root, number);
        std::fs::create_dir_all(path.parent().ok_or("a file lies in a folder")?)?;
        let mut text = String::new();
        let length = random.below(MOST_TREE_BYTES);
        while (text.len() as u64) < length {
            text.push_str(&format!("{:x} ", random.below(4096)));
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn direct_writes(
    folder: &Path,
    count: u64,
    bytes: u64,
    mut place: impl FnMut(u64) -> u64,
) -> Fallible<f64> {
    let memory = vec![0xa5; usize::try_from(bytes)? + DIRECT_ALIGNMENT];
    let start = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
    let data = &memory[start..start + usize::try_from(bytes)?];
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits())?;
    let file = OpenOptions::new().write(true).custom_flags(direct).open(folder.join("file"))?;
    for number in 0..count {
        rustix::io::pwrite(&file, data, place(number) * bytes)?;
    }
    file.sync_all()?;
    Ok(kilobytes(count * bytes))
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1000.0
}
