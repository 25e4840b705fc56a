//! A live attachment beside the kernel's GRO: frames are sent into the wire side, and what the kernel
//! receives from the TAP device is what its own GRO would have made of them.
//!
//! Packets that a virtio header cannot describe reach the kernel in segments (see [`crate::carry`]); both results are
//! compared as far as possible. A list whose result differs from the coalescer's is sent again: a thread may be
//! preempted for longer than the timer waits. That has to be rare.

use crate::around::skipped;
use crate::carry::{CarriedFrames, Refusal};
use crate::cases::{self, Case};
use crate::compare::Verdict;
use crate::differences::{self, DIFFERENCES, Expected, IN_TUNNELS};
use crate::frame::{Frame, UDP, content};
use crate::gro::{Verdicts, check_differences};
use crate::lab::{self, Receiver};
use crate::live::{self, Live, Near};
use crate::random;
use crate::session::{Merged, by_attachment, by_kernel, by_us, drain};
use crate::sys::PacketSocket;
use linecard_testkit::say;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How often a list is sent before its result counts.
const ATTEMPTS: usize = 3;
/// Lists of all that may have to be sent again; on a busy machine with two cores, none were.
const MAX_AGAIN: usize = 10;
/// Random lists beside the cases.
const RANDOM: u64 = 100;
/// Between bursts of one flow.
const GAP: Duration = Duration::from_millis(100);
const BURSTS: usize = 4;

/// Lists of frames with what the kernel's GRO makes of them.
#[derive(Debug)]
struct Reference {
    cases: Vec<Case>,
    kernel: Vec<Vec<Merged>>,
}

/// All cases, each asked once for all tests.
fn asked() -> Result<&'static Reference, String> {
    static ASKED: OnceLock<Result<Reference, String>> = OnceLock::new();
    let ask = || {
        lab::inside(Receiver::Merging, 0, |lab| {
            let mut cases = cases::plain();
            cases.extend(cases::tunnels(|kind, port| {
                let there = lab.add_tunnel(kind, port);
                there.inspect_err(|why| skipped(&format!("{kind} packets"), why)).is_ok()
            }));
            cases.extend((0..RANDOM).map(random::case));
            let kernel = cases.iter().map(|case| by_kernel(lab, &case.frames)).collect();
            Reference { cases, kernel }
        })
    };
    ASKED.get_or_init(ask).as_ref().map_err(Clone::clone)
}

/// The results of all lists.
#[derive(Debug, Default)]
struct Comparison {
    verdicts: Verdicts,
    expected: BTreeMap<&'static str, Expected>,
    /// Cases of which something went in segments.
    refused: BTreeMap<Refusal, usize>,
    /// Lists that were sent once more.
    again: usize,
}

impl Comparison {
    fn of(live: &mut Live, asked: &'static Reference) -> Self {
        let rows = differences::by_case(DIFFERENCES).into_iter();
        let mut rows: BTreeMap<_, _> = rows.chain(differences::by_case(IN_TUNNELS)).collect();
        let mut outcome = Self::default();
        for (case, kernel) in asked.cases.iter().zip(&asked.kernel) {
            let carrier = CarriedFrames { frames: &case.frames, tunnels: live.tunnels };
            outcome.ask(live, case, &carrier.carried(kernel));
            let Some(mut row) = rows.remove(case.name.as_str()) else { continue };
            row.kernel = carrier.carried_text(&row.kernel);
            row.ours = carrier.carried_text(&row.ours);
            if row.kernel != row.ours {
                outcome.expected.insert(&case.name, row);
            }
        }
        outcome
    }

    /// Sends a list until its result is what the coalescer makes of it, byte for byte.
    fn ask(&mut self, live: &mut Live, case: &Case, kernel: &[Merged]) {
        let carrier = CarriedFrames { frames: &case.frames, tunnels: live.tunnels };
        let merged = by_us(&case.frames);
        let library = carrier.carried(&merged);
        for attempt in 1.. {
            let came = by_attachment(live, &case.frames);
            let verdict = Verdict::of(&case.frames, &library, &came);
            if verdict.same {
                let verdict = Verdict::of(&case.frames, kernel, &came);
                let same_name = self.verdicts.insert(case.name.clone(), verdict);
                assert!(same_name.is_none(), "two cases are named {}", case.name);
                break;
            }
            let (library, live) = (verdict.kernel, verdict.ours);
            assert!(attempt < ATTEMPTS, "{}: coalescer {library}, attached {live}", case.name);
            say(&format!("{}: sent again, after {live}", case.name));
            self.again += 1;
        }
        if let Some(refusal) = carrier.refusals(&merged) {
            *self.refused.entry(refusal).or_default() += 1;
        }
    }

