use super::{
    BusPolicy, Cell, Design, HeaderPath, Kind, Message, MessageError, Sent, Stall, Transmit,
    TransmitError, TransmitResults, UnitCounters, firmware,
};
use crate::rv32::Image;
use crate::{Clock, Ps};
use alloc::string::ToString;
use alloc::vec::Vec;
use linecard::offload::segment::Class;

fn clock(hz: u64) -> Clock {
    Clock::new(hz, Ps::ZERO).expect("a clock")
}

/// Five DMA cycles for each core cycle: table 1.
fn table_1(mtu: u16) -> Design {
    Design { mtu, ..Design::published(clock(423_000_000), clock(2_115_000_000)) }
}

fn cells(design: &Design, image: &Image, messages: Vec<Message>) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut transmit = Transmit::new(design, image).expect("a design");
    let outcome = transmit.run(messages, |sent| cells.push(sent.cell)).expect("a run");
    assert_eq!(outcome.wrong, 0);
    assert_eq!(outcome.right, cells.len() as u64);
    cells
}

fn message(udp: bool, payload: usize) -> Message {
    Message::new(firmware::example_message(udp, payload), Ps::ZERO).expect("a message")
}

/// Promise (Hardware model): Real firmware on the modelled transmit core takes total = P + max(T, O) cycles in every cell
/// of the published table, for both protocols, three sizes and each packet class; most cells are fitted, and `linecard
/// reproduce` lists those that differ from the paper.
#[test]
fn every_cell_is_p_and_the_longer_of_transfer_and_o() {
    let classes = [Class::Ssm, Class::Bom, Class::Com, Class::Eom];
    for (udp, cycles) in
        [(false, [(8, 0), (12, 6), (4, 6), (5, 0)]), (true, [(8, 0), (12, 6), (3, 5), (3, 0)])]
    {
        for mtu in [1500_u16, 1024, 512] {
            let header = if udp { 20 } else { 40 };
            let mss = usize::from(mtu - header) & if udp { !7 } else { !0 };
            let extra = if udp { 8 } else { 0 };
            let messages = [message(udp, mss - extra), message(udp, 4 * mss - extra)];
            let cells = cells(&table_1(mtu), &firmware::approach_2(), messages.into());
            let transfer = (mss.div_ceil(8) as u64).div_ceil(5);
            for cell in cells {
                let (p, o) = cycles[classes.iter().position(|c| *c == cell.class).unwrap()];
                let last_com = cell.class == Class::Com && cell.beside != o;
                assert_eq!(
                    (cell.before, cell.total),
                    (p, p + transfer.max(o)),
                    "{udp} {mtu} {cell:?}"
                );
                assert!(
                    last_com || (cell.beside, cell.idle) == (o, transfer.saturating_sub(o)),
                    "{udp} {mtu} {cell:?}"
                );
            }
        }
    }
}

/// Table 1, COM: 41, 29, 16 cycles of which 31, 19, 6 idle for TCP; 40, 28, 16 and 32, 20, 8 for UDP.
#[test]
fn what_a_compiler_makes_of_it_costs_the_same_where_it_is_steady() {
    for udp in [false, true] {
        for mtu in [1500, 1024, 512] {
            let of =
                |image: Image| run(&table_1(mtu), &image, alloc::vec![message(udp, 30_000)]).com;
            let (hand, compiled) = (of(firmware::approach_2()), of(firmware::compiled()));
            // The last of them prepares EOM, which is where they differ.
            assert_eq!(hand.range, compiled.range);
            assert!(hand.packets > 10 && hand.idle.abs_diff(compiled.idle) < 6);
        }
    }
}

fn run(design: &Design, image: &Image, messages: Vec<Message>) -> TransmitResults {
    let outcome = Transmit::new(design, image).expect("a design").run(messages, |_| ());
    let outcome = outcome.expect("a run");
    assert_eq!(outcome.wrong, 0);
    assert_eq!(outcome.right, outcome.packets());
    let sum = |of: fn(&UnitCounters) -> u64| outcome.units.iter().map(of).sum::<u64>();
    assert_eq!(sum(|unit| unit.payload_in), sum(|unit| unit.payload_out), "bytes are conserved");
    assert_eq!(sum(|unit| unit.packets), outcome.packets());
    outcome
}

