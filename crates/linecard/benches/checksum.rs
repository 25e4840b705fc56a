//! Bytes per nanosecond (GB/s) of the checksum's kernels, beside memcpy.
//!
//!     cargo bench -p linecard --bench checksum                  # all sizes from all places
//!     cargo bench -p linecard --bench checksum -- --only L2 --rounds 40
//!     cargo bench -p linecard --bench checksum -- --smoke       # tiny; prints a hash
//!
//! Pieces lie in slots as frames do. Each figure is the least of some rounds, in which all columns
//! take turns, so that a disturbance meets each.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use core::hint::black_box;
use linecard::packet::checksum::{Kernel, Sum};
use linecard::rng::Rng;

const SIZES: [usize; 5] = [64, 256, 512, 1460, 8948];
/// Where a segment's payload begins in a frame of TCP with timestamps, and its TCP header.
const PAYLOAD: usize = 66;
const TRANSPORT: usize = 34;
/// Keeps input and output apart modulo 4096, as they are by chance: equal, each
/// store looks to the CPU like one that the next loads wait for.
const APART: usize = 2048;
/// Bytes handled between two looks at the clock, at least.
const LAP: usize = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Where the pieces lie when they are read.
struct Level {
    name: &'static str,
    /// Bytes of all slots; half of the caches, as copies need as much again.
    bytes: usize,
    scattered: bool,
}

const LEVELS: [Level; 4] = [
    Level { name: "L1", bytes: 14 << 10, scattered: false },
    Level { name: "L2", bytes: 384 << 10, scattered: false },
    Level { name: "memory, in order", bytes: 96 << 20, scattered: false },
    Level { name: "memory, scattered", bytes: 96 << 20, scattered: true },
];

/// Pieces of one size in slots, to be read and to be copied to.
struct Pieces {
    from: Vec<u8>,
    to: Vec<u8>,
    slots: Vec<usize>,
    size: usize,
}

impl Pieces {
    fn new(place: &Level, size: usize) -> Self {
        // An odd number of lines, so that slots do not all fall into a few sets of the cache.
        let stride = (size + PAYLOAD).next_multiple_of(64) | 64;
        let mut slots: Vec<usize> =
            (0..(place.bytes / stride).max(1)).map(|slot| slot * stride).collect();
        let mut rng = Rng::new(7);
        if place.scattered {
            for index in (1..slots.len()).rev() {
                slots.swap(index, rng.below(index as u64 + 1) as usize);
            }
        }
        let mut from = vec![0; slots.len() * stride];
        rng.fill(&mut from);
        let to = vec![0; from.len() + APART];
        Self { from, to, slots, size }
    }

    fn laps(&self) -> usize {
        (LAP / (self.slots.len() * self.size)).max(1)
    }

    /// Calls `sum` with every piece and the one that comes two later.
    fn read(&self, sum: impl Fn(&[u8], &[u8]) -> Sum) {
        let piece = |slot: usize| &self.from[slot + TRANSPORT..][..self.size];
        let later = self.slots.iter().cycle().skip(2);
        for (slot, later) in self.slots.iter().zip(later) {
            black_box(sum(piece(*slot), piece(*later)));
        }
    }

    fn copy(&mut self, copy: impl Fn(&[u8], &mut [u8])) {
        for slot in &self.slots {
            let from = &self.from[slot + TRANSPORT..][..self.size];
            copy(from, &mut self.to[slot + APART + PAYLOAD..][..self.size]);
        }
        black_box(&mut self.to);
    }
}

type Subject = (String, Box<dyn Fn(&mut Pieces)>);

/// The columns: reading ones, then copying ones.
fn subjects() -> Vec<Subject> {
    let mut all: Vec<Subject> = Vec::new();
    for kernel in Kernel::available() {
        let name = format!("sum {}", kernel.name());
        all.push((name, Box::new(move |pieces| pieces.read(|bytes, _| kernel.sum(bytes)))));
    }
    all.push(("sum".into(), Box::new(|pieces| pieces.read(|bytes, _| Sum::of(bytes)))));
    all.push(("sum, ahead".into(), Box::new(|pieces| pieces.read(Sum::of_ahead))));
    all.push((
        "memcpy".into(),
        Box::new(|pieces| pieces.copy(|from, to| to.copy_from_slice(from))),
    ));
    all.push((
        "memcpy, sum".into(),
        Box::new(|pieces| {
            pieces.copy(|from, to| {
                to.copy_from_slice(from);
                black_box(Sum::of(from));
            });
        }),
    ));
    for kernel in Kernel::available() {
        let copy = move |from: &[u8], to: &mut [u8]| {
            black_box(kernel.copy(from, to));
        };
        let name = format!("copy {}", kernel.name());
        all.push((name, Box::new(move |pieces| pieces.copy(copy))));
    }
    all
}

/// Nanoseconds per piece, the least of the rounds, for each subject.
fn measure(pieces: &mut Pieces, subjects: &[Subject], rounds: usize) -> Vec<f64> {
    let mut best = vec![f64::MAX; subjects.len()];
    for _ in 0..rounds {
        for ((_, subject), best) in subjects.iter().zip(&mut best) {
            let laps = pieces.laps();
            // Into the cache, where the pieces fit into one.
            if laps > 1 {
                subject(pieces);
            }
            let begun = clock();
            for _ in 0..laps {
                subject(pieces);
            }
            let ns = begun.elapsed().as_nanos() as f64;
            *best = best.min(ns / (laps * pieces.slots.len()) as f64);
        }
    }
    best
}

fn table(place: &Level, subjects: &[Subject], rounds: usize) {
    println!("\n{}: GB/s (ns for one piece)", place.name);
    let names: Vec<String> = subjects.iter().map(|(name, _)| format!("{name:>15}")).collect();
    println!("{:>6}{}", "bytes", names.concat());
    for size in SIZES {
        let times = measure(&mut Pieces::new(place, size), subjects, rounds);
        let cells = times.iter().map(|ns| format!("{:6.1} ({ns:6.1})", size as f64 / ns));
        println!("{size:>6}{}", cells.map(|cell| format!("{cell:>15}")).collect::<String>());
    }
}

/// The same on every machine: sums and copies, by each kernel.
fn smoke(subjects: &[Subject]) {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for size in SIZES {
        let mut pieces = Pieces::new(&LEVELS[0], size);
        for (name, subject) in subjects {
            pieces.to.fill(0);
            subject(&mut pieces);
            let copied = pieces.to.iter().any(|byte| *byte != 0);
            assert_eq!(copied, name.contains("cop") || name.contains("cpy"), "{name}");
        }
        for kernel in Kernel::available() {
            pieces.read(|bytes, later| {
                assert_eq!(kernel.sum(bytes).fold(), Sum::of_ahead(bytes, later).fold());
                Sum::ZERO
            });
        }
        for slot in &pieces.slots {
            let sum = Sum::of(&pieces.to[slot + APART + PAYLOAD..][..size]).fold();
            hash = (hash ^ u64::from(sum)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
    println!("output hashes to {hash:016x}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let subjects = subjects();
    if arguments.iter().any(|argument| argument == "--smoke") {
        return smoke(&subjects);
    }
    let value = |name: &str| arguments.iter().skip_while(|text| *text != name).nth(1);
    let rounds = value("--rounds").map_or(15, |count| count.parse().expect("a number of rounds"));
    let only = value("--only").map_or("", String::as_str);
    println!("best kernel here: {}", Kernel::best().name());
    for place in LEVELS.iter().filter(|place| place.name.contains(only)) {
        table(place, &subjects, rounds);
    }
}
