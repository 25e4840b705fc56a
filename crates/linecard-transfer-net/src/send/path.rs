//! Where each lane goes, and whether it can be opened.

use crate::lane::{Absent, Lane, Own, Peer, Spec};
use linecard_transfer::control::LaneKind;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// One lane: from where, to where.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) spec: Spec,
    pub(super) peer: SocketAddr,
    /// `peer` is where the control connection goes. Anything else is the receiver's word until a probe is
    /// answered there.
    pub(super) is_proven: bool,
    /// Why the lane carries nothing.
    pub(super) problem: Option<Problem>,
    /// The link that its packets share with other lanes, as one line.
    pub(super) detour: Option<String>,
    lane: Box<dyn Lane>,
}

/// Why a lane cannot be used.
#[derive(Debug)]
pub(super) struct Problem {
    text: String,
    /// Another try is of no use.
    pub(super) is_final: bool,
}

impl Path {
    /// Opens the lane towards the address that the receiver has named.
    pub(super) fn open(
        spec: Spec,
        source: Option<IpAddr>,
        (receiver, named): (Peer, SocketAddr),
        own: &Own,
    ) -> Self {
        let peer = receiver.reach(named);
        let name = format!("{spec} to {peer}, not open");
        let absent = Box::new(Absent::new(name, spec.kind == LaneKind::Tcp));
        let is_proven = peer.ip() == receiver.ip;
        let mut path = Self { spec, peer, is_proven, problem: None, detour: None, lane: absent };
        if let Some(why) = receiver.refuses(peer, source, own) {
            let text = format!("the receiver names {peer} for it, which is not used: {why}");
            path.problem = Some(Problem { text, is_final: true });
            return path;
        }
        match path.spec.connect(peer) {
            Ok(lane) => path.lane = lane,
            Err(error) => {
                let text = format!("{error} at {peer}");
                path.problem = Some(Problem { text, is_final: false });
            }
        }
        let detour = source.and_then(|source| own.detour(source, peer.ip()));
        path.detour = detour.filter(|_| path.problem.is_none()).map(|detour| {
            format!(
                "packets to {peer} leave by {}, not by {}, which has its address: it shares that link \
                 with other lanes. Give `linecard recv` an address on the link of {} by --lane, or this \
                 lane the interface",
                detour.leaves, detour.own, detour.own
            )
        });
        path
    }

    /// The lane; afterwards its sealed socket has it.
    pub(super) fn take_lane(&mut self) -> Box<dyn Lane> {
        let absent = Box::new(Absent::new(String::new(), self.lane.is_stream()));
        std::mem::replace(&mut self.lane, absent)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.spec.kind, self.spec.local)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
