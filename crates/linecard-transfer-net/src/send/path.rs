//! Where each lane goes, and whether it can be opened.

use crate::lane::{Absent, Connect, Lane, LocalEnd, OpenError, Own, Peer, Spec};
use linecard_transfer::control::LaneKind;
use linecard_transfer::lane::LaneState;
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
    /// The receiver was asked for it, and nobody knows whether it leads there: it is not shown before it carries something.
    pub(super) is_spare: bool,
    /// Why the lane carries nothing.
    pub(super) problem: Option<LaneProblem>,
    /// The link that its packets share with other lanes, as one line.
    pub(super) detour: Option<String>,
    connect: Box<dyn Connect>,
    lane: Box<dyn Lane>,
    /// The interface that the lane names, or that has its address.
    interface: Option<String>,
}

/// Why a lane cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LaneProblem {
    /// The receiver names an address to which this end does not send. It is not tried again.
    #[error("the receiver names {peer} for it, which is not used: {reason}")]
    Refused {
        /// The address.
        peer: SocketAddr,
        /// The rule that excludes it.
        reason: &'static str,
    },
    /// It was found, and does not lead to the receiver by an interface of its own. It is not tried again, nor shown.
    #[error("it does not lead to the receiver")]
    Elsewhere,
    /// It does not open. It is tried again.
    #[error("{source} at {peer}")]
    Closed {
        /// The receiver's end.
        peer: SocketAddr,
        /// The error of this end.
        source: OpenError,
    },
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
        let connect = Box::new(spec.clone());
        let (problem, detour) = (None, None);
        let is_spare = false;
        let interface = match &spec.local {
            LocalEnd::Address(ip) => own.interface(*ip).map(str::to_owned),
            LocalEnd::Interface(name) => Some(name.clone()),
        };
        let lane: Box<dyn Lane> = absent;
        let mut path =
            Self { spec, peer, is_proven, is_spare, problem, detour, connect, lane, interface };
        if let Some(reason) = receiver.refuses(peer, source, own) {
            path.problem = Some(LaneProblem::Refused { peer, reason });
            return path;
        }
        match path.connect() {
            Ok(lane) => path.lane = lane,
            Err(source) => path.problem = Some(LaneProblem::Closed { peer, source }),
        }
        let detour = source.and_then(|source| own.detour(source, peer.ip()));
        path.detour = detour.filter(|_| path.problem.is_none()).map(|detour| {
            format!(
                "packets to {peer} leave by {}, not by {}, which has its address: it shares that link \
                 with other lanes. Give `linecard recv` an address on the link of {} by --lane{}",
                detour.leaves,
                detour.own,
                detour.own,
                match path.spec.local {
                    LocalEnd::Address(_) => ", or this lane the interface",
                    LocalEnd::Interface(_) => "",
                }
            )
        });
        path
    }

    /// Of a lane that a sealed socket has, and that is opened again by `connect`.
    #[cfg(test)]
    pub(super) fn in_memory(spec: Spec, peer: SocketAddr, connect: Box<dyn Connect>) -> Self {
        let lane = Box::new(Absent::new(String::new(), spec.kind == LaneKind::Tcp));
        let (is_proven, is_spare) = (true, false);
        let (problem, detour, interface) = (None, None, None);
        Self { spec, peer, is_proven, is_spare, problem, detour, connect, lane, interface }
    }

    /// Opens the lane once more: at another address of its interface, if its own is gone.
    pub(super) fn connect(&mut self) -> Result<Box<dyn Lane>, OpenError> {
        if let (LocalEnd::Address(ip), Some(interface)) = (&self.spec.local, &self.interface)
            && let Some(next) = Own::now().next(*ip, interface)
        {
            self.spec.local = LocalEnd::Address(next);
            self.connect = Box::new(self.spec.clone());
        }
        self.connect.connect(self.peer)
    }

    /// Whether this host does not have the address of the lane any more: it may have got another by DHCP.
    pub(super) fn has_lost_address(&self) -> bool {
        match self.spec.local {
            LocalEnd::Address(ip) => self.interface.is_some() && !Own::now().has(ip),
            LocalEnd::Interface(_) => false,
        }
    }

    /// The interface of the lane, if it is down or has no carrier now.
    pub(super) fn down(&self) -> Option<&str> {
        self.interface.as_deref().filter(|interface| Own::now().is_down(interface))
    }

    /// Takes a path that was found out of use, unless it leads to the receiver by an interface of its own; in any case if
    /// it is the same as another.
    pub(super) fn leave_out_if_elsewhere(&mut self, is_double: bool) {
        if is_double || self.problem.is_some() || self.detour.take().is_some() {
            self.leave_out();
        }
    }

    /// It does not lead to the receiver.
    pub(super) fn leave_out(&mut self) {
        self.problem = Some(LaneProblem::Elsewhere);
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.problem, Some(LaneProblem::Elsewhere))
    }

    /// Whether the user sees a lane in this state: none that does not lead to the receiver, or of which this is not known
    /// yet.
    pub(super) fn is_shown(&self, state: LaneState) -> bool {
        let is_tried = self.is_spare && state == LaneState::Validating;
        !self.is_elsewhere() && !is_tried
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
