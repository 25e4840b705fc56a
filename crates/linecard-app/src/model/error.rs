//! Why a model has no outcome, or a wrong one.

use super::account::Conserved;
use super::bottlenecks::name;
use super::transfer::MAX_PACKETS;
use crate::Failure;
use crate::error::Kind;
use linecard::offload::segment::SegmentError;
use linecard_model::adapter::Mismatch;
use linecard_model::receive::ReceiveError;
use linecard_model::solve::{Bottleneck, Resource};
use linecard_model::transmit::{self, TransmitError};
use linecard_transfer::sim::RunError;
use std::path::PathBuf;

/// A model that is wrong or has failed, or a rate that no design carries.
#[derive(Debug, thiserror::Error)]
pub(super) enum ModelError {
    #[error(
        "the model is wrong: {} in, and {} out, {} dropped, {} held, or received bytes differ from those sent",
        .0.came, .0.went, .0.dropped, .0.held
    )]
    Lost(Conserved),
    #[error(
        "the model is wrong: {closed_form_bits_per_second:.0} bit/s by the closed form, \
         {simulated_bits_per_second:.0} simulated"
    )]
    Reads { closed_form_bits_per_second: f64, simulated_bits_per_second: f64 },
    #[error("segmentation refuses a message: {0}")]
    Segment(#[source] SegmentError),
    #[error("the firmware is wrong: {0}")]
    Frame(Mismatch),
    #[error(
        "the firmware is wrong: {packets_wrong} packets differ from the offload's output for the messages, or never \
         left; {payload_in} bytes of payload came and {payload_out} left{}", the_first(first.as_ref())
    )]
    Packets {
        packets_wrong: u64,
        payload_in: u64,
        payload_out: u64,
        first: Option<transmit::Mismatch>,
    },
    #[error("{} does not exist: choose \"{}\", or name an ELF file", path.display(), known.join("\", \""))]
    NoFirmware { path: PathBuf, known: Vec<&'static str> },
    #[error("{value} does not fit the other values: choose {min} to {max}")]
    Misfit { value: u64, min: u64, max: u64 },
    #[error("{packets} packets in all: choose up to {MAX_PACKETS}")]
    TooManyPackets { packets: u64 },
    #[error("the transfer did not complete: {source} (seed {seed})")]
    Transfer { source: RunError, seed: u64 },
    #[error("firmware {image}: {}{source}", before(origin.as_ref()))]
    Transmit { image: String, origin: Option<String>, source: TransmitError },
    #[error("firmware {image}: {}{source}", before(origin.as_ref()))]
    Receive { image: String, origin: Option<String>, source: ReceiveError },
    #[error(
        "{:.1} Gbit/s cannot be carried within the limits: {} limits at {:.1} Gbit/s with {} cores at {} MHz, DMA at \
         {} MHz and a bus of {} bits; {}",
        *wanted_bits_per_second as f64 / 1e9,
        name(*limit),
        last.wire_bits_per_second / 1e9,
        last.design.cores,
        last.design.core.hz() as f64 / 1e6,
        last.design.dma.hz() as f64 / 1e6,
        last.design.bus_bits,
        match limit {
            Resource::Line => "no line is faster: choose a lower --rate",
            Resource::Core | Resource::Dma => "raise --max-core or --max-dma",
        },
    )]
    Infeasible { wanted_bits_per_second: u64, limit: Resource, last: Box<Bottleneck> },
}

impl Kind for ModelError {
    fn failure(&self) -> Failure {
        match self {
            Self::Transmit { .. } | Self::Receive { .. } => Failure::Firmware,
            Self::Infeasible { .. } => Failure::Infeasible,
            Self::NoFirmware { .. } | Self::Misfit { .. } | Self::TooManyPackets { .. } => {
                Failure::Usage
            }
            _ => Failure::Wrong,
        }
    }
}

/// Where the instruction that failed comes from.
fn before(origin: Option<&String>) -> String {
    origin.map_or_else(String::new, |origin| format!("{origin}: "))
}

fn the_first(mismatch: Option<&transmit::Mismatch>) -> String {
    mismatch.map_or_else(String::new, |first| format!("; the first: {first}"))
}
