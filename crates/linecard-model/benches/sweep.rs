//! How fast designs are tried: with firmware that cuts real messages, and by the solver.
//!
//!     taskset -c 1 cargo bench -p linecard --bench sweep
//!     cargo bench -p linecard --bench sweep -- --smoke         # tiny; prints a hash
//!
//! The median of the rounds and the best are shown; the rounds of all rows take turns.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use linecard_model::rv32::Timing;
use linecard_model::solve::{Firmware, Phase, SolveInput, Traffic};
use linecard_model::transmit::{Design, Kind, Message, Transmit, firmware};
use linecard_model::{Clock, Ps};
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// The counted units, and their rate per second: in two units.
struct Row {
    name: &'static str,
    run: fn(u64) -> Result<Work>,
    units: [&'static str; 2],
}

/// The work done.
struct Work {
    count: [u64; 2],
    hash: u64,
}

fn mhz(mhz: u64) -> Result<Clock> {
    Ok(Clock::new(mhz * 1_000_000, Ps::ZERO)?)
}

/// Messages of 64 KB through one design: what a long run costs.
fn long_run(size: u64) -> Result<Work> {
    let design = Design::published(mhz(148)?, mhz(2_115)?);
    let message = Message::new(firmware::example_message(false, 65_000), Ps::ZERO)?;
    let messages = (0..20 * size).map(|_| message.clone());
    let outcome = Transmit::new(&design, &firmware::approach_2())?.run(messages, |_| ())?;
    let cycles = outcome.cycles[0];
    let cycles = cycles.busy + cycles.stalled + cycles.bubbles + cycles.asleep;
    Ok(Work { count: [cycles, outcome.packets()], hash: outcome.hash })
}

/// A design for each point, and 45 packets through it.
fn firmware_points(size: u64) -> Result<Work> {
    let message = Message::new(firmware::example_message(false, 65_000), Ps::ZERO)?;
    let mut hash = 0;
    for point in 0..10 * size {
        let design = Design::published(mhz(100 + point % 400)?, mhz(2_115)?);
        let mut transmit = Transmit::new(&design, &firmware::approach_2())?;
        hash ^= transmit.run([message.clone()], |_| ())?.hash;
    }
    Ok(Work { count: [10 * size, 450 * size], hash })
}

/// The smallest core clock at each point.
fn solver_points(size: u64) -> Result<Work> {
    let firmware = Firmware::measure(&firmware::approach_2(), Timing::default())?;
    let mut hash = 0_u64;
    for point in 0..10 * size {
        let mtu = 576 + (point * 97 % 8_000) as u16;
        let question = SolveInput {
            design: Design { mtu, ..Design::published(mhz(1)?, mhz(2_115)?) },
            firmware,
            traffic: Traffic::uniform(Kind::Tcp, mtu, 7),
            bits_per_second: 1_000_000_000 * (1 + point % 100),
            phase: Phase::Typical,
        };
        hash = hash.rotate_left(1) ^ question.core_clock()?.smallest_hz;
    }
    Ok(Work { count: [10 * size, 10 * size], hash })
}

const ROWS: [Row; 3] = [
    Row { name: "sending 64 KB messages", run: long_run, units: ["core cycles", "packets"] },
    Row { name: "firmware at a point", run: firmware_points, units: ["points", "packets"] },
    Row { name: "solver at a point", run: solver_points, units: ["points", "points"] },
];

fn main() -> Result<()> {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    if smoke {
        let mut hash = 0_u64;
        for row in &ROWS {
            hash = hash.rotate_left(1) ^ (row.run)(1)?.hash;
        }
        println!("hash {hash:016x}");
        return Ok(());
    }
    let mut results = ROWS.map(|_| Vec::new());
    for _ in 0..9 {
        for (row, results) in ROWS.iter().zip(&mut results) {
            let begun = clock();
            let work = (row.run)(20)?;
            let seconds = begun.elapsed().as_secs_f64();
            results.push(work.count.map(|count| count as f64 / seconds));
        }
    }
    println!("{:25} {:>14} {:>14}", "in a second", "median", "best");
    for (row, results) in ROWS.iter().zip(&mut results) {
        results.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let (median, best) = (results[results.len() / 2], results[results.len() - 1]);
        for (unit, (median, best)) in row.units.iter().zip(median.iter().zip(best)) {
            println!("{:25} {median:14.0} {best:14.0} {unit}", row.name);
        }
    }
    Ok(())
}
