//! Packets sent at one end arrive at the other, byte for byte, in order, and no frame is lost.

use crate::cable::{
    PATIENCE, frame, nothing_leaks, now, packet, receive, transmit, until, with_cable, with_queues,
};
use crate::sys::{self, PacketSocket};
use linecard::packet::{Batch, LinkType, Meta, Packet, Piece};
use linecard::port::{Port, PortState};
use linecard::time::Instant;
use linecard_io::port::LivePort;
use linecard_io::port::xdp::{Attachment, Config, FrameLen, Mode, XdpBuffer, XdpPort, XdpQueues};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const MODES: [Mode; 2] = [Mode::Native, Mode::Generic];
const LENGTHS: std::ops::RangeInclusive<usize> = 60..=1514;

/// Promise (Live interfaces): AF_XDP ports change no byte of frames of 60 to 1,514 bytes and of
/// 9,014 bytes.
#[test]
fn frames_of_all_lengths_are_received_byte_for_byte() {
    with_cable("frames received", "1500", |cable| {
        for mode in MODES {
            for frame_len in [FrameLen::B2048, FrameLen::B4096] {
                let config = Config { frame_len, ..Config::default() };
                let mut port = cable.port(mode, &config);
                for len in LENGTHS {
                    let sent = frame(len as u32, len);
                    cable.send(&sent);
                    let got = receive(&mut port, 1);
                    assert!(got.len() == 1 && got[0].bytes() == sent, "{mode:?}, {len} bytes");
                    assert!(got[0].buffer().is_frame());
                }
                nothing_leaks(&mut port, &config);
                assert_eq!(port.detailed_counters().received, LENGTHS.count() as u64);
            }
        }
    });
}

#[test]
fn frames_of_all_lengths_are_sent_byte_for_byte() {
    with_cable("frames sent", "1500", |cable| {
        for mode in MODES {
            let config = Config::default();
            let mut port = cable.port(mode, &config);
            for len in LENGTHS {
                let mut batch = Batch::new();
                batch.push(packet(frame(len as u32, len))).expect("there is room");
                transmit(&mut port, &mut batch);
                assert!(cable.next() == frame(len as u32, len), "{mode:?}, {len} bytes");
            }
            nothing_leaks(&mut port, &config);
            let counters = port.detailed_counters();
            assert_eq!((counters.sent, counters.sent_in_place), (LENGTHS.count() as u64, 0));
            assert_eq!(counters.copied_bytes, counters.sent_bytes);
        }
    });
}

/// Promise (Live interfaces): AF_XDP ports deliver 20,000 frames in order and without loss, on veth
/// in native and generic mode, copy mode, Linux 6.18, as root.
#[test]
fn twenty_thousand_frames_come_in_order_without_loss() {
    const FRAMES: u32 = 20_000;
    with_cable("frames in order", "1500", |cable| {
        for mode in MODES {
            let config = Config::default();
            let mut port = cable.port(mode, &config);
            let len = |number: u32| 60 + number as usize * 7 % 1455;
            let (mut sent, mut came) = (0, 0);
            while came < FRAMES {
                // The other end keeps up: no more are in flight than there are slots.
                while sent < FRAMES && sent - came < config.rx_slots / 2 {
                    cable.send(&frame(sent, len(sent)));
                    sent += 1;
                }
                for got in receive(&mut port, 1) {
                    assert!(got.bytes() == frame(came, len(came)), "{mode:?}, frame {came}");
                    came += 1;
                }
            }
            let (mut sent, mut came) = (0, 0);
            let mut batch = Batch::new();
            while came < FRAMES {
                while sent < FRAMES && batch.push(packet(frame(sent, len(sent)))).is_ok() {
                    sent += 1;
                }
                transmit(&mut port, &mut batch);
                while came < sent {
                    assert!(cable.next() == frame(came, len(came)), "{mode:?}, frame {came} back");
                    came += 1;
                }
            }
            nothing_leaks(&mut port, &config);
            let kernel = port.kernel_counters().expect("it answers");
            assert_eq!((kernel.rx_dropped, kernel.rx_ring_full, kernel.fill_ring_empty), (0, 0, 0));
        }
    });
}

