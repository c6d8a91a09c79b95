//! scratch
use flashfit_geometry::flashbench::*;
use flashfit_geometry::probed::Unwatched;
use flashfit_medium::random::Random;
use flashfit_twin::{predict::predict, search::*, target::Target};
fn main() {
    for f in std::env::args().skip(1) {
        let i = Imported::read(&std::fs::read(&f).unwrap()).unwrap();
        let t = Target::of(&i.open_units).unwrap();
        let mut known = Known::default();
        let n = f.rsplit('/').next().unwrap().to_owned();
        for split in 0..3u64 {
            let a = std::time::Instant::now();
            let mut order: Vec<usize> = (0..t.cells.len()).collect();
            Random::new(split + 1).shuffle(&mut order);
            let vis: Vec<usize> = order[..order.len() / 2].to_vec();
            let tt = if split == 0 { t.clone() } else { t.with_cells(|x| vis.contains(&x)) };
            let mut w = Unwatched;
            let b = Search::new(&tt, &mut known, &mut w).run().ok().unwrap().unwrap();
            let m = b.structure.model(t.erase_unit, bus_of(&tt), &b.fitted.times);
            let p = predict(&m, &t).unwrap();
            let hidden = if split == 0 { t.clone() } else { t.with_cells(|x| !vis.contains(&x)) };
            let c = Comparison::of(&OpenUnitTable { cells: hidden.cells.clone() }, &p).unwrap();
            println!(
                "{n} {split} {:?} off {:.3} hid med {} p90 {} {:?}",
                a.elapsed(),
                b.fitted.off,
                c.median_error_thousandths,
                c.ninth_decile_error_thousandths,
                b.structure
            );
            if split == 0 {
                println!("   {:?}", b.fitted.times);
                if std::env::var("V").is_ok() {
                    for acc in [Access::Linear, Access::Random] {
                        println!("{acc}");
                        let mut sizes: Vec<_> = t.cells.iter().map(|c| c.write).collect();
                        sizes.sort();
                        sizes.dedup();
                        for s in sizes.iter().rev() {
                            print!("{:>8} ", s.to_string());
                            for u in 1..=t.most_units() {
                                match (
                                    t.cells
                                        .iter()
                                        .find(|c| (c.units, c.access, c.write) == (u, acc, *s)),
                                    p.rate(u, acc, *s),
                                ) {
                                    (Some(c), Some(r)) => print!(
                                        "{:>7.0}/{:<7.0}",
                                        c.bytes_per_second as f64 / 1e3,
                                        r as f64 / 1e3
                                    ),
                                    _ => print!("       -       "),
                                }
                            }
                            println!();
                        }
                    }
                }
            }
        }
    }
}
