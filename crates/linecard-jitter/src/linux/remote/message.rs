//! The lines that the two ends of a remote sender exchange: words separated by spaces, a verb and its `name=value` pairs.
//! Only the record of a stream has more: eight octets per packet, little endian, behind its line.

use crate::linux::generator::{Departures, Gap};
use crate::linux::journal::process;
use crate::linux::switches::Switches;
use crate::stream::Schedule;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

/// Version of these lines. Both ends must have the same.
pub(super) const VERSION: u32 = 1;
/// Longest line.
pub(super) const MAX_LINE: usize = 4_096;

/// Clock of a host: ends with the same one can compare their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clock {
    boot: String,
    /// Inode of the time namespace, which has an offset of its own.
    time: u64,
}

impl Clock {
    pub(super) fn of_this_process() -> Self {
        let time = fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.ino());
        Self { boot: process::boot(), time }
    }

    /// Whether times of both are on one clock. A kernel that does not say which boot it is has one of its own.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self == other
    }
}

/// A stream that the far end is to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Picoseconds between packets.
    pub period_ps: u64,
    /// Packets.
    pub count: u64,
    /// Bytes of UDP payload.
    pub payload_len: usize,
    /// Whether the sender sleeps between packets.
    pub is_sleeping: bool,
    /// Core of the sender; the first that it may use if none is named.
    pub core: Option<u16>,
    /// Priority under `SCHED_FIFO`; dropped where the far end may not have it.
    pub fifo: Option<u8>,
}

/// How the far end will send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The sending thread, by the far end's numbers.
    pub thread: u32,
    /// Its core.
    pub core: u16,
    /// Its priority.
    pub fifo: Option<u8>,
    /// Whether it sleeps between packets.
    pub is_sleeping: bool,
}

/// A line that one end sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Hello {
        version: u32,
        clock: Clock,
    },
    Stream(Request),
    Ready(Ready),
    Go,
    Stop,
    /// The record of a stream, without its send times: those follow the line, and are this many.
    Sent(Box<Departures>, u64),
    /// The far end cannot do it, and why.
    Refused(String),
}

impl Message {
    /// The line, with its end.
    pub(super) fn line(&self) -> String {
        let mut line = match self {
            Self::Hello { version, clock: Clock { boot, time } } => {
                format!("hello version={version} boot={boot} time={time}")
            }
            Self::Stream(Request { period_ps, count, payload_len, is_sleeping, core, fifo }) => {
                let (core, fifo) = (maybe(*core), maybe(*fifo));
                let is_sleeping = u8::from(*is_sleeping);
                format!(
                    "stream period_ps={period_ps} count={count} payload={payload_len} \
                     sleep={is_sleeping} core={core} fifo={fifo}"
                )
            }
            Self::Ready(Ready { thread, core, fifo, is_sleeping }) => {
                let (fifo, is_sleeping) = (maybe(*fifo), u8::from(*is_sleeping));
                format!("ready thread={thread} core={core} fifo={fifo} sleep={is_sleeping}")
            }
            Self::Go => "go".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::Sent(departures, packets) => sent_line(departures, *packets),
            Self::Refused(why) => format!("refused {}", why.replace(['\n', '\r'], " ")),
        };
        line.push('\n');
        line
    }

    /// Reads a line; `None` if it is none of these.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line = line.trim_end();
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = Words(rest);
        Some(match verb {
            "hello" => Self::Hello {
                version: words.number("version")?,
                clock: Clock { boot: words.text("boot")?.to_owned(), time: words.number("time")? },
            },
            "stream" => Self::Stream(Request {
                period_ps: words.number("period_ps")?,
                count: words.number("count")?,
                payload_len: words.number("payload")?,
                is_sleeping: words.number::<u8>("sleep")? != 0,
                core: words.maybe("core")?,
                fifo: words.maybe("fifo")?,
            }),
            "ready" => Self::Ready(Ready {
                thread: words.number("thread")?,
                core: words.number("core")?,
                fifo: words.maybe("fifo")?,
                is_sleeping: words.number::<u8>("sleep")? != 0,
            }),
            "go" => Self::Go,
            "stop" => Self::Stop,
            "sent" => read_sent(&words)?,
            "refused" => Self::Refused(rest.to_owned()),
            _ => return None,
        })
    }
}

fn sent_line(departures: &Departures, packets: u64) -> String {
    let Schedule { start_ns, period_ps } = departures.schedule;
    let Departures { refused, ended_ns, last_error, switches, .. } = departures;
    let voluntary = switches.map(|switches| switches.voluntary);
    let involuntary = switches.map(|switches| switches.involuntary);
    format!(
        "sent packets={packets} start_ns={start_ns} period_ps={period_ps} refused={refused} \
         ended_ns={ended_ns} error={} voluntary={} involuntary={}",
        maybe(*last_error),
        maybe(voluntary),
        maybe(involuntary)
    )
}

fn read_sent(words: &Words<'_>) -> Option<Message> {
    let switches: Option<(u64, u64)> = words.maybe("voluntary")?.zip(words.maybe("involuntary")?);
    let departures = Departures {
        schedule: Schedule {
            start_ns: words.number("start_ns")?,
            period_ps: words.number("period_ps")?,
        },
        gap: Gap::NONE,
        sent_ns: Vec::new(),
        refused: words.number("refused")?,
        last_error: words.maybe("error")?,
        ended_ns: words.number("ended_ns")?,
        switches: switches.map(|(voluntary, involuntary)| Switches { voluntary, involuntary }),
    };
    Some(Message::Sent(Box::new(departures), words.number("packets")?))
}

/// The pairs of a line.
struct Words<'l>(&'l str);

impl Words<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let mut values = self.0.split(' ').filter_map(|word| word.split_once('='));
        values.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// A value that may be missing, written as `-`.
    fn maybe<T: FromStr>(&self, name: &str) -> Option<Option<T>> {
        match self.text(name)? {
            "-" => Some(None),
            text => text.parse().ok().map(Some),
        }
    }
}

fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let departures = Departures {
            schedule: Schedule { start_ns: u64::MAX, period_ps: 7_419_761 },
            gap: Gap::NONE,
            sent_ns: Vec::new(),
            refused: 3,
            last_error: Some(-105),
            ended_ns: 9,
            switches: Some(Switches { voluntary: 1, involuntary: 2 }),
        };
        let request = Request {
            period_ps: 1,
            count: 2,
            payload_len: 48,
            is_sleeping: true,
            core: None,
            fifo: Some(50),
        };
        let ready = Ready { thread: 7, core: 3, fifo: None, is_sleeping: false };
        let clock = Clock::of_this_process();
        for message in [
            Message::Hello { version: VERSION, clock },
            Message::Stream(request),
            Message::Stream(Request { core: Some(9), fifo: None, ..request }),
            Message::Ready(ready),
            Message::Go,
            Message::Stop,
            Message::Sent(Box::new(Departures { switches: None, ..departures.clone() }), 5),
            Message::Sent(Box::new(departures), u64::MAX),
            Message::Refused("no route to 192.0.2.1:5004".to_owned()),
        ] {
            let line = message.line();
            assert!(line.ends_with('\n') && line.lines().count() == 1 && line.len() < MAX_LINE);
            assert_eq!(Message::read(&line), Some(message), "{line}");
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in
            ["", "hullo", "stream", "stream period_ps=x", "ready thread=1", "sent packets=1"]
        {
            assert_eq!(Message::read(line), None, "{line}");
        }
    }
}
