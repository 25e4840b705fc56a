//! `linecard model run`.

use super::capture::CaptureWriter;
use super::figures::{ClassFigures, Figures, simulate};
use super::key::Kind;
use super::scenario::{File, Scenario};
use super::settings::Settings;
use super::{ScenarioArguments, annotate, firmware, kinds};
use crate::failure::{EXIT_CODES, Failure};
use crate::found;
use crate::page::PageArguments;
use crate::units;
use crate::watch;
use clap::Args;
use linecard_app::Finished;
use linecard_model::transmit::{BusPolicy, Sent};
use linecard_report::{Axis, Ledger, Page, Report, Section, Unit, Value};
use std::path::PathBuf;

/// Phases that are tried if nothing is said.
const PHASES: u64 = 8;
/// More phases show nothing new.
const MAX_PHASES: u64 = 1_000;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_help = EXIT_CODES, after_long_help = kinds::help())]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(super) scenario: ScenarioArguments,
    /// Of "transmit" only: phases of the DMA's clock to try, evenly over its period, 1 to 1000. The
    /// first is the scenario's own, which all other figures are of [default: 8].
    #[arg(long, value_name = "N", value_parser = units::count)]
    phases: Option<u64>,
    /// Of "transmit" only: write the packets that left, with their virtual times, to a capture of raw IP packets. Names
    /// ending in .pcap give pcap, all others pcapng; - is stdout.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Of "transmit" only: show for each line of the firmware's source how many cycles it was busy, waited, and lost behind
    /// branches.
    #[arg(long)]
    annotate: bool,
    #[command(flatten)]
    page: PageArguments,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &RunArguments) -> Result<(), Failure> {
    let output = arguments.output();
    let others = [Some(arguments.scenario.scenario.as_path()), output.as_deref()];
    let page = arguments.page.check(&others.into_iter().flatten().collect::<Vec<_>>())?;
    found::show(find(arguments)?, arguments.json, output.as_deref(), &page)
}

impl RunArguments {
    fn output(&self) -> Option<PathBuf> {
        self.capture.as_deref().map(|path| units::output(path.into()))
    }
}

/// Runs a scenario of any kind.
pub(crate) fn find(arguments: &RunArguments) -> Result<Finished, Failure> {
    let phases = arguments.phases.unwrap_or(PHASES);
    if !(1..=MAX_PHASES).contains(&phases) {
        return Err(Failure::Usage(format!("--phases {phases}: choose 1 to {MAX_PHASES}")));
    }
    let ScenarioArguments { scenario, sets } = &arguments.scenario;
    let file = File::read(scenario)?;
    if file.kind() != Settings::NAME {
        return other_kind(file, arguments);
    }
    let scenario = file.scenario(sets)?;
    let runs = all_phases(&scenario, phases, arguments.output().as_deref())?;
    let mut report = report(&scenario.settings, &runs);
    if arguments.annotate {
        report.push(annotate::section(&scenario)?);
    }
    let mut found = Finished::of_report("A network interface in virtual time", report);
    if let Some(first) = runs.first() {
        charts(&mut found.page, first);
        found.failure = ending(first).err();
    }
    Ok(found)
}

/// Where the cores' cycles go.
fn charts(page: &mut Page, figures: &Figures) {
    let ns = figures.seconds() * 1e9;
    let [busy, stalled, bubbles] = figures.core_shares();
    let mut time =
        Ledger::new("core_time", "Where the time of a core goes", Axis::new("time", Unit::Ns));
    time.whole(ns).cause("instructions", busy * ns, None);
    time.cause("waiting for bus, DMA or line", stalled * ns, None);
    time.cause("behind branches", bubbles * ns, None);
    time.rest("nothing to do", (1.0 - busy - stalled - bubbles).max(0.0) * ns);
    page.chart(time);
    for (name, class) in figures.classes() {
        let title = format!("Core cycles of a packet of class {name}, on average");
        let mut cycles = Ledger::new(name, title, Axis::new("cycles", Unit::Plain("")));
        cycles.cause("before the transfer", class.before.mean(), None);
        cycles.cause("beside the transfer", class.beside.mean(), None);
        cycles.cause("waited", class.idle.mean(), None);
        page.chart(cycles);
    }
}

