//! Packets that left the model, as a capture in virtual time.

use super::scenario::Scenario;
use crate::failure::Failure;
use linecard_app::captures::format_of;
use linecard_io::capture::{CaptureError, OutputFile, PacketChange, Record, Source, Writer};
use linecard_model::transmit::Sent;
use std::path::Path;

/// Packets begin with their IP header.
const LINKTYPE_RAW: u16 = 101;
/// The longest packet that readers built on libpcap take.
const SNAPLEN: u32 = 262_144;

/// Writes packets with the time at which their last bit left, counted from the epoch. The file has
/// its name only when it is complete.
#[derive(Debug)]
pub(super) struct CaptureWriter {
    writer: Writer<OutputFile>,
    error: Option<CaptureError>,
}

impl CaptureWriter {
    pub(super) fn create(scenario: &Scenario, output: &Path) -> Result<Self, Failure> {
        let of = |source| Failure::of_capture(scenario.path(), source);
        let file = OutputFile::create(output, &[scenario.path()]).map_err(of)?;
        let source = Source::pcap(LINKTYPE_RAW, true, SNAPLEN);
        let writer = Writer::new(file, format_of(output), source).map_err(of)?;
        Ok(Self { writer, error: None })
    }

    /// Takes a packet. What goes wrong in writing is said at the end.
    pub(super) fn take(&mut self, sent: &Sent) {
        if self.error.is_none() {
            let change = PacketChange { ticks: Some(sent.to.as_ns()), ..PacketChange::default() };
            self.error = self.writer.write_packet(&Record::default(), &[&sent.bytes], change).err();
        }
    }

    /// Completes the file.
    pub(super) fn finish(self, scenario: &Scenario) -> Result<(), Failure> {
        let result = match self.error {
            Some(error) => Err(error),
            None => self.writer.finish().and_then(OutputFile::commit),
        };
        result.map_err(|source| Failure::of_capture(scenario.path(), source))
    }
}
