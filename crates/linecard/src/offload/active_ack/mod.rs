//! Active acknowledgment: data that is held on its way to the receiver is acknowledged on behalf of
//! the receiver, so that its sender need not wait for the coalescer (Li, Chen, Su, V.C).
//!
//! A coalescer that holds 64 KiB of a connection whose sender may have 32 KiB in flight stalls that
//! sender until a timer fires: no data reaches the receiver, so nothing is acknowledged.
//! [`ActiveAck`] sits between [resequencing](super::resequence) and the
//! [coalescer](super::coalesce), sees both directions, and acknowledges data that leaves no gap
//! ([`ActiveAck::data`]); the receiver's own acknowledgments pass through it
//! ([`ActiveAck::answer`]).
//!
//! # Limitations
//!
//! **An acknowledged byte can be lost.** By an acknowledgment the receiving TCP takes
//! responsibility for the data (RFC 793, section 2.6); RFC 3135, sections 3.1.2 and 4.1.3,
//! discusses what local acknowledgments do to that. Here the data is in a buffer before the
//! receiver: if the host dies, the packet is dropped later on, or its checksum fails, it is never
//! retransmitted and the connection stalls permanently. [`Config::max_ahead`] bounds the amount.
//! Also:
//!
//! - **Acknowledgments clock the sender** by the path up to here: round-trip times no longer contain
//!   the host. Its timestamps echo the latest data, not the earliest unacknowledged
//!   (RFC 7323, section 4.3).
//! - **Selective acknowledgments** (RFC 2018) are never sent: data after a gap is not acknowledged,
//!   and the receiver's own acknowledgments pass unchanged. A receiver that reports a gap below the
//!   acknowledged number has lost data that is never retransmitted.
//! - **Congestion marks**: after data marked "congestion experienced", nothing is acknowledged
//!   until the receiver has acknowledged it, and as long as it echoes the mark (RFC 3168, section
//!   6.1.3; Accurate ECN, RFC 9768, counts in the same bits, so those connections are hardly ever
//!   acknowledged).
//! - **Authenticated or encrypted segments** (TCP-AO, RFC 5925; `IPsec`) cannot be acknowledged; a
//!   peer that uses TCP-AO ignores the acknowledgments.
//!
//! # The receiver's own acknowledgments
//!
//! In mode [`Mode::WindowHonest`] the window is exactly the receiver's: each acknowledgment keeps
//! the right edge that the receiver has set, and none is sent if less than a packet fits before
//! that edge. An acknowledgment of the receiver for data acknowledged already is redundant and
//! would look like a duplicate, three of which make a sender retransmit (RFC 5681, section 3.2):
//!
//! | a pure acknowledgment of the receiver that | is handled so |
//! |---|---|
//! | acknowledges more than was acknowledged so far | passes |
//! | is at or below the number acknowledged for it, with an unchanged right edge | is dropped, the first time |
//! | is the same, with another right edge | passes as a window update, its number raised to the one the sender knows |
//! | repeats its number | passes: a genuine duplicate |
//! | has flags, data, or options other than timestamps | passes |
//!
//! In mode [`Mode::Paper`] all of them pass, because "duplicate ACKs are harmless": an older number
//! is ignored (RFC 9293, section 3.10.7.4), and an equal one counts as one duplicate.

mod config;
mod connection;
mod counters;
mod key;
mod reason;
mod reply;

pub use config::{Config, Mode};
pub use counters::Counters;
pub use reason::{Answer, Answers, Silence, Silences};
pub use reply::Reply;

use super::flows::{FlowId, Flows, Placement};
use super::tcp::{Options, Segment, distance, is_marked, vouch};
use crate::packet::header::{self, Tcp, tcp_flags};
use crate::packet::{ChecksumState, FlowHasher, LinkType, Packet};
use connection::Connection;
use key::{Key, Plain, Way};
use reply::{Say, set_tcp_checksum};

/// The window of the paper.
const PAPER_WINDOW: u16 = 0xFFFF;

