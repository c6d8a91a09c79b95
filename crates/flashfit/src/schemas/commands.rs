//! Which command prints which documents.

/// The commands with `--json` or `--json-stream`, each with the documents that it prints. All of
/// them print `error` if they fail.
pub const COMMANDS: &[(&str, &[&str])] = &[
    ("analyze", &["rankings", "head-to-head"]),
    ("apply", &["applied", "would-apply", "improved", "would-improve"]),
    ("card bench", &["card-bench"]),
    ("card cut", &["card-cut"]),
    ("card list", &["cards"]),
    ("card show", &["card"]),
    ("card stats", &["card-counters"]),
    ("catalog", &["catalog"]),
    ("check", &["check"]),
    ("compare", &["comparison"]),
    ("crash cuts", &["crash-cuts"]),
    ("crash replay", &["crash-replay"]),
    ("crash shrink", &["crash-shrink"]),
    ("crash states", &["crash-states"]),
    ("doctor", &["stands", "board"]),
    ("inspect", &["medium", "card"]),
    ("list", &["media"]),
    ("options", &["options"]),
    ("plan", &["plans", "plan"]),
    ("probe", &["probe", "would-probe", "free-space", "would-test-free-space"]),
    ("restore", &["restored", "restored-improvement"]),
    #[cfg(feature = "survey")]
    ("survey add", &["survey-added"]),
    #[cfg(feature = "survey")]
    ("survey bundle", &["survey-bundled", "survey-bundle"]),
    #[cfg(feature = "survey")]
    ("survey compare", &["survey-products"]),
    #[cfg(feature = "survey")]
    ("survey export", &["survey-exported"]),
    #[cfg(feature = "survey")]
    ("survey html", &["survey-site"]),
    #[cfg(feature = "survey")]
    ("survey merge", &["survey-merged"]),
    #[cfg(feature = "survey")]
    ("survey show", &["survey-card"]),
    #[cfg(feature = "survey")]
    ("survey list", &["survey-cards"]),
    ("tune", &["recommendation", "replay", "would-tune", "belief", "progress"]),
    ("wear age", &["wear-age"]),
    ("wear estimate", &["wear-estimate"]),
    ("wear measure", &["wear-measure"]),
    ("wear record", &["wear-record"]),
    ("wear show", &["wear-show"]),
];
