//! Value change dump (IEEE 1364-2005, section 18), in picoseconds.

use super::{Sink, Span, State, What};
use linecard_io::capture::OutputFile;
use std::io::{self, Write};

/// Signals of each core: state, DMA, bus owner, program counter.
const OF_CORE: usize = 4;
/// The last of them, which has 32 bits.
const PC: usize = 4;

/// Gathers changes, which a file has to have in the order of time.
pub(super) struct Vcd {
    out: OutputFile,
    cores: usize,
    changes: Vec<Change>,
}

/// In the order of time; at one time what ends comes before what begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: u64,
    signal: usize,
    begins: bool,
    value: u32,
}

impl Vcd {
    pub(super) fn new(out: OutputFile, cores: usize) -> Self {
        Self { out, cores, changes: Vec::new() }
    }

    fn change(&mut self, span: &Span, signal: usize, value: u32) {
        let begin = Change { at: span.from.0, signal, begins: true, value };
        self.changes.push(begin);
        self.changes.push(Change { at: span.to.0, begins: false, value: 0, ..begin });
    }

    /// The program counter, which keeps its value where nothing else is known.
    fn count(&mut self, span: &Span, core: usize) {
        if let Some(pc) = span.pc {
            let signal = core * OF_CORE + PC;
            self.changes.push(Change { at: span.from.0, signal, begins: true, value: pc });
        }
    }

    fn head(&mut self) -> io::Result<()> {
        let out = &mut self.out;
        writeln!(out, "$version linecard $end\n$timescale 1 ps $end")?;
        writeln!(
            out,
            "$comment state: 0 asleep, 1 busy, 2 stalled; bus_owner: 0 core, 1 DMA; pc: where a state begins $end"
        )?;
        writeln!(out, "$scope module linecard $end\n$var wire 1 {} line_busy $end", code(0))?;
        for core in 0..self.cores {
            let at = 1 + core * OF_CORE;
            writeln!(out, "$scope module core{core} $end")?;
            writeln!(out, "$var wire 2 {} state $end", code(at))?;
            writeln!(out, "$var wire 1 {} dma_busy $end", code(at + 1))?;
            writeln!(out, "$var wire 1 {} bus_owner $end", code(at + 2))?;
            writeln!(out, "$var wire 32 {} pc $end", code(core * OF_CORE + PC))?;
            writeln!(out, "$upscope $end")?;
        }
        writeln!(out, "$upscope $end\n$enddefinitions $end\n#0\n$dumpvars")?;
        for signal in 0..=self.cores * OF_CORE {
            value(out, signal, 0)?;
        }
        writeln!(out, "$end")
    }
}

impl Sink for Vcd {
    fn take(&mut self, span: &Span) -> io::Result<()> {
        if let What::Core(core, _) = span.what {
            self.count(span, core);
        }
        match span.what {
            What::Core(core, State::Busy) => self.change(span, 1 + core * OF_CORE, 1),
            What::Core(core, State::Stalled) => self.change(span, 1 + core * OF_CORE, 2),
            // Where nothing else is said.
            What::Core(_, State::Asleep) => {}
            What::Header(core) | What::Payload(core) => {
                self.change(span, 2 + core * OF_CORE, 1);
                self.change(span, 3 + core * OF_CORE, 1);
            }
            What::Line => self.change(span, 0, 1),
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<OutputFile> {
        self.head()?;
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_unstable();
        let mut values = vec![0_u32; 1 + self.cores * OF_CORE];
        let mut time = 0;
        for (index, change) in changes.iter().enumerate() {
            let Change { at, signal, value: new, .. } = *change;
            let is_overruled =
                changes.get(index + 1).is_some_and(|next| (next.at, next.signal) == (at, signal));
            if is_overruled || values[signal] == new {
                continue;
            }
            if at > time {
                writeln!(self.out, "#{at}")?;
                time = at;
            }
            value(&mut self.out, signal, new)?;
            values[signal] = new;
        }
        Ok(self.out)
    }
}

/// A signal's value: those of two bits are the cores' states, those of 32 bits their program counters.
fn value(out: &mut OutputFile, signal: usize, value: u32) -> io::Result<()> {
    match signal % OF_CORE {
        1 => writeln!(out, "b{value:02b} {}", code(signal)),
        0 if signal > 0 => writeln!(out, "b{value:b} {}", code(signal)),
        _ => writeln!(out, "{value}{}", code(signal)),
    }
}

/// An identifier of printable characters.
fn code(mut signal: usize) -> String {
    let mut code = String::new();
    loop {
        // 94 characters from '!' on.
        code.push(char::from(b'!' + (signal % 94) as u8));
        signal /= 94;
        if signal == 0 {
            return code;
        }
    }
}
