//! Lists the fio options that a workload may use, each with the form of its values (fio(1), 3.33).
//!
//! All others are rejected: some read, write or map files outside the target, open sockets, run
//! programs, or change the meaning of results. No value may contain a path. Limits: options of
//! single engines are not supported, nor is `verify`, whose extra reads would count as the
//! workload's.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    Directory,
    /// A file name without a directory.
    FileName,
    /// A file name that can contain `$jobname`, `$jobnum` and `$filenum`.
    FileNameFormat,
    /// Empty, 0 or 1.
    Flag,
    /// A number with an optional unit, or a variable of flashfit.
    Number,
    /// Numbers or variables separated by `,`, `:`, `/` or `-`.
    Numbers,
    Word(&'static [&'static str]),
    /// One of these words, optionally followed by `:` and numbers.
    WordAndNumbers(&'static [&'static str]),
}

/// Variables with numeric values, set by [`crate::plan`].
const VARIABLES: [&str; 8] =
    ["SIZE", "BLOCK_SIZE", "RUNTIME", "SEED", "WORK_SET", "HALF", "EIGHTH", "FILES"];
const MAX_NAME_BYTES: usize = 64;
const MAX_NUMBER_BYTES: usize = 24;

const ENGINES: &[&str] = &[
    "psync",
    "sync",
    "vsync",
    "pvsync",
    "pvsync2",
    "libaio",
    "posixaio",
    "io_uring",
    "mmap",
    "filecreate",
    "filestat",
    "filedelete",
];
const ACCESS_PATTERNS: &[&str] =
    &["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"];
const FILE_SERVICE_TYPES: &[&str] =
    &["random", "sequential", "roundrobin", "zipf", "pareto", "normal", "gauss"];

/// Every option that a workload may use.
pub const KEYS: [(&str, ValueForm); 66] = [
    ("directory", ValueForm::Directory),
    ("filename", ValueForm::FileName),
    ("filename_format", ValueForm::FileNameFormat),
    ("ioengine", ValueForm::Word(ENGINES)),
    ("rw", ValueForm::WordAndNumbers(ACCESS_PATTERNS)),
    ("readwrite", ValueForm::WordAndNumbers(ACCESS_PATTERNS)),
    ("rwmixread", ValueForm::Number),
    ("rwmixwrite", ValueForm::Number),
    ("rw_sequencer", ValueForm::Word(&["sequential", "identical"])),
    ("bs", ValueForm::Numbers),
    ("blocksize", ValueForm::Numbers),
    ("bsrange", ValueForm::Numbers),
    ("bssplit", ValueForm::Numbers),
    ("ba", ValueForm::Numbers),
    ("blockalign", ValueForm::Numbers),
    ("size", ValueForm::Number),
    ("io_size", ValueForm::Number),
    ("filesize", ValueForm::Numbers),
    ("nrfiles", ValueForm::Number),
    ("openfiles", ValueForm::Number),
    ("file_service_type", ValueForm::WordAndNumbers(FILE_SERVICE_TYPES)),
    ("offset", ValueForm::Number),
    ("offset_increment", ValueForm::Number),
    ("number_ios", ValueForm::Number),
    ("numjobs", ValueForm::Number),
    ("thread", ValueForm::Flag),
    ("group_reporting", ValueForm::Flag),
    ("stonewall", ValueForm::Flag),
    ("direct", ValueForm::Flag),
    ("buffered", ValueForm::Flag),
    ("sync", ValueForm::Word(&["0", "1", "none", "sync", "dsync"])),
    ("iodepth", ValueForm::Number),
    ("iodepth_batch", ValueForm::Number),
    ("iodepth_batch_complete_min", ValueForm::Number),
    ("iodepth_batch_complete_max", ValueForm::Number),
    ("iodepth_low", ValueForm::Number),
    ("fsync", ValueForm::Number),
    ("fdatasync", ValueForm::Number),
    ("end_fsync", ValueForm::Flag),
    ("fsync_on_close", ValueForm::Flag),
    ("create_fsync", ValueForm::Flag),
    ("create_on_open", ValueForm::Flag),
    ("create_serialize", ValueForm::Flag),
    ("fallocate", ValueForm::Word(&["none", "native", "posix", "keep", "truncate", "0", "1"])),
    ("fadvise_hint", ValueForm::Word(&["none", "0", "1", "random", "sequential", "noreuse"])),
    ("invalidate", ValueForm::Flag),
    ("overwrite", ValueForm::Flag),
    ("unlink", ValueForm::Flag),
    ("loops", ValueForm::Number),
    ("runtime", ValueForm::Number),
    ("time_based", ValueForm::Flag),
    ("ramp_time", ValueForm::Number),
    ("startdelay", ValueForm::Numbers),
    ("thinktime", ValueForm::Number),
    ("thinktime_blocks", ValueForm::Number),
    ("rate", ValueForm::Numbers),
    ("rate_iops", ValueForm::Numbers),
    ("randseed", ValueForm::Number),
    ("randrepeat", ValueForm::Flag),
    ("norandommap", ValueForm::Flag),
    ("random_generator", ValueForm::Word(&["tausworthe", "lfsr", "tausworthe64"])),
    ("random_distribution", ValueForm::WordAndNumbers(&["random", "zipf", "pareto", "normal"])),
    ("percentage_random", ValueForm::Numbers),
    ("zero_buffers", ValueForm::Flag),
    ("refill_buffers", ValueForm::Flag),
    ("buffer_compress_percentage", ValueForm::Number),
];

