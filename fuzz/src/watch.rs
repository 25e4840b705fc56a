//! Any packets as a watched stream, and any late packets in the journal of the worst: episodes are those of a plain
//! list, and the worst of them are kept, in order and within the bound.

use crate::draw::Draw;
use linecard_jitter::media::live::{Arrival, Delay, Episode, Event, Journal, Late, Watched};

/// Packets of one input: enough for a schedule to be found, and for some packets to be late.
const MAX_PACKETS: usize = 2_000;
/// An episode ends after this time at the latest.
const LONGEST_NS: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Input: what is tried and how many are kept, then late packets, or packets of a stream.
pub fn watch(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let (mode, most) = (draw.byte(), 1 + draw.below(6));
    if mode & 1 == 0 { journal(draw, most) } else { stream(draw, most) }
}

fn journal(draw: &mut Draw<'_>, most: usize) {
    let mut journal = Journal::new(most);
    let (mut open, mut ended) = (None::<Episode>, Vec::new());
    let (mut at_ns, mut number) = (0, 0);
    while !draw.is_done() {
        if draw.below(4) == 0 {
            assert_eq!(journal.close(), open);
            ended.extend(open.take());
        } else {
            number += 1;
            at_ns += u64::from(draw.byte()) * 10 * MS;
            let delay = Delay { before_ns: draw.below(16) as u64, waited_ns: draw.below(4) as u64 };
            let late = Late { number, identity: 0, at_ns, delay };
            let over = open.take_if(|open| at_ns - open.at_ns >= LONGEST_NS);
            assert_eq!(journal.late(late), over);
            ended.extend(over);
            let new = Episode { at_ns, lasted_ns: 0, packets: 0, worst: late };
            let open = open.get_or_insert(new);
            (open.packets, open.lasted_ns) = (open.packets + 1, at_ns - open.at_ns);
            if delay.whole_ns() > open.late_ns() {
                open.worst = late;
            }
        }
        check((journal.worst(), journal.floor_ns()), &ended, most);
    }
}

/// The worst of all, of equal ones the first.
fn check((worst, floor_ns): (&[Episode], u64), ended: &[Episode], most: usize) {
    let mut all = ended.to_vec();
    all.sort_by_key(|one| std::cmp::Reverse(one.late_ns()));
    all.truncate(most);
    assert_eq!(worst, all);
    let floor = all.get(most - 1).map_or(0, Episode::late_ns);
    assert_eq!(floor_ns, floor);
}

fn stream(draw: &mut Draw<'_>, most: usize) {
    let late_ns = u64::from(draw.byte()) * MS / 8;
    let mut watched = Watched::new(late_ns, most);
    let (mut ended, mut pushed) = (Vec::new(), 0);
    let (mut at_ns, mut number) = (1 << 40, u64::from(draw.word()));
    let (step_ns, ticks) = (1 + u64::from(draw.byte()) * MS / 16, u64::from(draw.byte()));
    let mut tell = |event| {
        if let Event::Late(episode) = event {
            ended.push(episode);
        }
    };
    while !draw.is_done() && pushed < MAX_PACKETS {
        let (mut count, mut source) = (1, 7);
        match draw.below(16) {
            0 => at_ns += u64::from(draw.word()) * MS,
            1 => number += u64::from(draw.word()),
            2 => number = number.saturating_sub(draw.byte().into()),
            3 => source = draw.byte(),
            4 => watched.look(at_ns + u64::from(draw.word()) * MS, &mut tell),
            5 => at_ns = at_ns.saturating_sub(u64::from(draw.byte()) * MS),
            6 | 7 => at_ns += u64::from(draw.byte()) * MS / 4,
            8..10 => count = 16 * draw.below(64),
            _ => count = draw.below(64),
        }
        for _ in 0..count.min(MAX_PACKETS - pushed) {
            let payload = rtp(source, number, number.wrapping_mul(ticks));
            let read_ns = at_ns + u64::from(number as u8) * 100;
            let arrival = Arrival { at_ns, read_ns, wire: None, payload: &payload, len: 60 };
            watched.push(&arrival, &mut tell);
            (at_ns, number, pushed) = (at_ns + step_ns, number + 1, pushed + 1);
        }
    }
    watched.finish(&mut tell);
    assert_eq!(watched.counts.packets + watched.counts.others, pushed as u64);
    assert_eq!(watched.counts.late, ended.iter().map(|one| one.packets).sum::<u64>());
    assert!(ended.iter().all(|one| one.late_ns() > late_ns));
    check((watched.worst(), watched.floor_ns()), &ended, most);
}

fn rtp(source: u8, sequence: u64, stamp: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&[0x80, 97]);
    bytes[2..4].copy_from_slice(&(sequence as u16).to_be_bytes());
    bytes[4..8].copy_from_slice(&(stamp as u32).to_be_bytes());
    bytes[11] = source;
    bytes
}