fn mixed(messages: usize) -> Vec<Message> {
    (0..messages).map(|n| message(n % 3 == 1, 100 + n * 7_919 % 60_000)).collect()
}

fn images() -> [Image; 4] {
    [firmware::approach_1(), firmware::approach_2(), firmware::best(), firmware::compiled()]
}

/// Promise (Hardware model): Every packet that leaves the model is what our own offloads make of
/// its message, for four programs and all bus policies, header paths, cores and lines, IPv4 TCP and
/// fragments.
#[test]
fn all_firmware_sends_the_same_packets_under_all_policies() {
    let of = |message: &Message| match message.kind() {
        Kind::Tcp => (message.bytes().len() - 40).div_ceil(1_460) as u64,
        Kind::Udp => (message.bytes().len() - 20).div_ceil(1_480) as u64,
    };
    let packets = mixed(12).iter().map(of).sum::<u64>();
    for image in images() {
        for policy in [BusPolicy::Hold, BusPolicy::Interleave, BusPolicy::DualPort] {
            for header in [HeaderPath::Beside, HeaderPath::Bus] {
                let design = Design { policy, header, ..table_1(1500) };
                let outcome = run(&design, &image, mixed(12));
                assert_eq!(outcome.packets(), packets, "{policy:?} {header:?}");
                assert_eq!(outcome.units[0].hazards, 0);
            }
        }
    }
}

/// Cores that share the bus gain, cores with a bus of their own gain more.
#[test]
fn a_bus_that_is_shared_better_carries_more() {
    for slow in [1, 2, 4] {
        let of = |policy| {
            let design = Design { policy, cycles_per_word: slow, ..table_1(1500) };
            run(&design, &firmware::approach_2(), mixed(12)).moved
        };
        let times = [BusPolicy::Hold, BusPolicy::Interleave, BusPolicy::DualPort].map(of);
        assert!(times.is_sorted_by(|a, b| a > b), "{times:?}");
    }
}

#[test]
fn a_line_sends_one_packet_behind_the_other_and_slows_the_core_down() {
    let line_bits_per_second = Some(1_000_000_000);
    let design = Design { line_bits_per_second, sbi_bytes: 4_000, ..table_1(1500) };
    let mut last = Ps::ZERO;
    let mut transmit = Transmit::new(&design, &firmware::approach_2()).expect("a design");
    let sink = |sent: &Sent| {
        assert!(sent.from >= last && sent.from >= sent.cell.moved_to);
        assert_eq!(sent.to.since(sent.from).0, (sent.bytes.len() as u64 + 20) * 8_000);
        // Two packets fit the buffer: no more than those may be ahead of the line.
        assert!(sent.from.since(sent.cell.moved_to).0 <= 2 * 1_520 * 8_000);
        last = sent.to;
    };
    let outcome = transmit.run(mixed(8), sink).expect("a run");
    assert_eq!((outcome.wrong, outcome.left), (0, last));
}

#[test]
fn several_cores_release_messages_in_order() {
    let of = |cores, sbi_bytes| {
        let design = Design { cores, sbi_bytes, ..table_1(1500) };
        let (mut order, mut by_core) = (Vec::new(), alloc::vec![0; cores]);
        let mut transmit = Transmit::new(&design, &firmware::approach_2()).expect("a design");
        let sink = |sent: &Sent| {
            order.push(sent.message);
            by_core[sent.core] += 1;
        };
        let outcome = transmit.run(mixed(60), sink).expect("a run");
        assert_eq!(outcome.wrong, 0);
        assert!(order.is_sorted() && by_core.iter().all(|packets| *packets > 0));
        outcome.moved
    };
    let (one, four) = (of(1, 65_536), of(4, 1 << 20));
    assert!(four.0 * 3 < one.0, "{one} {four}");
    // Without room to wait in, the cores wait for each other, and still all comes out.
    assert!(of(4, 2_000) > four);
}