/// A scenario of any other kind, which has none of the options for firmware that sends.
fn other_kind(file: File, arguments: &RunArguments) -> Result<Finished, Failure> {
    for (option, is_given) in [
        ("--phases", arguments.phases.is_some()),
        ("--capture", arguments.capture.is_some()),
        ("--annotate", arguments.annotate),
    ] {
        if is_given {
            let what = format!("{option} is for \"{}\" only: leave it out", Settings::NAME);
            return Err(file.refuse_kind(&what));
        }
    }
    let kind = file.kind().to_owned();
    let ran = kinds::run(file, &arguments.scenario.sets)?;
    let mut found = Finished::of_report(format!("A model in virtual time: {kind}"), ran.report);
    found.failure = ran.wrong.map(Failure::Wrong);
    Ok(found)
}

/// A run for each phase; packets of the first go to the capture.
fn all_phases(
    scenario: &Scenario,
    phases: u64,
    output: Option<&std::path::Path>,
) -> Result<Vec<Figures>, Failure> {
    let firmware = firmware::load(scenario)?;
    let run = |step: u64, sink: &mut dyn FnMut(&Sent)| {
        let design = scenario.design(Settings::moved(step, phases))?;
        simulate(&scenario.settings, &design, firmware.image(), sink)
            .map_err(|error| scenario.failure(&error))
    };
    watch::any().expect(scenario.settings.messages.saturating_mul(phases) as usize);
    let mut capture = output.map(|path| CaptureWriter::create(scenario, path)).transpose()?;
    let mut runs = vec![run(0, &mut |sent| {
        if let Some(capture) = &mut capture {
            capture.take(sent);
        }
    })?];
    // Half a capture is none.
    watch::go_on()?;
    if let Some(capture) = capture {
        capture.finish(scenario)?;
    }
    for step in 1..phases {
        runs.push(run(step, &mut |_| ())?);
    }
    Ok(runs)
}

/// Success only if every byte is where it belongs.
pub(super) fn ending(figures: &Figures) -> Result<(), Failure> {
    if figures.is_right() {
        return Ok(());
    }
    let (taken, moved) = figures.payload();
    let first = figures.outcome.mismatch.as_ref();
    let first = first.map_or_else(String::new, |first| format!("; the first: {first}"));
    Err(Failure::Wrong(format!(
        "the firmware is wrong: {} packets are not what the offload makes of the messages, or never \
         left; {taken} bytes of payload came and {moved} left{first}",
        figures.outcome.wrong
    )))
}

fn report(settings: &Settings, runs: &[Figures]) -> Report {
    let mut report = Report::new("model");
    let Some(figures) = runs.first() else { return report };
    report.push(account(settings, figures));
    report.push(cells(figures));
    report.push(rates(figures));
    report.push(shares(figures));
    if runs.len() > 1 {
        report.push(phases(runs));
    }
    if figures.is_right() {
        report.note(
            "Every packet that left is the one that the offload of this project makes of the message.",
        );
    }
    if figures.hazards() > 0 {
        report.note(format!(
            "{} headers were written while the DMA was moving them: real hardware may send either.",
            figures.hazards()
        ));
    }
    report
}

/// What was built, and what went in and came out.
fn account(settings: &Settings, figures: &Figures) -> Section {
    let mhz = |hz: u64| hz as f64 / 1e6;
    let design = &figures.design;
    let title = format!(
        "{} core{} at {} MHz, DMA at {} MHz, bus of {} bits {}, MTU {}, firmware {}",
        design.cores,
        if design.cores == 1 { "" } else { "s" },
        mhz(design.core.hz()),
        mhz(design.dma.hz()),
        design.bus_bits,
        match design.policy {
            BusPolicy::Hold => "held by the DMA",
            BusPolicy::Interleave => "shared word by word",
            BusPolicy::DualPort => "with a port for each",
        },
        design.mtu,
        settings.firmware,
    );
    let mut section = Section::new("account", title);
    let (taken, moved) = figures.payload();
    let outcome = &figures.outcome;
    section.add("messages", "messages", Value::Count(figures.messages()));
    section.add("payload_in", "payload in", Value::Bytes(taken));
    section.add("payload_out", "payload out", Value::Bytes(moved));
    section.add("packets_right", "packets, right", Value::Count(outcome.right));
    section.add("packets_wrong", "packets, wrong or missing", Value::Count(outcome.wrong));
    section.add("ns", "virtual time", Value::Ns(outcome.left.0 as f64 / 1e3));
    section.add("hash", "hash of all that left", Value::Text(format!("{:016x}", outcome.hash)));
    section
}