#[test]
fn two_ports_on_two_threads_lose_nothing_and_keep_the_order() {
    const FRAMES: u32 = 20_000;
    with_cable("two ports", "1500", |cable| {
        for mode in MODES {
            let config = Config::default();
            let mut port = cable.port(mode, &config);
            let (far, device) = (&cable.far, cable.far.device());
            let came = AtomicU32::new(0);
            let len = |number: u32| 60 + number as usize * 7 % 1455;
            thread::scope(|scope| {
                scope.spawn(|| {
                    far.enter().expect("it is there");
                    let attachment = Attachment::in_mode(&device, mode).expect("it is free");
                    let mut port = XdpPort::open(&attachment, 0, &config).expect("it is free");
                    let mut batch = Batch::new();
                    for number in 0..FRAMES {
                        // The receiver keeps up: no more are in flight than there are slots.
                        let under_way = || number - came.load(Ordering::Relaxed);
                        until("frames come", || under_way() < config.rx_slots / 2);
                        let bytes = frame(number, len(number));
                        batch.push(packet(bytes)).expect("it is sent when it is full");
                        if batch.room() == 0 || number + 1 == FRAMES {
                            transmit(&mut port, &mut batch);
                        }
                    }
                    nothing_leaks(&mut port, &config);
                });
                let mut next = 0;
                while next < FRAMES {
                    for got in receive(&mut port, 1) {
                        assert!(got.bytes() == frame(next, len(next)), "{mode:?}, frame {next}");
                        next += 1;
                    }
                    came.store(next, Ordering::Relaxed);
                }
            });
            nothing_leaks(&mut port, &config);
        }
    });
}

#[test]
fn what_was_received_is_sent_back_from_its_frame() {
    with_cable("frames in place", "1500", |cable| {
        let config = Config::default();
        let mut port = cable.port(Mode::Native, &config);
        for round in 0..100 {
            let sent: Vec<Vec<u8>> = (0..64).map(|at| frame(round * 64 + at, 1000)).collect();
            sent.iter().for_each(|bytes| cable.send(bytes));
            let mut batch = Batch::new();
            for got in receive(&mut port, sent.len()) {
                batch.push(got).expect("there is room");
            }
            transmit(&mut port, &mut batch);
            sent.iter().for_each(|bytes| assert!(cable.next() == *bytes));
        }
        let mut own = port.buffer(60).expect("one is free");
        own.as_mut().copy_from_slice(&frame(1, 60));
        let mut batch = Batch::new();
        batch.push(packet(own)).expect("there is room");
        transmit(&mut port, &mut batch);
        assert!(cable.next() == frame(1, 60));
        nothing_leaks(&mut port, &config);
        let counters = port.detailed_counters();
        assert_eq!((counters.sent_in_place, counters.copied_bytes), (6401, 0));
        // The kernel copies where the driver cannot leave a packet in its frame.
        let by_kernel = if port.binding().zero_copy { 0 } else { 2 * 6400 * 1000 + 60 };
        assert_eq!(LivePort::<XdpBuffer>::counters(&mut port).copied_bytes, by_kernel);
        assert!(port.buffer(2049).is_none(), "longer than a frame");
    });
}

#[test]
fn frames_that_are_held_come_back_when_dropped() {
    with_cable("frames held", "1500", |cable| {
        let config = Config { rx_slots: 64, tx_slots: 64, spare_frames: 64, ..Config::default() };
        let mut port = cable.port(Mode::Generic, &config);
        let mut held = Vec::new();
        let all = config.frames();
        for number in 0..all {
            cable.send(&frame(number, 60));
            held.extend(receive(&mut port, 1));
        }
        assert_eq!((port.frames().free, port.frames().in_buffers), (0, all as usize));
        cable.send(&frame(0, 60));
        let mut batch = Batch::<XdpBuffer>::new();
        port.receive(&mut batch, Instant::ZERO);
        assert!(batch.is_empty(), "there is nothing to receive into");
        let kernel = port.kernel_counters().expect("it answers");
        assert!(kernel.fill_ring_empty + kernel.rx_dropped > 0, "{kernel:?}");
        // Nor to copy into: packets to send wait.
        let mut waiting = Batch::new();
        waiting.push(packet(frame(7, 60))).expect("there is room");
        port.send(&mut waiting, Instant::ZERO);
        assert_eq!(waiting.len(), 1);
        for (number, packet) in (0..).zip(&held) {
            assert!(packet.bytes() == frame(number, 60), "nothing was written over");
        }
        drop(held);
        transmit(&mut port, &mut waiting);
        assert!(cable.next() == frame(7, 60));
        nothing_leaks(&mut port, &config);
        cable.send(&frame(1, 60));
        assert!(receive(&mut port, 1)[0].bytes() == frame(1, 60));
    });
}

