//! Nanoseconds to seal and to open a packet, beside the cipher alone.
//!
//!     cargo bench -p linecard-transfer-net --bench seal
//!     cargo bench -p linecard-transfer-net --bench seal -- --rounds 100
//!     cargo bench -p linecard-transfer-net --bench seal -- --smoke       # tiny; prints a hash
//!
//! Each lap seals and opens 64 packets in turn, which stay in the second cache. Each figure is the
//! least of some rounds, in which both columns take turns, so that a disturbance meets each.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at what cannot be")]

use core::hint::black_box;
use linecard::rng::Rng;
use linecard_transfer::control::Suite;
use linecard_transfer::wire::{HEADER_BYTES, Header, Kind, OVERHEAD_BYTES, TAG_BYTES};
use linecard_transfer_net::seal::{LaneSecret, Opener, Sealer};
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::time::Instant;

const BODIES: [usize; 3] = [1_408, 4_096, 8_896];
const SUITES: [Suite; 3] = [Suite::Aes128Gcm, Suite::ChaCha20Poly1305, Suite::None];
const PACKETS: usize = 64;
/// Laps between two looks at the clock.
const LAPS: usize = 8;

/// Seals and opens packets, all in their places.
trait Column {
    fn seal(&mut self, packets: &mut [Vec<u8>]);
    fn open(&mut self, packets: &mut [Vec<u8>]);
}

/// As the product does.
struct Lane {
    sealer: Sealer,
    opener: Opener,
    number: u64,
}

impl Lane {
    fn new(suite: Suite) -> Self {
        let secret = LaneSecret::new([5; 32]);
        let opener = Opener::new(suite, &secret, 0, 7).unwrap();
        Self { sealer: Sealer::new(suite, secret).unwrap(), opener, number: 0 }
    }
}

impl Column for Lane {
    fn seal(&mut self, packets: &mut [Vec<u8>]) {
        for packet in packets {
            let header = header(self.number);
            self.number += 1;
            self.sealer.seal(&header, packet).unwrap();
        }
    }

    fn open(&mut self, packets: &mut [Vec<u8>]) {
        for packet in packets {
            black_box(self.opener.open(packet).unwrap());
        }
    }
}

/// The cipher with a counter for its nonce, and nothing else.
struct Cipher {
    key: Option<LessSafeKey>,
    sealed: u64,
    opened: u64,
}

impl Cipher {
    fn new(suite: Suite) -> Self {
        let algorithm = match suite {
            Suite::Aes128Gcm => Some(&AES_128_GCM),
            Suite::ChaCha20Poly1305 => Some(&CHACHA20_POLY1305),
            Suite::None | Suite::Other(_) => None,
        };
        let bytes = [6; 32];
        let key = algorithm.map(|algorithm| {
            LessSafeKey::new(UnboundKey::new(algorithm, &bytes[..algorithm.key_len()]).unwrap())
        });
        Self { key, sealed: 0, opened: 0 }
    }
}

impl Column for Cipher {
    fn seal(&mut self, packets: &mut [Vec<u8>]) {
        let Some(key) = &self.key else { return };
        for packet in packets {
            let (header, rest) = packet.split_at_mut(HEADER_BYTES);
            let (body, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
            let made = key.seal_in_place_separate_tag(nonce(self.sealed), Aad::from(header), body);
            tag.copy_from_slice(made.unwrap().as_ref());
            self.sealed += 1;
        }
    }

    fn open(&mut self, packets: &mut [Vec<u8>]) {
        let Some(key) = &self.key else { return };
        for packet in packets {
            let (header, rest) = packet.split_at_mut(HEADER_BYTES);
            black_box(key.open_in_place(nonce(self.opened), Aad::from(header), rest).unwrap());
            self.opened += 1;
        }
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn header(packet_number: u64) -> Header {
    Header {
        kind: Kind::Data,
        key_phase: false,
        ack_now: false,
        lane: 0,
        connection: 7,
        packet_number,
        chunk: 1,
        index: packet_number as u32,
    }
}

/// Nanoseconds a packet to seal and to open.
type Times = [f64; 2];

fn least(a: Times, b: Times) -> Times {
    [a[0].min(b[0]), a[1].min(b[1])]
}

fn measure(column: &mut dyn Column, packets: &mut [Vec<u8>]) -> Times {
    let mut times = [0.0; 2];
    for _ in 0..LAPS {
        let start = Instant::now();
        column.seal(packets);
        let sealed = Instant::now();
        column.open(packets);
        times[0] += (sealed - start).as_nanos() as f64;
        times[1] += sealed.elapsed().as_nanos() as f64;
    }
    times.map(|time| time / (LAPS * PACKETS) as f64)
}

fn packets(body: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(body as u64);
    let packet = |_| {
        let mut packet = vec![0; body + OVERHEAD_BYTES];
        rng.fill(&mut packet);
        packet
    };
    (0..PACKETS).map(packet).collect()
}

fn row(suite: Suite, body: usize, rounds: usize) {
    let (mut lane, mut cipher) = (Lane::new(suite), Cipher::new(suite));
    let (mut for_lane, mut for_cipher) = (packets(body), packets(body));
    let mut best = [[f64::INFINITY; 2]; 2];
    for _ in 0..rounds {
        best[0] = least(best[0], measure(&mut lane, &mut for_lane));
        best[1] = least(best[1], measure(&mut cipher, &mut for_cipher));
    }
    let [ours, alone] = best;
    let sum = |times: Times| times[0] + times[1];
    let ratio = match suite {
        Suite::None => "     -".to_owned(),
        _ => format!("{:>6.3}", sum(ours) / sum(alone)),
    };
    println!(
        "{:<18}{body:>6}  {:>7.0} {:>7.0}  {:>7.0} {:>7.0}  {ratio}  {:>6.2}",
        suite.to_string(),
        ours[0],
        ours[1],
        alone[0],
        alone[1],
        body as f64 * 8.0 / sum(ours)
    );
}

/// Output of the smoke run: the bytes of some sealed packets, folded.
fn hash() -> u64 {
    let mut hash = 0_u64;
    for suite in SUITES {
        let mut packets = packets(100);
        let mut lane = Lane::new(suite);
        lane.seal(&mut packets);
        for byte in packets.iter().flatten() {
            hash = (hash.rotate_left(7) ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        lane.open(&mut packets);
    }
    hash
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--smoke") {
        println!("seal {:016x}", hash());
        return;
    }
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(40);
    println!("ns a packet               lane           cipher alone   ratio  Gbit per CPU-second");
    println!("suite               body     seal    open     seal    open          seal and open");
    for suite in SUITES {
        for body in BODIES {
            row(suite, body, rounds);
        }
    }
}
