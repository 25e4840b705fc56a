//! Compares two results, and describes their differences.

use crate::frame::{Frame, ICMP, Ip, MF};
use crate::session::{Merged, origins, text};

/// The results of the kernel and of our code for a list of frames, as `1+2+3 4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) same: bool,
    pub(crate) kernel: String,
    pub(crate) ours: String,
}

impl Verdict {
    /// The same frames came out, byte for byte and with the same segment size, and those of one
    /// connection in the same order. Connections wait for each other neither here nor there.
    pub(crate) fn of(frames: &[Frame], kernel: &[Merged], ours: &[Merged]) -> Self {
        let by_kernel = origins(frames, kernel);
        let by_us = origins(frames, ours);
        let mut verdict = Self {
            same: false,
            kernel: text(settled(frames, by_kernel.clone()).as_deref()),
            ours: text(settled(frames, by_us.clone()).as_deref()),
        };
        let (Some(by_kernel), Some(by_us)) = (by_kernel, by_us) else { return verdict };
        let place = |of: &Vec<usize>| by_us.iter().position(|other| other == of);
        let places: Option<Vec<usize>> = by_kernel.iter().map(place).collect();
        let Some(places) = places.filter(|places| places.len() == by_us.len()) else {
            return verdict;
        };
        if places.iter().zip(kernel).any(|(place, merged)| *merged != ours[*place]) {
            verdict.ours.push_str(", other bytes");
            return verdict;
        }
        verdict.same = in_order(frames, &by_kernel, &places);
        verdict
    }
}

/// The same with neighbours that do not belong together in the order of their first frames, so
/// that the text does not tell more than is compared.
fn settled(frames: &[Frame], origins: Option<Vec<Vec<usize>>>) -> Option<Vec<Vec<usize>>> {
    let mut origins = origins?;
    for _ in 0..origins.len() {
        for at in 1..origins.len() {
            let (before, after) = (origins[at - 1][0], origins[at][0]);
            if before > after && !together(&frames[before], &frames[after]) {
                origins.swap(at - 1, at);
            }
        }
    }
    Some(origins)
}

/// Whether all that belongs together is in the same order in both.
fn in_order(frames: &[Frame], origins: &[Vec<usize>], places: &[usize]) -> bool {
    let first = |at: usize| &frames[origins[at][0]];
    (0..places.len()).all(|later| {
        (0..later)
            .all(|sooner| places[sooner] < places[later] || !together(first(sooner), first(later)))
    })
}

/// Whether two frames may be of one connection: same ends, and same ports if both show them.
fn together(a: &Frame, b: &Frame) -> bool {
    let outermost = |frame: &Frame| -> Ip {
        frame.outer.first().map_or_else(|| frame.ip.clone(), |(ip, _)| ip.clone())
    };
    let (one, other) = (outermost(a), outermost(b));
    let same_ends = one.v6 == other.v6 && one.ends == other.ends && a.tags == b.tags;
    let same_ends = same_ends && a.session == b.session;
    let same_ports = a.ports == b.ports && a.protocol == b.protocol;
    let hidden = |frame: &Frame| {
        let fragment = frame.ip.flags_fragment & (MF | 0x1FFF) != 0;
        fragment || frame.ip.extensions.iter().any(|(kind, _)| *kind == 44)
    };
    let talk = |frame: &Frame| frame.protocol != ICMP;
    same_ends && talk(a) && talk(b) && (same_ports || hidden(a) || hidden(b))
}