/// The position of the clocks beside each other costs up to a cycle; it is in the result.
#[test]
fn a_phase_costs_up_to_a_cycle() {
    let of = |phase| {
        let dma = Clock::new(2_115_000_000, Ps(phase)).expect("a clock");
        let design = Design { dma, ..table_1(1500) };
        run(&design, &firmware::approach_2(), alloc::vec![message(true, 60_000)]).com.range
    };
    assert_eq!((of(0), of(1), of(471)), (Some((40, 40)), Some((41, 41)), Some((41, 41))));
}

fn fails(code: &[u32]) -> TransmitError {
    let image = Image::of_code(code);
    let mut transmit = Transmit::new(&table_1(1500), &image).expect("a design");
    transmit.run([message(false, 9_000)], |_| ()).expect_err("an error")
}

#[test]
fn firmware_that_goes_wrong_is_told_with_cycle_and_place() {
    // j 0: loops without end.
    let stuck = fails(&[0x0000_0013, 0x0000_006F]);
    assert!(matches!(stuck, TransmitError::Stuck { core: 0, cycle: 1_000_000.., pc: 4, .. }));
    // lui a0, 0x50000; lw a0, 0(a0): no device answers there.
    let unmapped = fails(&[0x5000_0537, 0x0005_2503]);
    let unmapped = unmapped.to_string();
    assert!(unmapped.contains("0x50000000") && unmapped.contains("pc 0x00000004"), "{unmapped}");
    // lui a0, 0x40000; wfi; sw zero, 16(a0); j -4: packets without end.
    let endless = fails(&[0x4000_0537, 0x1050_0073, 0x0005_2823, 0xFFDF_F06F]);
    assert!(matches!(endless, TransmitError::Endless { .. }), "{endless}");
    // ebreak.
    assert!(matches!(fails(&[0x0010_0073]), TransmitError::Halted { pc: 0, .. }));
    // wfi; lui a0, 0x40000; sw a0, 16(a0), repeated, here with nothing in it: START with EPP 0.
    let endless = fails(&[0x1050_0073, 0x4000_0537, 0x0005_2823, 0xFFDF_F06F]);
    assert!(matches!(endless, TransmitError::Endless { .. }), "{endless}");
    // Sleeps whenever it is woken: nothing is sent, and it is noticed.
    let image = Image::of_code(&[0x1050_0073, 0xFFDF_F06F]);
    let mut transmit = Transmit::new(&table_1(1500), &image).expect("a design");
    let outcome = transmit.run([message(false, 9_000)], |_| ()).expect("a run");
    assert_eq!((outcome.right, outcome.wrong, outcome.packets()), (0, 7, 0));
}

/// A host that has nothing to send for longer than firmware may go without a packet.
#[test]
fn a_long_sleep_is_no_loop() {
    for design in [
        Design { interrupt: Ps(10_000_000_000), ..table_1(1500) },
        Design { patience: 1_000, ..table_1(1500) },
    ] {
        let late = Message::new(firmware::example_message(false, 9_000), Ps(10_000_000_000));
        let messages = alloc::vec![message(false, 9_000), late.expect("a message")];
        assert_eq!(run(&design, &firmware::approach_2(), messages).packets(), 14);
    }
}

#[test]
fn what_cannot_be_built_or_sent_is_refused() {
    let refused =
        |design: Design| Transmit::new(&design, &firmware::best()).err().map(|e| e.to_string());
    let table = table_1(1500);
    for (design, words) in [
        (Design { bus_bits: 0, ..table.clone() }, "bus_bits is 0: give 32 to 1024"),
        (Design { bus_bits: 96, ..table.clone() }, "power of two"),
        (Design { cores: 0, ..table.clone() }, "cores is 0"),
        (Design { mtu: 45, ..table.clone() }, "mtu is 45: give 46 to 65535"),
        (Design { sbi_bytes: 100, ..table.clone() }, "sbi_bytes is 100: give 1628"),
        (Design { cycles_per_word: 9, ..table.clone() }, "cycles_per_word is 9: give 1 to 8"),
    ] {
        let error = refused(design).expect("an error");
        assert!(error.contains(words), "{error}");
    }
    let of = |bytes: Vec<u8>| Message::new(bytes, Ps::ZERO).err();
    assert_eq!(of(alloc::vec![]), Some(MessageError::NotIpv4 { len: 0 }));
    let mut endless = firmware::example_message(false, 9_000);
    endless[2..4].fill(0);
    endless.resize(100_000, 0);
    assert_eq!(of(endless), Some(MessageError::NotIpv4 { len: 100_000 }));
    let mut fragment = firmware::example_message(true, 100);
    fragment[6] = 0x20;
    assert_eq!(of(fragment), Some(MessageError::Fragment));
    let mut stiff = firmware::example_message(true, 2_000);
    stiff[6] = 0x40;
    let stiff = Message::new(stiff, Ps::ZERO).expect("a message");
    assert_eq!(stiff.mss(1500), Err(MessageError::DontFragment { len: 2_028, mtu: 1500 }));
    assert_eq!(stiff.mss(2_028), Ok(2_008));
}

