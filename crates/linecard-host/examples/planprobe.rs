//! probe
use linecard_host::calibrate::{self, deployed::*, offload::*, *};
use std::time::Duration;
fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(5, |a| a.parse().unwrap());
    let mut survey = Survey::new(Some([0, 1]));
    calibrate::pin(0).unwrap();
    let mut all = Vec::new();
    for stages in [Stages::Segment, Stages::Coalesce, Stages::Both] {
        for packet in PACKETS {
            for batch in [1, 8, 64] {
                for used in [1, 2] {
                    all.push((
                        Deployment {
                            stages,
                            packet,
                            batch,
                            cores: [0, 1],
                            used_cores: used,
                            offered: None,
                            time: Duration::from_millis(30),
                        },
                        Vec::new(),
                    ));
                }
            }
        }
    }
    for _ in 0..rounds {
        survey.round(Duration::from_millis(4)).unwrap();
        for (d, seen) in &mut all {
            let s = run(d).unwrap();
            assert_eq!(s.wrong, 0);
            seen.push((s.packets_per_second, s.windows));
        }
    }
    let c = survey.calibration().unwrap();
    for s in &c.stages {
        println!(
            "{:20} a={:8.1} e={:8.1} res={:.1}% p50 {:.2} p99 {:.2} max {:.1}",
            s.name,
            s.cost.fixed_ns,
            s.cost.each_ns,
            s.residual * 100.0,
            s.cost.spread.quantile(0.5),
            s.cost.spread.quantile(0.99),
            s.cost.spread.quantile(1.0)
        );
    }
    println!("cycle {:.1} crossings {:?}", c.cycle_ns, c.crossings);
    let mut ok = 0;
    for (d, seen) in &all {
        let p = predict(&c, d).unwrap();
        let m = median(seen.iter().map(|s| s.0).collect()).unwrap();
        let diff = (m / p - 1.0) * 100.0;
        if diff.abs() < 10.0 {
            ok += 1;
        }
        println!(
            "{:?} {} b{} c{}: predicted {:.3} Mpps measured {:.3} diff {:+.1}% windows {:?}",
            d.stages,
            d.packet,
            d.batch,
            d.used_cores,
            p / 1e6,
            m / 1e6,
            diff,
            seen[0].1
        );
    }
    println!("{ok} of {}", all.len());
}
