//! Control messages over lanes, when the control connection does not deliver them.
//!
//! The control connection runs over one address. When its link fails, data still arrive over the other lanes, but the
//! news about them do not. So both ends number their control messages, keep those that the other end has not confirmed,
//! and, when one is not confirmed after [`DELAY_NS`], ask by a packet on a lane what the other end has. If it says
//! [`QUESTIONS`] times that the message has not come, messages go over lanes too, in order. Duplicates are dropped by
//! their number. Packets are sealed like all others of the lane.
//!
//! An end that waits for the other, as for the next data of a pipe, has sent nothing that could be confirmed. It asks,
//! too, when no packet has come for [`IDLE_NS`]: a process that runs answers, one that stands still does not. Such a
//! question goes out on each lane, and the copies that come within [`ANSWER_NS`] have one answer: two idle ends send a
//! packet each second and lane, and while one is not heard, ten.
//!
//! ```text
//! +-----------+-------+------+--------+--------+--------+-------
//! | confirmed | bytes | flag | number | length | offset | part …     numbers 64, lengths 32, flag 8 bits
//! +-----------+-------+------+--------+--------+--------+-------
//! ```
//!
//! `confirmed` messages and `bytes` of the next have come to the sender of the packet. Flag 1 asks for an answer, and
//! flag 2 says that the kernel of the sender has given the control connection up, as its path is down: lanes whose
//! paths are not carry on alone.
//! `number` is that of the message of which `part` is at `offset`, or of the next message to be sent.
//!
//! Bounds: [`KEPT_BYTES`] of messages are kept; one message is put together at a time, with the limit of messages.

use crate::control::{Control, ControlError};
use linecard::time::Instant;
use linecard_transfer::control::{MAX_MESSAGE_BYTES, Message, Reader};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a message may be on its way over the control connection, in ns.
const DELAY_NS: u64 = 500_000_000;
/// The time between two packets that ask, in ns.
const ASK_NS: u64 = 100_000_000;
/// The time between packets that only probe the other end, and after which it is probed, in ns.
const IDLE_NS: u64 = 1_000_000_000;
/// Questions without a part of a message have one answer in this time, in ns.
const ANSWER_NS: u64 = ASK_NS / 2;
/// Bytes of messages that are kept until they are confirmed; of more, the oldest are forgotten, as long as the control
/// connection may deliver them.
const KEPT_BYTES: usize = 4 << 20;
/// Questions about the oldest message, answered that it has not come, after which it goes over lanes: an end that had
/// to wait for its processor asks once too early.
const QUESTIONS: u32 = 3;
/// Packets by which a long message is sent at once.
const BURST: usize = 16;
/// The flags of a packet.
const ASKS: u8 = 1;
const IS_DOWN: u8 = 2;
/// Bytes before the part of a message.
const HEAD_BYTES: usize = 29;
const _: () = assert!(HEAD_BYTES < linecard_transfer::control::MIN_PAYLOAD_BYTES as usize);

/// Sent messages that are not confirmed, and received ones.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    now: Instant,
    /// Bytes of a packet's body.
    payload: usize,
    kept: VecDeque<(Instant, Vec<u8>)>,
    kept_bytes: usize,
    /// Number of the first message that is kept.
    first: u64,
    /// State of the other end: messages, and bytes of the next.
    theirs: (u64, u32),
    /// Its state when parts of a message were sent last.
    told: Option<(u64, u32)>,
    /// Messages that have come, by either way, and over the control connection.
    came: u64,
    came_by_control: u64,
    /// The parts of the next message that were received over lanes.
    part: Vec<u8>,
    /// Messages that came over lanes.
    ready: VecDeque<Message>,
    owes_answer: bool,
    answered: Option<Instant>,
    asked: Instant,
    /// When the last packet came on a lane; zero before the first.
    heard: Instant,
    /// Questions since the other end has confirmed something.
    questions: u32,
    /// Since when nothing is heard from the other end though it was asked.
    unanswered: Option<Instant>,
    /// The control connection has not delivered what a lane has.
    is_lame: bool,
    /// The control connection has failed.
    is_down: bool,
    /// Not because its path was lost: the other end has closed it, or somebody has cut it.
    is_cut: bool,
}