/// The recorded waits add up to the cells' idle cycles, in order and within each cell's time. Stores wait, and start
/// transfers; `wfi` waits for the last one.
#[test]
fn traced_stalls_are_the_idle_cycles() {
    let image = firmware::best();
    let opcode = |pc: u32| image.segments[0].bytes[pc as usize] & 0x7f;
    let is_store = |pc: u32| opcode(pc) == 0x23;
    let core = clock(100_000_000);
    for cores in [1, 3] {
        // A slow line: cores wait for the bus, for the DMA and for room.
        let design = Design {
            cores,
            sbi_bytes: 4_000,
            line_bits_per_second: Some(10_000_000_000),
            ..Design::published(core, clock(1_000_000_000))
        };
        let mut transmit = Transmit::new(&design, &image).expect("a design");
        transmit.start_trace();
        let mut ends = alloc::vec![Ps::ZERO; cores];
        let messages = (0..6).map(|number| message(number % 2 == 1, 14_600));
        let outcome = transmit.run(messages, |sent| {
            let trace = sent.trace.as_ref().expect("a trace");
            let idle: u64 =
                trace.stalls.iter().map(|stall| (stall.to - stall.from).0 / 10_000).sum();
            assert_eq!(idle, sent.cell.idle, "{sent:?}");
            for Stall { from, to, pc } in &trace.stalls {
                assert!(ends[sent.core] <= *from && from < to, "{sent:?}");
                assert!(is_store(*pc) || opcode(*pc) == 0x73, "{pc:#x} waits");
                ends[sent.core] = *to;
            }
            assert!(
                trace.started_at.is_some_and(is_store) && trace.begun_at.is_some(),
                "{trace:?}"
            );
            let is_first = matches!(sent.cell.class, Class::Ssm | Class::Bom);
            assert_eq!(trace.asleep_at.is_some(), is_first, "{trace:?}");
            assert!(sent.cell.moved_from <= sent.cell.payload_from);
            assert!(sent.cell.payload_from < sent.cell.moved_to);
        });
        assert_eq!(outcome.expect("a run").wrong, 0);
    }
}

/// Cores that have no more messages do not end the run for those that have: whichever is ahead.
#[test]
fn all_cores_finish() {
    for cores in [2, 3] {
        let interrupt = Ps(5_000_000_000);
        let design = Design { cores, interrupt, patience: 1_000, ..table_1(1500) };
        let sizes = [40_000, 100, 9_000, 1_460, 60_000];
        let messages = sizes.map(|payload| message(payload == 9_000, payload));
        assert_eq!(run(&design, &firmware::best(), messages.into()).units.len(), cores);
    }
}

/// Profiles have the cycles that the cores count, but for sleep.
#[test]
fn profiles_have_all_cycles() {
    let mut transmit = Transmit::new(&table_1(1500), &firmware::approach_2()).expect("a design");
    assert_eq!(transmit.profiles().count(), 0);
    transmit.start_profile();
    let outcome = transmit.run([message(false, 14_600)], |_| ()).expect("a run");
    let profile = transmit.profiles().next().expect("a profile");
    let (mut busy, mut stalled) = (0, 0);
    for (_, counts) in profile.instructions() {
        busy += counts.busy;
        stalled += counts.stalled;
    }
    assert_eq!((busy, stalled), (outcome.cycles[0].busy, outcome.cycles[0].stalled));
}
