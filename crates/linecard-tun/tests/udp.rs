//! Batches of UDP datagrams, on the loopback interface.

use linecard::offload::burst::{Room, cut};
use linecard::offload::virtio::{Header, flag, gso_type};
use linecard::packet::LinkType;
use linecard_testkit::lab::{inside, ip};
use linecard_tun::udp::{BatchSocket, Batcher, Destination, MAX_RECEIVED, Receiver};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

fn open(address: &str) -> BatchSocket {
    let socket = UdpSocket::bind((address, 0)).expect("a port is free");
    BatchSocket::new(socket).expect("it is a socket")
}

/// Two sockets, each connected to the other.
fn pair() -> [BatchSocket; 2] {
    let both = [open("127.0.0.1"), open("127.0.0.1")];
    for (one, other) in [(0, 1), (1, 0)] {
        let address = both[other].socket().local_addr().expect("it is bound");
        both[one].socket().connect(address).expect("it is near");
    }
    both
}

fn address(socket: &BatchSocket) -> SocketAddr {
    socket.socket().local_addr().expect("it is bound")
}

/// Adds a frame that is one datagram of `len` bytes, of which the first is `mark`: by both functions
/// in turn.
fn push(batcher: &mut Batcher, to: Destination<'_>, mark: u8, len: usize) -> std::io::Result<()> {
    let frame = content(len - 1);
    let mut segments = cut(LinkType::Raw, &Header::default(), &frame).expect("plain");
    if mark.is_multiple_of(2) {
        let room = Room { front: 1, back: 0 };
        return batcher.push(to, &mut segments, room, |datagram| datagram[0] = mark);
    }
    batcher.push_with(to, &mut segments, 1, |packet, datagram| {
        datagram.copy_from_slice(&[&[mark], packet].concat());
        datagram.len()
    })
}

/// A UDP packet with 20,000 bytes of payload, to be divided by 500.
fn large(mark: u8) -> (Header, Vec<u8>) {
    let mut frame = vec![0x45, 0, 0x4E, 0x3C, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    frame.extend([0, 7, 0, mark, 0x4E, 0x28, 1, 2]);
    frame.extend(content(20_000));
    let (flags, gso_type) = (flag::NEEDS_CSUM, gso_type::UDP_L4);
    let (gso_size, csum_start, csum_offset) = (500, 20, 6);
    let header = Header { flags, gso_type, gso_size, csum_start, csum_offset, ..Header::default() };
    (header, frame)
}

/// Marks and lengths of received datagrams that [`push`] has sent.
fn marks(socket: &BatchSocket, count: usize) -> Vec<(u8, usize)> {
    let marks = receive(socket, count).0.into_iter().map(|datagram| {
        assert_eq!(datagram[1..], content(datagram.len() - 1));
        (datagram[0], datagram.len())
    });
    marks.collect()
}

/// The next `count` datagrams, and the most that one call gave.
fn receive(socket: &BatchSocket, count: usize) -> (Vec<Vec<u8>>, usize) {
    let (mut room, mut all, mut most) = (vec![0; MAX_RECEIVED], Vec::new(), 0);
    while all.len() < count {
        let came = linecard_tun::wait(&[socket.as_fd()], PATIENCE).expect("one descriptor");
        assert!(came, "{} of {count} datagrams came", all.len());
        let received = socket.receive(&mut room).expect("a datagram waits");
        all.extend(received.iter().map(<[u8]>::to_vec));
        most = most.max(received.iter().count());
    }
    (all, most)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8) as u8).collect()
}

/// Promise (Live interfaces): batches of UDP datagrams arrive with the lengths, the contents and the
/// order in which they were sent: 1 to 100 datagrams of 1 to 9,000 bytes, on the loopback interface.
#[test]
fn datagrams_arrive_as_they_were_sent() {
    let [near, far] = pair();
    let bytes = content(100_000);
    let cases = [(1, 1, 1), (3, 1_400, 1_400), (64, 1_000, 1), (65, 1_000, 999), (100, 100, 7)];
    for (count, size, last) in [&cases[..], &[(40, 1, 1), (10, 9_000, 8_999)]].concat() {
        let batch = &bytes[..(count - 1) * size + last];
        let (mut sent, mut came) = (0, Vec::new());
        // Fewer are taken if the socket's buffer is small.
        while sent < batch.len() {
            let taken = near.send(&batch[sent..], size).expect("there is room");
            came.extend(receive(&far, taken.div_ceil(size)).0);
            sent += taken;
        }
        assert!(came.iter().map(Vec::as_slice).eq(batch.chunks(size)), "{count} of {size}");
    }
}

