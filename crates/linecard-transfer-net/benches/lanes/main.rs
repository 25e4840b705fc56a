//! UDP lanes over loopback: Gbit per second of processor time, both ends together, beside `sendmmsg`
//! and `recvmmsg` of single datagrams, in turns in the same run.
//!
//! One thread sends 60 KB and receives them; what did not arrive does not count. Time is the process's
//! own, what the kernel does for it included.
//!
//! `cargo bench -p linecard-transfer-net --bench lanes [-- --rounds N]`; with `--smoke` it runs once, small.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../support/mod.rs"]
mod support;
mod sys;

use linecard_transfer_net::lane::{At, Datagrams, Lane, LocalEnd, ReceiveBuffer, Udp};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use support::{median, rounds};

/// Bytes of payload of a round.
const ROUND_BYTES: usize = 1 << 30;
const SMALL_BYTES: usize = 1 << 22;
/// Bytes of one large packet: as many whole datagrams as fit.
const LARGE: usize = 60_000;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let (rounds, bytes) = rounds(5).map_or((1, SMALL_BYTES), |rounds| (rounds, ROUND_BYTES));
    println!("Gbit per second of processor time, median of {rounds} rounds in turns");
    println!("datagram   lane  sendmmsg  ratio   TCP lane");
    for stride in [1_408, 4_096, 8_896] {
        let (mut lane, mut plain, mut tcp) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            lane.push(of_lane(stride, bytes)?);
            plain.push(of_plain(stride, bytes)?);
            tcp.push(of_tcp(stride, bytes)?);
        }
        let (lane, plain, tcp) = (median(lane), median(plain), median(tcp));
        let ratio = lane / plain;
        println!("{stride:8}  {lane:5.1}  {plain:8.1}  {ratio:5.2}  {tcp:9.1}");
    }
    Ok(())
}

fn of_lane(stride: usize, bytes: usize) -> Result<f64> {
    let at = At { local: LocalEnd::Address(Ipv4Addr::LOCALHOST.into()), port: 0 };
    let mut far = Udp::bind(&at)?;
    let mut near = Udp::connect(&at, far.local_addr()?)?;
    through(&mut near, &mut far, stride, bytes)
}

fn of_tcp(stride: usize, bytes: usize) -> Result<f64> {
    let spec: linecard_transfer_net::lane::Spec = "tcp:127.0.0.1".parse()?;
    let listener = spec.listen()?;
    let mut near = spec.connect(listener.local_addr()?)?;
    let mut far = loop {
        if let Some(far) = listener.accept()? {
            break far;
        }
    };
    through(near.as_mut(), &mut far, stride, bytes)
}

fn through(near: &mut dyn Lane, far: &mut dyn Lane, stride: usize, bytes: usize) -> Result<f64> {
    let large = vec![7; LARGE / stride * stride];
    let datagrams = Datagrams { bytes: &large, stride };
    let mut received = ReceiveBuffer::new();
    let start = processor_ns();
    let mut came = 0;
    while came < bytes {
        near.send(&datagrams)?;
        far.receive(&mut received)?;
        came += received.datagrams().map(|datagram| datagram.bytes.len()).sum::<usize>();
    }
    Ok(came as f64 * 8.0 / (processor_ns() - start))
}

fn of_plain(stride: usize, bytes: usize) -> Result<f64> {
    let far = UdpSocket::bind("127.0.0.1:0")?;
    let near = UdpSocket::bind("127.0.0.1:0")?;
    near.connect(far.local_addr()?)?;
    let large = vec![7; LARGE / stride * stride];
    let mut area = sys::area();
    let start = processor_ns();
    let mut came = 0;
    while came < bytes {
        let sent = sys::send(&near, &large, stride);
        let mut taken = 0;
        while taken < sent {
            let (count, bytes) = sys::receive(&far, &mut area);
            if count == 0 {
                break;
            }
            (taken, came) = (taken + count, came + bytes);
        }
    }
    Ok(came as f64 * 8.0 / (processor_ns() - start))
}

/// Time that this process has had.
fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
