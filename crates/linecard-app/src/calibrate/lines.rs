//! Stages of transfers, measured in a loop of calls over loopback.

use super::error::CalibrateError;
use crate::{Error, Failure};
use linecard_io::calibrate::{Series, StageCost, StageLoop};
use linecard_plan::Token;
use linecard_transfer::fec::{Scheme, SchemeError};
use linecard_transfer_net::file::ChunkBytes;
use linecard_transfer_net::stages::{Line, LineError, LineSettings, Stage};
use std::time::Duration;

/// Data bytes of packets that are measured.
pub(crate) const PAYLOADS: [u32; 3] = [1_408, 4_096, 8_896];
/// Repair codes that are measured, none first.
pub(crate) const CODES: [&str; 3] = ["none", "xor:10", "rs:28,4"];
/// Packets in a call that are measured.
pub(crate) const BATCHES: [u32; 3] = [1, 8, 64];
/// Bytes of chunks that are measured. As those of a transfer, they do not fit the caches next to a core.
pub(crate) const CHUNK_BYTES: u32 = 4 << 20;
/// Bytes that wait in the receiver's socket: what a sender that is ahead puts there in a few milliseconds.
const DEPTH_BYTES: u32 = 4 << 20;
/// Chunks that pass before anything is timed: all memory has been used then.
const WARM_UP: u64 = 16;
/// Calls that this may take, many times what it does.
const MOST_TO_WARM_UP: u32 = 1_000_000;

/// A line as a circle, whose stages have names such as `seal@8896`.
pub(crate) struct Round {
    line: Line,
    settings: LineSettings,
    /// The reason why it stopped.
    error: Option<LineError>,
}

/// The name of a stage in calibrations, before the `@` and the payload. Costs that depend on the
/// code carry its name, too.
pub(crate) fn name(stage: Stage, fec: Scheme) -> String {
    if fec == Scheme::NONE { stage.name().into() } else { format!("{}/{fec}", stage.name()) }
}

/// All kinds of packets, with the first of the codes.
pub(crate) fn kinds(codes: usize) -> Result<Vec<(u32, Scheme)>, Error> {
    let all =
        PAYLOADS.iter().flat_map(|payload| CODES[..codes].iter().map(|code| (*payload, code)));
    let parsed = all.map(|(payload, code)| code.parse().map(|fec| (payload, fec)));
    let wrong = |error: SchemeError| Failure::Thread.with(error);
    parsed.collect::<Result<_, _>>().map_err(wrong)
}

/// Whether a calibration has it: of a transfer with repair, only what the code makes different.
pub(crate) fn is_kept(stage: &StageCost) -> bool {
    let different = [Stage::Split, Stage::Encode, Stage::Seal, Stage::Place];
    let base = stage.name.split_once('/').map(|(base, _)| base);
    base.is_none_or(|base| different.iter().any(|stage| stage.name() == base))
}

/// The unit that a firing of a stage handles.
pub(crate) const fn unit(stage: Stage) -> Token {
    match stage {
        Stage::Read | Stage::Write => Token::Chunk,
        Stage::Encode => Token::Group,
        _ => Token::Packet,
    }
}

impl StageLoop for Round {
    fn stages(&self) -> Vec<(String, Token)> {
        let LineSettings { fec, payload_bytes, .. } = self.settings;
        let named = |stage| (format!("{}@{payload_bytes}", name(stage, fec)), unit(stage));
        Stage::ALL.into_iter().map(named).collect()
    }

    fn next(&mut self) -> Option<usize> {
        let next =
            self.line.next_stage().map_err(|error| self.error = Some(error)).ok().flatten()?;
        Stage::ALL.into_iter().position(|stage| stage == next)
    }

    fn call(&mut self, stage: usize) -> u32 {
        let done = self.line.call(Stage::ALL[stage]);
        done.map_err(|error| self.error = Some(error)).unwrap_or(0)
    }
}

impl Round {
    /// A line with packets of this payload and code, all of whose memory has been used.
    pub(crate) fn new(payload_bytes: u32, fec: Scheme) -> Result<Self, Error> {
        let chunk_bytes = ChunkBytes::new(CHUNK_BYTES.into()).map_err(failed)?;
        let depth = (DEPTH_BYTES / payload_bytes) as usize;
        let settings = LineSettings { payload_bytes, fec, chunk_bytes, batch: 64, depth };
        let line = Line::new(settings).map_err(failed)?;
        let mut round = Self { line, settings, error: None };
        for _ in 0..MOST_TO_WARM_UP {
            if round.error.is_some() || round.line.chunks() >= WARM_UP {
                break;
            }
            if let Some(stage) = round.next() {
                round.call(stage);
            }
        }
        if round.line.chunks() < WARM_UP {
            round.error.get_or_insert(LineError::Stuck);
        }
        round.ended().map(|()| round)
    }

    /// Memory is there for what will be written: [`Line::warm`].
    pub(crate) fn warm(&self) -> Result<(), Error> {
        self.line.warm().map_err(failed)
    }

    /// One visit to all stages, in calls of up to `batch` packets.
    pub(crate) fn visit(
        &mut self,
        series: &mut Series<'static>,
        batch: u32,
        time: Duration,
    ) -> Result<(), Error> {
        self.line.set_batch(batch as usize);
        series.measure_loop(self, batch, time);
        self.ended()
    }

    fn ended(&mut self) -> Result<(), Error> {
        self.error.take().map_or(Ok(()), |error| Err(failed(error)))
    }
}

fn failed(error: impl Into<LineError>) -> Error {
    CalibrateError::Line(error.into()).into()
}
