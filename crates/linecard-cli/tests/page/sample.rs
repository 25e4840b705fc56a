//! A page with everything that a page can have, of data like those of a jitter report.

use linecard::rng::Rng;
use linecard_report::{
    Axis, Effects, Finding, Histograms, Ledger, Page, Report, Section, Spread, Table, TimeSeries,
    Unit, Value, Verdict, Verdicts,
};

/// Packets of the series.
const PACKETS: usize = 200_000;
const PERIOD_NS: f64 = 7_412.349;

/// All kinds of parts.
pub(crate) fn page() -> Page {
    let gaps = gaps();
    let mut page = Page::new("Jitter of a stream of 7.41 µs");
    page.headline(
        "4 of 200,000 packets were late by more than a period, 3 of them by the timer interrupt.",
    );
    page.heading("Verdicts").verdicts(verdicts());
    page.heading("Over time").chart(series(&gaps));
    page.heading("Distributions").chart(histograms(&gaps)).chart(spread());
    page.heading("Causes").chart(ledger()).chart(effects()).table(table());
    page.heading("Experiments").table(wide_table());
    page.heading("Run").summary(&report()).note("Nothing was changed on this host.");
    page
}

/// Mostly the period, some noise, and rare spikes.
fn gaps() -> Vec<f64> {
    let mut rng = Rng::new(1);
    let gap = |_| match rng.below(40_000) {
        0 => 15_020.0 + rng.below(4_000) as f64,
        1..40 => PERIOD_NS + rng.below(2_500) as f64,
        _ => PERIOD_NS + rng.below(300) as f64 - 150.0,
    };
    (0..PACKETS).map(gap).collect()
}

fn series(gaps: &[f64]) -> TimeSeries {
    let at = |index: usize| index as f64 * PERIOD_NS / 1e9;
    let mut late = 0.0_f64;
    let lateness = |(index, gap): (usize, &f64)| {
        late = (late + gap - PERIOD_NS).max(-500.0) * 0.9;
        (at(index), late)
    };
    let lateness: Vec<(f64, f64)> = gaps.iter().enumerate().map(lateness).step_by(50).collect();
    let mut series = TimeSeries::new("gaps", "Gaps between packets, and how late they were");
    series.x(Axis::new("time", Unit::Seconds)).y(Axis::new("time between packets", Unit::Ns));
    series.dots(
        "gap at the application",
        gaps.iter().enumerate().map(|(n, gap)| (at(n), *gap)).collect(),
    );
    series.line("lateness", lateness);
    series.caption("A gap of two periods is one packet late.");
    series
}

fn histograms(gaps: &[f64]) -> Histograms {
    let mut histograms = Histograms::new("gap_by_stage", "Gaps by stage", "packets");
    histograms.x(Axis::new("gap", Unit::Ns).log());
    let wire: Vec<f64> = gaps.iter().map(|gap| PERIOD_NS + (gap - PERIOD_NS) * 0.2).collect();
    histograms.compare([("wire", &wire[..]), ("application", gaps)], 80);
    histograms
}

fn spread() -> Spread {
    let mut spread =
        Spread::new("spread", "Gap from the wire to the application", Axis::new("gap", Unit::Ns));
    let quantiles =
        |widest: f64| [-1.0, 0.0, 1.0, 3.0, 6.0].map(|step| Some(PERIOD_NS + step * widest));
    spread.stage("wire", 200_000, quantiles(80.0));
    spread.stage("interrupt", 200_000, quantiles(200.0));
    spread.stage("softirq NET_RX", 200_000, quantiles(500.0));
    let mut few = quantiles(1_100.0);
    few[3] = None;
    spread.stage(
        "application of a name that is far too long for the place that it has here",
        900,
        few,
    );
    spread
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::new("ledger", "What made packets late", Axis::new("excess", Unit::Ns));
    ledger.cause("timer interrupt", 23_800.0, 3).cause("softirq: RCU", 4_100.0, 2);
    ledger.cause("thread kworker/0:1-events", 900.0, 1).cause("interrupt of eth0", 0.0, 0);
    ledger.rest("no kernel event: hypervisor or SMI", 3_300.0);
    ledger
}

fn effects() -> Effects {
    let axis = Axis::new("change of the p99.9 gap", Unit::Ns);
    let mut effects = Effects::new("effects", "What a change changes", axis, 0.95);
    effects.effect("idle states off", -3_200.0, [-4_100.0, -2_300.0], 0.002);
    effects.effect("interrupts on another core", 400.0, [-300.0, 1_100.0], 0.41);
    effects.effect("busy polling", -900.0, [-1_500.0, -250.0], 0.03);
    effects
}

fn verdicts() -> Verdicts {
    let mut verdicts = Verdicts::new("verdicts", "Gates and verdicts");
    for (key, name, outcome, ns, why) in [
        (
            "generator",
            "lateness of the generator, p99",
            Finding::Pass,
            610.0,
            "The load is good enough.",
        ),
        (
            "loss",
            "records lost by the trace",
            Finding::Withheld,
            3.0,
            "Causes are not certain: trace fewer events.",
        ),
        ("gap", "largest gap", Finding::Fail, 19_020.0, "A spike of two periods and more."),
    ] {
        verdicts.push(Verdict {
            key,
            name: name.to_owned(),
            outcome,
            measured: Some(Value::Ns(ns)),
            limit: "at most 15 µs".to_owned(),
            why: why.to_owned(),
        });
    }
    verdicts
}

