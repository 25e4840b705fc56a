//! The fields of a kernel event and their offsets, from its `format` file.

use super::number::Seen;
use crate::linux::trace::TraceTarget;
use crate::linux::trace::probes::{self, Kind};
use crate::trace::{NAME_LEN, NET_RX};
use std::fmt::Display;

/// Bytes of the Ethernet header.
const ETHERNET: usize = 14;
const IPV4_UDP: usize = 28;
const IPV6_UDP: usize = 48;
/// `IPPROTO_UDP`.
const UDP: u8 = 17;
/// State bits of a waiting thread; a preempted one has others (`TASK_REPORT`).
const WAITS: u64 = 0xFF;

/// Location of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) len: usize,
}

impl Field {
    /// Reads the field, zero-extended.
    pub(super) fn number(self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.get(self.at..)?.get(..self.len)?;
        Some(match *bytes {
            [a] => a.into(),
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => u64::from_ne_bytes(*bytes.first_chunk()?),
        })
    }
}

/// Finds a line `field:TYPE NAME; offset:N; size:N;`.
pub(super) fn field(text: &str, name: &str) -> Option<Field> {
    text.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';');
        let declared = parts.next()?.split_whitespace().next_back()?;
        let declared = declared.split('[').next().unwrap_or(declared);
        if declared != name {
            return None;
        }
        let mut number = |key: &str| parts.next()?.trim().strip_prefix(key)?.parse().ok();
        Some(Field { at: number("offset:")?, len: number("size:")? })
    })
}

/// The format of one event: its id, and the fields to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) id: u16,
    /// The first value of a record, 32 bits, and the second, 64 bits; for a context switch also the
    /// state of the previous thread and the name of the next one.
    fields: [Option<Field>; 4],
}

impl Format {
    /// Parses an event's format file; on failure returns the name of the missing field.
    pub(super) fn parse(text: &str, kind: Kind) -> Result<Self, &'static str> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let names = names(kind);
        let mut fields = [None; 4];
        for (place, name) in fields.iter_mut().zip(names).filter(|(_, name)| !name.is_empty()) {
            *place = Some(field(text, name).ok_or(name)?);
        }
        Ok(Self { id: id.ok_or("ID")?, fields })
    }

    /// Decodes one event of this core and time.
    pub(super) fn seen(&self, kind: Kind, (core, at_ns): (u16, u64), bytes: &[u8]) -> Option<Seen> {
        let [first, second, state, name] = self.fields;
        let number = |field: Option<Field>| match field {
            Some(field) => field.number(bytes),
            None => Some(0),
        };
        let first = number(first)? as u32;
        let address = number(second)?;
        let is_displaced = state.is_some() && number(state)? & WAITS == 0;
        let second = if state.is_some() {
            u64::from(address as u32) | u64::from(is_displaced) << 32
        } else {
            address
        };
        let third = match name {
            Some(name) => Field { len: NAME_LEN, ..name }.number(bytes)?,
            None => 0,
        };
        let record = [at_ns, u64::from(first) << 32 | kind as u64, second, third];
        Some(Seen { event: probes::event(core, record)?, address })
    }
}

/// Names of the fields to read.
fn names(kind: Kind) -> [&'static str; 4] {
    match kind {
        Kind::Transmit | Kind::Receive => ["", "skbaddr", "", ""],
        Kind::Ready => ["", "skaddr", "", ""],
        Kind::Poll => ["work", "", "", ""],
        Kind::InterruptEntry => ["irq", "", "", ""],
        Kind::SoftirqEntry => ["vec", "", "", ""],
        Kind::TimerEntry => ["", "function", "", ""],
        Kind::Switch => ["next_pid", "prev_pid", "prev_state", "next_comm"],
        Kind::Wakeup => ["pid", "", "", ""],
        Kind::Idle => ["state", "", "", ""],
        _ => [""; 4],
    }
}

/// Filter of the events to record; `None` records all.
pub(super) fn filter(kind: Kind, target: &TraceTarget) -> Option<String> {
    let is_ipv4 = target.ports[1].is_empty();
    let len = target.payload_len + if is_ipv4 { IPV4_UDP } else { IPV6_UDP };
    Some(match kind {
        Kind::Transmit => {
            let sender = target.sender.map(|sender| format!(" && common_pid == {sender}"));
            format!("len == {}{}", len + ETHERNET, sender.unwrap_or_default())
        }
        Kind::Receive => format!("len == {len}"),
        Kind::Ready => format!("protocol == {UDP}"),
        Kind::Refused => any("dport", target.ports.iter().flatten()),
        Kind::Raise => format!("vec == {NET_RX}"),
        Kind::Poll => "work > 0".to_owned(),
        Kind::Wakeup if target.threads.is_empty() => "pid == -1".to_owned(),
        Kind::Wakeup => any("pid", &target.threads),
        _ => return None,
    })
}

fn any<'a, T: Display + 'a>(field: &str, values: impl IntoIterator<Item = &'a T>) -> String {
    let values = values.into_iter().map(|value| format!("{field} == {value}"));
    values.collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::EventKind;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";

    fn switch(state: u64) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[24..28].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[32..40].copy_from_slice(&state.to_ne_bytes());
        bytes[40..48].copy_from_slice(b"swapper/");
        bytes[56..60].copy_from_slice(&9_u32.to_ne_bytes());
        bytes
    }

    #[test]
    fn fields_are_where_the_format_says() {
        let format = Format::parse(SWITCH, Kind::Switch).expect("whole");
        assert_eq!(format.id, 372);
        // Runnable, displaced (`R+`), asleep, and asleep in both ways.
        for (state, is_displaced) in [(0, true), (0x100, true), (1, false), (0x102, false)] {
            let seen = format.seen(Kind::Switch, (1, 50), &switch(state)).expect("long enough");
            let what = EventKind::Switch { from: 7, is_displaced, to: 9, name: *b"swapper/" };
            assert_eq!((seen.event.at_ns, seen.event.core, seen.event.what), (50, 1, what));
        }
        for len in 0..60 {
            assert!(format.seen(Kind::Switch, (1, 50), &switch(0)[..len]).is_none(), "{len}");
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        let cut = SWITCH.replace("prev_state", "other");
        assert_eq!(Format::parse(&cut, Kind::Switch), Err("prev_state"));
        assert_eq!(Format::parse("ID: x", Kind::Poll), Err("work"));
        assert_eq!(Format::parse("", Kind::SoftirqExit), Err("ID"));
    }

    #[test]
    fn filters_let_the_stream_pass() {
        let target = TraceTarget {
            ports: [vec![5], Vec::new()],
            payload_len: 100,
            sender: Some(8),
            threads: vec![1, 2],
            ..TraceTarget::default()
        };
        let filter = |kind| filter(kind, &target).unwrap_or_default();
        assert_eq!(filter(Kind::Transmit), "len == 142 && common_pid == 8");
        assert_eq!(filter(Kind::Receive), "len == 128");
        assert_eq!(filter(Kind::Wakeup), "pid == 1 || pid == 2");
        assert_eq!(filter(Kind::Switch), "");
    }
}