#[test]
fn a_batch_is_one_call_at_each_end() {
    let [near, far] = pair();
    if !near.sends_batches() || !far.receives_batches() {
        return linecard_testkit::skip("batches of datagrams", "UDP GSO and GRO take Linux 5.0");
    }
    assert_eq!(near.send(&content(30_000), 1_000).ok(), Some(30_000));
    let (came, most) = receive(&far, 30);
    // The loopback interface does not segment what its other end takes merged.
    assert_eq!((came.len(), most), (30, 30));
}

#[test]
fn unconnected_sockets_name_the_peer() {
    for address in ["127.0.0.1", "::1"] {
        if UdpSocket::bind((address, 0)).is_err() {
            linecard_testkit::skip(format!("datagrams of {address}"), "no such address");
            continue;
        }
        let (near, far) = (open(address), open(address));
        let to = far.socket().local_addr().expect("it is bound");
        assert_eq!(near.send_to(b"linecard", 3, to).ok(), Some(8));
        linecard_tun::wait(&[far.as_fd()], PATIENCE).expect("one descriptor");
        let mut room = vec![0; MAX_RECEIVED];
        let from = far.receive(&mut room).expect("it was sent").from;
        assert_eq!(from, near.socket().local_addr().expect("it is bound"));
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let [near, far] = pair();
    let kind = |result: Result<usize, std::io::Error>| result.err().map(|error| error.kind());
    assert_eq!(kind(near.send(b"none", 0)), Some(ErrorKind::InvalidInput));
    assert_eq!(near.send(&[], 10).ok(), Some(0));
    // Longer than a datagram can be.
    let error = near.send(&[0; 65_508], 70_000).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "a datagram of 65508 bytes: at most 65507 can be sent");
    let received = |len: usize| far.receive(&mut vec![0; len]).err().map(|error| error.kind());
    assert_eq!(received(MAX_RECEIVED - 1), Some(ErrorKind::InvalidInput));
    assert_eq!(received(MAX_RECEIVED), Some(ErrorKind::WouldBlock));
    drop(far);
    // The answer that no socket listens comes with the next call.
    assert_eq!(near.send(b"first", 5).ok(), Some(5));
    // A program that another test starts has the socket for a moment, too.
    let deadline = Instant::now() + PATIENCE;
    while kind(near.send(b"second", 6)) != Some(ErrorKind::ConnectionRefused) {
        assert!(Instant::now() < deadline, "it is not refused");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn segments_encrypted_into_other_memory_arrive_in_order() {
    let [near, far] = pair();
    let (mut batcher, mut expected) = (Batcher::new(), Vec::new());
    for (at, len) in [900, 900, 900, 20, 900, 901, 1, 30_000].into_iter().enumerate() {
        let frame = content(len);
        let mut segments = cut(LinkType::Raw, &Header::default(), &frame).expect("no header");
        let pushed = batcher.push_with(&near, &mut segments, 9, |packet, datagram| {
            assert_eq!((packet.len(), datagram.len()), (len, len + 9));
            datagram[..=len].copy_from_slice(&[&[at as u8], packet].concat());
            // Nothing is to be sent of one of them.
            if at == 4 { 0 } else { 1 + len }
        });
        pushed.expect("there is room");
        if at != 4 {
            expected.push([&[at as u8], &frame[..]].concat());
        }
    }
    batcher.flush(&near).expect("there is room");
    assert_eq!(receive(&far, expected.len()).0, expected);
    assert_eq!((batcher.sent(), batcher.dropped()), (7, 0));
}

#[test]
fn threads_share_a_socket() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<BatchSocket>();
}

#[test]
fn an_error_of_an_earlier_datagram_loses_no_later_one() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = peer.local_addr().expect("it is bound");
    let client = open("127.0.0.1");
    client.socket().connect(address).expect("it is near");
    drop(peer);
    // It comes back as unreachable, which the next call would report.
    // Sent again if it, or what comes back, is lost on a busy machine.
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert_eq!(client.send(b"nobody", 6).expect("it leaves"), 6);
        if linecard_tun::wait(&[client.as_fd()], Duration::from_millis(100)).expect("one") {
            break;
        }
        assert!(Instant::now() < deadline, "nothing comes back");
    }
    let peer = BatchSocket::new(UdpSocket::bind(address).expect("it is free")).expect("a socket");
    let mut batcher = Batcher::new();
    for frame in [*b"line", *b"card"] {
        let mut segments = cut(LinkType::Raw, &Header::default(), &frame).expect("plain");
        batcher.push(&client, &mut segments, Room::default(), |_| {}).expect("it has room");
    }
    batcher.flush(&client).expect("somebody listens");
    assert_eq!((batcher.sent(), batcher.dropped()), (2, 0));
    assert_eq!(receive(&peer, 2).0.concat(), b"linecard");
}

