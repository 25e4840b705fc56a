use super::{Cell, Design, Message, Transmit, firmware};
use crate::model::rv32::Image;
use crate::model::{Clock, Ps};
use crate::offload::segment::Class;
use alloc::vec::Vec;

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

/// The published firmware's cycles are those that the published tables reduce to.
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

/// What is recorded of waits adds up to the cells' idle cycles, in order and within each cell's time.
#[test]
fn recorded_stalls_are_the_idle_cycles() {
    let core = clock(100_000_000);
    for cores in [1, 3] {
        // A slow line: cores wait for the bus, for the DMA and for room.
        let design = Design {
            cores,
            sbi_bytes: 4_000,
            line_bits_per_second: Some(10_000_000_000),
            ..Design::published(core, clock(1_000_000_000))
        };
        let mut transmit = Transmit::new(&design, &firmware::best()).expect("a design");
        transmit.record_stalls();
        let mut ends = alloc::vec![Ps::ZERO; cores];
        let messages = (0..6).map(|number| message(number % 2 == 1, 14_600));
        let outcome = transmit.run(messages, |sent| {
            let idle: u64 = sent.stalls.iter().map(|(from, to)| (*to - *from).0 / 10_000).sum();
            assert_eq!(idle, sent.cell.idle, "{sent:?}");
            for (from, to) in &sent.stalls {
                assert!(ends[sent.core] <= *from && from < to, "{sent:?}");
                ends[sent.core] = *to;
            }
            assert!(sent.cell.moved_from <= sent.cell.payload_from);
            assert!(sent.cell.payload_from < sent.cell.moved_to);
        });
        assert_eq!(outcome.expect("a run").wrong, 0);
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
