//! Figures 8 and 9: a frame over the bus and through the server; and what the paper suggests.

use super::scenario::Bus;
use super::{FITTED, run};
use crate::failure::Failure;
use crate::reproduce::Reproduced;
use crate::reproduce::comparison::{Comparison, Row, add_all};
use linecard_config::Switch;
use linecard_model::pci::{Adapter, Config, Outcome, Protocol, Server};
use linecard_report::{Report, Section, Value};
use std::ops::RangeInclusive;
use std::path::Path;

/// The paper counts 30 ns to a clock.
const CLOCK_US: f64 = 0.03;
/// Data of a full frame.
const FRAME_BITS: f64 = 1_460.0 * 8.0;
/// A full frame on a client's link of 100 Mbit/s, with preamble and gap: 1,538 bytes.
const LINK_FRAME_US: f64 = 123.04;
/// From frame to frame in the paper's trace at 400 MHz.
const PAPER_FRAME_US: f64 = 19.5;
/// Clients of the scenario at 700 MHz, of which the reason there is about.
const FULL_CLIENTS: u32 = 8;

/// Runs the scenario, paper and ours side by side.
pub(in super::super) fn reproduce(path: Option<&Path>) -> Result<Reproduced, Failure> {
    let scenario = Bus::read(path)?;
    let (slow, middle, fast) = (run(&scenario.slow)?, run(&scenario.middle)?, run(&scenario.fast)?);
    let mut report = Report::new("reproduce");
    let tables = [
        figure_8(scenario.slow.load.clients, &slow),
        bursts(scenario.fast.load.clients, &slow, &middle, &fast),
        figure_9(&scenario.fast, &fast),
        suggestions(&scenario, &slow, &fast)?,
    ];
    let unexplained = add_all(&tables, &mut report);
    report.push(servers(&[
        (&scenario.slow, &slow),
        (&scenario.middle, &middle),
        (&scenario.fast, &fast),
    ]));
    report.note(FITTED);
    Ok(Reproduced { report, unexplained })
}

/// Frames in a burst that sessions in groups explain: a tenth of the paper's 210 to either side. The
/// limits of the other reasons are a few per cent beyond what the scenario gives.
const GROUPED: RangeInclusive<f64> = 189.0..=231.0;

/// Microseconds of some clocks a frame.
fn micros(outcome: &Outcome, clocks: u64) -> f64 {
    outcome.per_transfer(clocks) * CLOCK_US
}

/// What the paper draws of a frame: all but the tail.
fn drawn(outcome: &Outcome) -> f64 {
    micros(outcome, outcome.bus.clocks() - outcome.bus.tail)
}

/// A row that differs because the clients' links bring frames more slowly than they came in the paper. Where
/// there are so many clients that they do not, that is no reason.
fn as_frames_are_slower(row: Row, clients: u32, limit: RangeInclusive<f64>) -> Row {
    let each_us = LINK_FRAME_US / f64::from(clients);
    if each_us <= PAPER_FRAME_US {
        return row;
    }
    let reason = format!(
        "the links of {clients} clients bring a frame each {each_us:.1} µs; the paper's frames came each \
         {PAPER_FRAME_US}"
    );
    row.because(reason, limit)
}

fn figure_8(clients: u32, slow: &Outcome) -> Comparison {
    const GROUPS: &str = "the seed let the sessions fall into groups that are answered apart";
    let mut table = Comparison::new("figure_8", "Figure 8: a frame over the bus at 400 MHz");
    let clocks =
        |what, paper: i32, sum| Row::number(what, paper, slow.per_transfer(sum)).unit("clocks");
    // Frames at the end of a file are shorter: 1 of 69, by half.
    table.add(clocks("header", 7, slow.bus.header));
    table.add(clocks("47 cache lines", 188, slow.bus.data).within(1.0));
    table.add(clocks("wait states", 100, slow.bus.waits).within(2.0));
    table.add(clocks("last 14 bytes", 8, slow.bus.tail));
    table.add(clocks("status", 17, slow.bus.status));
    let refill = Row::number("FIFO refill", 330, slow.refill_clocks()).unit("clocks");
    table.add(as_frames_are_slower(refill.within(1.0), clients, 330.0..=350.0));
    let frame = drawn(slow) + slow.refill_clocks() * CLOCK_US;
    let row = Row::number("a frame with its refill", (19.4, 1), frame).unit("µs");
    table.add(as_frames_are_slower(row.within(1.0), clients, 19.4..=19.9));
    let pauses = slow.pauses.max(1) as f64;
    let burst = slow.transfers as f64 / pauses;
    table.add(Row::number("frames in a burst", 210, burst).within(5.0).because(GROUPS, GROUPED));
    let cycle = slow.duration.as_secs_f64() * 1e3 / pauses;
    let row = Row::number("from burst to burst", (4.9, 1), cycle).unit("ms").within(3.0);
    table.add(row.because(GROUPS, 4.5..=5.3));
    let pause = slow.pause_clocks as f64 / pauses * CLOCK_US / 1e3;
    let row = Row::number("pause between bursts", (0.8, 1), pause).unit("ms");
    // In the same cycle, slower frames leave a shorter pause.
    table.add(as_frames_are_slower(row, clients, 0.6..=0.8));
    table.add(Row::number("throughput", 500, slow.mbps()).unit("Mbit/s").within(1.0));
    let computed = 210.0 * FRAME_BITS / 4.9e-3 / 1e6;
    table.add(Row::number("210 frames in 4.9 ms", 500, computed).unit("Mbit/s").within(1.0));
    table
}