/// Acknowledges data on behalf of the receiver; see the [module](self).
///
/// ```
/// use linecard::offload::active_ack::{ActiveAck, Config, Silence};
/// use linecard::packet::{LinkType, Meta, Packet};
///
/// let mut active = ActiveAck::new(LinkType::Ethernet, Config::default());
/// let mut arp = Packet::new(vec![0_u8; 60], LinkType::Ethernet, Meta::default());
/// assert_eq!(active.data(&mut arp, true).err(), Some(Silence::NotPlain));
/// ```
#[derive(Debug)]
pub struct ActiveAck {
    config: Config,
    link: LinkType,
    hasher: FlowHasher,
    connections: Flows<Connection>,
    turns: u64,
    counters: Counters,
}

impl ActiveAck {
    /// Allocates all memory. All packets are frames of `link`: Ethernet or raw IP; data on other
    /// links is never acknowledged.
    #[must_use]
    pub fn new(link: LinkType, config: Config) -> Self {
        Self {
            hasher: FlowHasher::new(config.secret),
            connections: Flows::new(config.max_connections),
            turns: 0,
            counters: Counters::default(),
            link,
            config,
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Connections in the table now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.used()
    }

    /// Processes a packet on its way to the receiver. Returns the acknowledgment to send to its
    /// sender once the packet is safely stored; none is made if `can_send` is false.
    ///
    /// # Errors
    ///
    /// The reason why nothing is to be sent; it is counted.
    pub fn data<B: AsRef<[u8]>>(
        &mut self,
        packet: &mut Packet<B>,
        can_send: bool,
    ) -> Result<Reply, Silence> {
        self.counters.data_in += 1;
        let answered = self.examine(packet, can_send);
        match &answered {
            Ok(_) => self.counters.sent += 1,
            Err(why) => self.counters.silent.count(*why),
        }
        answered
    }

    /// Processes a packet from the receiver on its way to the sender. The packet must not be sent
    /// if the result is [`Answer::Suppressed`], and has been modified if it is [`Answer::Raised`].
    pub fn answer<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, packet: &mut Packet<B>) -> Answer {
        self.counters.answers_in += 1;
        let answer = self.follow(packet).unwrap_or(Answer::Passed);
        self.counters.answers.count(answer);
        answer
    }

    fn examine<B: AsRef<[u8]>>(
        &mut self,
        packet: &mut Packet<B>,
        can_send: bool,
    ) -> Result<Reply, Silence> {
        let plain = Plain::of(self.link, packet).ok_or(Silence::NotPlain)?;
        let segment = Segment::read(packet).ok_or(Silence::NotPlain)?;
        if !vouch(packet, self.config.checksum) {
            return Err(Silence::Checksum);
        }
        let options = Options::read(packet);
        let key = plain.key(packet.bytes(), Way::ToReceiver);
        if segment.has(tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST | tcp_flags::URG) {
            self.control(key, &segment, &options);
            return Err(Silence::Control);
        }
        if segment.len == 0 {
            return Err(Silence::NoData);
        }
        let id = self.find(&key).ok_or(Silence::Unknown)?;
        let connection = self.connections.get_mut(id);
        connection.passes(&segment, is_marked(packet));
        let say = say(&self.config, connection, &segment, &options)?;
        if !can_send {
            return Err(Silence::NoBuffer);
        }
        (connection.told, connection.told_window) = (say.number, say.window);
        connection.unanswered = 0;
        let real = connection.receiver.map_or(say.number, |receiver| receiver.acknowledged);
        self.counters.ahead.record(distance(real, say.number).max(0) as u64);
        Ok(Reply::to(packet.bytes(), &plain, &say))
    }

    /// Handles a packet of the sender that opens, closes or resets the connection, or that is never
    /// acknowledged here.
    fn control(&mut self, key: Key, segment: &Segment, options: &Options) {
        if segment.has(tcp_flags::SYN) {
            let id = self.find_or_make(key);
            self.connections.get_mut(id).opens(segment, options);
        } else if let Some(id) = self.find(&key) {
            if segment.has(tcp_flags::RST) {
                self.connections.release(id);
            } else if segment.has(tcp_flags::URG) {
                self.connections.get_mut(id).passes(segment, false);
            }
        }
    }

