//! Figures 9 and 11, and what the text says about clocks, rates and offsets.

use super::super::Reproduced;
use super::super::comparison::{Comparison, Row, add_all};
use super::clocks::{Clocks, Scan};
use super::{Bench, DMA_HZ, Point, SIZES, protocol};
use crate::Error;
use crate::model::core::DmaClock;
use linecard::packet::header::{self, Ipv4};
use linecard_config::{Bytes, Maybe, Rate};
use linecard_model::Ps;
use linecard_report::{Section, Value};
use std::path::Path;

/// Packet sizes of the curves; the tables' are among them.
const CURVE: [u16; 6] = [256, 512, 768, 1024, 1280, 1500];
const RATE: u64 = 100_000_000_000;
/// What Ethernet needs beside an IP packet: preamble, header, check sequence, gap.
const ETHERNET_BYTES: u64 = 38;
const DMA_OF_PAPER: DmaClock = DmaClock::Hz(DMA_HZ);
const FIVE_TIMES: DmaClock = DmaClock::OfCore(5_000_000);

/// Idle cycles of table 1 itself: 31 of 41.
const IDLE_OF_TABLE_1: f64 = 31.0 / 41.0;
/// Two cycles for each word take 1.42 of the paper's DMA with the largest packets.
const MOST_OF_TWO: f64 = 1.43;
/// A packet of 1500 with what table 3 counts beside it.
const BYTES_OF_TABLE_3: f64 = 1520.0;

/// The curves and the statements.
pub(in super::super) fn clock(path: Option<&Path>) -> Result<Reproduced, Error> {
    let bench = Bench::new(path, "approach-2")?;
    let mut report = bench.report("reproduce lso-clock");
    let mut needed = 0;
    for (dma, key, title) in [
        (FIVE_TIMES, "figure_9", "Figure 9: core clock for 100 Gbit/s, DMA five times as fast"),
        (DMA_OF_PAPER, "figure_11", "Figure 11: core clock for 100 Gbit/s, DMA at 2115 MHz"),
    ] {
        let mut section = Section::list(key, title);
        for (udp, mtu) in [false, true].into_iter().flat_map(|udp| CURVE.map(|mtu| (udp, mtu))) {
            let scan = Scan::run(&bench, Point { udp, mtu, core_hz: DMA_HZ, dma })?;
            let clocks = scan.clocks(RATE)?;
            if mtu >= 512 {
                needed = needed.max(clocks.map_or(u64::MAX, |clocks| clocks.all_above));
            }
            let label = format!("{}, {mtu} bytes", protocol(udp));
            section.add("", label, Value::Text(Clocks::text(clocks)));
        }
        report.push(section);
    }
    let mut clocks = Comparison::new("clocks", "What the text says of clocks");
    let (paper, ours) = ("450 MHz carry 100 Gbit/s", format!("{needed} MHz do"));
    clocks.add(Row::shape("packets of 512 bytes and more", paper, ours, needed <= 450));
    add_named_clocks(&bench, &mut clocks)?;
    add_idle(&bench, &mut clocks)?;
    add_two_cycles(&bench, &mut clocks)?;
    let mut others = Comparison::new("others", "What else it says");
    add_rate(&bench, &mut others)?;
    add_offsets(&bench, &mut others)?;
    let unexplained = add_all(&[clocks, others], &[], &mut report);
    report.note(
        "The figures have no numbers to read off but those in the text; the curves are ours: the clock \
         from which all carry 100 Gbit/s of continuation packets.",
    );
    Ok(Reproduced { report, unexplained })
}

/// Clocks that the text names (section 7).
fn add_named_clocks(bench: &Bench, table: &mut Comparison) -> Result<(), Error> {
    for (mtu, mhz) in [(1500, 148), (1024, 216), (512, 423)] {
        let point = Point { udp: false, mtu, core_hz: mhz * 1_000_000, dma: DMA_OF_PAPER };
        let carries = bench.spacing(point)?.carries(RATE);
        let ours = if carries { "carries 100 Gbit/s" } else { "does not" };
        let what = format!("a core of {mhz} MHz, {mtu} bytes");
        table.add(Row::shape(what, "carries 100 Gbit/s", ours, carries));
    }
    Ok(())
}

/// "Most, if not all, the idle cycles are reduced" (section 4).
fn add_idle(bench: &Bench, table: &mut Comparison) -> Result<(), Error> {
    let point = Point { udp: false, mtu: 1500, core_hz: DMA_HZ / 5, dma: FIVE_TIMES };
    let Some(com) = bench.cells(point)?[2] else { return Ok(()) };
    let ours = format!("{} of {} cycles are idle", com.idle, com.total);
    let row = Row::shape(
        "DMA five times as fast, TCP COM of 1500 bytes",
        "most, if not all, idle cycles are reduced",
        ours,
        2 * com.idle < com.total,
    );
    let share = com.idle as f64 / com.total.max(1) as f64;
    table.add(row.because_measured(
        "table 1 has the same 31 of 41: only with small packets are they few",
        (share, "of the cycles"),
        0.0..=IDLE_OF_TABLE_1,
    ));
    Ok(())
}

