//! Records a program with strace(1) and parses the output of `strace -f -y -xx`.
//!
//! A call that may change a watched file in a way that is not modeled is an error: a shared
//! mapping, a link, a copy within the kernel.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::DiskOp;

const CALLS: &str = "trace=openat,openat2,open,creat,write,pwrite64,writev,pwritev,pwritev2,\
    copy_file_range,sendfile,splice,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,\
    mkdir,mkdirat,truncate,ftruncate,fallocate,link,linkat,symlink,symlinkat,lseek,mmap,ioctl";

/// The image behind the loop device that the program writes to.
#[derive(Debug, Clone)]
pub struct TracedDevice {
    pub image: PathBuf,
    /// Offset of its partition.
    pub partition_start: u64,
}

#[derive(Debug, Clone)]
pub struct Recorder {
    pub root: PathBuf,
    /// Ignored paths below the root.
    pub ignored: Vec<PathBuf>,
    /// The device, to which child processes write as well; without one they are not traced.
    pub device: Option<TracedDevice>,
}

/// Runs the command in the watched directory; returns its output and the recorded operations.
pub fn record(recorder: &Recorder, command: &Command) -> Result<(Output, Vec<DiskOp>), String> {
    let log = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-xx", "-s", "16777216", "-e", CALLS, "-e", "signal=none", "-o"]);
    traced.arg(log.path());
    if recorder.device.is_none() {
        traced.args(["-b", "execve"]);
    }
    traced.arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    let output = traced.current_dir(&recorder.root).output().map_err(|error| error.to_string())?;
    let text = std::fs::read(log.path()).map_err(|error| error.to_string())?;
    Ok((output, parse(recorder, &text)?))
}

fn parse(recorder: &Recorder, text: &[u8]) -> Result<Vec<DiskOp>, String> {
    let mut reader = TraceReader { recorder, offsets: HashMap::new(), ops: Vec::new() };
    let mut unfinished: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else { continue };
        let (pid, rest) = (&line[..space], line[space..].trim_ascii_start());
        if let Some(begun) = rest.strip_suffix(b" <unfinished ...>") {
            unfinished.insert(pid.to_vec(), begun.to_vec());
        } else if rest.starts_with(b"<... ") {
            let Some(mut whole) = unfinished.remove(pid) else { continue };
            let end = rest.windows(8).position(|part| part == b"resumed>");
            whole.extend_from_slice(&rest[end.ok_or("a call that is not resumed")? + 8..]);
            reader.line(&whole)?;
        } else {
            reader.line(rest)?;
        }
    }
    Ok(reader.ops)
}

struct TraceReader<'a> {
    recorder: &'a Recorder,
    /// The position of each open file, by descriptor and path. Processes with the same descriptor
    /// and path share the position or use it one after the other.
    offsets: HashMap<(Vec<u8>, PathBuf), u64>,
    ops: Vec<DiskOp>,
}

/// The target of a call: path, page cache, and the offset of that cache in the file.
type Target = (PathBuf, u8, u64);