    fn follow<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, packet: &mut Packet<B>) -> Option<Answer> {
        let plain = Plain::of(self.link, packet)?;
        let segment = Segment::read(packet)?;
        if !vouch(packet, self.config.checksum) {
            return None;
        }
        let options = Options::read(packet);
        let key = plain.key(packet.bytes(), Way::ToSender);
        if segment.has(tcp_flags::RST) {
            self.find(&key).into_iter().for_each(|id| self.connections.release(id));
            return None;
        }
        let id = self.find_or_make(key);
        let connection = self.connections.get_mut(id);
        let (told, told_window) = (connection.told, connection.told_window);
        let known = connection.receiver.is_some();
        let advances = connection.answers(&segment, &options);
        let pure = segment.len == 0 && segment.flags == tcp_flags::ACK && !options.others;
        let behind = distance(segment.acknowledgment, told);
        let honest = self.config.mode == Mode::WindowHonest;
        if !honest || !known || !pure || behind < 0 || connection.scale().is_none() {
            return None;
        }
        let window = connection.honest_window(told)?;
        connection.told_window = window;
        match (behind, window == told_window) {
            (_, true) if advances => Some(Answer::Suppressed),
            (0, _) | (_, true) => None,
            (_, false) => {
                raise(packet, &plain, (told, window));
                Some(Answer::Raised)
            }
        }
    }

    fn find(&mut self, key: &Key) -> Option<FlowId> {
        self.turns += 1;
        let id = self.connections.find(self.hash(key))?;
        let connection = self.connections.get_mut(id);
        connection.used = self.turns;
        (connection.key == *key).then_some(id)
    }

    fn find_or_make(&mut self, key: Key) -> FlowId {
        if let Some(id) = self.find(&key) {
            return id;
        }
        let hash = self.hash(&key);
        let place = match self.connections.find(hash) {
            // Another key has the same hash: that connection is evicted.
            Some(id) => Placement::Occupied(id),
            None => self.connections.place(hash, |_, connection| connection.used),
        };
        let id = match place {
            Placement::Free(id) => id,
            Placement::Occupied(id) => {
                self.counters.connections_evicted += 1;
                id
            }
        };
        self.connections.occupy(id, hash, Connection::new(key, self.turns));
        self.counters.connections_made += 1;
        id
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.bytes(0, key.as_ref())
    }
}

/// Decides which acknowledgment to send for a packet that has just passed.
fn say(
    config: &Config,
    connection: &mut Connection,
    segment: &Segment,
    options: &Options,
) -> Result<Say, Silence> {
    let (Some(receiver), Some(number)) = (connection.receiver, connection.complete) else {
        return Err(Silence::Unknown);
    };
    if distance(connection.told, number) <= 0 {
        return Err(Silence::NothingNew);
    }
    connection.unanswered += 1;
    if connection.is_congested() {
        return Err(Silence::Congestion);
    }
    if connection.unanswered < config.every {
        return Err(Silence::NotYet);
    }
    let window = match config.mode {
        Mode::Paper => PAPER_WINDOW,
        Mode::WindowHonest => {
            let scale = connection.scale().ok_or(Silence::NoScale)?;
            let window = connection.honest_window(number).ok_or(Silence::NoScale)?;
            // A window below the size of a packet would be silly (RFC 9293, section 3.8.6.2.2).
            if u32::from(window) << scale < segment.len {
                return Err(Silence::Window);
            }
            window
        }
    };
    if distance(receiver.acknowledged, number) as u32 > config.max_ahead {
        return Err(Silence::Ahead);
    }
    let timestamps = options.timestamps.map(|(value, echo)| (connection.clock(echo), value));
    Ok(Say { sequence: receiver.next, number, window, timestamps })
}

/// Raises the number of a pure acknowledgment to the one that the sender has received.
fn raise<B: AsRef<[u8]> + AsMut<[u8]>>(
    packet: &mut Packet<B>,
    plain: &Plain,
    (number, window): (u32, u16),
) {
    let (end, network) = (packet.layout().end(), packet.layout().network());
    let partial = packet.meta.checksum == ChecksumState::Partial;
    let bytes = &mut packet.bytes_mut()[..end];
    header::set_be32(bytes, plain.transport + Tcp::ACKNOWLEDGMENT, number);
    header::set_be16(bytes, plain.transport + Tcp::WINDOW, window);
    // A partial checksum covers only the pseudo header, which has not changed.
    if let Some(network) = network.filter(|_| !partial) {
        set_tcp_checksum(bytes, network, plain.transport);
    }
}