/// Two DMA cycles for each word (section 3.3).
fn add_two_cycles(bench: &Bench, table: &mut Comparison) -> Result<(), Error> {
    let mut two = bench.config.clone();
    two.dma.cycles_per_word = 2;
    let refuse = |error| Error::Usage(format!("this hardware cannot be: {error}"));
    let design = two.design(0).map_err(refuse)?;
    let cycles = design.transfer_cycles(0, 1460) as f64;
    table.add(Row::number("DMA cycles for 1460 bytes, two for each word", 366, cycles));
    for mtu in SIZES {
        let point = Point { udp: false, mtu, core_hz: 1_000_000_000, dma: DMA_OF_PAPER };
        let mut settings = bench.sending(point, &[point.payload(24)], 1);
        settings.dma.cycles_per_word = 2;
        let cycles = settings.design(0).map_err(refuse)?.transfer_cycles(0, point.mss());
        let mut starts = Vec::new();
        bench.run(&settings, |sent| starts.push(sent.cell.moved_from))?;
        let packets_per_second =
            RATE as f64 / ((u64::from(mtu) + settings.line.overhead.get()) as f64 * 8.0);
        let load = cycles as f64 * packets_per_second / DMA_HZ as f64;
        // From one transfer to the next, as long as the core is not a limit at 1 GHz.
        let from_to = starts.first().zip(starts.last());
        let spacing = from_to.map_or(0.0, |(from, to)| (*to - *from).as_secs_f64())
            / starts.len().saturating_sub(1).max(1) as f64;
        let holds = spacing * packets_per_second <= 1.0;
        let what = format!("two DMA cycles for each word, {mtu} bytes");
        let ours = format!("100 Gbit/s need {load:.2} of such a DMA");
        let row = Row::shape(what, "2115 MHz are enough", ours, holds);
        table.add(row.because_measured(
            "the text contradicts its tables, which hold with one cycle for a word",
            (load, "of the DMA"),
            1.0..=MOST_OF_TWO,
        ));
    }
    Ok(())
}

/// Packets in a second, measured on a line that is always busy.
fn add_rate(bench: &Bench, table: &mut Comparison) -> Result<(), Error> {
    let point = Point { udp: false, mtu: 1500, core_hz: 423_000_000, dma: DMA_OF_PAPER };
    let mut settings = bench.sending(point, &[point.payload(40)], 1);
    settings.line.rate = Maybe::from(Rate::new(RATE));
    settings.line.overhead = Bytes::new(ETHERNET_BYTES);
    let mut ends = Vec::new();
    bench.run(&settings, |sent| ends.push(sent.to))?;
    let from_to = ends.first().zip(ends.last());
    let time = from_to.map_or(Ps::ZERO, |(from, to)| *to - *from);
    let intervals = ends.len().saturating_sub(1) as f64;
    let each_ns = time.as_secs_f64() / intervals * 1e9;
    table.add(Row::number("time of a packet at 100 Gbit/s", 123, each_ns).unit("ns"));
    let what = "packets in a second, 1500 bytes, 100 Gbit/s";
    let row = Row::number(what, 81_274_382, 1e9 / each_ns);
    // The number with its point, half of its last digit to either side.
    table.add(row.because("its decimal point is lost: 8,127,438.2", 8_127_438.15..=8_127_438.25));
    let row = Row::shape(
        "bytes on the line for a packet of 1500",
        format!("{}", 1500 + ETHERNET_BYTES),
        format!("{} in table 3", 1500 + bench.config.line.overhead.get()),
        bench.config.line.overhead.get() == ETHERNET_BYTES,
    );
    table.add(row.because_measured(
        "packets in a second count Ethernet's header, table 3 does not",
        ((1500 + bench.config.line.overhead.get()) as f64, "bytes"),
        BYTES_OF_TABLE_3..=BYTES_OF_TABLE_3,
    ));
    Ok(())
}

/// Fragment offsets (section 3.1, figure 4).
fn add_offsets(bench: &Bench, table: &mut Comparison) -> Result<(), Error> {
    let point = Point { udp: true, mtu: 1500, core_hz: 423_000_000, dma: DMA_OF_PAPER };
    let settings = bench.sending(point, &[point.payload(5)], 1);
    let mut offsets = Vec::new();
    bench.run(&settings, |sent| {
        // 13 bits beside the flags, in units of 8 bytes (RFC 791, section 3.1).
        let field = header::at::<Ipv4>(&sent.bytes, 0).flags_fragment;
        offsets.push(f64::from(field & 0x1FFF));
    })?;
    let reason =
        "RFC 791 counts the UDP header with the first fragment's payload, the paper does not";
    for (what, paper, at) in
        [("offset of the second fragment", 184, 1), ("offset of the fifth fragment", 736, 4)]
    {
        let ours = offsets.get(at).copied().unwrap_or(0.0);
        // The 8 bytes of the header in each fragment before: one unit of the offset.
        let with_header = f64::from(paper) + at as f64;
        table.add(Row::number(what, paper, ours).because(reason, with_header..=with_header));
    }
    Ok(())
}
