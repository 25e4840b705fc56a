//! Ports under load: the throughput of linecard and of the kernel's own forwarding, and its cost.
//!
//! Real kernel TCP (`iperf3`) goes between two namespaces: through an attachment of each kind of port, merged and as
//! packets come, and through a third namespace's router, the kernel, with GRO and without. All of them take turns,
//! round by round, so that other load on the machine affects all alike; the medians are printed, with CPU seconds for
//! each GB moved.
//!
//! `cargo bench -p linecard-io --bench ports [-- --rounds N --seconds N --only WORD]`, as root; with `--smoke`, two
//! rows run once for a second. Needs `ip`, `ethtool` and `iperf3`; without them or without privileges it says so and
//! ends with success. With `pasta` (package passt) there is a row of that, too.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod iperf;
mod machine;
mod session;
mod table;

use iperf::Direction;
use session::{Session, Way};
use std::error::Error;
use std::process::ExitCode;
use table::Row;

/// Errors are printed with their reasons.
type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Directions and numbers of connections of `iperf3` on each way.
const LOADS: [(Direction, u32); 4] =
    [(Direction::In, 1), (Direction::In, 8), (Direction::Out, 1), (Direction::Out, 8)];

/// The parameters of the benchmark.
struct Plan {
    ways: Vec<Way>,
    loads: Vec<(Direction, u32)>,
    rounds: usize,
    seconds: u64,
}

impl Plan {
    fn of(arguments: &[String]) -> Self {
        let after = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1)
        };
        let number = |name: &str| after(name).and_then(|value| value.parse().ok());
        let only = after("--only").map_or("", String::as_str);
        let has = |name: &str| arguments.iter().any(|argument| argument == name);
        if !has("--bench") || has("--smoke") {
            let ways = vec![Way::KERNEL_GRO, Way::XDP];
            return Self { ways, loads: vec![LOADS[0]], rounds: 1, seconds: 1 };
        }
        let ways = Way::all().filter(|way| way.to_string().contains(only)).collect();
        // `iperf3` takes 0 seconds as no limit.
        let seconds = number("--seconds").unwrap_or(2).clamp(1, 60);
        let rounds = number("--rounds").unwrap_or(5).clamp(1, 1_000) as usize;
        Self { ways, loads: LOADS.to_vec(), rounds, seconds }
    }

    /// A row for each way and load.
    fn rows(&self) -> Vec<Row> {
        let of_way = |way: &Way| self.loads.iter().map(|load| Row::new(*way, *load)).collect();
        let rows: Vec<Vec<Row>> = self.ways.iter().map(of_way).collect();
        rows.into_iter().flatten().collect()
    }

    fn run(&self) -> Result<()> {
        let mut rows = self.rows();
        for round in 1..=self.rounds {
            for (way, rows) in self.ways.iter().zip(rows.chunks_mut(self.loads.len())) {
                let session = Session::start(*way).map_err(|error| format!("{way}: {error}"))?;
                for row in rows {
                    let result = session.measure(row.load, self.seconds);
                    row.add(result.map_err(|error| format!("{way}: {error}"))?);
                }
                session.finish()?;
                eprintln!("round {round} of {}: {way}", self.rounds);
            }
        }
        println!("{}", machine::conditions());
        println!(
            "Medians of {} rounds of {} s; MTU 1500, the peer without offloads.",
            self.rounds, self.seconds
        );
        table::print(&rows);
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(reason) = machine::missing() {
        linecard_testkit::skip("the benchmark of ports", reason);
        return ExitCode::SUCCESS;
    }
    match Plan::of(&arguments).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the benchmark of ports failed: {error}");
            ExitCode::FAILURE
        }
    }
}
