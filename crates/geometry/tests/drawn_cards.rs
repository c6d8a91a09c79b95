//! The random cards of the accuracy benchmark: every seed gives a valid card, and all kinds occur.

#[path = "../benches/accuracy/cards.rs"]
mod cards;

use std::collections::BTreeMap;

use flashfit_card::model::LayerKind;

#[test]
fn every_seed_is_a_valid_card_and_all_kinds_occur() {
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    let mut count = |name: String| *kinds.entry(name).or_default() += 1;
    const { assert!(cards::DEVELOPMENT < cards::EVALUATION) };
    for seed in 0..cards::DEVELOPMENT {
        let drawn = cards::draw(seed);
        let (model, unit) = (&drawn.model, drawn.model.erase_block_bytes());
        assert_eq!(cards::draw(seed).toml, drawn.toml);
        assert_eq!(drawn.shows_units_to_readers, model.layer.lookup_ns > 0);
        assert!((128 << 10..=32 << 20).contains(&unit), "{unit}");
        count(format!("{:?}", model.layer.kind));
        count(format!("{:?}", drawn.noise));
        count(format!("shown: {}", drawn.shows_units_to_readers));
        count(format!("power of two: {}", unit.is_power_of_two()));
        let (pslc, map) = (&model.nand.pslc, model.layer.map_cache);
        for (name, is) in [
            ("zone", model.zone.is_some()),
            ("cache", model.cache.is_some()),
            ("pslc", pslc.is_some()),
            ("cached map", map.is_some()),
            ("queue", model.queue.depth > 1),
        ] {
            count(format!("{name}: {is}"));
        }
    }
    assert!(kinds.values().all(|&seeds| seeds >= 50), "{kinds:#?}");
    let layers = [LayerKind::BlockMapped, LayerKind::LogBlock, LayerKind::UpdateLog];
    assert!(layers.iter().all(|kind| kinds.contains_key(&format!("{kind:?}"))), "{kinds:#?}");
}
