//! Any program on the modelled core: it sends the packets of its messages, or ends with an error.

use crate::draw::Draw;
use linecard_model::elf::Firmware;
use linecard_model::rv32::Image;
use linecard_model::transmit::{BusPolicy, Design, HeaderPath, Message, Transmit, firmware};
use linecard_model::{Clock, Ps};

/// An ELF file, or our own firmware with changed instructions, in any design.
pub fn firmware(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let mode = draw.byte();
    if mode & 0x80 != 0 {
        // Whatever it is: refused in words, or loaded.
        drop(Firmware::parse("fuzz", &data[1..]));
        return;
    }
    let design = design(draw, mode);
    let image = changed(draw, mode);
    let messages = (0..1 + mode % 3).filter_map(|number| {
        let payload = wide(draw, 20_000);
        Message::new(firmware::example_message(number % 2 == 1, payload), Ps::ZERO).ok()
    });
    let messages: Vec<Message> = messages.collect();
    let Ok(mut transmit) = Transmit::new(&design, &image) else { return };
    let mut left = 0;
    if let Ok(outcome) = transmit.run(messages, |_| left += 1) {
        assert_eq!(outcome.packets(), left);
        assert!(outcome.right <= left);
        let moved: u64 = outcome.units.iter().map(|unit| unit.packets).sum();
        assert_eq!(moved, left, "what was moved has left");
        for (cycles, unit) in outcome.cycles.iter().zip(&outcome.units) {
            let all = cycles.busy + cycles.stalled + cycles.bubbles + cycles.asleep;
            assert!(unit.waited <= all);
        }
    }
}

fn design(draw: &mut Draw, mode: u8) -> Design {
    let clock = |hz: u64| Clock::new(hz, Ps::ZERO).expect("a clock");
    let hz = |draw: &mut Draw| 1_000_000 * (1 + wide(draw, 4_000)) as u64;
    Design {
        cores: 1 + usize::from(mode >> 2 & 3),
        policy: [BusPolicy::Hold, BusPolicy::Interleave, BusPolicy::DualPort][draw.below(3)],
        header: [HeaderPath::Beside, HeaderPath::Bus][draw.below(2)],
        cycles_per_word: 1 + draw.below(8) as u64,
        sbi_bytes: 2_000 + wide(draw, 10_000),
        line_bits_per_second: (mode & 0x10 != 0).then_some(10_000_000_000),
        patience: 1_000,
        ..Design::published(clock(hz(draw)), clock(hz(draw)))
    }
}

fn changed(draw: &mut Draw, mode: u8) -> Image {
    let images = [firmware::approach_1, firmware::approach_2, firmware::best, firmware::compiled];
    let mut image = images[usize::from(mode >> 5 & 3)]();
    for _ in 0..draw.below(8) {
        let code = &mut image.segments[0].bytes;
        let at = wide(draw, code.len() / 4) * 4;
        let word = draw.take(4);
        code[at..at + word.len()].copy_from_slice(&word);
    }
    image
}

fn wide(draw: &mut Draw, count: usize) -> usize {
    usize::from(draw.word()) % count
}
