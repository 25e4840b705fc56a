//! Packets that left the model, as a capture in virtual time.

use crate::{Context, Error};
use linecard_io::capture::{
    CaptureError, Format, OutputFile, PacketChange, Record, Source, Writer,
};
use linecard_model::transmit::Sent;
use std::path::{Path, PathBuf};

/// Packets begin with their IP header.
const LINKTYPE_RAW: u16 = 101;
/// The longest packet that readers built on libpcap take.
const SNAPLEN: u32 = 262_144;

/// Writes packets with the time at which their last bit left, counted from the epoch. The file has
/// its name only when it is complete.
#[derive(Debug)]
pub(super) struct CaptureWriter {
    scenario: PathBuf,
    writer: Writer<OutputFile>,
    error: Option<CaptureError>,
}

impl CaptureWriter {
    pub(super) fn create(output: &Path, context: &Context<'_>) -> Result<Self, Error> {
        let scenario = context.scenario().to_owned();
        let of = |source| Error::of_capture(&scenario, source);
        let file = OutputFile::create_capture(output, &[&scenario]).map_err(of)?;
        let source = Source::pcap(LINKTYPE_RAW, true, SNAPLEN);
        let writer = Writer::new(file, Format::of_name(output), source).map_err(of)?;
        Ok(Self { scenario, writer, error: None })
    }

    /// Takes a packet. Write errors are reported at the end.
    pub(super) fn take(&mut self, sent: &Sent) {
        if self.error.is_none() {
            let change = PacketChange { ticks: Some(sent.to.as_ns()), ..PacketChange::default() };
            self.error = self.writer.write_packet(&Record::default(), &[&sent.bytes], change).err();
        }
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<(), Error> {
        let result = match self.error {
            Some(error) => Err(error),
            None => self.writer.finish().and_then(OutputFile::commit),
        };
        result.map_err(|source| Error::of_capture(&self.scenario, source))
    }
}
