//! Random lists of frames: several flows with all the rules mixed, merged by the kernel and by us;
//! and segmenting the kernel's merged packets restores the sent ones.
//!
//! Differences by design are left out (see [`crate::differences`]): CWR, urgent pointers, padding, and packets that
//! Linux lets overtake held data. `LINECARD_SEED` replays one list, `LINECARD_LONG=1` runs twenty times as many.

use crate::around::skipped;
use crate::cases::Case;
use crate::compare::Verdict;
use crate::frame::{
    ACK, AE, DF, ECE, FIN, Field, Frame, Ip, PSH, RST, SYN, TCP, UDP, URG, content,
};
use crate::lab::{self, Lab, Receiver};
use crate::session::{Merged, by_kernel, by_us, origins};
use linecard::offload::segment::segment;
use linecard::packet::{Gso, LinkType, Meta, Packet};
use linecard::rng::Rng;
use linecard_testkit::{is_long, say};

/// Lists of a normal run, which takes some seconds.
const LISTS: u64 = 4_000;
/// Those of seeds that once told the kernel and us apart.
const KEPT: [u64; 0] = [];
/// Frames of a list, less than the kernel takes at once.
const FRAMES: u64 = 24;
/// Fewer than the kernel holds.
const FLOWS: u64 = 4;

/// A sender, and where it stands.
struct Flow {
    next: Frame,
    size: usize,
    /// The step of the identification after each packet.
    step: u16,
    /// How often something is not as before.
    restless: f64,
}

impl Flow {
    fn new(rng: &mut Rng, number: u8) -> Self {
        let v6 = rng.chance(0.4);
        let ip = Ip {
            v6,
            ends: (number, 99),
            tos: pick(rng, &[0, 0, 2, 3]),
            id: rng.next_u64() as u16,
            flags_fragment: pick(rng, &[DF, 0]),
            extensions: extensions(rng, v6),
            ..Ip::default()
        };
        let protocol = pick(rng, &[TCP, TCP, UDP]);
        let next = Frame {
            ip,
            protocol,
            ports: (rng.next_u64() as u16, rng.next_u64() as u16 | 1),
            sequence: pick(rng, &[1, 0x8000_0000, u32::MAX - 300]),
            options: pick(rng, &[&[][..], &[1; 12], &[1; 40]]).to_vec(),
            flags: ACK | pick(rng, &[0, 0, ECE, AE, 0x200, 0x400, 0x800]),
            ..Frame::default()
        };
        Self {
            next,
            size: pick(rng, &[1, 2, 3, 7, 20, 100, 333, 1448, 8900]),
            step: pick(rng, &[0, 1, 1, 1, 2]),
            restless: pick(rng, &[0.0, 0.05, 0.3]),
        }
    }

    /// The next packet of the flow; `number` tells its payload from others.
    fn send(&mut self, rng: &mut Rng, number: usize) -> Frame {
        let restless = self.restless;
        let len = if rng.chance(restless) { self.other_len(rng) } else { self.size };
        self.next.payload = content(number, len);
        if rng.chance(restless) {
            self.change_for_good(rng);
        }
        let mut frame = self.next.clone();
        if rng.chance(restless) {
            change_once(rng, &mut frame);
        }
        self.next.sequence = self.next.sequence.wrapping_add(len as u32);
        self.next.ip.id = self.next.ip.id.wrapping_add(self.step);
        frame
    }

    fn other_len(&self, rng: &mut Rng) -> usize {
        let less = 1 + rng.below(self.size as u64) as usize;
        // An empty datagram is one of those that Linux lets overtake.
        let none = usize::from(self.next.protocol == UDP);
        pick(rng, &[less, less, self.size + 1, none])
    }

    fn change_for_good(&mut self, rng: &mut Rng) {
        let next = &mut self.next;
        match rng.below(8) {
            0 => next.acknowledgment += 1,
            1 => next.window = next.window.wrapping_add(1),
            2 => next.ip.ttl -= 1,
            3 => next.ip.tos ^= 1,
            4 => next.ip.id = next.ip.id.wrapping_add(5),
            5 => next.ip.flags_fragment ^= DF,
            6 => next.options = pick(rng, &[&[][..], &[1; 12]]).to_vec(),
            _ => self.step ^= 1,
        }
    }
}

