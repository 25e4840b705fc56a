//! Frames over connections: all of them, in order, whatever the kernel takes at once.

use super::{failure, loopback, random, take_all, through};
use linecard_transfer_net::lane::{
    Datagrams, Lane, LaneError, Listener, MAX_DATAGRAM_BYTES, ReceiveBuffer, Spec, Tcp,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn listener() -> Listener {
    "tcp:127.0.0.1".parse::<Spec>().unwrap().listen().unwrap()
}

fn accept(listener: &Listener) -> Tcp {
    loop {
        if let Some(lane) = listener.accept().unwrap() {
            return lane;
        }
    }
}

fn pair() -> (Tcp, Tcp) {
    let listener = listener();
    let near = Tcp::connect(&loopback(), listener.local_addr().unwrap()).unwrap();
    (near, accept(&listener))
}

/// A lane, and its other end as plain bytes.
fn half() -> (Tcp, TcpStream) {
    let listener = listener();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    (accept(&listener), stream)
}

#[test]
fn everything_arrives_in_order_both_ways() {
    let (mut near, mut far) = pair();
    for stride in [1, 100, 1_408, 4_096, 8_896, MAX_DATAGRAM_BYTES] {
        let bytes = random((stride * 300).min(5 << 20) + 1);
        let datagrams = Datagrams { bytes: &bytes, stride };
        let mut came = through(&mut near, &mut far, &datagrams);
        came.extend(take_all(&mut far, datagrams.count() - came.len()));
        assert!(came.iter().map(Vec::as_slice).eq(datagrams.iter()), "{stride}");
        std::mem::swap(&mut near, &mut far);
    }
    assert!(near.is_stream() && near.describe().contains(" to "));
}

#[test]
fn a_slow_reader_fills_the_lane_and_partial_frames_go_on_where_they_stopped() {
    let (mut near, mut stream) = half();
    let bytes = random(MAX_DATAGRAM_BYTES * 8);
    let mut sent = Vec::new();
    // Different lengths, so that calls end anywhere in a frame.
    let mut stride = 60_001;
    let mut partial = 0;
    let (mut came, mut expected) = (vec![0; 30_001], Vec::new());
    for _ in 0..400 {
        stride = 1_000 + (stride * 7) % 60_000;
        let part = Datagrams { bytes: &bytes[..stride * 3], stride };
        let taken = near.send(&part).unwrap();
        for datagram in part.iter().take(taken) {
            expected.extend((datagram.len() as u16).to_be_bytes());
            expected.extend_from_slice(datagram);
        }
        partial += usize::from(!near.is_flushed());
        if taken == 0 {
            stream.read_exact(&mut came).unwrap();
            sent.extend_from_slice(&came);
        }
    }
    stream.set_nonblocking(true).unwrap();
    while sent.len() < expected.len() {
        near.flush().unwrap();
        if let Ok(bytes) = stream.read(&mut came) {
            sent.extend_from_slice(&came[..bytes]);
        }
    }
    assert!(partial > 20, "{partial}");
    assert!(near.is_flushed() && sent == expected);
}

#[test]
fn frames_cut_at_every_byte_arrive_whole() {
    let (mut near, mut stream) = half();
    let datagrams: Vec<Vec<u8>> = [3, 1, 40].map(random).into();
    let frame = |d: &Vec<u8>| [&(d.len() as u16).to_be_bytes()[..], d].concat();
    let frames: Vec<u8> = datagrams.iter().flat_map(frame).collect();
    let mut received = ReceiveBuffer::new();
    for cut in 0..=frames.len() {
        stream.write_all(&frames[..cut]).unwrap();
        let mut came = Vec::new();
        // Long enough that the first part is read by itself, most of the time.
        std::thread::sleep(Duration::from_micros(200));
        came.extend(super::take(&mut near, &mut received));
        stream.write_all(&frames[cut..]).unwrap();
        came.extend(take_all(&mut near, datagrams.len() - came.len()));
        assert_eq!(came, datagrams, "cut at {cut}");
    }
}

#[test]
fn a_frame_that_cannot_be_ends_the_lane() {
    for length in [0_u16, 65_508, u16::MAX] {
        let (mut near, mut stream) = half();
        stream.write_all(&length.to_be_bytes()).unwrap();
        let mut received = ReceiveBuffer::new();
        let refused = failure(|| near.receive(&mut received));
        assert!(matches!(refused, LaneError::Frame(bytes) if bytes == usize::from(length)));
    }
    let (mut near, _stream) = half();
    let long = random(MAX_DATAGRAM_BYTES + 1);
    assert!(matches!(near.send(&Datagrams::one(&long)), Err(LaneError::TooLong { .. })));
}

#[test]
fn a_peer_that_is_gone_is_noticed_at_both_calls() {
    let (mut near, far) = pair();
    drop(far);
    let mut received = ReceiveBuffer::new();
    assert!(matches!(failure(|| near.receive(&mut received)), LaneError::Closed));
    let gone = failure(|| near.send(&Datagrams::one(b"hello?")));
    assert!(matches!(gone, LaneError::Dead(_)), "{gone}");
}

#[test]
fn nobody_there_is_a_dead_lane_and_not_a_hanging_one() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let dead = match Tcp::connect(&loopback(), address) {
        Ok(mut near) => failure(|| near.send(&Datagrams::one(b"hello?"))).to_string(),
        Err(error) => error.to_string(),
    };
    assert!(dead.contains("refused"), "{dead}");
}

#[test]
fn little_waits_in_the_kernel() {
    let (mut near, _stream) = half();
    let bytes = random(60_000);
    let mut sent = 0;
    while near.send(&Datagrams { bytes: &bytes, stride: 6_000 }).unwrap() > 0 {
        sent += bytes.len();
    }
    // The peer's first window and unsent bytes, 0.4 MB; without the bound it is 4 MB here.
    assert!(sent < 2 << 20, "{sent}");
    assert_eq!(near.send(&Datagrams::one(b"x")).unwrap(), 0);
}
