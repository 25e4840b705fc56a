//! Chrome's trace event format: complete events ("X"), times in microseconds.

use super::{Sink, Span, State, What, name};
use linecard_io::capture::OutputFile;
use linecard_model::Ps;
use std::io::{self, Write};

/// Tracks of a core's process.
const CORE: u32 = 1;
const DMA: u32 = 2;
/// The line's process: a core is number + 2.
const LINE: usize = 1;

/// Writes events as they come; each track's are in order.
pub(super) struct Chrome {
    out: OutputFile,
}

impl Chrome {
    pub(super) fn start(mut out: OutputFile, cores: usize) -> io::Result<Self> {
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
        Ok(Self { out })
    }
}

impl Sink for Chrome {
    fn take(&mut self, span: &Span) -> io::Result<()> {
        let class = name(span.class);
        let (pid, tid, what) = match span.what {
            What::Core(core, State::Asleep) => (core + 2, CORE, "asleep"),
            What::Core(core, State::Busy) => (core + 2, CORE, "busy"),
            What::Core(core, State::Stalled) => (core + 2, CORE, "stalled"),
            What::Header(core) => (core + 2, DMA, "header"),
            What::Payload(core) => (core + 2, DMA, "payload"),
            What::Line => (LINE, CORE, class),
        };
        write!(
            self.out,
            ",\n{{\"name\":\"{what}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{pid},\"tid\":{tid},\
             \"args\":{{\"class\":\"{class}\",\"message\":{}}}}}",
            us(span.from),
            us(span.to - span.from),
            span.message
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