    fn check(self, near: Near) {
        let same = self.verdicts.values().filter(|verdict| verdict.same).count();
        let all = self.verdicts.len();
        say(&format!(
            "attached by {near:?}: {all} lists, {same} the same as the kernel merges them; of these in \
             segments, as no virtio header describes them: {:?}; {} sent again",
            self.refused, self.again
        ));
        assert!(self.again <= MAX_AGAIN, "{} lists had to be sent again", self.again);
        check_differences(&self.verdicts, self.expected);
    }
}

fn compare(near: Near, what: &str) {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(why) => return skipped(what, &why),
    };
    match live::attached(near, |live| Comparison::of(live, asked)) {
        Ok(outcome) => outcome.check(near),
        Err(why) => skipped(what, &why),
    }
}

/// Promise (Live interfaces): An attachment by AF_XDP gives the host what the kernel's own GRO
/// would: 492 of 517 lists are the same, byte for byte, and the others are in the table of
/// design/kernel.md.
#[test]
fn an_attachment_by_af_xdp_merges_what_the_kernel_merges() {
    compare(Near::Xdp, "an attachment by AF_XDP beside the kernel's GRO");
}

/// Promise (Live interfaces): An attachment by packet socket gives the host the same packets as one
/// by AF_XDP, for all lists.
#[test]
fn an_attachment_by_packet_socket_merges_what_the_kernel_merges() {
    compare(Near::Packet, "an attachment by a packet socket beside the kernel's GRO");
}

/// Five packets each of TCP over both versions and of UDP, which go on from burst to burst.
fn bursts() -> Vec<Vec<Frame>> {
    let burst = |burst: usize| -> Vec<Frame> {
        let indices = 5 * burst..5 * burst + 5;
        let flows = |index: usize| {
            let frame = Frame::bulk(index, 100);
            let mut six =
                Frame { ports: (1001, 2000), payload: content(index + 100, 100), ..frame.clone() };
            six.ip.v6 = true;
            let payload = content(index + 200, 100);
            let udp = Frame { protocol: UDP, ports: (1002, 2000), payload, ..frame.clone() };
            [frame, six, udp]
        };
        indices.flat_map(flows).collect()
    };
    (0..BURSTS).map(burst).collect()
}

/// Sends one burst after the other; each has left before the next.
fn send_bursts(tx: &PacketSocket, rx: &mut PacketSocket) -> Vec<Merged> {
    let (mut came, mut next) = (Vec::new(), Instant::now());
    for burst in bursts() {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += GAP;
        burst.iter().for_each(|frame| tx.send(&frame.bytes()).expect("a frame is sent"));
        came.extend(drain(rx, burst.len()));
        assert!(Instant::now() < next, "a burst has not left before the next");
    }
    came
}

/// Promise (Live interfaces): Bursts 100 ms apart are not merged with each other by an attachment.
///
/// "Bursts 100 ms apart giving separate aggregates."
#[test]
fn bursts_apart_stay_apart() {
    const WHAT: &str = "bursts 100 ms apart beside the kernel's GRO";
    let frames = bursts().concat();
    let kernel = match lab::inside(Receiver::Merging, 0, |lab| send_bursts(&lab.tx, &mut lab.rx)) {
        Ok(kernel) => kernel,
        Err(why) => return skipped(WHAT, &why),
    };
    for near in [Near::Xdp, Near::Packet] {
        let came = match live::attached(near, |live| send_bursts(&live.tx, &mut live.rx)) {
            Ok(came) => came,
            Err(why) => return skipped(WHAT, &why),
        };
        let verdict = Verdict::of(&frames, &kernel, &came);
        assert!(verdict.same, "{near:?}: kernel {}, attached {}", verdict.kernel, verdict.ours);
        assert_eq!(came.len(), 3 * BURSTS, "{near:?}: {}", verdict.ours);
        say(&format!("attached, {near:?}: bursts apart: {}", verdict.ours));
    }
}