/// Changes one packet, as a middle box or a retransmission would.
fn change_once(rng: &mut Rng, frame: &mut Frame) {
    let len = frame.payload.len() as u32;
    match rng.below(12) {
        0..=4 => frame.flags ^= pick(rng, &[FIN, SYN, RST, PSH, PSH, URG, ECE, AE, ACK, 0x200]),
        5 => frame.sequence = frame.sequence.wrapping_add(len),
        6 => frame.sequence = frame.sequence.wrapping_sub(len),
        7 => frame.ip.ttl -= 1,
        8 => frame.ip.id = frame.ip.id.wrapping_sub(1),
        // Zeros might be the padding of a short frame, which Linux does not merge.
        9 if frame.protocol == TCP => frame.behind = vec![9; 2],
        10 if len >= 2 => frame.field = Field::ComputesToZero,
        _ => frame.window = 0,
    }
}

fn extensions(rng: &mut Rng, v6: bool) -> Vec<(u8, Vec<u8>)> {
    let kinds: &[u8] = if v6 { pick(rng, &[&[], &[], &[0], &[60], &[0, 60]]) } else { &[] };
    kinds.iter().map(|kind| (*kind, vec![0, 1, 4, 0, 0, 0, 0])).collect()
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

/// The list of a seed.
fn list(seed: u64) -> Vec<Frame> {
    let mut rng = Rng::new(seed);
    let count = 1 + rng.below(FLOWS);
    let mut flows: Vec<_> = (0..count).map(|number| Flow::new(&mut rng, number as u8)).collect();
    let frames = 2 + rng.below(FRAMES);
    let mut send = |number: u64| {
        let flow = rng.below(count) as usize;
        flows[flow].send(&mut rng, number as usize)
    };
    (0..frames).map(&mut send).collect()
}

/// The same as a case.
pub(crate) fn case(seed: u64) -> Case {
    Case { name: format!("random list, seed {seed}"), frames: list(seed), kernel: None }
}

/// The fault of the list of a seed, if any.
fn complaint(lab: &mut Lab, seed: u64) -> Option<String> {
    let frames = list(seed);
    let (kernel, ours) = (by_kernel(lab, &frames), by_us(&frames));
    let verdict = Verdict::of(&frames, &kernel, &ours);
    if !verdict.same {
        return Some(format!("seed {seed}: kernel {}, ours {}", verdict.kernel, verdict.ours));
    }
    let origins = origins(&frames, &kernel).expect("the verdict could tell");
    let wrong = kernel.iter().zip(&origins).find(|(merged, origins)| {
        let sent: Vec<_> = origins.iter().map(|origin| frames[*origin].bytes()).collect();
        origins.len() > 1 && cut(merged, &frames[origins[0]], &frames[origins[1]]) != sent
    });
    wrong.map(|(_, origins)| format!("seed {seed}: {origins:?} do not come back"))
}

/// The kernel's merged packets, segmented by us. It does not tell by `PACKET_VNET_HDR` whether IPv4
/// identifications stand still.
fn cut(merged: &Merged, first: &Frame, second: &Frame) -> Vec<Vec<u8>> {
    let packet = Packet::new(&merged.frame[..], LinkType::Ethernet, Meta::default());
    let fixed_id = first.ip.id == second.ip.id;
    let gso = Gso { size: merged.gso_size, fixed_ids: u8::from(fixed_id), ..Gso::default() };
    let mut cut = segment(&packet, gso).expect("a whole packet");
    let (mut room, mut segments) = (vec![0; cut.max_len()], Vec::new());
    while let Some(written) = cut.write_next(&mut room).expect("there is room") {
        segments.push(room[..written.len].to_vec());
    }
    segments
}

/// Promise (Offloads): GRO of Linux 6.18 and the coalescer agree on 4,000 random lists of frames,
/// except as the table says.
#[test]
fn the_kernel_merges_random_lists_as_we_do() {
    let seeds: Vec<u64> = match std::env::var("LINECARD_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => KEPT.into_iter().chain(0..LISTS * if is_long() { 20 } else { 1 }).collect(),
    };
    let complaints = lab::inside(Receiver::Merging, 0, |lab| {
        seeds.iter().filter_map(|seed| complaint(lab, *seed)).collect::<Vec<_>>()
    });
    match complaints {
        Ok(complaints) => {
            let (wrong, few) = (complaints.len(), &complaints[..complaints.len().min(20)]);
            say(&format!("GRO: {} random lists, {wrong} merged otherwise by us", seeds.len()));
            assert!(few.is_empty(), "replay with LINECARD_SEED:\n{}", few.join("\n"));
        }
        Err(why) => skipped("random lists with the kernel's GRO as witness", &why),
    }
}