/// `None` for a key that a workload may not use.
pub fn form_of(key: &str) -> Option<ValueForm> {
    KEYS.iter().find(|(name, _)| *name == key).map(|(_, form)| *form)
}

/// The keys most similar to `key`, at most three.
pub fn similar(key: &str) -> Vec<&'static str> {
    let common_prefix =
        |name: &str| name.bytes().zip(key.bytes()).take_while(|(a, b)| a == b).count();
    let nearest = flashfit_catalog::nearest(key, KEYS.iter().map(|(name, _)| *name));
    let mut found: Vec<_> = KEYS
        .iter()
        .map(|(name, _)| (nearest.as_deref() == Some(*name), common_prefix(name), *name))
        .filter(|(is_nearest, common, _)| *is_nearest || *common >= 3)
        .collect();
    found.sort_by_key(|(is_nearest, common, _)| std::cmp::Reverse((*is_nearest, *common)));
    found.into_iter().take(3).map(|(_, _, name)| name).collect()
}

impl ValueForm {
    pub fn matches(self, value: &str) -> bool {
        match self {
            Self::Directory => value == "${DIRECTORY}",
            Self::FileName => is_name(value),
            Self::FileNameFormat => {
                let plain = ["$jobname", "$jobnum", "$filenum"]
                    .iter()
                    .fold(value.to_owned(), |text, keyword| text.replace(keyword, "0"));
                is_name(&plain)
            }
            Self::Flag => ["", "0", "1"].contains(&value),
            Self::Number => is_number(value),
            Self::Numbers => are_numbers(value),
            Self::Word(words) => words.contains(&value),
            Self::WordAndNumbers(words) => {
                let (word, numbers) = value.split_once(':').unwrap_or((value, "0"));
                words.contains(&word) && are_numbers(numbers)
            }
        }
    }
}

impl std::fmt::Display for ValueForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory => f.write_str("`${DIRECTORY}`"),
            Self::FileName => f.write_str("a file name without a directory"),
            Self::FileNameFormat => {
                f.write_str("a file name with `$jobname`, `$jobnum` or `$filenum`")
            }
            Self::Flag => f.write_str("0, 1 or nothing"),
            Self::Number => f.write_str("a number"),
            Self::Numbers => f.write_str("numbers"),
            Self::Word(words) => f.write_str(&words.join(", ")),
            Self::WordAndNumbers(words) => write!(f, "{}; with `:` and numbers", words.join(", ")),
        }
    }
}

/// Whether fio uses a file name literally.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= MAX_NAME_BYTES
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// Digits with an optional fraction and unit, or a single variable.
fn is_number(text: &str) -> bool {
    let variable = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = variable {
        return VARIABLES.contains(&name);
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.trim_end_matches('%').trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.trim_end_matches('%').len() - number.len();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    text.len() <= MAX_NUMBER_BYTES && unit <= 4 && digits(whole) && digits(fraction)
}

/// Lists and ranges. In `bssplit` and `rate`, all numbers but the first can be omitted.
fn are_numbers(text: &str) -> bool {
    let mut parts = text.split([',', ':', '/', '-']);
    parts.next().is_some_and(is_number) && parts.all(|part| part.is_empty() || is_number(part))
}
