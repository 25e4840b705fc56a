//! `linecard model trace`: what happens when, for a viewer.

mod chrome;
mod vcd;

use super::figures::Figures;
use super::scenario::Scenario;
use super::{ScenarioArguments, firmware, keys};
use crate::failure::{EXIT_CODES, Failure};
use crate::units;
use clap::{Args, ValueEnum};
use linecard::offload::segment::Class;
use linecard_io::capture::{CaptureError, OutputFile};
use linecard_model::transmit::{Design, Sent, Transmit};
use linecard_model::{Clock, Ps};
use std::cell::Cell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// More packets than a viewer shows; a VCD file's changes are held in memory until they are sorted.
const MAX_PACKETS: u64 = 100_000;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_help = EXIT_CODES, after_long_help = keys::help())]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// File to write; - is stdout.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What to write.
    #[arg(long, value_name = "FORMAT", default_value = "chrome")]
    format: Format,
    /// Stop after so many packets, 1 to 100000.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = units::count)]
    packets: u64,
    /// Stop after so much virtual time, as 500ns or 10us.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    time: Option<Duration>,
}

/// What `--format` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON for Perfetto and Chrome's own viewer: spans with names.
    Chrome,
    /// Value change dump, in picoseconds.
    Vcd,
}

/// What a core does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asleep,
    Busy,
    Stalled,
}

/// Something that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A core is in a state.
    Core(usize, State),
    /// A DMA moves a header, or payload.
    Header(usize),
    Payload(usize),
    /// The line sends.
    Line,
}

/// From when to when, for which packet.
#[derive(Debug, Clone, Copy)]
struct Span {
    what: What,
    from: Ps,
    to: Ps,
    class: Class,
    message: u64,
}

/// Where spans go.
trait Sink {
    fn take(&mut self, span: &Span) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<OutputFile>;
}

/// Runs the command.
pub(crate) fn command(arguments: &TraceArguments) -> Result<(), Failure> {
    if !(1..=MAX_PACKETS).contains(&arguments.packets) {
        let what = format!("--packets {}: choose 1 to {MAX_PACKETS}", arguments.packets);
        return Err(Failure::Usage(what));
    }
    let scenario = Scenario::read(&arguments.scenario.scenario, &arguments.scenario.sets)?;
    let firmware = firmware::load(&scenario)?;
    let design = scenario.design(0)?;
    let failure = |error| scenario.failure(&error);
    let mut transmit = Transmit::new(&design, firmware.image()).map_err(failure)?;
    transmit.record_stalls();
    let output = units::output(arguments.output.clone());
    let of = |source| Failure::of_capture(scenario.path(), source);
    let file = OutputFile::create(&output, &[scenario.path()]).map_err(of)?;
    let write = |source| of(CaptureError::Write { source });
    let sink: Box<dyn Sink> = match arguments.format {
        Format::Chrome => Box::new(chrome::Chrome::start(file, design.cores).map_err(write)?),
        Format::Vcd => Box::new(vcd::Vcd::new(file, design.cores)),
    };
    let mut trace = Trace::new(sink, &design, arguments);
    let full = trace.full.clone();
    // Messages end when nobody looks at their packets any more.
    let messages = scenario.settings.messages().take_while(|_| !full.get());
    Figures::of(&mut transmit, &design, messages, |sent| trace.take(sent)).map_err(failure)?;
    let file = trace.finish().map_err(write)?;
    file.commit().map_err(of)
}

/// Makes spans of packets, until there are enough.
struct Trace {
    sink: Box<dyn Sink>,
    error: Option<io::Error>,
    clock: Clock,
    /// Until when each core's time is told.
    told: Vec<Ps>,
    left: u64,
    until: Ps,
    full: std::rc::Rc<Cell<bool>>,
}

impl Trace {
    fn new(sink: Box<dyn Sink>, design: &Design, arguments: &TraceArguments) -> Self {
        let until = arguments.time.map_or(Ps::NEVER, |time| {
            Ps::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        });
        Self {
            sink,
            error: None,
            clock: design.core,
            told: vec![Ps::ZERO; design.cores],
            left: arguments.packets,
            until,
            full: std::rc::Rc::default(),
        }
    }

    fn take(&mut self, sent: &Sent) {
        if self.left == 0 || sent.cell.begun > self.until || self.error.is_some() {
            self.full.set(true);
            return;
        }
        self.left -= 1;
        self.error = self.tell(sent).err();
    }

    fn tell(&mut self, sent: &Sent) -> io::Result<()> {
        let cell = &sent.cell;
        let sink = &mut self.sink;
        let mut tell = |what, from, to| {
            let span = Span { what, from, to, class: cell.class, message: sent.message };
            if from < to { sink.take(&span) } else { Ok(()) }
        };
        let core = sent.core;
        let Some(told) = self.told.get_mut(core) else { return Ok(()) };
        tell(What::Core(core, State::Asleep), *told, cell.begun)?;
        let mut at = cell.begun;
        for &(from, to) in &sent.stalls {
            tell(What::Core(core, State::Busy), at, from)?;
            tell(What::Core(core, State::Stalled), from, to)?;
            at = at.max(to);
        }
        let end = self.clock.edge(self.clock.at_or_after(cell.begun) + cell.total);
        tell(What::Core(core, State::Busy), at, end)?;
        *told = end.max(at);
        tell(What::Header(core), cell.moved_from, cell.payload_from)?;
        tell(What::Payload(core), cell.payload_from, cell.moved_to)?;
        tell(What::Line, sent.from, sent.to)
    }

    fn finish(self) -> io::Result<OutputFile> {
        let mut file = match self.error {
            Some(error) => return Err(error),
            None => self.sink.finish()?,
        };
        file.flush()?;
        Ok(file)
    }
}

/// The class as the tables have it.
fn name(class: Class) -> &'static str {
    let known = super::figures::CLASSES.iter().find(|(known, _)| *known == class);
    known.map_or("", |(_, name)| name)
}
