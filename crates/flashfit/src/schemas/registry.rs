//! The documents by name.

#[cfg(any(test, debug_assertions))]
use std::marker::PhantomData;

use flashfit_card::CardModel;
use flashfit_device::Device;
use flashfit_filesystem::plan::Plan;
use flashfit_probe::ProbeDocument;
use flashfit_testbed::Capabilities;
use flashfit_wear_counters::{WearMeasurement, WearReading};

use super::JsonDocument;
#[cfg(any(test, debug_assertions))]
use super::generated::{DocumentSchema, Wrapping};
use crate::command_error::ErrorDocument;
use crate::{apply, card_bench, commands, crash, probe, rendering, tune, wear};

macro_rules! documents {
    ($($wrapping:ident { $($(#[$only:meta])* $name:literal: $type:ty,)* })*) => {
        $($($(#[$only])* impl JsonDocument for $type {
            const NAME: &'static str = $name;
        })*)*

        /// All documents.
        pub const NAMES: &[&str] = &[$($($(#[$only])* $name,)*)*];

        /// The schemas of all documents, by name.
        #[cfg(any(test, debug_assertions))]
        pub fn all() -> Vec<DocumentSchema> {
            let mut all = Vec::from([$($(
                $(#[$only])*
                DocumentSchema::of($name, Wrapping::$wrapping, PhantomData::<$type>),
            )*)*]);
            all.sort_by_key(|document| document.name);
            all
        }
    };
}

documents! {
    Data {
        "applied": rendering::apply::Done<'_>,
        "board": Capabilities,
        "card": CardModel,
        "card-bench": Vec<card_bench::figures::Measured>,
        "card-counters": commands::card_stats::StatsDocument,
        "card-cut": commands::card_power::CutDocument<'_>,
        "cards": Vec<CardModel>,
        "catalog": rendering::catalog::Names,
        "check": commands::check::Checked<'_>,
        "comparison": rendering::comparison::ComparisonDocument,
        "crash-cuts": crash::states_document::CutsDocument<'_>,
        "crash-replay": crash::replay::ReplayedDocument<'_>,
        "crash-shrink": crash::shrink::ShrunkDocument<'_>,
        "crash-states": crash::states_document::StatesDocument<'_>,
        "free-space": probe::free_space::FreeSpaceDocument,
        "head-to-head": rendering::head_to_head::VersusDocument,
        "improved": rendering::keep_data::ImprovedDocument<'_>,
        "media": Vec<Device>,
        "medium": Device,
        "options": commands::options::OptionsDocument,
        "plan": Plan,
        "plans": rendering::plan_list::PlanList,
        "rankings": rendering::rankings_document::RankingsDocument,
        "recommendation": tune::outcome::RecommendationDocument,
        "replay": rendering::replay::ReplayDocument,
        "restored": apply::restore::RestoredDocument,
        "restored-improvement": apply::restore_keep_data::RestoredImprovementDocument,
        "stands": rendering::doctor::DoctorDocument,
        #[cfg(feature = "survey")]
        "survey-added": rendering::survey::AddedDocument,
        #[cfg(feature = "survey")]
        "survey-bundled": rendering::survey::BundledDocument,
        #[cfg(feature = "survey")]
        "survey-card": rendering::survey::CardDocument,
        #[cfg(feature = "survey")]
        "survey-exported": rendering::survey::ExportedDocument,
        #[cfg(feature = "survey")]
        "survey-site": rendering::survey::SiteDocument,
        #[cfg(feature = "survey")]
        "survey-merged": rendering::survey::MergedDocument,
        #[cfg(feature = "survey")]
        "survey-products": rendering::survey::ProductsDocument,
        #[cfg(feature = "survey")]
        "survey-cards": rendering::survey::CardsDocument,
        "wear-age": wear::age::AgeDocument,
        "wear-estimate": wear::estimate::EstimateDocument,
        "wear-measure": WearMeasurement,
        "wear-record": wear::record::RecordDocument,
        "wear-show": WearReading,
        "would-apply": rendering::apply::Would<'_>,
        "would-improve": rendering::keep_data::WouldImprove<'_>,
        "would-probe": probe::announce::WouldProbe,
        "would-test-free-space": probe::free_space::WouldTestFreeSpace,
        "would-tune": rendering::run_preview_document::RunPreviewDocument,
    }
    Error {
        "error": ErrorDocument<'_>,
    }
    Whole {
        "belief": tune::belief::Believed,
        "probe": ProbeDocument,
        "progress": tune::heartbeat::ProgressLine<'_>,
        #[cfg(feature = "survey")]
        "survey-bundle": flashfit_survey::bundle::format::SurveyBundle,
    }
}
