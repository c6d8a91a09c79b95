//! The reading-only probe on cards of known geometry and on media without any.

#[path = "../benches/accuracy/reading.rs"]
mod campaign;
#[path = "../benches/accuracy/cards.rs"]
mod cards;

#[test]
#[ignore = "a campaign"]
fn try_out() {
    let from: u64 = std::env::var("FROM").ok().and_then(|t| t.parse().ok()).unwrap_or(0);
    let to: u64 = std::env::var("TO").ok().and_then(|t| t.parse().ok()).unwrap_or(60);
    let (mut shown, mut answered, mut right) = (0, 0, 0);
    let (mut w_answered, mut w_right) = (0, 0);
    let mut hidden_wrong = 0;
    let seeds: Vec<u64> = match std::env::var("SEEDS") {
        Ok(t) => t.split(',').map(|t| t.parse().unwrap()).collect(),
        Err(_) => (from..to).collect(),
    };
    for seed in seeds {
        let drawn = cards::draw(seed);
        let outcome = campaign::probe_drawn(&drawn, seed);
        let truth = drawn.model.erase_unit_bytes();
        let wu = drawn.model.write_unit_bytes();
        if drawn.shows_units_to_readers {
            shown += 1;
        }
        let mut flag = "";
        if let Some(unit) = outcome.erase_unit {
            if drawn.shows_units_to_readers {
                answered += 1;
                right += u64::from(unit == truth);
            } else if unit != truth {
                hidden_wrong += 1;
            }
            if unit != truth {
                flag = "WRONG";
            }
        } else if drawn.shows_units_to_readers {
            flag = "silent";
        }
        let mut wflag = "";
        if let Some(w) = outcome.write_unit {
            w_answered += 1;
            w_right += u64::from(w == wu);
            if w != wu {
                wflag = "WWRONG";
            }
        }
        println!(
            "{seed} {:?} {:?} noise {:?} dies {} cap {}M look {} base {} | E {}K -> {:?} {flag} | W {}K -> {:?} {wflag} | reads {} | {}",
            drawn.model.layer.kind,
            drawn.model.layer.map_cache.map(|m| m.0),
            drawn.noise,
            drawn.model.nand.dies,
            drawn.model.capacity.0 >> 20,
            drawn.model.layer.lookup_ns / 1000,
            (drawn.model.bus.command_ns + drawn.model.nand.read_ns) / 1000,
            truth >> 10,
            outcome.erase_unit.map(|u| u >> 10),
            wu >> 10,
            outcome.write_unit.map(|u| u >> 10),
            outcome.probed.reads,
            outcome.probed.findings.erase_unit.reason,
        );
    }
    println!(
        "shown {shown} answered {answered} right {right} hidden wrong {hidden_wrong}; W answered {w_answered} right {w_right}"
    );
    let mut wrong = 0;
    for latency in campaign::LATENCIES {
        for seed in from..to {
            let bytes = (256 << 20) << (seed % 7);
            let probed = campaign::probe_plain(latency, bytes, seed);
            let f = &probed.findings;
            for (n, x) in [("E", &f.erase_unit), ("W", &f.write_unit), ("P", &f.page)] {
                if x.value.is_some() {
                    wrong += 1;
                    println!("PLAIN {latency:?} {seed} {n} {:?} {:?}", x.value, x.reason);
                }
            }
        }
    }
    println!("plain wrong {wrong} of {}", (to - from) * 8);
}

#[test]
#[ignore = "a campaign"]
fn look_at() {
    let seed: u64 = std::env::var("SEED").unwrap().parse().unwrap();
    let drawn = cards::draw(seed);
    println!("{}", drawn.toml);
    let outcome = campaign::probe_drawn(&drawn, seed);
    let mut by: std::collections::BTreeMap<(u64, u32), Vec<u64>> = Default::default();
    for s in &outcome.probed.evidence.samples {
        let c = s.offset + u64::from(s.length_bytes) / 2;
        let odd = if c % 3 == 0 { 3 } else { 1 };
        by.entry((odd, c.trailing_zeros())).or_default().push(s.elapsed_ns / 1000);
    }
    for ((odd, k), mut v) in by {
        v.sort();
        println!(
            "{odd} x 2^{k} ({} KiB): {} {:?}",
            (odd << k) >> 10,
            v.len(),
            &v[..v.len().min(40)]
        );
    }
    println!(
        "{:#?} {:#?} {:?}",
        outcome.probed.findings.erase_unit,
        outcome.probed.findings.write_unit,
        outcome.probed.notes
    );
}
