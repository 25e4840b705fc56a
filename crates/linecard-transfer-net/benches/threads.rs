//! Four UDP lanes on one thread and on two: the rate at which an end seals and sends, and at which it receives and opens,
//! in turns in the same run.
//!
//! Sent packets go to sockets of loopback that nobody reads, so that the kernel of this host carries and drops them in the
//! time of the sender. Received ones wait in the sockets when the clock starts. The other parts of an end, which one
//! thread does, are left out, but for copying the bodies of sent packets. The threads are pinned to cores 0 and 1.
//!
//! `cargo bench -p linecard-transfer-net --bench threads [-- --rounds N]`; with `--smoke` it runs once, small.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod support;

use linecard_transfer::control::Suite;
use linecard_transfer::wire::{Header, Kind};
use linecard_transfer_net::end::{Cores, Crew, Inbox, SealedSocket};
use linecard_transfer_net::lane::{At, LocalEnd, Udp};
use linecard_transfer_net::seal::{LaneSecret, Opener, Sealer};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Instant;
use support::{median, rounds};

const LANES: u16 = 4;
/// Packets of a lane in a turn.
const BATCH: usize = 64;
/// Turns of a round.
const TURNS: usize = 2_000;
const SMALL_TURNS: usize = 20;
/// Turns whose packets wait in the sockets' buffers.
const WAITING: usize = 10;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let (rounds, turns) = rounds(7).map_or((1, SMALL_TURNS), |rounds| (rounds, TURNS));
    if std::thread::available_parallelism()?.get() < 2 {
        println!("threads: SKIPPED: it needs two cores");
        return Ok(());
    }
    let crews = [crew(vec![])?, crew(vec![1])?];
    let mut core = CpuSet::new();
    core.set(0);
    sched_setaffinity(None, &core)?;
    println!(
        "{LANES} UDP lanes, Gbit/s of one thread, of two, and their ratio; median of {rounds} rounds in turns"
    );
    println!("payload        sending             receiving");
    for payload in [1_408, 8_896] {
        let mut figures = [(); 4].map(|()| Vec::new());
        for _ in 0..rounds {
            for (at, crew) in crews.iter().enumerate() {
                figures[at].push(sending(crew, payload, turns)?);
                figures[2 + at].push(receiving(crew, payload, turns / WAITING)?);
            }
        }
        let [s1, s2, r1, r2] = figures.map(median);
        let (s, r) = (s2 / s1, r2 / r1);
        println!("{payload:7}  {s1:6.2} {s2:6.2} {s:5.2}  {r1:6.2} {r2:6.2} {r:5.2}");
    }
    Ok(())
}

fn crew(more: Vec<usize>) -> Result<Crew<Line>> {
    let cores = Cores { lanes: Some(0), files: None, more };
    Ok(Crew::new(&cores, LANES.into())?)
}

/// Both ends of a lane, and the number of its next packet.
struct Line {
    near: SealedSocket,
    far: SealedSocket,
    number: u64,
    inbox: Inbox,
    came: usize,
}

fn line(lane: u16) -> Result<Line> {
    let at = At { local: LocalEnd::Address(Ipv4Addr::LOCALHOST.into()), port: 0 };
    let far = Udp::bind(&at)?;
    let near = Udp::connect(&at, far.local_addr()?)?;
    let (suite, secret) = (Suite::Aes128Gcm, || LaneSecret::new([lane as u8; 32]));
    let keys = || -> Result<_> {
        Ok((Sealer::new(suite, secret())?, Opener::new(suite, &secret(), lane, 0)?))
    };
    let near = SealedSocket::new(Box::new(near), keys()?);
    let far = SealedSocket::new(Box::new(far), keys()?);
    Ok(Line { near, far, number: 0, inbox: Inbox::new(), came: 0 })
}

fn lines() -> Result<Vec<Line>> {
    (0..LANES).map(line).collect()
}

/// Adds a turn's packets to each lane.
fn push(lines: &mut [Line], payload: &[u8]) {
    for (lane, line) in lines.iter_mut().enumerate() {
        for _ in 0..BATCH {
            let header = Header::without_chunk(Kind::Control, lane as u16, 0, line.number);
            line.number += 1;
            line.near.push(&header, |out| out.extend_from_slice(payload));
        }
    }
}

fn sending(crew: &Crew<Line>, payload: usize, turns: usize) -> Result<f64> {
    let (mut lines, payload) = (lines()?, vec![7; payload]);
    let start = Instant::now();
    for _ in 0..turns {
        push(&mut lines, &payload);
        crew.each(
            &mut lines,
            |line| line.near.waiting_bytes(),
            |line| {
                // It is counted.
                let _sent = line.near.flush();
            },
        );
    }
    let ns = start.elapsed().as_nanos() as f64;
    let bytes: u64 = lines.iter().map(|line| line.near.counters().sent_bytes).sum();
    assert!(bytes >= (turns * BATCH * payload.len()) as u64, "{bytes} bytes were sent");
    Ok(bytes as f64 * 8.0 / ns)
}

fn receiving(crew: &Crew<Line>, payload: usize, rounds: usize) -> Result<f64> {
    let (mut lines, payload) = (lines()?, vec![7; payload]);
    let (mut ns, mut packets, mut dropped) = (0, 0, 0);
    for _ in 0..rounds {
        for _ in 0..WAITING {
            push(&mut lines, &payload);
            for line in &mut lines {
                line.near.flush()?;
            }
        }
        let start = Instant::now();
        loop {
            // The first call to a lane knows nothing of it yet.
            crew.each(
                &mut lines,
                |_| 1 << 20,
                |line| {
                    line.came = line.far.receive(&mut line.inbox).unwrap_or(0);
                },
            );
            let came: usize = lines.iter().map(|line| line.came).sum();
            if came == 0 {
                break;
            }
            packets += came;
        }
        ns += start.elapsed().as_nanos();
    }
    for line in &lines {
        dropped += line.far.counters().dropped;
        assert_eq!(line.far.counters().sealed.refused(), 0);
    }
    assert_eq!(dropped, 0, "the sockets have too little room: set net.core.rmem_max");
    Ok(packets as f64 * payload.len() as f64 * 8.0 / ns as f64)
}
