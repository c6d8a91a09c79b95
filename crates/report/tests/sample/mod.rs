//! A sample report that uses every feature. Its values are made up, not measured.

use flashfit_report::{
    Bar, BarChart, BetterDirection, Chart, ChartPoint, ChartSeries, ColumnKind, FailedTrials,
    FigureGroup, FigureUnit, LineChart, RangeMeaning, RankRow, RankingTable, Report, ReportCommand,
    ReportFinding, ReportVerdict, ReportedGain, RunOutcome, SetupDetail, SetupRole, ValueScale,
    XAxis,
};

const RECOMMENDED: &str = "f2fs noatime,discard mq-deadline";
const BASELINE: &str = "ext4 base none";

pub fn report() -> Report {
    Report {
        title: "Sample report: made-up figures of a 16 GB card for a file server".into(),
        simulated: true,
        verdict: verdict(),
        facts: facts(),
        rankings: vec![
            ranking("All workloads", 1.0),
            ranking("Linear reading from multiple files (grep)", 0.2),
        ],
        findings: vec![tied()],
        matrix: Some(matrix()),
        highlights: figures()[..1].to_vec(),
        figures: figures()[1..].to_vec(),
        setups: names().map(|name| setup(&name)).collect(),
        warnings: vec![
            "The governor was `ondemand`; throughput may vary with the processor's clock.".into(),
            "Trial 17 took four times as long as its repeats and counts with less weight.".into(),
        ],
        failures: vec![FailedTrials {
            setup: "btrfs ssd,discard=async bfq".into(),
            workload: "untar".into(),
            reason: "mount: unknown filesystem type 'btrfs' <on this kernel>".into(),
            trials: 3,
        }],
        reproduce: "flashfit tune sim:samples/sd16.toml --workload fileserver --seed 42".into(),
    }
}

fn matrix() -> ReportFinding {
    let columns = [("workload", ColumnKind::Name), ("ext4", ColumnKind::Number)];
    let mut matrix = ReportFinding::new("Growth by workload", "In percent.", columns, usize::MAX);
    for workload in ["all", "grep", "untar", "compile", "database", "fileserver", "linear-read"] {
        matrix.rows.push(vec![workload.to_owned(), "+7.9 %".to_owned()]);
    }
    matrix
}

fn tied() -> ReportFinding {
    let mut tied = ReportFinding::new(
        "May be as good as the best",
        "Each is within 2 % of the best with a probability of at least 90 %.",
        [
            ("setup", ColumnKind::Name),
            ("within 2 %", ColumnKind::Number),
            ("at a power cut", ColumnKind::Remark),
        ],
        2,
    );
    for (name, chance) in
        [(RECOMMENDED, "98 %"), ("f2fs noatime bfq", "94 %"), ("btrfs noatime bfq", "91 %")]
    {
        tied.rows.push(vec![name.to_owned(), chance.to_owned(), "safe".to_owned()]);
    }
    tied
}

fn verdict() -> ReportVerdict {
    ReportVerdict {
        outcome: RunOutcome::Better,
        headline: "f2fs with noatime, discard and the mq-deadline scheduler is 12 % faster than \
                   default ext4 (95 % interval 2 to 24 %, of the mean 8 to 17 %)"
            .to_owned(),
        gain: Some(ReportedGain {
            percent_low: 8.1,
            percent_mid: 12.4,
            percent_high: 16.9,
            confidence_percent: 95,
            percent_seen: Some((2.3, 23.5)),
            repeats: 8,
        }),
        detail: vec![
            "Three setups are tied within 2 %; this one writes the least to the card.".into(),
        ],
        commands: vec![
            ReportCommand {
                caption: "Make one partition that starts at an erase block (4 MiB):".into(),
                line: "echo 'start=4MiB, type=L' | sfdisk --wipe always /dev/sample".into(),
            },
            ReportCommand {
                caption: "Make the file system:".into(),
                line:
                    "mkfs.f2fs -f -s 2 -o 5 -O extra_attr,inode_checksum,sb_checksum,compression \
                       -l \"sample card\" /dev/sample1"
                        .into(),
            },
            ReportCommand {
                caption: "Mount it, and at every start through /etc/fstab:".into(),
                line: "mount -t f2fs -o noatime,discard /dev/sample1 /srv".into(),
            },
        ],
        risk: "As safe as the baseline: a power cut loses only data that was not synced.".into(),
        power_cuts: String::new(),
    }
}

