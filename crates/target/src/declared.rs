//! The geometry and other facts that a device declares, or a card model states.

use flashfit_card::CardModel;
use flashfit_device::{Bytes, DeclaredBytes, DeclaredFacts, Device};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};

use crate::{InspectedTarget, TargetSource};

impl InspectedTarget {
    pub fn declared_geometry(&self) -> Geometry {
        match &self.source {
            TargetSource::Device(device) => device_geometry(device),
            TargetSource::Card(model) => model_geometry(model),
        }
    }

    /// All facts that are declared, in the form of a device's. Probes do not use those of a model.
    pub fn declared_facts(&self) -> DeclaredFacts {
        match &self.source {
            TargetSource::Device(device) => device.declared.clone(),
            TargetSource::Card(model) => model_facts(model),
        }
    }
}

pub fn device_geometry(device: &Device) -> Geometry {
    let erase_block = device.declared_erase_block.as_ref().map(|declared| {
        Sourced::new(declared.bytes, QuantitySource::Declared(declared.source.clone()))
    });
    Geometry::of_sizes(erase_block, None)
}

/// The geometry that a card model states.
pub fn model_geometry(model: &CardModel) -> Geometry {
    let known = |bytes| Some(Sourced::new(Bytes(bytes), QuantitySource::Modelled));
    Geometry::of_sizes(known(model.erase_block_bytes()), known(model.write_unit_bytes()))
}

fn model_facts(model: &CardModel) -> DeclaredFacts {
    let geometry = model_geometry(model);
    let stated = |bytes: Bytes| DeclaredBytes {
        bytes,
        source: "the card model".to_owned(),
        is_guess: false,
    };
    DeclaredFacts {
        erase_block: geometry.erase_block.iter().map(|known| stated(known.bytes)).collect(),
        write_unit: geometry.write_unit.iter().map(|known| stated(known.bytes)).collect(),
        capacity: vec![stated(model.capacity)],
        cache: model.cache.iter().map(|cache| stated(cache.bytes)).collect(),
        ..DeclaredFacts::default()
    }
}