#[test]
fn buffers_outlive_their_port() {
    with_cable("buffers kept", "1500", |cable| {
        let mut port = cable.port(Mode::Native, &Config::default());
        cable.send(&frame(5, 500));
        let kept = receive(&mut port, 1);
        drop(port);
        let mut next = cable.port(Mode::Native, &Config::default());
        cable.send(&frame(6, 500));
        assert!(receive(&mut next, 1)[0].bytes() == frame(6, 500));
        // A frame of another port is copied.
        let mut batch = Batch::new();
        for packet in kept {
            assert!(packet.bytes() == frame(5, 500));
            batch.push(packet).expect("there is room");
        }
        next.transmit(&mut batch, Instant::ZERO);
        assert!(cable.next() == frame(5, 500));
        assert_eq!((next.detailed_counters().sent, next.detailed_counters().sent_in_place), (1, 0));
    });
}

#[test]
fn packets_in_pieces_are_sent_as_one_frame() {
    with_cable("packets in pieces", "9000", |cable| {
        for payload in [100, 1400, 8900] {
            let mut port = cable.port(Mode::Generic, &Config::default());
            if payload > 1500 && !port.binding().multi_buffer {
                return crate::around::skipped("long packets", "no multi-buffer");
            }
            let whole = datagram(payload);
            let piece = |bytes: &[u8]| {
                let len = bytes.len();
                Piece::new(XdpBuffer::from(bytes.to_vec()), 0..len, Instant::ZERO)
                    .expect("it is inside")
            };
            let pieces = whole[42..].chunks(61).map(piece).collect();
            let head = XdpBuffer::from(whole[..42].to_vec());
            let packet = Packet::gather(head, pieces, LinkType::Ethernet, Meta::default());
            let mut batch = Batch::new();
            batch.push(packet.expect("a datagram")).expect("there is room");
            transmit(&mut port, &mut batch);
            assert!(cable.next() == whole, "{payload} bytes of payload");
        }
    });
}

#[test]
fn jumbo_frames_are_received_in_several_frames() {
    with_cable("jumbo frames", "9000", |cable| {
        for mode in MODES {
            let config = Config::default();
            let mut port = cable.port(mode, &config);
            if !port.binding().multi_buffer {
                return crate::around::skipped("jumbo frames", "no multi-buffer");
            }
            for number in 0..200 {
                let (long, short, other) = (datagram(8900), datagram(100), frame(number, 9014));
                [&long, &short, &other].into_iter().for_each(|bytes| cable.send(bytes));
                let got = receive(&mut port, 3);
                let bytes = |at: usize| {
                    let header = got[at].header().to_vec();
                    got[at].payload().fold(header, |all, piece| [&all, piece].concat())
                };
                assert!(got[0].is_merged() && bytes(0) == long, "{mode:?}");
                assert!(bytes(1) == short && got[2].bytes() == other, "{mode:?}");
            }
            nothing_leaks(&mut port, &config);
        }
    });
}

#[test]
fn what_the_interface_does_not_carry_is_dropped_and_counted() {
    with_cable("lengths", "1500", |cable| {
        let config = Config::default();
        let mut port = cable.port(Mode::Native, &config);
        let mut batch = Batch::new();
        for len in [1, 13, 1523, 60_000] {
            batch.push(packet(vec![0; len])).expect("there is room");
        }
        batch.push(packet(frame(1, 60))).expect("there is room");
        transmit(&mut port, &mut batch);
        assert!(cable.next() == frame(1, 60));
        assert_eq!((port.detailed_counters().send_dropped, port.detailed_counters().sent), (4, 1));
        // A larger MTU is noticed.
        for namespace in [&cable.near, &cable.far] {
            namespace.ip(&["link", "set", &namespace.device(), "mtu", "1600"]).expect("it may");
        }
        batch.push(packet(frame(2, 1614))).expect("there is room");
        transmit(&mut port, &mut batch);
        assert!(cable.next() == frame(2, 1614));
        nothing_leaks(&mut port, &config);
    });
}

