//! All senders, on one load, rounds in turn.

use crate::buffers::{PAGE, Slot, aligned, room, stride};
#[cfg(dpdk)]
use crate::dpdk;
use crate::floors::{self, Work};
use crate::inputs::Load;
use crate::measure::{BURST, CacheState, Sender, Times, send_round};
use crate::options::Options;
use crate::ours::{Form, Segmenter};
use crate::packet::ETHERNET;
#[cfg(dpdk)]
use crate::packet::Kind;
use crate::report::{Class, Line, Report, Who};
use crate::traffic;
use crate::tun;

/// Large packets of a round: 16 MiB.
const SOURCES: usize = 256;

struct Row<'a> {
    who: Who,
    class: Class,
    sender: Box<dyn Sender + 'a>,
    times: [Times; CacheState::ALL.len()],
}

/// Times everybody on one load.
pub fn time(load: &Load, options: &Options) -> Report {
    let sources = if options.quick { 16 } else { SOURCES };
    let len = load.size * load.segments;
    let mut frames: Vec<Vec<u8>> =
        (0..sources).map(|flow| traffic::large(load.kind, flow as u32, len)).collect();
    let stride = stride(room(load.kind.headers() + load.size));
    let mut arena = vec![0; BURST * stride * ROWS_WITH_SLOTS + PAGE];
    let mut slots: Vec<Vec<Slot<'_>>> = aligned(&mut arena)
        .chunks_exact_mut(BURST * stride)
        .map(|part| Slot::divide(part, stride))
        .collect();
    let mut rows = rows(load, options, &frames, &mut slots);
    let right = check(&mut rows, load, &mut frames);
    for round in 0..=options.rounds {
        for row in &mut rows {
            for (place, times) in CacheState::ALL.into_iter().zip(&mut row.times) {
                let (bursts, segments) = send_round(row.sender.as_mut(), &mut frames, place);
                assert_eq!(segments, sources * load.segments, "{:?} {:?}", row.who, row.class);
                // The first round warms up.
                if round > 0 {
                    times.record(&bursts, segments);
                }
            }
        }
    }
    let line =
        |(row, right): (Row<'_>, _)| Line { right, ..Line::new(row.who, row.class, row.times) };
    let lines = rows.into_iter().zip(right).map(line).collect();
    Report {
        direction: "send",
        name: load.name.clone(),
        what: format!("{}, {} segments of each large packet", load.what, load.segments),
        unit: "segment",
        units: sources * load.segments,
        payload: load.size as f64,
        lines,
    }
    .with_ratios()
}

/// Three floors, three of ours, tun-rs.
const ROWS_WITH_SLOTS: usize = 7;

fn rows<'a>(
    load: &Load,
    options: &Options,
    frames: &[Vec<u8>],
    slots: &mut Vec<Vec<Slot<'a>>>,
) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let (kind, size) = (load.kind, load.size);
    let mut take = || slots.pop().expect("slots for every row");
    let mut add = |who, class, sender: Box<dyn Sender + 'a>| {
        rows.push(Row { who, class, sender, times: [Times::default(), Times::default()] });
    };
    let floors = [
        ("floor: header write", Work::Header),
        ("floor: copy", Work::Copy),
        ("floor: copy + checksum", Work::CopySum),
    ];
    for (name, work) in floors {
        let floor = floors::Send::new(work, kind, size, take());
        add(Who::Floor(name), Class::None, Box::new(floor));
    }
    for (class, form) in Class::SEND.into_iter().zip([Form::Headers, Form::Summed, Form::Copied]) {
        add(Who::Linecard, class, Box::new(Segmenter { form, size, slots: take() }));
    }
    if "tun-rs".contains(&options.peer) {
        add(Who::TunRs, Class::Copied, Box::new(tun::Gso::new(kind, size, take())));
    }
    #[cfg(dpdk)]
    if kind == Kind::Tcp4 && "dpdk".contains(&options.peer) && dpdk::version().is_ok() {
        let forms = [dpdk::Form::Headers, dpdk::Form::Summed, dpdk::Form::Copied];
        for (class, form) in Class::SEND.into_iter().zip(forms) {
            add(Who::Dpdk, class, Box::new(dpdk::Gso::new(form, kind, size, frames)));
        }
    }
    #[cfg(not(dpdk))]
    let _ = frames;
    rows
}

/// Whether each makes the segments that ours, copied, are; floors and ours without a copy make
/// none. Ours are compared with the large packet.
fn check(rows: &mut [Row<'_>], load: &Load, frames: &mut [Vec<u8>]) -> Vec<Option<bool>> {
    let made: Vec<Vec<Vec<u8>>> = rows.iter_mut().map(|row| cut_first(row, frames)).collect();
    let ours = |row: &Row<'_>| row.who == Who::Linecard && row.class == Class::Copied;
    let reference = rows.iter().position(ours).expect("ours is always there");
    let headers = load.kind.headers();
    let verdict = |(row, segments): (&Row<'_>, &Vec<Vec<u8>>)| {
        if segments.is_empty() {
            return None;
        }
        let payload = segments.iter().flat_map(|segment| &segment[headers - ETHERNET..]);
        let same = payload.eq(&frames[0][headers..]) && segments.len() == load.segments;
        // Without checksums, only the payload can be equal.
        let whole = row.class == Class::Headers || *segments == made[reference];
        Some(same && whole)
    };
    rows.iter().zip(&made).map(verdict).collect()
}

fn cut_first(row: &mut Row<'_>, frames: &mut [Vec<u8>]) -> Vec<Vec<u8>> {
    let count = row.sender.cut(0, &mut frames[0]);
    let segments = row.sender.segments(count);
    row.sender.settle();
    segments
}
