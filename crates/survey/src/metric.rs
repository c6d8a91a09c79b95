//! The metrics of a survey: every figure is a row of one of these.
//!
//! Names never change, because databases and exports contain them. A survey that a newer version
//! or another program wrote can have others; they have no group. docs/survey.md lists them.

/// What a metric is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricGroup {
    Speed,
    Latency,
    /// How the device is made, according to a probe.
    Construction,
    /// What the device's counters report, and what a command cost it.
    Wear,
    /// What was left after power cuts.
    PowerLoss,
}

impl MetricGroup {
    pub const ALL: [Self; 5] =
        [Self::Speed, Self::Latency, Self::Construction, Self::Wear, Self::PowerLoss];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Latency => "latency",
            Self::Construction => "construction",
            Self::Wear => "wear",
            Self::PowerLoss => "power loss",
        }
    }
}

/// What a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SurveyMetric {
    /// Of one stage in one direction, in bytes, operations or runs a second.
    Rate,
    LatencyP99,
    /// Of single operations and syncs.
    LatencyMax,
    SyncLatencyP99,
    Capacity,
    Page,
    WriteUnit,
    EraseBlock,
    EraseBlockOffset,
    OpenEraseBlocksSequential,
    OpenEraseBlocksRandom,
    SmallWriteLog,
    SpecialZone,
    PslcCache,
    /// Bytes written to the flash for each byte of the host.
    WriteAmplification,
    /// Share of the rated life, in percent, according to the device; the point names the area if
    /// the device counts several.
    LifeUsed,
    /// Spare blocks used, in percent.
    SpareUsed,
    HostWritten,
    HostRead,
    HostDiscarded,
    FileSystemWritten,
    FlashWritten,
    /// The part of it that the host asked for.
    FlashWrittenForHost,
    /// The part of it that the controller added.
    FlashWrittenByController,
    EraseCountTotal,
    EraseCountMean,
    EraseCountMax,
    EraseCountMin,
    PowerCycles,
    /// Power losses without notice, according to the device.
    UnsafeShutdowns,
    PowerOnHours,
    /// Power cuts after which the file system was examined.
    PowerCuts,
    /// Share of power cuts after which an oracle found something wrong; the point is the oracle.
    FailedCuts,
    /// Share of power cuts that broke a promise of the setup; the point is the promise, and empty
    /// for any of them.
    BrokenPromises,
    /// The longest that mounting took after a power cut.
    RecoveryTimeMax,
}

impl SurveyMetric {
    pub const ALL: [Self; 35] = [
        Self::Rate,
        Self::LatencyP99,
        Self::LatencyMax,
        Self::SyncLatencyP99,
        Self::Capacity,
        Self::Page,
        Self::WriteUnit,
        Self::EraseBlock,
        Self::EraseBlockOffset,
        Self::OpenEraseBlocksSequential,
        Self::OpenEraseBlocksRandom,
        Self::SmallWriteLog,
        Self::SpecialZone,
        Self::PslcCache,
        Self::WriteAmplification,
        Self::LifeUsed,
        Self::SpareUsed,
        Self::HostWritten,
        Self::HostRead,
        Self::HostDiscarded,
        Self::FileSystemWritten,
        Self::FlashWritten,
        Self::FlashWrittenForHost,
        Self::FlashWrittenByController,
        Self::EraseCountTotal,
        Self::EraseCountMean,
        Self::EraseCountMax,
        Self::EraseCountMin,
        Self::PowerCycles,
        Self::UnsafeShutdowns,
        Self::PowerOnHours,
        Self::PowerCuts,
        Self::FailedCuts,
        Self::BrokenPromises,
        Self::RecoveryTimeMax,
    ];

    /// As it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::LatencyP99 => "latency-p99",
            Self::LatencyMax => "latency-max",
            Self::SyncLatencyP99 => "sync-latency-p99",
            Self::Capacity => "capacity",
            Self::Page => "page",
            Self::WriteUnit => "write-unit",
            Self::EraseBlock => "erase-block",
            Self::EraseBlockOffset => "erase-block-offset",
            Self::OpenEraseBlocksSequential => "open-erase-blocks-sequential",
            Self::OpenEraseBlocksRandom => "open-erase-blocks-random",
            Self::SmallWriteLog => "small-write-log",
            Self::SpecialZone => "special-zone",
            Self::PslcCache => "pslc-cache",
            Self::WriteAmplification => "write-amplification",
            Self::LifeUsed => "life-used",
            Self::SpareUsed => "spare-used",
            Self::HostWritten => "host-written",
            Self::HostRead => "host-read",
            Self::HostDiscarded => "host-discarded",
            Self::FileSystemWritten => "file-system-written",
            Self::FlashWritten => "flash-written",
            Self::FlashWrittenForHost => "flash-written-for-host",
            Self::FlashWrittenByController => "flash-written-by-controller",
            Self::EraseCountTotal => "erase-count-total",
            Self::EraseCountMean => "erase-count-mean",
            Self::EraseCountMax => "erase-count-max",
            Self::EraseCountMin => "erase-count-min",
            Self::PowerCycles => "power-cycles",
            Self::UnsafeShutdowns => "unsafe-shutdowns",
            Self::PowerOnHours => "power-on-hours",
            Self::PowerCuts => "power-cuts",
            Self::FailedCuts => "failed-cuts",
            Self::BrokenPromises => "broken-promises",
            Self::RecoveryTimeMax => "recovery-time-max",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    pub fn group(self) -> MetricGroup {
        match self {
            Self::Rate => MetricGroup::Speed,
            Self::LatencyP99 | Self::LatencyMax | Self::SyncLatencyP99 => MetricGroup::Latency,
            Self::Capacity
            | Self::Page
            | Self::WriteUnit
            | Self::EraseBlock
            | Self::EraseBlockOffset
            | Self::OpenEraseBlocksSequential
            | Self::OpenEraseBlocksRandom
            | Self::SmallWriteLog
            | Self::SpecialZone
            | Self::PslcCache => MetricGroup::Construction,
            Self::PowerCuts | Self::FailedCuts | Self::BrokenPromises | Self::RecoveryTimeMax => {
                MetricGroup::PowerLoss
            }
            _ => MetricGroup::Wear,
        }
    }
}

/// How figures of several cards are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricScale {
    /// By their logarithms: cards differ by factors.
    Logarithmic,
    /// As they are: 0 is a figure as any other.
    Linear,
    /// The same of shares of repeats.
    Share,
}

impl MetricScale {
    /// That of a metric, by its name; an unknown one can be 0.
    pub fn of(metric: &str) -> Self {
        match SurveyMetric::of_name(metric) {
            Some(SurveyMetric::FailedCuts | SurveyMetric::BrokenPromises) => Self::Share,
            Some(metric) => match metric.group() {
                MetricGroup::Speed | MetricGroup::Latency => Self::Logarithmic,
                _ => Self::Linear,
            },
            None => Self::Linear,
        }
    }

    /// A mean on this scale as a figure.
    pub fn figure(self, mean: f64) -> f64 {
        match self {
            Self::Logarithmic => mean.exp(),
            Self::Linear | Self::Share => mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for metric in SurveyMetric::ALL {
            assert_eq!(SurveyMetric::of_name(metric.name()), Some(metric));
        }
        assert_eq!(SurveyMetric::of_name("nothing"), None);
        let groups = SurveyMetric::ALL.map(SurveyMetric::group);
        assert!(MetricGroup::ALL.iter().all(|group| groups.contains(group)));
    }
}
