//! More packets than can be processed, from forged addresses.

use crate::bytes::{Random, Transfer, Way};
use crate::command::{adds_up, attach, count, drops};
use crate::faults::MOST_MEMORY;
use crate::lab::{Lab, with_lab};
use crate::sys::Sender;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Frames made at a time.
const BATCH: usize = 8_192;

fn mac(text: &str) -> [u8; 6] {
    let after = text.split("link/ether ").nth(1).expect("it is an Ethernet interface");
    let mut bytes = after[..17].split(':').map(|byte| u8::from_str_radix(byte, 16));
    std::array::from_fn(|_| bytes.next().expect("six bytes").expect("hexadecimal"))
}

fn sum16(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// A TCP segment or UDP datagram for the host from somewhere, with data.
fn frame(to: [u8; 6], random: &mut Random) -> Vec<u8> {
    let (source, shape) = (random.next().to_be_bytes(), random.next());
    let (is_tcp, payload) = (shape & 1 == 0, (shape >> 8) as usize % 64 + 1);
    let transport_len = if is_tcp { 20 } else { 8 } + payload;
    let mut frame = [&to[..], &[2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0]].concat();
    frame.extend((20 + transport_len as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, if is_tcp { 6 } else { 17 }, 0, 0]);
    // No group and no loopback address.
    frame.extend([source[0] % 100 + 11, source[1], source[2], source[3], 10, 9, 0, 2]);
    let sum = !sum16(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([source[4] | 4, source[5], source[6] | 4, source[7]]);
    if is_tcp {
        frame.extend((random.next() as u32).to_be_bytes());
        frame.extend([0, 0, 0, 1, 0x50, 0x10, 0xFF, 0xFF, 0, 0, 0, 0]);
    } else {
        frame.extend((transport_len as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    let start = frame.len();
    frame.resize(start + payload, 0);
    random.fill(&mut frame[start..]);
    let field = if is_tcp { 50 } else { 40 };
    let pseudo = [&frame[26..34], &[0, frame[23]], &(transport_len as u16).to_be_bytes()].concat();
    // One in eight is wrong.
    let wrong = u16::from(shape >> 16 & 7 == 0);
    let sum = !sum16(&[&pseudo, &frame[34..]].concat()) ^ wrong;
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Sends this many frames from the peer's end of the cable, as fast as it goes.
fn flood(lab: &Lab, frames: usize) {
    let to = mac(&lab.host.run("ip -o link show lc0"));
    lab.peer.inside(|| {
        let sender = Sender::open("lcp").expect("root may");
        let mut random = Random(0x5EED);
        for _ in 0..frames.div_ceil(BATCH) {
            let frames: Vec<_> = (0..BATCH).map(|_| frame(to, &mut random)).collect();
            sender.send(&frames).expect("the interface is up");
        }
    });
}

#[test]
fn a_full_receive_ring_costs_counted_packets() {
    for port in ["xdp", "packet"] {
        with_lab("a full ring", |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0 --batch 1"));
            let before = lab.peer.packets("lcp")[1];
            flood(lab, 200_000);
            thread::sleep(Duration::from_millis(200));
            let sent = lab.peer.packets("lcp")[1] - before;
            Transfer::new(Way::In, 4 << 20).run(lab);
            let all = lab.peer.packets("lcp")[1] - before;
            let account = running.finish();
            println!("{port}: {sent} sent, {:?} lost", drops(&account, "near"));
            adds_up(&account);
            let came = count(&account, "near", "received") + drops(&account, "near")[0];
            assert!(came.abs_diff(all) <= 16, "{all} were sent: {account:#}");
        });
    }
}

/// Promise (Live interfaces): A million forged flows beside a transfer leave its hash correct and
/// the memory of the process below 230 MB.
#[test]
fn forged_flows_beside_a_transfer() {
    for port in ["xdp", "packet"] {
        with_lab("forged flows", |lab| {
            let running = attach(lab, &format!("{port}:lcw tap:lc0"));
            let before = running.most_memory();
            let flooded = AtomicBool::new(false);
            let went = thread::scope(|scope| {
                scope.spawn(|| {
                    flood(lab, 1_000_000);
                    flooded.store(true, Ordering::Relaxed);
                });
                Transfer::new(Way::In, 64 << 20).run(lab)
            });
            let first = flooded.load(Ordering::Relaxed);
            let memory = running.most_memory();
            let account = running.finish();
            let lost = drops(&account, "near");
            println!(
                "{port}: {went:?}, flood over: {first}, {} and {} MB, lost {lost:?}, evicted {}",
                before >> 20,
                memory >> 20,
                count(&account, "merging", "flows_evicted"),
            );
            assert!(memory < MOST_MEMORY, "{memory} bytes");
            adds_up(&account);
            let seen = count(&account, "near", "received") + lost[0];
            assert!(seen > 1_000_000, "{account:#}");
        });
    }
}
