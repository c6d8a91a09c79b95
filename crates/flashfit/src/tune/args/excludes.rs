//! Arguments of `flashfit tune` that cannot be used with `--resume` or `--replay`.

/// Choices that are fixed when a run begins: with others, the trials so far would not count.
pub const RESUME_EXCLUDES: [&str; 28] = [
    "config",
    "dir",
    "schedulers",
    "strategy",
    "profile",
    "by",
    "confirm_rounds",
    "seed",
    "start",
    "table",
    "align_end",
    "allow",
    "erase_block",
    "write_unit",
    "geometry",
    "no_probe",
    "data_size",
    "runtime_ms",
    "weights",
    "require",
    "p99_write_max",
    "min_years",
    "without",
    "fill",
    "age",
    "UsageArgs",
    "fresh",
    "within",
];

/// A replay measures nothing, so arguments about measuring make no sense with it.
pub const REPLAY_EXCLUDES: [&str; 12] = [
    "resume",
    "dir",
    "dry_run",
    "confirm",
    "fill",
    "age",
    "fresh",
    "start",
    "table",
    "align_end",
    "profile",
    "TestBedArgs",
];