fn facts() -> Vec<(String, String)> {
    [
        ("device", "simulated card `sample-sd16`, 14.8 GiB (15.9 GB)"),
        ("model string", "SC16G\u{1b}[31m<script>alert(1)</script>\u{202e}\"&'"),
        ("geometry", "erase block 4 MiB (from the card model), page 16 KiB (probed)"),
        ("kernel", "6.12.0-sample"),
        ("fio", "3.33"),
        ("trials", "412 in 6 h 20 min"),
        ("seed", "42"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// Twenty names of setups.
fn names() -> impl Iterator<Item = String> {
    let variants = [
        "base none",
        "noatime bfq",
        "noatime,discard mq-deadline",
        "noatime,nobarrier,commit=60 kyber",
        "stride,stripe_width,noatime,lazytime mq-deadline",
    ];
    ["ext4", "f2fs", "btrfs", "xfs"]
        .into_iter()
        .flat_map(move |kind| variants.map(|variant| format!("{kind} {variant}")))
}

fn role(name: &str) -> SetupRole {
    match name {
        RECOMMENDED => SetupRole::Recommended,
        BASELINE => SetupRole::Baseline,
        _ => SetupRole::Candidate,
    }
}

/// A number from 0 to 1 that looks random and is always the same.
fn pseudo_random(a: usize, b: usize) -> f64 {
    let mixed = (a as u64 * 7919 + b as u64 * 104_729 + 13) * 2_654_435_761 % 1009;
    f64::from(u32::try_from(mixed).expect("below 1009")) / 1009.0
}

fn ranking(title: &str, weight: f64) -> RankingTable {
    let mut rows: Vec<RankRow> = names()
        .enumerate()
        .map(|(index, name)| {
            let bonus = if role(&name) == SetupRole::Recommended { 0.12 } else { 0.0 };
            let score = 9.6 + weight * (bonus + 0.2 * pseudo_random(index, 3));
            RankRow {
                rank: 0,
                role: role(&name),
                setup: name,
                score,
                low: score - 0.02,
                high: score + 0.02 + 0.01 * pseudo_random(index, 5),
                growth: "+4.2 %".to_owned(),
                trials: 8,
                years: String::new(),
                note: String::new(),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.score.total_cmp(&a.score));
    for (rank, row) in (1..).zip(&mut rows) {
        row.rank = if rank <= 3 { 1 } else { rank };
        if (2..=3).contains(&rank) {
            row.note = "tied with #1".into();
        }
    }
    RankingTable {
        title: title.into(),
        scale_note: "score: mean of the logarithm of throughput; higher is better".into(),
        unit: FigureUnit::Number,
        spread: RangeMeaning::Interval(95),
        rows,
    }
}

fn setup(name: &str) -> SetupDetail {
    let mut words = name.splitn(3, ' ');
    let mut next = |what: &str| (what.to_owned(), words.next().unwrap_or_default().to_owned());
    SetupDetail {
        name: name.to_owned(),
        role: role(name),
        choices: vec![next("file system"), next("options"), next("scheduler")],
    }
}

fn figures() -> Vec<FigureGroup> {
    vec![
        FigureGroup {
            title: "Overview".into(),
            explanation: "The gain of each setup over the baseline. If a whisker crosses zero, \
                          the setup is not shown to be better."
                .into(),
            charts: vec![
                Chart::Bars(gains()),
                Chart::Bars(BarChart::of_ranking(&ranking("Score, all workloads", 1.0), "score")),
            ],
        },
        FigureGroup {
            title: "Linear and random direct writing".into(),
            explanation:
                "Small random writes distinguish the setups; from 256 KiB on, the device is \
                          the limit."
                    .into(),
            charts: vec![
                Chart::Lines(block_sizes("Random write throughput", ValueScale::Linear, 6)),
                Chart::Lines(block_sizes("Random write, all setups", ValueScale::Logarithmic, 20)),
                Chart::Lines(latency()),
            ],
        },
    ]
}

fn gains() -> BarChart {
    let bars = names()
        .enumerate()
        .take(9)
        .map(|(index, name)| {
            let value = match role(&name) {
                SetupRole::Recommended => 12.4,
                SetupRole::Baseline | SetupRole::Defaults => 0.0,
                SetupRole::Candidate => 14.0 * pseudo_random(index, 1) - 5.0,
            };
            let half = 1.5 + 4.0 * pseudo_random(index, 2);
            Bar { role: role(&name), name, value, low: value - half, high: value + half, n: 8 }
        })
        .collect();
    BarChart {
        title: "Gain over the baseline".into(),
        value_label: "gain".into(),
        unit: FigureUnit::PercentChange,
        direction: BetterDirection::HigherIsBetter,
        spread: RangeMeaning::Interval(95),
        bars,
    }
}

fn block_sizes(title: &str, y_scale: ValueScale, setups: usize) -> LineChart {
    let series = names().enumerate().skip(if setups < 20 { 2 } else { 0 }).take(setups);
    let series = series.map(|(index, name)| ChartSeries {
        role: role(&name),
        points: (0..9)
            .map(|step| {
                let block = 4096.0 * 2f64.powi(step);
                let rank = usize::try_from(step).expect("below 9");
                let ceiling = 12e6 * (1.0 + 0.1 * pseudo_random(index, 40 + rank));
                let own = 120.0 * (1.0 + 4.0 * pseudo_random(index, 8));
                let y = ceiling * block / (block + ceiling / own);
                ChartPoint {
                    x: block,
                    y,
                    low: y * 0.95,
                    high: y * (1.04 + 0.1 * pseudo_random(index, rank)),
                    n: 5,
                }
            })
            .collect(),
        name,
    });
    LineChart {
        title: title.into(),
        x_label: "block size".into(),
        y_label: "throughput".into(),
        y_unit: FigureUnit::BytesPerSecond,
        direction: BetterDirection::HigherIsBetter,
        x_axis: XAxis::Bytes,
        y_scale,
        spread: RangeMeaning::MinMax,
        series: series.collect(),
    }
}

fn latency() -> LineChart {
    let series = names().enumerate().take(5).map(|(index, name)| ChartSeries {
        role: role(&name),
        points: [0.5, 1.0, 2.0]
            .into_iter()
            .enumerate()
            .map(|(step, x)| {
                let y = 2e5 * 12f64.powf(x) * (1.0 + pseudo_random(index, step));
                ChartPoint { x, y, low: y * 0.7, high: y * 1.5, n: 5 }
            })
            .collect(),
        name,
    });
    LineChart {
        title: "Random write latency, 99th percentile".into(),
        x_label: "working set / free memory".into(),
        y_label: "latency".into(),
        y_unit: FigureUnit::Nanoseconds,
        direction: BetterDirection::LowerIsBetter,
        x_axis: XAxis::Ratio,
        y_scale: ValueScale::Logarithmic,
        spread: RangeMeaning::MinMax,
        series: series.collect(),
    }
}
