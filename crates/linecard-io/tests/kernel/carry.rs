//! Whether a virtio header can describe a merged packet, derived from its frames: if not, a TAP device gets the
//! original segments.

use crate::frame::{CWR, DF, Field, Frame, Ip, TCP, Tunnel, UDP};
use crate::session::{Merged, origins, text};

/// Why merged packets go in segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// Only UDP tunnels can be described, one around a packet.
    Tunnel,
    /// Identifications are counted up, which only atomic datagrams do not mind (RFC 6864).
    FixedIds,
    /// CWR stays on the first.
    Cwr,
    /// Nothing is padded.
    Padding,
    /// A checksum is computed.
    NoChecksum,
}

impl Refusal {
    /// Why frames that were merged cannot be described as one packet, if so; `tunnels`: a header
    /// can tell of UDP tunnels.
    fn of(frames: &[&Frame], tunnels: bool) -> Option<Self> {
        let [first, second, ..] = frames else { return None };
        let described = first.session.is_none()
            && match first.outer[..] {
                [] => true,
                [(_, Tunnel::Vxlan { .. } | Tunnel::Geneve { .. })] => tunnels,
                _ => false,
            };
        let fixed =
            |one: &Ip, next: &Ip| !one.v6 && one.id == next.id && one.flags_fragment & DF == 0;
        let mut outer = first.outer.iter().zip(&second.outer);
        if !described {
            Some(Self::Tunnel)
        } else if fixed(&first.ip, &second.ip) || outer.any(|(one, next)| fixed(&one.0, &next.0)) {
            Some(Self::FixedIds)
        } else if first.protocol == TCP && first.flags & CWR != 0 {
            Some(Self::Cwr)
        } else if frames.iter().any(|frame| frame.padded) {
            Some(Self::Padding)
        } else if first.protocol == UDP && first.field == Field::None {
            Some(Self::NoChecksum)
        } else {
            None
        }
    }
}

/// How a TAP device carries what was merged of some frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CarriedFrames<'f> {
    pub(crate) frames: &'f [Frame],
    /// Whether its virtio header can tell of UDP tunnels.
    pub(crate) tunnels: bool,
}

impl CarriedFrames<'_> {
    /// Packets as they get through: whole, or as the frames that came.
    pub(crate) fn carried(self, merged: &[Merged]) -> Vec<Merged> {
        let Some(origins) = origins(self.frames, merged) else { return merged.to_vec() };
        let one = |(one, origins): (&Merged, &Vec<usize>)| match self.refusal(origins) {
            None => vec![one.clone()],
            Some(_) => {
                let segment = |origin: &usize| {
                    let frame = self.frames[*origin].bytes();
                    Merged { frame, gso_size: 0 }
                };
                origins.iter().map(segment).collect()
            }
        };
        merged.iter().zip(&origins).flat_map(one).collect()
    }

    /// The same of a result as text, `1+2 3`.
    pub(crate) fn carried_text(self, result: &str) -> String {
        let numbers = |one: &str| -> Vec<usize> {
            one.split('+')
                .filter_map(|number| number.parse::<usize>().ok()?.checked_sub(1))
                .collect()
        };
        let one = |origins: Vec<usize>| match self.refusal(&origins) {
            None => vec![origins],
            Some(_) => origins.into_iter().map(|origin| vec![origin]).collect(),
        };
        let all: Vec<_> = result.split(' ').map(numbers).flat_map(one).collect();
        text(Some(&all))
    }

    /// Why some of what was merged goes in segments, if so.
    pub(crate) fn refusals(self, merged: &[Merged]) -> Option<Refusal> {
        let origins = origins(self.frames, merged)?;
        origins.iter().find_map(|origins| self.refusal(origins))
    }

    fn refusal(self, origins: &[usize]) -> Option<Refusal> {
        let frames: Vec<_> = origins.iter().map(|origin| &self.frames[*origin]).collect();
        Refusal::of(&frames, self.tunnels)
    }
}
