//! The UDP flows of a capture.

use super::error::AnalyzeError;
use crate::{Context, Error, captures};
use linecard::packet::header::protocol;
use linecard::packet::{FiveTuple, Form, Layout, LinkType};
use linecard_io::capture::{CaptureError, Reader, Record};
use linecard_jitter::media::flow::{Flow, Kind};
use linecard_jitter::media::number::NumberField;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Flows kept: packets of further ones are counted only.
const MAX_FLOWS: usize = 65_536;
/// UDP packets kept: a minute of a stream at 7.4 µs. Each takes 48 bytes, and while it is analysed about
/// 200.
const MAX_PACKETS: u64 = 8 << 20;

/// Where packets come from, and where they go to.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A flow.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) ends: Ends,
    pub(super) flow: Flow,
    pub(super) kind: Kind,
}

/// Contents of a capture.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// Streams first, each with the most packets first.
    pub(super) flows: Vec<Candidate>,
    /// The packets before the damage of the input.
    pub(super) damage: Option<(String, Arc<CaptureError>)>,
    /// There are more packets than are kept.
    pub(super) is_full: bool,
    /// Where packets have their number, if that was given.
    number: Option<NumberField>,
    packets: u64,
    udp: u64,
    fragments: u64,
    unknown_link: Option<u32>,
    known_link: bool,
}

impl Captured {
    /// Why there is nothing to analyse, with counts of the packets.
    pub(super) fn nothing_found(&self, input: &Path) -> Error {
        let Self { packets, fragments, .. } = *self;
        let input = input.to_owned();
        match self.unknown_link {
            Some(link) if !self.known_link => AnalyzeError::UnknownLink { input, link },
            _ => AnalyzeError::NoUdp { input, packets, fragments },
        }
        .into()
    }
}

/// Reads a capture.
pub(super) fn read(
    path: &Path,
    number: Option<NumberField>,
    context: &Context<'_>,
) -> Result<Captured, Error> {
    // Reading fails once the job is cancelled.
    let failed = |source| context.go_on().err().unwrap_or_else(|| Error::of_capture(path, source));
    let mut reader = Reader::new(captures::open(path, context)?).map_err(failed)?;
    let mut captured = Captured { number, ..Captured::default() };
    let mut record = Record::default();
    let mut flows: HashMap<Ends, Flow> = HashMap::new();
    loop {
        match reader.read(&mut record) {
            Ok(false) => break,
            Ok(true) if record.is_packet() => {
                let link = reader.link_type(record.interface()).unwrap_or(u32::MAX);
                captured.add(&mut flows, &record, link);
            }
            Ok(true) => {}
            Err(damage) if damage.is_damage() && captured.packets > 0 => {
                captured.damage = Some((path.display().to_string(), damage.into()));
                break;
            }
            Err(error) => return Err(failed(error)),
        }
        context.progress.reach(reader.offset() as usize);
        if captured.is_full {
            break;
        }
    }
    captured.sort(flows);
    Ok(captured)
}

impl Captured {
    fn add(&mut self, flows: &mut HashMap<Ends, Flow>, record: &Record, link: u32) {
        self.packets += 1;
        let link_type = LinkType::from_capture(link);
        if link_type == LinkType::Other {
            self.unknown_link = Some(link);
            return;
        }
        self.known_link = true;
        let (bytes, len) = (record.data(), record.original_len() as usize);
        let layout = Layout::parse_head(link_type, bytes, len);
        self.fragments += u64::from(layout.form() == Form::Fragment);
        let Some(ends) = ends_of(&layout, bytes) else { return };
        if self.udp == MAX_PACKETS {
            self.is_full = true;
            return;
        }
        if flows.len() == MAX_FLOWS && !flows.contains_key(&ends) {
            return;
        }
        self.udp += 1;
        let payload = layout.payload();
        let there = payload.start.min(bytes.len())..payload.end.min(bytes.len());
        let number = self.number;
        let flow = flows.entry(ends).or_insert_with(|| Flow::with_numbers(number));
        flow.push(record.timestamp_ns(), &bytes[there], payload.len());
    }

    fn sort(&mut self, flows: HashMap<Ends, Flow>) {
        let found = |(ends, flow): (Ends, Flow)| Candidate { ends, kind: flow.kind(), flow };
        self.flows = flows.into_iter().map(found).collect();
        let order = |found: &Candidate| {
            (found.kind == Kind::Udp, std::cmp::Reverse(found.flow.len()), found.ends)
        };
        self.flows.sort_by_key(order);
    }
}

/// The ends of a UDP datagram.
fn ends_of(layout: &Layout, bytes: &[u8]) -> Option<Ends> {
    let is_whole = matches!(layout.form(), Form::Datagram | Form::Padded);
    let flow = FiveTuple::of(layout, bytes).filter(|_| is_whole)?;
    let is_there = layout.header_len() <= bytes.len();
    (flow.protocol == protocol::UDP && is_there).then(|| flow.ends())
}