/// Cycles by class, as in the published tables.
fn cells(figures: &Figures) -> Section {
    let mut section =
        Section::list("classes", "Core cycles of a packet; least/mean/most where they differ");
    for (name, class) in figures.classes() {
        let ClassFigures { packets, total, before, beside, idle } = class;
        let text = format!(
            "{} total: {} before the transfer, {} beside it, {} waited ({packets} packets)",
            total.text(),
            before.text(),
            beside.text(),
            idle.text()
        );
        let mut fields = vec![("packets", Value::Count(*packets))];
        for (keys, spread) in [
            (["total_least", "total_mean", "total_most"], total),
            (["before_least", "before_mean", "before_most"], before),
            (["beside_least", "beside_mean", "beside_most"], beside),
            (["idle_least", "idle_mean", "idle_most"], idle),
        ] {
            fields.push((keys[0], Value::Count(spread.least)));
            fields.push((keys[1], Value::Number(spread.mean())));
            fields.push((keys[2], Value::Count(spread.most)));
        }
        section.add("", name, Value::Fields(text, fields));
    }
    section
}

fn rates(figures: &Figures) -> Section {
    let mut section = Section::new("rates", "Rates");
    let packets = figures.packets_per_second();
    section.add("packets_per_second", "packets in a second", Value::Count(packets as u64));
    let cycles = Value::Number(figures.cycles_per_packet());
    section.add("cycles_per_packet", "core cycles of a packet", cycles);
    section.add("goodput_bits_per_second", "payload", Value::BitRate(figures.goodput()));
    section.add("wire_bits_per_second", "on the line", Value::BitRate(figures.wire_rate()));
    if let (Some(share), Some(rate)) = (figures.line_share(), figures.design.line_bits_per_second) {
        let label = format!("share of the line's {}", Value::BitRate(rate as f64));
        section.add("line_share", label, Value::Share(share));
    }
    section
}

fn shares(figures: &Figures) -> Section {
    let mut section = Section::new("busy", "What was busy, as a share of the time");
    let [busy, stalled, bubbles] = figures.core_shares();
    section.add("core_busy", "core, instructions", Value::Share(busy));
    section.add("core_stalled", "core, waiting for bus, DMA or line", Value::Share(stalled));
    section.add("core_bubbles", "core, behind branches", Value::Share(bubbles));
    section.add("dma_busy", "DMA and bus", Value::Share(figures.dma_share()));
    if let Some(share) = figures.line_share() {
        section.add("line_busy", "line", Value::Share(share));
    }
    section
}

/// Least, typical and most over the phases.
fn phases(runs: &[Figures]) -> Section {
    let title = format!("Over {} phases of the DMA's clock: least, typical, most", runs.len());
    let mut section = Section::list("phases", title);
    let mut add = |key: &'static str, label: String, of: &dyn Fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        let typical = values[values.len() / 2];
        let text = format!("{least:.2}  {typical:.2}  {most:.2}");
        let fields = vec![
            ("key", Value::Text(key.to_owned())),
            ("least", Value::Number(least)),
            ("typical", Value::Number(typical)),
            ("most", Value::Number(most)),
        ];
        section.add("", label, Value::Fields(text, fields));
    };
    add("mpps", "million packets in a second".to_owned(), &|run| run.packets_per_second() / 1e6);
    add("goodput_gbps", "payload, Gbit/s".to_owned(), &|run| run.goodput() / 1e9);
    let Some(first) = runs.first() else { return section };
    for (name, _) in first.classes() {
        add("cycles", format!("cycles of {name}"), &|run| {
            run.classes().find(|(known, _)| *known == name).map_or(0.0, |(_, c)| c.total.mean())
        });
    }
    section
}
