//! Stages and pipelines as users compose them.

use linecard::offload::coalesce::{Config, Flush, LargePackets, Refusal};
use linecard::packet::checksum::Sum;
use linecard::packet::{Batch, LinkType, Meta, Packet, Pool};
use linecard::pipeline::{Chain, NoMeter, Pipeline};
use linecard::port::Port;
use linecard::stage::Stage;
use linecard::stages::{Coalesce, Receiver, Segment};
use linecard::time::Instant;
use linecard_io::workload::{Application, Family, Verify, Workload};
use std::sync::{Arc, Mutex};

const WORKLOAD: Workload = Workload {
    flows: 3,
    first_flow: 0,
    flow_step: 1,
    send_len: 20_000,
    mtu: 1_500,
    family: Family::V6,
    seed: 5,
};

/// Segments go straight into the coalescer; everything arrives, once and in order, and the
/// second stage holds what it has until the first has nothing left.
#[test]
fn a_chain_stops_its_second_stage_last() {
    let application = Application::new(WORKLOAD, Pool::new(8, WORKLOAD.packet_len()));
    let segment: Segment = Segment::new(LinkType::Ethernet, Pool::new(2_000, 1_514));
    let chain = Chain::new(segment, Coalesce::new(Config::default()));
    let mut pipeline = Pipeline::new(application, chain, Verify::new(&WORKLOAD));
    for turn in 0..200 {
        if turn == 20 {
            pipeline.source.stop();
        }
        if pipeline.run_once(Instant::from_ns(turn), &mut NoMeter).ended {
            break;
        }
    }
    let (sent, seen) = (pipeline.source.sent(), pipeline.sink.counters());
    assert!(sent > 1_000_000, "{sent}");
    assert_eq!((seen.good, seen.bad, seen.bad_checksum, seen.late), (sent, 0, 0, 0));
    let counters = pipeline.stage.second.offload_counters();
    assert_eq!(counters.flushed.of(Flush::Stop), 0, "sends end with PSH: none is cut short");
    assert!(counters.mean_aggregate() > 13.0, "{}", counters.mean_aggregate());
}

/// Late packets are distinguished from those in order.
#[test]
fn the_verifier_notices_another_order() {
    let mut application = Application::new(WORKLOAD, Pool::new(64, WORKLOAD.packet_len()));
    let mut segment: Segment = Segment::new(LinkType::Ethernet, Pool::new(500, 1_514));
    let (mut large, mut small) = (Batch::new(), Batch::new());
    application.receive(&mut large, Instant::ZERO);
    segment.process(&mut large, Instant::ZERO, &mut small);
    let mut packets: Vec<_> = small.drain().collect();
    packets.swap(2, 3);
    packets.into_iter().for_each(|packet| drop(small.push(packet)));
    let mut verify = Verify::new(&WORKLOAD);
    verify.transmit(&mut small, Instant::ZERO);
    let seen = verify.counters();
    assert_eq!((seen.bad, seen.late), (0, 1));
}

#[test]
fn the_stage_flushes_at_the_end_of_a_batch_when_asked_to() {
    for (flush_at_batch_end, left) in [(true, 1), (false, 0)] {
        let config = Config { flush_at_batch_end, ..Config::default() };
        let mut stage = Coalesce::new(config);
        let (mut input, mut output) = (Batch::new(), Batch::new());
        for id in 0..5 {
            let packet = Packet::new(datagram(id), LinkType::Raw, Meta::default());
            assert!(input.push(packet).is_ok());
        }
        stage.process(&mut input, Instant::ZERO, &mut output);
        stage.process(&mut input, Instant::ZERO, &mut output);
        assert_eq!(output.len(), left);
    }
}

/// A port whose guest changes its mind.
#[derive(Debug, Clone)]
struct Guest(Arc<Mutex<LargePackets>>);

impl Receiver for Guest {
    fn large_packets(&self) -> LargePackets {
        *self.0.lock().expect("nobody panicked")
    }
}

#[test]
fn only_what_the_receiver_takes_whole_is_merged() {
    const TCP: LargePackets = LargePackets::NONE.with(LargePackets::TCP4, true);
    for flush_at_batch_end in [false, true] {
        let config = Config { flush_at_batch_end, ..Config::default() };
        let guest = Guest(Arc::new(Mutex::new(LargePackets::ALL)));
        let mut stage = Coalesce::new(config).towards(Box::new(guest.clone()));
        let mut output = Batch::new();
        let mut id = 0;
        // The rest of two datagrams each time; those held before leave merged when they would have to be cut.
        let held = usize::from(!flush_at_batch_end);
        let steps = [
            (LargePackets::ALL, 1 - held),
            (LargePackets::NONE, 2 + held),
            (LargePackets::ALL, 1 - held),
            (TCP, 2 + held),
            (LargePackets::NONE, 2),
        ];
        for (large, left) in steps {
            *guest.0.lock().expect("nobody panicked") = large;
            let mut input = Batch::new();
            for _ in 0..2 {
                let packet = Packet::new(datagram(id), LinkType::Raw, Meta::default());
                assert!(input.push(packet).is_ok());
                id += 1;
            }
            stage.process(&mut input, Instant::ZERO, &mut output);
            stage.process(&mut input, Instant::ZERO, &mut output);
            assert_eq!(output.drain().count(), left, "{large:?} {flush_at_batch_end}");
        }
        let counters = stage.offload_counters();
        assert_eq!((counters.packets_in, counters.merged, counters.packets_out), (10, 2, 8));
        assert_eq!(counters.refused.of(Refusal::NotTaken), 6);
    }
}

/// UDP over IPv4, without a UDP checksum.
fn datagram(id: u8) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 32, 0, id, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let checksum = Sum::of(&bytes).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    bytes
}
