//! A run of the sending side over time, for a viewer: cores, DMA, bus and line.

mod chrome;
mod vcd;

use super::transmit::figures::{CLASSES, Figures};
use super::transmit::{Config, firmware, refused_run};
use crate::{Context, Error};
use garde::Validate;
use linecard::offload::segment::Class;
use linecard_config::{Duration, Maybe};
use linecard_io::capture::{CaptureError, OutputFile};
use linecard_model::transmit::{Design, Sent, Transmit};
use linecard_model::{Clock, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;

/// Options beside the scenario.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Options {
    /// format of the trace
    #[schemars(extend("x-flag" = "format"))]
    pub format: Format,
    /// stop after this many packets; a viewer shows at most 100000
    #[default(1_000)]
    #[garde(range(min = 1, max = 100_000))]
    #[schemars(extend("x-flag" = "packets"))]
    pub packets: u64,
    /// stop after this much virtual time
    #[schemars(extend("x-flag" = "time"))]
    pub time: Maybe<Duration>,
}

/// Formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// JSON for Perfetto and Chrome's own viewer: spans with names
    #[default]
    Chrome,
    /// value change dump, in picoseconds
    Vcd,
}

/// Activity of a core.
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
    /// Number of the packet, from 0, in the order in which packets leave.
    packet: u64,
    /// The core's instruction at its begin, or the one that started a transfer.
    pc: Option<u32>,
}

/// Where spans go.
trait Sink {
    fn take(&mut self, span: &Span) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<OutputFile>;
}

/// Runs a scenario of the sending side and writes what happens when; `-` is stdout.
///
/// # Errors
///
/// Values that are refused, firmware that fails, an output that cannot be written, and cancellation.
pub fn run(options: &Options, output: &Path, context: &Context<'_>) -> Result<(), Error> {
    let config: Config = context.config()?;
    write(&config, options, output, context).map_err(|error| context.placed(error))
}

fn write(
    config: &Config,
    options: &Options,
    output: &Path,
    context: &Context<'_>,
) -> Result<(), Error> {
    let firmware = firmware::load(config, context)?;
    let design = config.design(0)?;
    let failure = |error| refused_run(&firmware, error);
    let mut transmit = Transmit::new(&design, firmware.image()).map_err(failure)?;
    transmit.start_trace();
    let of = |source| Error::of_capture(context.scenario(), source);
    let file = OutputFile::create(output, &[context.scenario()]).map_err(of)?;
    let write = |source| of(CaptureError::Write { source });
    let sink: Box<dyn Sink + '_> = match options.format {
        Format::Chrome => {
            Box::new(chrome::Chrome::start(file, design.cores, &firmware).map_err(write)?)
        }
        Format::Vcd => Box::new(vcd::Vcd::new(file, design.cores)),
    };
    let mut trace = Trace::new(sink, &design, options);
    let full = trace.full.clone();
    // Messages end when their packets are not needed any more.
    let messages = context.each(config.load.messages()).take_while(|_| !full.get());
    Figures::of(&mut transmit, &design, messages, |sent| trace.take(sent)).map_err(failure)?;
    context.go_on()?;
    let file = trace.finish().map_err(write)?;
    file.commit().map_err(of)
}

/// Makes spans of packets, until there are enough.
struct Trace<'a> {
    sink: Box<dyn Sink + 'a>,
    error: Option<io::Error>,
    clock: Clock,
    /// Until when each core's time is told.
    told: Vec<Ps>,
    /// Packets so far, and at most.
    packets: u64,
    most: u64,
    until: Ps,
    full: std::rc::Rc<Cell<bool>>,
}

impl<'a> Trace<'a> {
    fn new(sink: Box<dyn Sink + 'a>, design: &Design, options: &Options) -> Self {
        let until = options.time.0.map_or(Ps::NEVER, Ps::from);
        Self {
            sink,
            error: None,
            clock: design.core,
            told: vec![Ps::ZERO; design.cores],
            packets: 0,
            most: options.packets,
            until,
            full: std::rc::Rc::default(),
        }
    }

    fn take(&mut self, sent: &Sent) {
        if self.packets == self.most || sent.cell.begun > self.until || self.error.is_some() {
            self.full.set(true);
            return;
        }
        self.error = self.tell(sent).err();
        self.packets += 1;
    }

    fn tell(&mut self, sent: &Sent) -> io::Result<()> {
        let cell = &sent.cell;
        let Some(trace) = sent.trace.as_deref() else { return Ok(()) };
        let (sink, packet) = (&mut self.sink, self.packets);
        let mut tell = |what, pc, (from, to)| {
            let (class, message) = (cell.class, sent.message);
            let span = Span { what, from, to, class, message, packet, pc };
            if from < to { sink.take(&span) } else { Ok(()) }
        };
        let core = sent.core;
        let Some(told) = self.told.get_mut(core) else { return Ok(()) };
        tell(What::Core(core, State::Asleep), trace.asleep_at, (*told, cell.begun))?;
        let (mut at, mut pc) = (cell.begun, trace.begun_at);
        for stall in &trace.stalls {
            tell(What::Core(core, State::Busy), pc, (at, stall.from))?;
            // The instruction that waited is executed behind its wait.
            pc = Some(stall.pc);
            tell(What::Core(core, State::Stalled), pc, (stall.from, stall.to))?;
            at = at.max(stall.to);
        }
        let end = self.clock.edge(self.clock.at_or_after(cell.begun) + cell.total);
        tell(What::Core(core, State::Busy), pc, (at, end))?;
        *told = end.max(at);
        let started = trace.started_at;
        tell(What::Header(core), started, (cell.moved_from, cell.payload_from))?;
        tell(What::Payload(core), started, (cell.payload_from, cell.moved_to))?;
        tell(What::Line, None, (sent.from, sent.to))
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
    let known = CLASSES.iter().find(|(known, _)| *known == class);
    known.map_or("", |(_, name)| name)
}
