//! Common parts of both endpoints of a transfer: the control connection, and a sealed socket for
//! each lane.

use super::{Inbox, Ready, Relay, SealedSocket};
use crate::control::{Control, ControlError};
use linecard_transfer::control::{Failed, Message, Text};
use std::fmt::Display;

/// The code of a failure of one object.
const OBJECT_FAILED: u16 = 2;

/// The sockets of an endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) control: Control,
    /// Carries control messages over lanes when the control connection does not.
    pub(crate) relay: Relay,
    /// One for each lane.
    pub(crate) sockets: Vec<SealedSocket>,
    /// One for each thread that receives.
    pub(crate) inboxes: Vec<Inbox>,
    /// Sources that may be readable.
    pub(crate) ready: Ready,
}

impl Endpoint {
    pub(crate) fn new(control: Control, sockets: Vec<SealedSocket>, payload_bytes: u32) -> Self {
        let relay = Relay::new(payload_bytes);
        Self { control, relay, sockets, inboxes: vec![Inbox::new()], ready: Ready::ALL }
    }

    /// Sends a control message.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        self.relay.send(&mut self.control, message)
    }

    /// Tells the other end that an object is given up; the sender, below which chunk it was sent.
    pub(crate) fn send_failed(
        &mut self,
        object: u32,
        sent_below: Option<u32>,
        why: &dyn Display,
    ) -> Result<(), ControlError> {
        let text = Text::of(why.to_string().as_bytes());
        let object = Some(object);
        let failed = Failed { object, sent_below, code: OBJECT_FAILED, text };
        self.send(&Message::Failed(failed))
    }

    /// Whether all messages have left, go over lanes, or cannot leave any more.
    pub(crate) fn is_flushed(&self) -> bool {
        self.relay.is_lame() || self.relay.is_down() || !self.control.wants_write()
    }
}