#[test]
fn queues_without_a_port_go_to_the_kernel() {
    with_cable("queues", "1500", |cable| {
        let near = sys::interface(&cable.near.device()).expect("it is there");
        let mut kernel = PacketSocket::receiver(near).expect("it may");
        for mode in MODES {
            let _attachment = cable.attach(mode);
            cable.send(&frame(1, 60));
            assert!(kernel.wait(PATIENCE).expect("it can be polled"), "{mode:?}");
            let received = kernel.receive().expect("it can be read").expect("it is there");
            assert!(received.frame == frame(1, 60), "{mode:?}");
        }
    });
}

#[test]
fn each_queue_has_its_port() {
    const QUEUES: u32 = 2;
    with_queues("two queues", ("1500", "2"), |cable| {
        // Without a program in the driver, a cable does not tell which queue a packet came by.
        let attachment = cable.attach(Mode::Native);
        let config = Config::default();
        let open = |queue| XdpPort::open(&attachment, queue, &config).expect("it is free");
        let mut ports: Vec<XdpPort> = (0..QUEUES).map(open).collect();
        // The kernel chooses the queue by the flow.
        let flow = |port: u16| {
            let mut datagram = datagram(100);
            datagram[34..36].copy_from_slice(&port.to_be_bytes());
            datagram
        };
        (0..256).for_each(|port| cable.send(&flow(port)));
        let mut counts = [0; QUEUES as usize];
        let mut batch = Batch::<XdpBuffer>::new();
        until("all are received", || {
            for (port, count) in ports.iter_mut().zip(&mut counts) {
                port.receive(&mut batch, now());
                for packet in batch.drain() {
                    *count += 1;
                    assert_eq!(packet.meta.lane, port.queue());
                }
            }
            counts.iter().sum::<u32>() == 256
        });
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        ports.iter_mut().for_each(|port| nothing_leaks(port, &config));
    });
}

#[test]
fn several_queues_are_received_from_in_turn() {
    with_queues("queues of one port", ("1500", "2"), |cable| {
        let attachment = cable.attach(Mode::Native);
        let mut port = XdpQueues::open(&attachment, [0, 1], &Config::default()).expect("free");
        let flow = |port: u16| {
            let mut datagram = datagram(100);
            datagram[34..36].copy_from_slice(&port.to_be_bytes());
            datagram
        };
        (0..256).for_each(|port| cable.send(&flow(port)));
        let descriptor = LivePort::<XdpBuffer>::descriptor(&port).expect("it has one");
        assert!(linecard_tun::wait(&[descriptor], PATIENCE).expect("it can be polled"));
        let (mut batch, mut lanes) = (Batch::<XdpBuffer>::bounded(8), Vec::new());
        until("all are received", || {
            port.receive(&mut batch, now());
            lanes.extend(batch.drain().map(|packet| packet.meta.lane));
            lanes.len() == 256
        });
        // Neither waits until the other is empty.
        let first = lanes[0];
        let changes = lanes.iter().position(|lane| *lane != first).expect("both are used");
        assert!(changes <= 8, "{lanes:?}");
        let counters = LivePort::<XdpBuffer>::counters(&mut port);
        assert_eq!((counters.received, counters.gone, counters.dropped.total()), (256, 0, 0));
        let mut buffer = port.ports()[0].buffer(flow(1).len()).expect("one is free");
        buffer.as_mut().copy_from_slice(&flow(1));
        assert!(batch.push(packet(buffer)).is_ok());
        port.transmit(&mut batch, now());
        assert!(cable.next() == flow(1));
        let device = cable.near.device();
        cable.near.ip(&["link", "del", &device]).expect("it is ours");
        until("all queues are gone", || port.receive(&mut batch, now()) == PortState::Ended);
        assert_eq!(LivePort::<XdpBuffer>::counters(&mut port).gone, 1);
    });
}

/// An IPv4 UDP datagram in an Ethernet frame, without checksums.
fn datagram(payload: usize) -> Vec<u8> {
    let (ip_len, udp_len) = ((28 + payload) as u16, (8 + payload) as u16);
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x08, 0, 0x45, 0];
    frame.extend(ip_len.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9]);
    frame.extend(udp_len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((0..payload).map(|at| at as u8));
    frame
}
