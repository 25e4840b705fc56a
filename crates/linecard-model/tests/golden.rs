//! Golden runs of the model: the same packets at the same times on every machine, in debug and in
//! release (`./test` runs this in both), on every run.

use linecard_model::rv32::Image;
use linecard_model::transmit::{BusPolicy, Design, Message, Transmit, firmware};
use linecard_model::{Clock, Ps};

fn clock(mhz: u64) -> Clock {
    Clock::new(mhz * 1_000_000, Ps::ZERO).expect("a clock")
}

fn messages() -> impl Iterator<Item = Message> {
    let bytes = |n: usize| firmware::example_message(n % 3 == 1, 100 + n * 7_919 % 60_000);
    (0..40).map(move |n| Message::new(bytes(n), Ps::ZERO).expect("a message"))
}

/// Promise (Hardware model): A run of the model is the same on every machine, bit for bit, in debug
/// and release builds: golden hashes of packets and times.
#[test]
fn sending_is_the_same_everywhere() {
    let design = Design {
        cores: 3,
        policy: BusPolicy::Interleave,
        line_bits_per_second: Some(100_000_000_000),
        interrupt: Ps(12_345),
        ..Design::published(clock(148), clock(2_115))
    };
    let run = |image: &Image| {
        let mut transmit = Transmit::new(&design, image).expect("a design");
        let outcome = transmit.run(messages(), |_| ()).expect("a run");
        assert_eq!(outcome.wrong, 0);
        outcome.hash
    };
    let images = [firmware::approach_1(), firmware::approach_2(), firmware::best()];
    let hashes = images.map(|image| run(&image));
    assert_eq!(hashes, SENDING, "{hashes:#x?}");
}

const SENDING: [u64; 3] = [0x89a0_4b98_459e_0725, 0x0363_b9fc_9f64_b056, 0x8998_2a2e_87c4_d58a];
