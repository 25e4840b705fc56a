//! Lists of frames, each to show one rule of merging.

mod ip;
mod tcp;
mod tunnel;
mod udp;

use crate::frame::Frame;

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) frames: Vec<Frame>,
    /// The kernel's result, where it is recorded here.
    pub(crate) kernel: Option<&'static str>,
}

/// The one that differs: the third of five.
const MIDDLE: usize = 2;

/// Every case without tunnels; names are unique.
pub(crate) fn plain() -> Vec<Case> {
    let mut cases = Vec::new();
    tcp::flags(&mut cases);
    tcp::fields(&mut cases);
    tcp::options(&mut cases);
    tcp::sizes(&mut cases);
    tcp::sequences(&mut cases);
    tcp::flows(&mut cases);
    ip::ipv4(&mut cases);
    ip::identifications(&mut cases);
    ip::ipv6(&mut cases);
    ip::links(&mut cases);
    udp::datagrams(&mut cases);
    cases
}

pub(crate) use tunnel::tunnels;

fn add(cases: &mut Vec<Case>, name: impl Into<String>, frames: Vec<Frame>) {
    cases.push(Case { name: name.into(), frames, kernel: None });
}

/// Five packets of one flow.
fn five() -> Vec<Frame> {
    (0..5).map(|index| Frame::bulk(index, 100)).collect()
}

/// Five packets of which the third is changed.
fn change(cases: &mut Vec<Case>, name: impl Into<String>, change: impl Fn(&mut Frame)) {
    let mut frames = five();
    change(&mut frames[MIDDLE]);
    add(cases, name, frames);
}

/// Five packets that are all changed.
fn change_all(cases: &mut Vec<Case>, name: impl Into<String>, change: impl Fn(&mut Frame)) {
    let mut frames = five();
    frames.iter_mut().for_each(change);
    add(cases, name, frames);
}

/// Packets of these sizes, one behind the other.
fn sized(lens: &[usize]) -> Vec<Frame> {
    let mut sequence = 1;
    let frames = lens.iter().enumerate().map(|(index, len)| {
        let frame = Frame { sequence, ..Frame::bulk(index, *len) };
        sequence += *len as u32;
        frame
    });
    frames.collect()
}
