//! Chrome's trace event format: complete events ("X"), times in microseconds.

use super::{Sink, Span, State, What, name};
use linecard_io::capture::OutputFile;
use linecard_model::Ps;
use linecard_model::elf::Firmware;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Tracks of a core's process.
const CORE: u32 = 1;
const DMA: u32 = 2;
/// The line's process: a core is number + 2.
const LINE: usize = 1;

/// Writes events as they come; each track's are in order.
pub(super) struct Chrome<'a> {
    out: OutputFile,
    /// Names and lines of instructions.
    firmware: &'a Firmware,
}

impl<'a> Chrome<'a> {
    pub(super) fn start(
        mut out: OutputFile,
        cores: usize,
        firmware: &'a Firmware,
    ) -> io::Result<Self> {
        writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut named = |kind: &str, pid: usize, tid: u32, name: &str| {
            writeln!(
                out,
                "{{\"name\":\"{kind}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\
                 \"args\":{{\"name\":\"{name}\"}}}},"
            )
        };
        for core in 0..cores {
            named("process_name", core + 2, 0, &format!("core {core}"))?;
            named("thread_name", core + 2, CORE, "core")?;
            named("thread_name", core + 2, DMA, "DMA and bus")?;
        }
        named("thread_name", LINE, CORE, "line")?;
        // Last, as it has no comma: all that follow begin with theirs.
        write!(
            out,
            "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{LINE},\"tid\":0,\
             \"args\":{{\"name\":\"line\"}}}}"
        )?;
        Ok(Self { out, firmware })
    }

    /// The packet of a span, and its instruction: address, and source line and function as far as they are known.
    fn arguments(&self, span: &Span) -> Map<String, Value> {
        let mut arguments = Map::new();
        let mut add = |key: &str, value: Value| arguments.insert(key.to_owned(), value);
        add("class", name(span.class).into());
        add("message", span.message.into());
        add("packet", span.packet.into());
        let Some(pc) = span.pc else { return arguments };
        add("pc", format!("{pc:#010x}").into());
        if let Some(line) = self.firmware.line(pc) {
            add("line", format!("{}:{}", line.file, line.line).into());
        }
        if let Some(place) = self.firmware.place(pc) {
            add("function", place.function.into());
        }
        arguments
    }
}

impl Sink for Chrome<'_> {
    fn take(&mut self, span: &Span) -> io::Result<()> {
        let (pid, tid, what) = match span.what {
            What::Core(core, State::Asleep) => (core + 2, CORE, "asleep"),
            What::Core(core, State::Busy) => (core + 2, CORE, "busy"),
            What::Core(core, State::Stalled) => (core + 2, CORE, "stalled"),
            What::Header(core) => (core + 2, DMA, "header"),
            What::Payload(core) => (core + 2, DMA, "payload"),
            What::Line => (LINE, CORE, name(span.class)),
        };
        write!(
            self.out,
            ",\n{{\"name\":\"{what}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{pid},\"tid\":{tid},\
             \"args\":{}}}",
            us(span.from),
            us(span.to - span.from),
            Value::Object(self.arguments(span))
        )
    }

    fn finish(mut self: Box<Self>) -> io::Result<OutputFile> {
        writeln!(self.out, "\n]}}")?;
        Ok(self.out)
    }
}

/// Picoseconds as microseconds, exactly.
fn us(time: Ps) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}