impl TraceReader<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(open) = line.iter().position(|byte| *byte == b'(') else { return Ok(()) };
        let name = String::from_utf8_lossy(&line[..open]).into_owned();
        let (args, rest) = arguments(&line[open + 1..]);
        let result = rest.trim_ascii_start().strip_prefix(b"=").unwrap_or(rest).trim_ascii();
        if result.first().is_none_or(|first| *first == b'-' || *first == b'?') {
            return Ok(());
        }
        self.call(&name, &args, result).map_err(|error| format!("{name}: {error}"))
    }

    fn call(&mut self, name: &str, args: &[&[u8]], result: &[u8]) -> Result<(), String> {
        let arg = |index: usize| args.get(index).copied().ok_or("too few arguments");
        match name {
            "openat" | "openat2" | "open" | "creat" => return self.open(name, args, result),
            "mkdir" | "mkdirat" => {
                let path = self.path_of(args, usize::from(name == "mkdirat"))?;
                self.push(path, DiskOp::MakeDir);
            }
            "unlink" | "rmdir" | "unlinkat" => {
                let path = self.path_of(args, usize::from(name == "unlinkat"))?;
                self.push(path, DiskOp::Remove);
            }
            "rename" | "renameat" | "renameat2" => {
                let step = usize::from(name != "rename");
                let from = self.path_of(args, step)?;
                let to = self.path_of(&args[1 + step..], step)?;
                if self.is_watched(&from) || self.is_watched(&to) {
                    if from.parent() != to.parent() {
                        return Err("between directories".to_owned());
                    }
                    self.ops.push(DiskOp::Rename(from, to));
                }
            }
            "truncate" => {
                let path = self.path_of(args, 0)?;
                let length = number(arg(1)?)?;
                self.push(path, |path| DiskOp::SetLength(path, length));
            }
            "link" | "linkat" | "symlink" | "symlinkat" | "copy_file_range" | "sendfile"
            | "splice" => {
                let touches = args.iter().any(|arg| {
                    self.target(arg).is_some() || self.is_watched(&self.absolute(&text(arg)))
                });
                if touches && !(name == "copy_file_range" && number(result)? == 0) {
                    return Err("not part of the model".to_owned());
                }
            }
            "mmap" => {
                let flags = String::from_utf8_lossy(arg(3)?);
                let writes = String::from_utf8_lossy(arg(2)?).contains("PROT_WRITE");
                let shared = flags.contains("MAP_SHARED");
                if writes && shared && self.target(arg(4)?).is_some() {
                    return Err("a shared mapping is not part of the model".to_owned());
                }
            }
            _ => return self.on_descriptor(name, args, result),
        }
        Ok(())
    }

    fn on_descriptor(&mut self, name: &str, args: &[&[u8]], result: &[u8]) -> Result<(), String> {
        let arg = |index: usize| args.get(index).copied().ok_or("too few arguments");
        let descriptor = arg(0)?;
        let Some((path, cache, start)) = self.target(descriptor) else { return Ok(()) };
        let key = (descriptor.to_vec(), path.clone());
        match name {
            "lseek" => {
                self.offsets.insert(key, number(result)?);
            }
            "fsync" | "fdatasync" => self.ops.push(DiskOp::Sync { path, cache }),
            "ftruncate" => self.ops.push(DiskOp::SetLength(path, number(arg(1)?)?)),
            "fallocate" => {
                let mode = String::from_utf8_lossy(arg(1)?).into_owned();
                if !mode.contains("ZERO_RANGE") && !mode.contains("PUNCH_HOLE") {
                    return Err(format!("mode {mode}"));
                }
                self.zero(path, cache, start + number(arg(2)?)?, number(arg(3)?)?)?;
            }
            "ioctl" => {
                let code = String::from_utf8_lossy(arg(1)?).into_owned();
                if ["BLKDISCARD", "BLKZEROOUT", "BLKSECDISCARD"].contains(&code.as_str()) {
                    let range = String::from_utf8_lossy(arg(2)?).into_owned();
                    let range = range.trim_matches(['[', ']']);
                    let (from, length) = range.split_once(", ").ok_or("no range")?;
                    let (from, length) = (number(from.as_bytes())?, number(length.as_bytes())?);
                    self.zero(path, cache, start + from, length)?;
                }
            }
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                let written = usize::try_from(number(result)?).map_err(|e| e.to_string())?;
                let mut data = strings(arg(1)?);
                data.truncate(written);
                if data.len() != written {
                    return Err(format!("{written} bytes were written, {} traced", data.len()));
                }
                let offset = if name.starts_with('p') {
                    Some(number(arg(if name == "pwrite64" { 3 } else { 3.min(args.len() - 1) })?)?)
                } else {
                    let offset = self.offsets.entry(key).or_insert(0);
                    let at = *offset;
                    // `u64::MAX` marks a file that is opened for appending.
                    if at != u64::MAX {
                        *offset += u64::try_from(written).map_err(|e| e.to_string())?;
                    }
                    (at != u64::MAX).then_some(at)
                };
                let offset = offset.map(|offset| start + offset);
                self.ops.push(DiskOp::Write { path, cache, offset, data });
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, name: &str, args: &[&[u8]], result: &[u8]) -> Result<(), String> {
        let step = usize::from(name.starts_with("openat"));
        let flags = match name {
            "creat" => "O_CREAT|O_TRUNC".to_owned(),
            _ => String::from_utf8_lossy(args.get(1 + step).ok_or("no flags")?).into_owned(),
        };
        let Some((path, ..)) = self.target(result) else { return Ok(()) };
        let start = if flags.contains("O_APPEND") { u64::MAX } else { 0 };
        self.offsets.insert((result.to_vec(), path.clone()), start);
        let truncates = flags.contains("O_TRUNC");
        let is_device = self.recorder.device.as_ref().is_some_and(|it| it.image == path);
        if !is_device && (truncates || flags.contains("O_CREAT")) {
            if flags.contains("O_TMPFILE") {
                return Err("a file without a name".to_owned());
            }
            self.ops.push(DiskOp::Open { path, truncates });
        }
        Ok(())
    }

    fn zero(&mut self, path: PathBuf, cache: u8, from: u64, length: u64) -> Result<(), String> {
        let length = usize::try_from(length).map_err(|error| error.to_string())?;
        let data = vec![0; length];
        self.ops.push(DiskOp::Write { path, cache, offset: Some(from), data });
        Ok(())
    }

    fn push(&mut self, path: PathBuf, op: impl FnOnce(PathBuf) -> DiskOp) {
        if self.is_watched(&path) {
            self.ops.push(op(path));
        }
    }

    fn is_watched(&self, path: &Path) -> bool {
        path.starts_with(&self.recorder.root)
            && !self.recorder.ignored.iter().any(|ignored| path.starts_with(ignored))
    }

    /// What a descriptor such as `3</dev/loop0p1>` refers to, if it is watched.
    fn target(&self, descriptor: &[u8]) -> Option<Target> {
        let path = self.descriptor_path(descriptor)?;
        if let Some(device) = &self.recorder.device {
            let name = path.strip_prefix("/dev").ok().and_then(Path::to_str).unwrap_or_default();
            if let Some(number) = name.strip_prefix("loop").filter(|it| !it.starts_with('-')) {
                let on_partition = number.contains('p');
                let start = if on_partition { device.partition_start } else { 0 };
                return Some((device.image.clone(), u8::from(on_partition), start));
            }
        }
        self.is_watched(&path).then_some((path, 0, 0))
    }

    /// The path argument at `index`; with index 1, the argument before it is the directory.
    fn path_of(&self, args: &[&[u8]], index: usize) -> Result<PathBuf, String> {
        let path = text(args.get(index).ok_or("no path")?);
        let folder = (index > 0).then(|| self.descriptor_path(args[index - 1])).flatten();
        Ok(folder.map_or_else(|| self.absolute(&path), |folder| plain(&folder.join(&path))))
    }

    /// The path of a descriptor. In a private mount namespace the kernel reports the path from the
    /// root of its file system; the watched directory gives the mount point.
    fn descriptor_path(&self, descriptor: &[u8]) -> Option<PathBuf> {
        let path = descriptor_path(descriptor)?;
        let inside = path.strip_prefix("/").unwrap_or(&path).to_owned();
        let mounts = self.recorder.root.ancestors().skip(1);
        let seen = mounts.map(|mount| mount.join(&inside)).find(|it| {
            !path.starts_with(&self.recorder.root) && it.starts_with(&self.recorder.root)
        });
        Some(seen.unwrap_or(path))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        plain(&self.recorder.root.join(path))
    }
}

fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}

fn descriptor_path(descriptor: &[u8]) -> Option<PathBuf> {
    let open = descriptor.iter().position(|byte| *byte == b'<')?;
    let end = descriptor.iter().position(|byte| *byte == b'>')?;
    let inside = descriptor.get(open + 1..end)?;
    // A device's path is followed by its number: `<\x2f…<block 7:0>`.
    let name = inside.split(|byte| *byte == b'<').next()?;
    Some(PathBuf::from(OsString::from_vec(unescaped(name))))
}

/// The arguments up to the closing parenthesis, and the rest.
fn arguments(text: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut depth, mut quoted, mut begin) = (0_u32, false, 0);
    let mut args = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                args.push(text[begin..at].trim_ascii());
                return (args, &text[at + 1..]);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(text[begin..at].trim_ascii());
                begin = at + 1;
            }
            _ => {}
        }
    }
    (args, &[])
}

/// The contents of all strings in an argument, concatenated.
fn strings(arg: &[u8]) -> Vec<u8> {
    arg.split(|byte| *byte == b'"').skip(1).step_by(2).flat_map(unescaped).collect()
}

fn text(arg: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(strings(arg)))
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let byte = |four: &[u8]| Some(digit(four[2])? << 4 | digit(four[3])?);
    text.chunks_exact(4).filter_map(byte).collect()
}