/// Datagrams longer than the MTU are sent one by one, and the answer to each comes before the next.
#[test]
fn an_answer_to_a_datagram_of_a_batch_loses_no_other() {
    inside("a batch longer than the MTU that nobody receives", |_| {
        ip("link set lo mtu 1400 up");
        let peer = open("127.0.0.1");
        let client = open("127.0.0.1");
        client.socket().connect(address(&peer)).expect("it is near");
        drop(peer);
        let mut batcher = Batcher::new();
        for mark in 0..5 {
            push(&mut batcher, (&client).into(), mark, 3_000).expect("nothing is sent yet");
        }
        batcher.flush(&client).expect("each was taken");
        assert_eq!((batcher.sent(), batcher.dropped()), (5, 0));
        // Of the function without a batcher, only its first datagram meets an earlier answer.
        let bytes = content(5 * 3_000);
        let sends = [(); 2].map(|()| client.send(&bytes, 3_000).map_err(|error| error.kind()));
        assert_eq!(sends, [Err(ErrorKind::ConnectionRefused), Ok(15_000)]);
    });
}

#[test]
fn a_segment_that_no_datagram_can_hold_is_refused_before_it_is_taken() {
    let [client, _peer] = pair();
    let (frame, mut batcher) = (content(65_500), Batcher::new());
    let mut segments = cut(LinkType::Raw, &Header::default(), &frame).expect("plain");
    let room = Room { front: 8, back: usize::MAX };
    for error in [
        batcher.push(&client, &mut segments, room, |_| panic!("sealed")).expect_err("too long"),
        batcher
            .push_with(&client, &mut segments, 8, |_, _| panic!("sealed"))
            .expect_err("too long"),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let mut out = vec![0; 65_500];
    assert!(
        segments.write(Room::default(), &mut out).expect("room").is_some(),
        "it is still there"
    );
}

/// Promise (Live interfaces): datagrams that a `Batcher` gathers for several addresses arrive at each
/// complete and in order: 20 rounds of 2 to 1,400 bytes to 2 and to 40 addresses, on the loopback
/// interface.
#[test]
fn each_of_many_peers_gets_its_datagrams_in_order() {
    // 40 are more than are gathered for at once.
    for count in [2, 40] {
        let server = open("127.0.0.1");
        let peers: Vec<BatchSocket> = (0..count).map(|_| open("127.0.0.1")).collect();
        let (mut batcher, mut expected) = (Batcher::new(), vec![Vec::new(); count]);
        for round in 0..20 {
            for (at, peer) in peers.iter().enumerate() {
                // Equal, shorter and longer ones behind each other, and a peer that is left out.
                let len = [1_400, 1_400, 700, 1_400, 2, 1_001][(round + at / 2) % 6];
                if (round * count + at) % 7 != 0 {
                    let sent = push(&mut batcher, server.to(address(peer)), round as u8, len);
                    sent.expect("there is room");
                    expected[at].push((round as u8, len));
                }
            }
        }
        batcher.flush(&server).expect("there is room");
        for (peer, expected) in peers.iter().zip(&expected) {
            assert_eq!(marks(peer, expected.len()), *expected);
        }
        let all = expected.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!((batcher.sent(), batcher.dropped()), (all, 0));
    }
}

#[test]
fn datagrams_to_interleaved_addresses_leave_by_one_call_each() {
    let (server, peers) = (open("127.0.0.1"), [open("127.0.0.1"), open("127.0.0.1")]);
    if !server.sends_batches() || !peers[0].receives_batches() {
        return linecard_testkit::skip("batches of datagrams", "UDP GSO and GRO take Linux 5.0");
    }
    let mut batcher = Batcher::new();
    for mark in 0..30 {
        for peer in &peers {
            push(&mut batcher, server.to(address(peer)), mark, 1_000).expect("there is room");
        }
    }
    batcher.flush(&server).expect("there is room");
    for peer in &peers {
        assert_eq!(receive(peer, 30).1, 30, "by one call");
    }
}

#[test]
fn segments_of_large_packets_stay_in_order_for_each_address() {
    let (server, peers) = (open("127.0.0.1"), [open("127.0.0.1"), open("127.0.0.1")]);
    let (mut batcher, mut expected) = (Batcher::new(), [Vec::new(), Vec::new()]);
    // 40 segments each: a call ends between two packets, and in the middle of one.
    for mark in 0..6 {
        let at = usize::from(mark) % 2;
        let (header, frame) = large(mark);
        let mut out = vec![0; 1 << 16];
        let mut whole = cut(LinkType::Raw, &header, &frame).expect("it is consistent");
        let mut run = whole.write(Room::default(), &mut out).expect("room").expect("segments");
        expected[at].extend(run.segments().map(|segment| segment.to_vec()));
        let mut segments = cut(LinkType::Raw, &header, &frame).expect("it is consistent");
        let to = server.to(address(&peers[at]));
        batcher.push(to, &mut segments, Room::default(), |_| {}).expect("there is room");
    }
    batcher.flush(&server).expect("there is room");
    for (peer, expected) in peers.iter().zip(&expected) {
        assert_eq!(expected.len(), 3 * 40);
        assert_eq!(receive(peer, expected.len()).0, *expected);
    }
    assert_eq!((batcher.sent(), batcher.dropped()), (240, 0));
}

#[test]
fn an_error_of_one_address_loses_no_datagram_to_another() {
    let (server, peer) = (open("127.0.0.1"), open("127.0.0.1"));
    // No socket has the port 0.
    let (nobody, mut batcher) = (SocketAddr::from(([127, 0, 0, 1], 0)), Batcher::new());
    for mark in 0..3 {
        for to in [nobody, address(&peer)] {
            push(&mut batcher, server.to(to), mark, 100).expect("nothing is sent yet");
        }
    }
    assert_eq!(batcher.flush(&server).map_err(|error| error.kind()), Err(ErrorKind::InvalidInput));
    assert_eq!(marks(&peer, 3), [(0, 100), (1, 100), (2, 100)]);
    assert_eq!((batcher.sent(), batcher.dropped()), (3, 3));
    batcher.flush(&server).expect("nothing is left");
}

#[test]
fn datagrams_longer_than_the_mtu_are_sent_one_by_one() {
    inside("datagrams longer than the MTU", |_| {
        ip("link set lo mtu 1400 up");
        let (server, peers) = (open("127.0.0.1"), [open("127.0.0.1"), open("127.0.0.1")]);
        let mut batcher = Batcher::new();
        for mark in 0..4 {
            for (peer, len) in peers.iter().zip([3_000, 1_000]) {
                push(&mut batcher, server.to(address(peer)), mark, len).expect("there is room");
            }
        }
        batcher.flush(&server).expect("there is room");
        for (peer, len) in peers.iter().zip([3_000, 1_000]) {
            assert_eq!(marks(peer, 4), [0, 1, 2, 3].map(|mark| (mark, len)));
        }
        assert_eq!((batcher.sent(), batcher.dropped()), (8, 0));
        assert!(server.sends_batches(), "only those of this length are not");
    });
}

#[test]
fn datagrams_that_a_full_queue_does_not_take_are_counted() {
    inside("a full queue of a socket", |_| {
        ip("link add va type veth peer name vb");
        ip("addr add 192.0.2.1/24 dev va");
        for device in ["lo", "va", "vb"] {
            ip(&format!("link set {device} up"));
        }
        let (server, peer) = (open("192.0.2.1"), open("192.0.2.1"));
        server.set_buffers(1).expect("the least is set");
        // No host has this address, so that its datagrams wait in the kernel.
        let (nobody, mut batcher) = (SocketAddr::from(([192, 0, 2, 2], 9)), Batcher::new());
        let mut results = (0..20).map(|mark| {
            push(&mut batcher, server.to(nobody), mark, 1_000).expect("nothing is sent yet");
            batcher.flush(&server)
        });
        let error = results.find_map(Result::err).expect("room for fewer than 20");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(results);
        assert!(batcher.sent() > 0);
        assert_eq!(batcher.dropped(), 1);
        // Now they leave, and there is room for others.
        ip("neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev va");
        let deadline = Instant::now() + PATIENCE;
        while push(&mut batcher, server.to(address(&peer)), 7, 1_000).is_ok()
            && batcher.flush(&server).is_err()
        {
            assert!(Instant::now() < deadline, "the queue is still full");
        }
        assert_eq!(marks(&peer, 1), [(7, 1_000)]);
    });
}

#[test]
fn a_burst_names_the_sender_of_each_batch() {
    let (server, peers) = (open("127.0.0.1"), [open("127.0.0.1"), open("127.0.0.1")]);
    for (peer, text) in peers.iter().zip([b"abcde", b"fghij"]) {
        assert_eq!(peer.send_to(text, 2, address(&server)).ok(), Some(5));
    }
    let (mut receiver, mut came) = (Receiver::new(4), vec![Vec::new(); 2]);
    while came.iter().map(Vec::len).sum::<usize>() < 6 {
        assert!(linecard_tun::wait(&[server.as_fd()], PATIENCE).expect("one descriptor"));
        let burst = receiver.receive(&server).expect("datagrams wait");
        assert!(burst.ranges().eq(burst.batches.iter().flat_map(|batch| batch.ranges())));
        for batch in burst.batches {
            let from = peers.iter().position(|peer| address(peer) == batch.from);
            let datagrams = batch.ranges().map(|place| burst.bytes[place].to_vec());
            came[from.expect("one of them")].extend(datagrams);
        }
    }
    assert_eq!(came, [[&b"ab"[..], b"cd", b"e"], [b"fg", b"hi", b"j"]]);
}
