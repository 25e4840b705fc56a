//! `linecard jitter analyze`: a stream in a capture, or in two.

mod compare;
mod read;
mod text;

use crate::failure::Failure;
use crate::found;
use crate::page::PageFile;
use clap::{Args, ValueEnum};
use linecard_app::Finished;
use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::Kind;
use linecard_jitter::media::st2022_6::Format;
use linecard_jitter::media::st2110::Sender;
use linecard_report::Report;
use read::{Candidate, Captured};
use std::path::{Path, PathBuf};

/// Flows shown in the list.
const LISTED: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// Capture to read, pcap or pcapng; - is stdin.
    input: PathBuf,
    /// A second capture of the same stream, from nearer to the application.
    second: Option<PathBuf>,
    /// Take this flow: its number in the list of flows, or where it goes to, as 239.0.1.2:50000.
    #[arg(long, value_name = "N|ADDR:PORT")]
    flow: Option<String>,
    /// The SDI format of an ST 2022-6 stream, as 1080i59.94; auto reads it off the payload header, or else
    /// the period.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: String,
    /// What the sender promises to be: without it, figures stand beside both limits.
    #[arg(long, value_name = "TYPE")]
    sender: Option<SenderArgument>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SenderArgument {
    /// Type N or NL: as a device in hardware does.
    Narrow,
    /// Type W: as software does.
    Wide,
}

impl AnalyzeArguments {
    /// The limits that figures are held against.
    fn senders(&self) -> &'static [Sender] {
        match self.sender {
            None => &[Sender::Narrow, Sender::Wide],
            Some(SenderArgument::Narrow) => &[Sender::Narrow],
            Some(SenderArgument::Wide) => &[Sender::Wide],
        }
    }
}

/// Runs the command.
pub(crate) fn command(arguments: &AnalyzeArguments) -> Result<(), Failure> {
    found::show(find(arguments)?, arguments.json, None, &PageFile::default())
}

/// Looks for a stream, and says how evenly it comes.
pub(crate) fn find(arguments: &AnalyzeArguments) -> Result<Finished, Failure> {
    let format = match arguments.format.as_str() {
        "auto" => None,
        name => Some(
            Format::by_name(name)
                .map_err(|error| Failure::Usage(format!("--format {name}: {error}, and auto")))?,
        ),
    };
    let mut first = read::capture(&arguments.input)?;
    let mut damage = first.damage.take();
    let chosen = choose(&first, arguments.flow.as_deref(), &arguments.input)?;
    let figures = figures(chosen, format, &arguments.input)?;
    let mut report = Report::new("jitter-analyze");
    if first.flows.len() > 1 {
        report.push(text::flows(&first.flows, LISTED));
    }
    text::sections(&mut report, chosen, &figures, arguments.senders());
    if let Some(path) = &arguments.second {
        let second = read::capture(path)?;
        let other = compare::counterpart(chosen, &second, path)?;
        let there = self::figures(other, format, path)?;
        compare::sections(&mut report, (chosen, &figures), (other, &there), path)?;
        damage = damage.or(second.damage);
    }
    text::notes(&mut report, &figures, first.is_full);
    let mut found =
        Finished::of_report(format!("A stream in {}", arguments.input.display()), report);
    if let Some((input, damage)) = damage {
        found.failure = Some(Failure::Damaged { input, damage: damage.into() });
    }
    Ok(found)
}

/// The flow asked for, or the one with the most packets, streams first.
fn choose<'a>(
    capture: &'a Captured,
    wanted: Option<&str>,
    input: &Path,
) -> Result<&'a Candidate, Failure> {
    let Some(wanted) = wanted else {
        return capture.flows.first().ok_or_else(|| capture.nothing_found(input));
    };
    let by_number = wanted.parse::<usize>().ok().and_then(|n| capture.flows.get(n.checked_sub(1)?));
    let is_it = |found: &&Candidate| found.ends.1.to_string() == wanted;
    by_number.or_else(|| capture.flows.iter().find(is_it)).ok_or_else(|| {
        let known: Vec<String> =
            capture.flows.iter().take(5).map(|found| found.ends.1.to_string()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Failure::Usage(format!(
            "--flow {wanted}: {} has {} UDP flows: choose 1 to that, or one of {known}",
            input.display(),
            capture.flows.len()
        ))
    })
}

fn figures(found: &Candidate, format: Option<Format>, input: &Path) -> Result<Figures, Failure> {
    let figures = Figures::of(&found.flow, format);
    let none = || {
        let (from, to) = found.ends;
        Failure::Withheld(format!(
            "{}: the flow {from} to {to} has {} packets: figures take 3 at least",
            input.display(),
            found.flow.len()
        ))
    };
    let figures = figures.ok_or_else(none)?;
    let is_stream = figures.kind != Kind::Udp || figures.lateness.is_some();
    if is_stream { Ok(figures) } else { Err(not_a_stream(found, input)) }
}

fn not_a_stream(found: &Candidate, input: &Path) -> Failure {
    let (from, to) = found.ends;
    Failure::Withheld(format!(
        "{}: no RTP stream, and the largest UDP flow, {from} to {to} with {} packets, has no constant \
         rate: there is nothing to hold its times against",
        input.display(),
        found.flow.len()
    ))
}