fn number(text: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(text);
    let digits = text.split([' ', '<']).next().unwrap_or_default();
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    fn recorder() -> Recorder {
        let device = TracedDevice { image: "/r/image".into(), partition_start: 4096 };
        Recorder { root: "/r".into(), ignored: vec!["/r/mnt".into()], device: Some(device) }
    }

    #[test]
    fn calls_are_parsed_into_operations() {
        let (root, file, part) = (hex("/r"), hex("/r/a, (b)"), hex("/dev/loop3p1"));
        let log = [
            format!("7 openat(AT_FDCWD<{root}>, \"{file}\", O_WRONLY|O_CREAT, 0666) = 5<{file}>"),
            format!("7 write(5<{file}>, \"{}\", 2 <unfinished ...>", hex("hi")),
            format!("8 mkdir(\"{}\", 0777) = -1 EEXIST (File exists)", hex("x")),
            "7 <... write resumed>) = 2".to_owned(),
            format!("7 write(5<{file}>, \"{}\", 3) = 1", hex("you")),
            format!("7 fdatasync(5<{file}>) = 0"),
            format!("9 fallocate(3<{part}>, FALLOC_FL_ZERO_RANGE, 512, 2) = 0"),
            format!("9 fsync(3<{part}>) = 0"),
            format!("7 unlink(\"{}\") = 0", hex("/r/mnt/x")),
            format!("7 rename(\"{}\", \"{}\") = 0", hex("c"), hex("/r/d")),
            "7 +++ exited with 0 +++".to_owned(),
        ];
        let path = PathBuf::from("/r/a, (b)");
        let image = PathBuf::from("/r/image");
        let write = |path: &Path, cache, offset, data: &[u8]| DiskOp::Write {
            path: path.to_owned(),
            cache,
            offset: Some(offset),
            data: data.to_vec(),
        };
        let expected = [
            DiskOp::Open { path: path.clone(), truncates: false },
            write(&path, 0, 0, b"hi"),
            write(&path, 0, 2, b"y"),
            DiskOp::Sync { path, cache: 0 },
            write(&image, 1, 4608, &[0, 0]),
            DiskOp::Sync { path: image, cache: 1 },
            DiskOp::Rename("/r/c".into(), "/r/d".into()),
        ];
        assert_eq!(parse(&recorder(), log.join("\n").as_bytes()).unwrap(), expected);
    }

    #[test]
    fn calls_that_are_not_modeled_are_errors() {
        let file = hex("/r/f");
        let map = format!("7 mmap(NULL, 9, PROT_READ|PROT_WRITE, MAP_SHARED, 3<{file}>, 0) = 0x7f");
        let link = format!("7 linkat(AT_FDCWD, \"{file}\", AT_FDCWD, \"{file}\", 0) = 0");
        for line in [map, link] {
            assert!(parse(&recorder(), line.as_bytes()).unwrap_err().contains("model"), "{line}");
        }
    }
}