impl Relay {
    /// Before the first message that is numbered; packets have bodies of `payload_bytes`.
    pub(crate) fn new(payload_bytes: u32) -> Self {
        Self { payload: payload_bytes as usize, ..Self::default() }
    }

    /// The time of what follows.
    pub(crate) const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Whether messages go over lanes.
    pub(crate) const fn is_lame(&self) -> bool {
        self.is_lame
    }

    /// Whether the control connection has failed: it delivers nothing more.
    pub(crate) const fn is_down(&self) -> bool {
        self.is_down
    }

    /// Whether the control connection was closed or cut though messages go over lanes: the other end may be gone.
    pub(crate) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The control connection has failed and is not needed: a descriptor that always reports an error is not waited for.
    pub(crate) const fn disconnected(&mut self) {
        self.is_down = true;
    }

    /// Messages go over lanes from now on, too: there is no time to find out whether the control connection delivers them.
    pub(crate) const fn hurry(&mut self) {
        self.is_lame = true;
    }

    /// Whether messages have come that [`Relay::receive`] has not given.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the other end has confirmed all messages.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.theirs.0 >= self.sent()
    }

    /// Whether the other end has not answered for longer than `patience`.
    pub(crate) fn is_silent(&self, patience: Duration) -> bool {
        self.unanswered.is_some_and(|since| self.now.since(since) > patience)
    }

    /// The next packets confirm received messages, if messages go over lanes.
    pub(crate) const fn owe_answer(&mut self) {
        self.owes_answer |= self.is_lame;
    }

    fn sent(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Sends a message over the control connection, and keeps it.
    pub(crate) fn send(
        &mut self,
        control: &mut Control,
        message: &Message,
    ) -> Result<(), ControlError> {
        self.keep(message)?;
        if self.is_down {
            return Ok(());
        }
        match control.send(message) {
            Err(ControlError::Full) if self.is_lame => Ok(()),
            sent => sent,
        }
    }

    fn keep(&mut self, message: &Message) -> Result<(), ControlError> {
        let mut bytes = Vec::new();
        message.write(&mut bytes)?;
        self.kept_bytes += bytes.len();
        self.kept.push_back((self.now, bytes));
        while self.kept_bytes > KEPT_BYTES {
            if self.is_down {
                // It can only come over lanes, and has not yet.
                return Err(ControlError::Full);
            }
            self.forget();
        }
        Ok(())
    }

    fn forget(&mut self) {
        if let Some((_, bytes)) = self.kept.pop_front() {
            self.kept_bytes -= bytes.len();
            self.first += 1;
        }
    }

    /// The next message, by whichever way it has come.
    pub(crate) fn receive(
        &mut self,
        control: &mut Control,
    ) -> Result<Option<Message>, ControlError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if self.is_down {
                return Ok(None);
            }
            match control.receive() {
                Ok(Some(message)) if self.is_new() => return Ok(Some(message)),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(error) => self.excuse(error)?,
            }
        }
    }

    /// A message has come over the control connection: whether it has not come over lanes before.
    fn is_new(&mut self) -> bool {
        self.came_by_control += 1;
        self.unanswered = None;
        let is_new = self.came_by_control > self.came;
        if is_new {
            self.came = self.came_by_control;
            self.part.clear();
        }
        is_new
    }

    /// Sends what the control connection takes.
    pub(crate) fn flush(&mut self, control: &mut Control) -> Result<(), ControlError> {
        if self.is_down {
            return Ok(());
        }
        control.flush().map(|_| ()).or_else(|error| self.excuse(error))
    }

    /// A connection whose path is lost is not needed while a lane has another; if none has, lanes are silent. One that
    /// fails otherwise is not needed if messages go over lanes already. Its other end may also have closed it: then
    /// lanes are silent as well.
    fn excuse(&mut self, error: ControlError) -> Result<(), ControlError> {
        self.is_cut = !matches!(error, ControlError::PathLost);
        let is_excused = match error {
            ControlError::PathLost => true,
            ControlError::ClosedEarly | ControlError::Io(_) => self.is_lame,
            _ => false,
        };
        if !is_excused {
            return Err(error);
        }
        (self.is_lame, self.is_down) = (true, true);
        // The other end's kernel may learn of it by a reset, which must not come first.
        self.owes_answer = true;
        Ok(())
    }

    /// A packet of any kind has come on a lane. It answers a question that was only whether the other end runs.
    pub(crate) fn hear(&mut self) {
        self.heard = self.now;
        if self.kept.is_empty() {
            self.unanswered = None;
        }
    }

    /// A packet for this relay has come on a lane. Malformed ones change nothing.
    pub(crate) fn take(&mut self, body: &[u8]) {
        let Some((head, part)) = body.split_at_checked(HEAD_BYTES) else { return };
        let long = |at: usize| {
            head[at..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes))
        };
        let short = |at: usize| {
            head[at..].first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_be_bytes(*bytes))
        };
        self.unanswered = None;
        self.is_lame |= head[12] & IS_DOWN != 0;
        self.confirmed((long(0), short(8)));
        let is_copy = |at: Instant| part.is_empty() && self.now.ns_since(at) < ANSWER_NS;
        self.owes_answer |= head[12] & ASKS != 0 && !self.answered.is_some_and(is_copy);
        if !part.is_empty() {
            self.put(long(13), (short(21), short(25)), part);
        }
    }

    /// The other end has `theirs`.
    fn confirmed(&mut self, theirs: (u64, u32)) {
        if theirs < self.theirs || theirs.0 > self.sent() {
            return;
        }
        if theirs.0 > self.theirs.0 {
            self.questions = 0;
        }
        self.theirs = theirs;
        while self.first < theirs.0 {
            self.forget();
        }
        self.is_lame |= !self.kept.is_empty() && self.questions >= QUESTIONS;
    }

    fn put(&mut self, number: u64, (length, offset): (u32, u32), part: &[u8]) {
        let (length, offset) = (length as usize, offset as usize);
        let fits = length <= MAX_MESSAGE_BYTES + 6 && offset + part.len() <= length;
        if number != self.came || offset != self.part.len() || !fits {
            return;
        }
        self.is_lame = true;
        self.part.extend_from_slice(part);
        if self.part.len() < length {
            return;
        }
        let bytes = std::mem::take(&mut self.part);
        let mut reader = Reader::new();
        if reader.push(&bytes) == bytes.len()
            && let Ok(Some(message)) = reader.read()
        {
            self.came += 1;
            self.ready.push_back(message);
        }
    }

    /// When [`Relay::packets`] has something by itself.
    pub(crate) fn next_wakeup(&self) -> Instant {
        if self.owes_answer {
            return Instant::ZERO;
        }
        match self.kept.front() {
            Some(_) if self.is_lame => self.asked.plus_ns(ASK_NS),
            Some((at, _)) => at.plus_ns(DELAY_NS).max(self.asked.plus_ns(ASK_NS)),
            None if self.unanswered.is_some() => self.asked.plus_ns(ASK_NS),
            None if self.is_lame => self.asked.plus_ns(IDLE_NS),
            None if self.heard > Instant::ZERO => self.heard.max(self.asked).plus_ns(IDLE_NS),
            None => Instant::NEVER,
        }
    }

    /// Bodies of packets that should leave now, on one lane or on several.
    pub(crate) fn packets(&mut self) -> Vec<Vec<u8>> {
        let asks = self.next_wakeup() <= self.now && (!self.owes_answer || self.is_due());
        if !asks && !self.owes_answer {
            return Vec::new();
        }
        if std::mem::take(&mut self.owes_answer) {
            self.answered = Some(self.now);
        }
        if asks {
            self.asked = self.now;
            // Only those about a message say that the connection does not deliver.
            self.questions += u32::from(!self.kept.is_empty());
            self.unanswered.get_or_insert(self.now);
        }
        let mut packets = Vec::new();
        let (number, mut offset) = self.theirs;
        let kept = number.checked_sub(self.first).and_then(|at| self.kept.get(at as usize));
        // Parts ask for an answer: if answers had them, too, two ends would answer each other without end.
        let is_due = asks || self.told != Some(self.theirs);
        if let Some((_, message)) = kept.filter(|_| self.is_lame && is_due) {
            self.told = Some(self.theirs);
            let room = self.payload - HEAD_BYTES;
            let rest = message.get(offset as usize..).unwrap_or_default();
            for part in rest.chunks(room).take(BURST) {
                let mut packet = self.head(true, number);
                packet.extend((message.len() as u32).to_be_bytes());
                packet.extend(offset.to_be_bytes());
                packet.extend_from_slice(part);
                offset += part.len() as u32;
                packets.push(packet);
            }
        }
        if packets.is_empty() {
            let mut packet = self.head(asks, self.sent());
            packet.extend([0; 8]);
            packets.push(packet);
        }
        packets
    }

    /// No lane has taken the packets: a question that cannot be heard says nothing about the other end while the control
    /// connection may. Earlier ones do, and so does a message that waits.
    pub(crate) fn not_sent(&mut self) {
        if self.kept.is_empty() && !self.is_down && self.unanswered == Some(self.now) {
            self.unanswered = None;
        }
    }

    /// Whether a question has had no answer for so long that lanes may not be what they seem.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.unanswered.is_some_and(|since| self.now.ns_since(since) >= IDLE_NS)
    }

    /// Whether it is time to ask, besides answering.
    fn is_due(&self) -> bool {
        let late = self.kept.front().is_some_and(|(at, _)| self.now.ns_since(*at) >= DELAY_NS);
        (late || self.is_lame && !self.kept.is_empty()) && self.now >= self.asked.plus_ns(ASK_NS)
    }

    fn head(&self, asks: bool, number: u64) -> Vec<u8> {
        let mut head = Vec::with_capacity(self.payload);
        head.extend(self.came.to_be_bytes());
        head.extend((self.part.len() as u32).to_be_bytes());
        head.push(if asks { ASKS } else { 0 } | if self.is_down { IS_DOWN } else { 0 });
        head.extend(number.to_be_bytes());
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;
    use linecard_transfer::control::{ChunkRange, Have};

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_000_000_000 + ms * 1_000_000)
    }

    fn message(number: u32) -> Message {
        let range = |first: u32| ChunkRange { first: 2 * first, count: 1 };
        // Every tenth is longer than a burst.
        let ranges = if number % 10 == 9 { (0..4_000).map(range).collect() } else { Vec::new() };
        Message::Have(Have {
            object: number,
            ranges,
            existing: None,
            is_same: false,
            replaces: false,
            proof_key: None,
            part: None,
        })
    }

    /// Each answer had the oldest message in it, which asked for another one: hundreds of thousands of packets a second, on
    /// every lane.
    #[test]
    fn ends_that_both_have_a_message_do_not_answer_each_other_without_end() {
        let mut ends = [Relay::new(100), Relay::new(100)];
        for end in &mut ends {
            end.set_now(at(0));
            end.hurry();
            (0..3).for_each(|number| end.keep(&message(number)).unwrap());
        }
        let mut count = 0;
        let mut waiting: [VecDeque<Vec<u8>>; 2] = Default::default();
        for end in [0, 1].into_iter().cycle().take(2_000) {
            ends[end].set_now(at(100));
            if let Some(packet) = waiting[end].pop_front() {
                ends[end].take(&packet);
            }
            let packets = ends[end].packets();
            count += packets.len();
            // Over two lanes.
            waiting[1 - end]
                .extend(packets.into_iter().flat_map(|packet| [packet.clone(), packet]));
        }
        assert!(waiting.iter().all(VecDeque::is_empty), "{count} packets, and more wait");
        assert!(ends.iter().all(|end| end.ready.len() == 3), "{ends:?}");
        assert!(count <= 30, "{count} packets for six messages");
    }

    /// All messages come once and in order, over lanes that lose packets.
    #[test]
    fn messages_come_over_lanes_in_order_whatever_is_lost() {
        let mut rng = Rng::new(5);
        let (mut near, mut far) = (Relay::new(512), Relay::new(512));
        let mut came = Vec::new();
        for number in 0..40 {
            near.keep(&message(number)).unwrap();
        }
        for ms in (0..60_000).step_by(10) {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            for (relay, out) in [(&mut near, &mut there), (&mut far, &mut back)] {
                relay.set_now(at(ms));
                out.extend(relay.packets());
            }
            there.iter().filter(|_| rng.chance(0.7)).for_each(|body| far.take(body));
            back.iter().filter(|_| rng.chance(0.7)).for_each(|body| near.take(body));
            came.extend(far.ready.drain(..));
        }
        assert!(came.iter().eq((0..40).map(message).collect::<Vec<_>>().iter()), "{}", came.len());
        assert!(near.is_confirmed() && near.is_lame() && near.kept.is_empty());
    }

    #[test]
    fn what_the_connection_delivers_is_only_asked_about() {
        let (mut near, mut far) = (Relay::new(512), Relay::new(512));
        near.set_now(at(0));
        near.keep(&message(0)).unwrap();
        assert!(far.is_new() && near.packets().is_empty());
        near.set_now(at(500));
        let asks = near.packets();
        assert_eq!(asks.iter().map(Vec::len).collect::<Vec<_>>(), [HEAD_BYTES]);
        assert!(near.packets().is_empty(), "not again at once");
        far.set_now(at(501));
        far.take(&asks[0]);
        let [answer] = &far.packets()[..] else { panic!("one answer") };
        near.take(answer);
        assert!(near.is_confirmed() && !near.is_lame() && near.next_wakeup() == Instant::NEVER);
        assert!(far.packets().is_empty());
    }

    /// An idle end that runs answers, and neither end takes the connection for lame; one that stands still is silent.
    #[test]
    fn an_idle_end_is_asked_whether_it_runs() {
        let patience = Duration::from_secs(3);
        let (mut near, mut far) = (Relay::new(512), Relay::new(512));
        near.set_now(at(0));
        assert!(near.next_wakeup() == Instant::NEVER, "no lane has carried anything");
        near.hear();
        assert!(near.packets().is_empty());
        let mut asked = 0;
        for ms in (0..20_000).step_by(100) {
            near.set_now(at(ms));
            far.set_now(at(ms));
            for question in near.packets() {
                asked += 1;
                far.take(&question);
                far.packets().iter().for_each(|answer| near.take(answer));
            }
            assert!(!near.is_silent(patience) && !near.is_lame() && !far.is_lame());
        }
        assert_eq!(asked, 19, "one each second");
        near.set_now(at(20_000));
        assert_eq!(near.packets().len(), 1);
        near.set_now(at(23_001));
        assert!(near.is_silent(patience));
        near.hear();
        assert!(!near.is_silent(patience), "it goes on with data");
    }

    /// Lanes that lose every second packet end no idle transfer, also with patience of a second.
    #[test]
    fn idle_ends_are_patient_with_lanes_that_lose_packets() {
        let (mut near, mut far) = (Relay::new(512), Relay::new(512));
        near.set_now(at(0));
        near.hear();
        let mut sent = 0;
        for ms in (0..60_000).step_by(10) {
            near.set_now(at(ms));
            far.set_now(at(ms));
            for question in near.packets() {
                sent += 1;
                if sent % 2 == 0 {
                    far.take(&question);
                    far.packets().iter().for_each(|answer| near.take(answer));
                }
            }
            assert!(!near.is_silent(Duration::from_secs(1)), "at {ms} ms");
        }
        assert!((100..=130).contains(&sent), "{sent}: the lost ones are asked again soon");
    }

    /// Copies of a question over many lanes have one answer; a question that no lane takes is none.
    #[test]
    fn copies_of_a_question_are_answered_once() {
        let (mut near, mut far) = (Relay::new(512), Relay::new(512));
        near.set_now(at(0));
        near.hear();
        near.set_now(at(1_000));
        far.set_now(at(1_000));
        let question = near.packets().pop().unwrap();
        let mut answers = 0;
        for _ in 0..64 {
            far.take(&question);
            answers += far.packets().len();
        }
        assert_eq!(answers, 1);
        assert!(near.next_wakeup() > at(1_000));
        near.not_sent();
        near.set_now(at(100_000));
        assert!(!near.is_silent(Duration::from_secs(1)) && !near.is_doubtful());
        assert!(!near.packets().is_empty());
        near.set_now(at(102_000));
        near.not_sent();
        assert!(near.is_silent(Duration::from_secs(1)) && near.is_doubtful());
    }

    /// The kernel of one end gives the control connection up while no message waits: both go on over lanes, and the
    /// reset that the other end's kernel may see later ends nothing.
    #[test]
    fn a_lost_path_ends_nothing_while_lanes_answer() {
        let (mut near, mut far) = (Relay::new(512), Relay::new(512));
        near.set_now(at(0));
        far.set_now(at(0));
        assert!(near.excuse(ControlError::ClosedEarly).is_err(), "somebody cut it");
        near.excuse(ControlError::PathLost).unwrap();
        let [news] = &near.packets()[..] else { panic!("the other end is told at once") };
        far.take(news);
        far.excuse(ControlError::ClosedEarly).unwrap();
        assert!(near.is_down() && far.is_down());
        far.keep(&message(9)).unwrap();
        for ms in (0..20_000).step_by(100) {
            near.set_now(at(ms));
            far.set_now(at(ms));
            near.packets().iter().for_each(|body| far.take(body));
            far.packets().iter().for_each(|body| near.take(body));
            assert!(!near.is_silent(Duration::from_secs(2)));
        }
        assert_eq!(near.ready.drain(..).collect::<Vec<_>>(), [message(9)]);
    }

    /// A message that only lanes can deliver is not forgotten for another.
    #[test]
    fn too_many_messages_for_lanes_are_an_error() {
        let mut near = Relay::new(512);
        near.set_now(at(0));
        near.excuse(ControlError::PathLost).unwrap();
        let long = message(9);
        let kept = (0..1_000).take_while(|_| near.keep(&long).is_ok()).count();
        assert!((100..900).contains(&kept) && near.first == 0, "{kept}");
        assert!(matches!(near.keep(&long), Err(ControlError::Full)));
    }

    /// Without a control connection and without lanes, an end waits for its patience only.
    #[test]
    fn a_lost_path_without_lanes_is_silence() {
        let mut near = Relay::new(512);
        near.set_now(at(0));
        near.excuse(ControlError::PathLost).unwrap();
        for ms in (0..=6_000).step_by(100) {
            near.set_now(at(ms));
            if !near.packets().is_empty() {
                near.not_sent();
            }
        }
        assert!(near.is_silent(Duration::from_secs(2)));
    }

    #[test]
    fn silence_is_counted_from_the_first_question() {
        let mut near = Relay::new(512);
        near.set_now(at(0));
        near.keep(&message(0)).unwrap();
        near.set_now(at(10_000));
        assert!(!near.is_silent(Duration::from_secs(1)));
        assert_eq!(near.packets().len(), 1);
        near.set_now(at(11_001));
        assert!(near.is_silent(Duration::from_secs(1)));
    }

    #[test]
    fn malformed_packets_change_nothing() {
        let mut rng = Rng::new(6);
        let mut relay = Relay::new(512);
        relay.keep(&message(9)).unwrap();
        for _ in 0..10_000 {
            let mut body = vec![0; rng.below(80) as usize];
            rng.fill(&mut body);
            relay.take(&body);
        }
        assert!((relay.first, relay.came) == (0, 0) && relay.part.is_empty());
    }
}