fn bursts(clients: u32, slow: &Outcome, middle: &Outcome, fast: &Outcome) -> Comparison {
    let mut table = Comparison::new("bursts", "Frames handled before what they left is done");
    let row = |what, paper: i32, outcome: &Outcome| {
        Row::number(what, paper, outcome.burst_frames()).unit("frames")
    };
    let row_400 = row("400 MHz", 210, slow).within(5.0);
    table.add(row_400.because("sessions fell into groups, as above", GROUPED));
    table.add(row("550 MHz", 6, middle).within(10.0).because(
        "2 to 6 by how the clients' frames fall, which the seed draws; with seven clients bursts are long",
        2.0..=6.0,
    ));
    let row_700 = row("700 MHz", 1, fast);
    table.add(match clients {
        FULL_CLIENTS => row_700.because(
            "the frames of eight clients come by chance, some together, and leave hardly any time to spare",
            1.0..=13.0,
        ),
        _ => row_700,
    });
    let stalls = |outcome: &Outcome| {
        outcome.pause_clocks as f64 * CLOCK_US / 1e6 / outcome.duration.as_secs_f64()
    };
    table.add(Row::shape(
        "pauses of the bus, 100 µs and more",
        "at 400 MHz, not at 550 and 700",
        format!(
            "{:.1} %, {:.1} % and {:.1} % of the time",
            stalls(slow) * 100.0,
            stalls(middle) * 100.0,
            stalls(fast) * 100.0
        ),
        stalls(slow) > 0.1 && stalls(middle) < 0.01 && stalls(fast) < 0.01,
    ));
    table
}

fn figure_9(config: &Config, fast: &Outcome) -> Comparison {
    let mut table = Comparison::new("figure_9", "Figure 9: a frame over the bus at 700 MHz");
    let part =
        |what, paper: (f64, usize), sum| Row::number(what, paper, micros(fast, sum)).unit("µs");
    table.add(part("header", (0.21, 2), fast.bus.header));
    let data = part("data", (5.7, 1), fast.bus.data);
    table.add(data.within(2.0));
    table.add(part("wait states", (3.0, 0), fast.bus.waits));
    table.add(part("status", (0.5, 1), fast.bus.status));
    let until_threshold = f64::from(config.adapter.threshold) * 0.008;
    let row =
        Row::number("a frame with its refill", (11.4, 1), drawn(fast) + until_threshold).unit("µs");
    table.add(row.within(1.0).because(
        "the paper gives 2 of the 6 µs between frames to the refill, which the bus does not show; \
         up to the threshold it takes longer",
        11.4..=12.8,
    ));
    let between = micros(fast, fast.idle_clocks + fast.bus.tail + fast.requeue_clocks);
    let row = Row::number("between frames", (6.0, 1), between).unit("µs").within(3.0);
    table.add(row.because("frames come each 15.5 µs instead of 15.4", 6.0..=6.3));
    let frame = fast.duration.as_secs_f64() * 1e6 / fast.transfers.max(1) as f64;
    table.add(Row::number("from frame to frame", (15.4, 1), frame).unit("µs").within(1.0));
    table.add(Row::number("throughput", 754, fast.mbps()).unit("Mbit/s").within(1.0));
    let computed = FRAME_BITS / 15.4;
    table.add(Row::number("1460 bytes in 15.4 µs", (758.4, 1), computed).unit("Mbit/s"));
    table
}