/// More columns than the column of text has room for, two of them sentences.
fn wide_table() -> Table {
    let columns: [(&str, &str); 8] = [
        ("experiment", "experiment"),
        ("what", "what"),
        ("deviation", "deviation of gaps"),
        ("gap", "gap, 99.9 %"),
        ("most", "gap, most"),
        ("beyond", "beyond two periods"),
        ("paper", "the paper"),
        ("here", "here"),
    ];
    let mut table = Table::new("experiments", "Experiments");
    table.columns(columns);
    let text = |text: &str| Value::Text(text.to_owned());
    table.row(vec![
        text("E5"),
        text("interrupts between cores"),
        Value::Ns(9_860.0),
        Value::Ns(51_160.0),
        Value::Ns(87_250.0),
        Value::Count(6_542),
        text("slightly more jitter than with interrupts on the core of the application"),
        text("emulated: the sender's core interrupts the sink's for each packet (RPS)"),
    ]);
    table
}

fn table() -> Table {
    let mut table = Table::new("spikes", "Spikes, the longest first");
    table.columns([("at", "at"), ("gap", "gap"), ("cause", "cause")]);
    for n in 0..5 {
        table.row(vec![
            Value::Seconds(0.1 * f64::from(n)),
            Value::Ns(19_000.0 - 500.0 * f64::from(n)),
            Value::Text("timer interrupt".to_owned()),
        ]);
    }
    table
}

fn report() -> Report {
    let mut report = Report::new("jitter");
    let mut section = Section::new("stream", "Stream");
    section.add("packets", "packets", Value::Count(PACKETS as u64));
    section.add("period_ns", "period", Value::Ns(PERIOD_NS));
    section.add("is_pinned", "pinned", Value::Flag(true));
    report.push(section);
    let mut section = Section::new("lost", "Lost");
    section.add_reason("ring_full", "the ring of the interface was full", 12);
    section.add_reason("no_buffer", "no buffer was free", 7);
    report.push(section);
    report.note("Times are of the monotonic clock.");
    report
}

/// A possible name.
const EVIL: &str = "</script></style></title><script>window.evil=1</script><b class=evil>\
                    <img src=x onerror='window.evil=1'>\" onload=\"window.evil=1";

/// Every kind of chart with untrusted names.
pub(crate) fn evil() -> Page {
    let axis = || Axis::new(EVIL, Unit::Ns);
    let mut series = TimeSeries::new("series", EVIL);
    series
        .x(axis())
        .y(axis())
        .dots(EVIL, (0..500).map(|n| (f64::from(n), f64::from(n % 7))).collect());
    let mut histograms = Histograms::new("histograms", EVIL, EVIL);
    histograms.x(axis()).values(EVIL, &[1.0, 2.0, 2.0, 5.0], 4);
    let mut spread = Spread::new("spread", EVIL, axis());
    spread.stage(EVIL, 3, [1.0, 2.0, 3.0, 4.0, 5.0].map(Some));
    let mut ledger = Ledger::new("ledger", EVIL, axis());
    ledger.cause(EVIL, 1.0, 2).rest(EVIL, 2.0);
    let mut effects = Effects::new("effects", EVIL, axis(), 0.95);
    effects.effect(EVIL, 1.0, [0.5, 2.0], 0.1);
    let mut table = Table::new("table", EVIL);
    table.columns([("a", EVIL)]).row(vec![Value::Text(EVIL.to_owned())]);
    let mut page = Page::new(EVIL);
    page.headline(EVIL).heading(EVIL).note(EVIL).chart(series).chart(histograms).chart(spread);
    page.chart(ledger).chart(effects).table(table);
    page
}

/// Charts of [`little`] that the script draws, or has nothing to draw in.
pub(crate) const LITTLE: usize = 8;

/// Nothing, one point, equal values, huge ones.
pub(crate) fn little() -> Page {
    let mut page = Page::new("Little");
    let axis = |is_log| {
        let axis = Axis::new("gap", Unit::Ns);
        if is_log { axis.log() } else { axis }
    };
    for is_log in [false, true] {
        for points in
            [vec![], vec![(1.0, 7.0)], vec![(1.0, 7.0); 100], vec![(-1e9, 1e-9), (1e6, 1e12)]]
        {
            let mut series = TimeSeries::new("little", "Little");
            page.chart(
                series.y(axis(is_log)).dots("few", points.clone()).line("as few", points).clone(),
            );
        }
        page.chart(Spread::new("none", "None", axis(is_log)));
        let mut same = Spread::new("same", "All the same", axis(is_log));
        page.chart(same.stage("a", 1, [Some(5.0); 5]).stage("none", 0, [None; 5]).clone());
        page.chart(Ledger::new("none", "None", axis(is_log)).cause("nothing", 0.0, 0).clone());
        page.chart(
            Effects::new("none", "None", axis(is_log), 0.95)
                .effect("none", 0.0, [0.0; 2], None)
                .clone(),
        );
    }
    page
}