/// The paper's "Possibilities for Increasing Throughput", tried.
fn suggestions(scenario: &Bus, slow: &Outcome, fast: &Outcome) -> Result<Comparison, Failure> {
    let mut table = Comparison::new("suggestions", "What the paper suggests, tried");
    let adapter = Adapter { threshold: scenario.high_threshold, ..scenario.fast.adapter };
    let high = run(&Config { adapter, ..scenario.fast.clone() })?;
    let busy = |outcome: &Outcome| outcome.per_transfer(outcome.bus.clocks());
    table.add(Row::shape(
        "a threshold near the frame",
        "no wait states, same throughput",
        format!(
            "{:.0} to {:.0} clocks a frame, {:.0} to {:.0} Mbit/s",
            busy(fast),
            busy(&high),
            fast.mbps(),
            high.mbps()
        ),
        high.bus.waits == 0 && (high.mbps() / fast.mbps() - 1.0).abs() < 0.01,
    ));
    let adapter = Adapter { one_write: Switch::ON, ..scenario.fast.adapter };
    let one = run(&Config { adapter, ..scenario.fast.clone() })?;
    let requeue = |outcome: &Outcome| outcome.per_transfer(outcome.requeue_clocks);
    table.add(Row::shape(
        "one write for all buffers",
        "one step further",
        format!("{:.1} to {:.1} clocks a frame", requeue(fast), requeue(&one)),
        requeue(&one) < requeue(fast),
    ));
    let slow_with = |server: Server| run(&Config { server, ..scenario.slow.clone() });
    let server = scenario.slow.server;
    let text = |outcome: &Outcome| format!("{:.0} to {:.0} Mbit/s", slow.mbps(), outcome.mbps());
    let no_copy = slow_with(Server { copies: Switch::OFF, ..server })?;
    let faster = |outcome: &Outcome| outcome.mbps() > slow.mbps() * 1.05;
    table.add(Row::shape(
        "no copy, 400 MHz",
        "saves significant time",
        text(&no_copy),
        faster(&no_copy),
    ));
    let parallel = slow_with(Server { protocol: Protocol::Parallel, ..server })?;
    table.add(
        Row::shape(
            "stages in parallel, 400 MHz",
            "dramatic results, if they were equal",
            text(&parallel),
            faster(&parallel),
        )
        .because_measured(
            "the stages are not equal: the handler takes most of the time",
            (parallel.mbps() / slow.mbps(), "of the throughput"),
            0.98..=1.05,
        ),
    );
    let in_handler = slow_with(Server { protocol: Protocol::InHandler, ..server })?;
    table.add(Row::shape(
        "all in the handler, 400 MHz",
        "falls behind more, application in parallel",
        text(&in_handler),
        in_handler.mbps() > slow.mbps() * 0.98,
    ));
    Ok(table)
}

fn servers(runs: &[(&Config, &Outcome)]) -> Section {
    let mut section = Section::list("servers", "Ours");
    for (config, outcome) in runs {
        let each =
            |time: linecard_model::Ps| time.as_secs_f64() * 1e6 / outcome.handled.max(1) as f64;
        let (handler, protocol) = (each(outcome.handler_time), each(outcome.protocol_time));
        let text = format!(
            "{:.1} Mbit/s; a frame takes the handler {handler:.2} µs, the protocol {protocol:.2} µs; the \
             handler takes {:.1} frames without a break",
            outcome.mbps(),
            outcome.run_frames()
        );
        let fields = vec![
            ("mhz", Value::Count(config.server.mhz.into())),
            ("mbps", Value::Number(outcome.mbps())),
            ("handler_us", Value::Number(handler)),
            ("protocol_us", Value::Number(protocol)),
            ("burst_frames", Value::Number(outcome.burst_frames())),
            ("run_frames", Value::Number(outcome.run_frames())),
            ("received", Value::Count(outcome.frames.received)),
            ("delivered", Value::Count(outcome.frames.delivered)),
            ("dropped", Value::Count(outcome.frames.dropped)),
            ("held", Value::Count(outcome.frames.held)),
        ];
        let label = format!(
            "{} MHz, {} clients, {} sessions each",
            config.server.mhz, config.load.clients, config.load.sessions
        );
        section.add("", label, Value::Fields(text, fields));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::comparison::Verdict;

    /// The reason named six clients, however many the scenario had.
    #[test]
    fn a_reason_is_about_the_clients_of_the_scenario() {
        let row = |clients, ours| {
            let row = Row::number("FIFO refill", 330, ours).unit("clocks").within(1.0);
            as_frames_are_slower(row, clients, 330.0..=350.0)
        };
        assert_eq!(row(6, 345.0).verdict(), Verdict::Explained);
        // Eight bring a frame each 15.4 µs: sooner than in the paper.
        assert_eq!(row(8, 345.0).verdict(), Verdict::Unexplained);
    }
}
