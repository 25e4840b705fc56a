//! Forward error correction: encoding in GB/s of data, repairing in microseconds for one group,
//! beside two published crates.
//!
//!     cargo bench -p linecard-transfer --bench fec                   # all schemes and sizes
//!     cargo bench -p linecard-transfer --bench fec -- --only rs:32,4 --rounds 40
//!     cargo bench -p linecard-transfer --bench fec -- --smoke        # tiny; prints a hash
//!
//! All take turns in each round, so that a disturbance meets each. Figures are the *quiet estimate*,
//! the sum of each lap's least over the rounds, and beside it the median round.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use core::hint::black_box;
use linecard::rng::Rng;
use linecard_transfer::fec::{Code, Kernel, RepairPacket, Scheme};
use reed_solomon_erasure::galois_8;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

const SCHEMES: [&str; 5] = ["rs:10,2", "rs:32,4", "rs:28,4", "xor:16", "rs:48,16"];
/// Payloads of packets in frames of 1,500 bytes, of 4 KiB and in jumbo frames.
const SIZES: [usize; 3] = [1408, 4096, 8896];
/// Data that lies in no cache, read in order as a chunk is.
const FAR: usize = 96 << 20;
/// Bytes handled between two looks at the clock, about: less than the time that a program has a core
/// at a stretch.
const LAP: usize = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Someone who encodes and repairs groups of one scheme and packet size.
trait Codec {
    fn name(&self) -> String;
    /// Of packets that lie one behind the other.
    fn encode(&mut self, data: &[u8], repair: &mut [Vec<u8>]);
    /// The lost packets, in place, from the first rows.
    fn repair(&mut self, data: &mut [u8], lost: &[usize], repair: &[Vec<u8>]);
}

struct Ours {
    code: Code,
    kernel: Kernel,
    size: usize,
    /// Packets added at once, instead of whole groups.
    by: Option<usize>,
}

impl Codec for Ours {
    fn name(&self) -> String {
        let by = self.by.map_or(String::new(), |packets| format!(", added by {packets}"));
        format!("linecard, {}{by}", self.kernel.name())
    }

    fn encode(&mut self, data: &[u8], repair: &mut [Vec<u8>]) {
        let mut rows: [&mut [u8]; 16] = Default::default();
        let count = repair.len();
        rows.iter_mut().zip(repair).for_each(|(row, bytes)| *row = bytes);
        let rows = &mut rows[..count];
        let Some(by) = self.by else {
            return self.code.encode_run(data, self.size, rows).expect("a whole group");
        };
        rows.iter_mut().for_each(|row| row.fill(0));
        for (step, some) in data.chunks(by * self.size).enumerate() {
            let mut packets = [&[][..]; 4];
            packets.iter_mut().zip(some.chunks(self.size)).for_each(|(packet, at)| *packet = at);
            let packets = &packets[..some.len() / self.size];
            self.code.add(step * by, packets, rows).expect("a part of a group");
        }
    }

    fn repair(&mut self, data: &mut [u8], lost: &[usize], repair: &[Vec<u8>]) {
        let mut rows = [RepairPacket { row: 0, bytes: &[] }; 16];
        for (row, bytes) in repair.iter().enumerate() {
            rows[row] = RepairPacket { row, bytes };
        }
        let rows = &rows[..repair.len()];
        let count = self.code.repair_run(data, self.size, |index| lost.contains(&index), rows);
        assert_eq!(count, Ok(lost.len()));
    }
}

/// reed-solomon-erasure with `simd-accel`: C for AVX2.
struct Erasure {
    code: galois_8::ReedSolomon,
    size: usize,
}

impl Codec for Erasure {
    fn name(&self) -> String {
        "reed-solomon-erasure 6, AVX2".into()
    }

    fn encode(&mut self, data: &[u8], repair: &mut [Vec<u8>]) {
        let packets: Vec<&[u8]> = data.chunks(self.size).collect();
        self.code.encode_sep(&packets, repair).expect("a whole group");
    }

    fn repair(&mut self, data: &mut [u8], lost: &[usize], repair: &[Vec<u8>]) {
        let mut repair = repair.to_vec();
        let data = data.chunks_mut(self.size).enumerate();
        let mut all: Vec<(&mut [u8], bool)> =
            data.map(|(index, bytes)| (bytes, !lost.contains(&index))).collect();
        all.extend(repair.iter_mut().map(|bytes| (bytes.as_mut_slice(), true)));
        self.code.reconstruct_data(&mut all).expect("enough is there");
    }
}

/// reed-solomon-simd: for thousands of packets in a group, another kind of transform.
struct Simd {
    encoder: ReedSolomonEncoder,
    decoder: ReedSolomonDecoder,
    size: usize,
}

impl Codec for Simd {
    fn name(&self) -> String {
        "reed-solomon-simd 3".into()
    }

    fn encode(&mut self, data: &[u8], repair: &mut [Vec<u8>]) {
        for packet in data.chunks(self.size) {
            self.encoder.add_original_shard(packet).expect("a packet of the group");
        }
        let result = self.encoder.encode().expect("a whole group");
        for (row, bytes) in repair.iter_mut().zip(result.recovery_iter()) {
            row.copy_from_slice(bytes);
        }
    }

    fn repair(&mut self, data: &mut [u8], lost: &[usize], repair: &[Vec<u8>]) {
        for (index, packet) in data.chunks(self.size).enumerate() {
            if !lost.contains(&index) {
                self.decoder.add_original_shard(index, packet).expect("a packet of the group");
            }
        }
        for (row, bytes) in repair.iter().enumerate().take(lost.len()) {
            self.decoder.add_recovery_shard(row, bytes).expect("a packet of the group");
        }
        let result = self.decoder.decode().expect("enough is there");
        for (index, bytes) in result.restored_original_iter() {
            data[index * self.size..][..self.size].copy_from_slice(bytes);
        }
    }
}

fn codecs(scheme: Scheme, size: usize) -> Vec<Box<dyn Codec>> {
    let (k, m) = (scheme.data_packets(), scheme.repair_packets());
    let ours = |kernel, by| {
        let code = Code::with_kernel(scheme, kernel);
        Box::new(Ours { code, kernel, size, by }) as Box<dyn Codec>
    };
    let mut all: Vec<Box<dyn Codec>> =
        Kernel::available().map(|kernel| ours(kernel, None)).collect();
    all.extend([Some(1), Some(4)].map(|by| ours(Kernel::best(), by)));
    let code = galois_8::ReedSolomon::new(k, m).expect("they allow it, too");
    all.push(Box::new(Erasure { code, size }));
    let encoder = ReedSolomonEncoder::new(k, m, size).expect("they allow it, too");
    let decoder = ReedSolomonDecoder::new(k, m, size).expect("they allow it, too");
    all.push(Box::new(Simd { encoder, decoder, size }));
    all
}

/// Data of one group or of many, and room for the repair packets of one.
struct Groups {
    data: Vec<u8>,
    group: usize,
    repair: Vec<Vec<u8>>,
    lost: Vec<usize>,
}

impl Groups {
    fn new(scheme: Scheme, size: usize, bytes: usize) -> Self {
        let (k, m) = (scheme.data_packets(), scheme.repair_packets());
        let group = k * size;
        let mut data = vec![0; group * (bytes / group).max(1)];
        Rng::new(7).fill(&mut data);
        // As many as can be repaired, over the group.
        let lost = (0..m).map(|loss| loss * k / m).collect();
        Self { data, group, repair: vec![vec![0; size]; m], lost }
    }

    /// Nanoseconds of each lap of encoding.
    fn encode(&mut self, codec: &mut dyn Codec) -> Vec<f64> {
        let repair = &mut self.repair;
        laps(&mut self.data, self.group, |data| {
            codec.encode(data, repair);
            black_box(&mut *repair);
        })
    }

    /// Nanoseconds of each lap of repairing.
    fn mend(&mut self, codec: &mut dyn Codec) -> Vec<f64> {
        laps(&mut self.data, self.group, |data| {
            codec.repair(data, &self.lost, &self.repair);
            black_box(data);
        })
    }

    /// Groups handled in all laps.
    fn handled(&self) -> f64 {
        let groups = self.data.len() / self.group;
        if groups > 1 { groups as f64 } else { (LAP / self.group).max(1) as f64 }
    }

    /// Whether lost packets are repaired.
    fn check(&mut self, codec: &mut dyn Codec) {
        let before = self.data[..self.group].to_vec();
        codec.encode(&before, &mut self.repair);
        let size = self.repair[0].len();
        let mut after = before.clone();
        self.lost.iter().for_each(|index| after[index * size..][..size].fill(0));
        codec.repair(&mut after, &self.lost, &self.repair);
        assert!(after == before, "{} repairs something else", codec.name());
    }
}

/// Works on one group again and again, after a first time into the cache, or on many in order, and
/// gives the nanoseconds of each lap.
fn laps(data: &mut [u8], group: usize, mut work: impl FnMut(&mut [u8])) -> Vec<f64> {
    let at_once = (LAP / group).max(1);
    if data.len() == group {
        work(data);
        let begun = clock();
        (0..at_once).for_each(|_| work(data));
        return vec![begun.elapsed().as_nanos() as f64];
    }
    let lap = |data: &mut [u8]| {
        let begun = clock();
        data.chunks_exact_mut(group).for_each(&mut work);
        begun.elapsed().as_nanos() as f64
    };
    data.chunks_mut(at_once * group).map(lap).collect()
}

/// Nanoseconds of the same laps in several rounds.
#[derive(Clone, Default)]
struct Times {
    best: Vec<f64>,
    rounds: Vec<f64>,
}

impl Times {
    fn record(&mut self, laps: &[f64]) {
        self.best.resize(laps.len(), f64::MAX);
        self.best.iter_mut().zip(laps).for_each(|(best, ns)| *best = best.min(*ns));
        self.rounds.push(laps.iter().sum());
    }

    /// Quiet estimate and median of the rounds, for one group of `groups`.
    fn of_one(&self, groups: f64) -> (f64, f64) {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable_by(f64::total_cmp);
        (self.best.iter().sum::<f64>() / groups, rounds[rounds.len() / 2] / groups)
    }
}

/// Times of one codec.
#[derive(Clone, Default)]
struct Row {
    near: Times,
    far: Times,
    repair: Times,
}

fn table(scheme: Scheme, size: usize, rounds: usize) {
    let mut codecs = codecs(scheme, size);
    let (mut near, mut far) = (Groups::new(scheme, size, 1), Groups::new(scheme, size, FAR));
    let mut rows = vec![Row::default(); codecs.len()];
    for _ in 0..rounds {
        for (codec, row) in codecs.iter_mut().zip(&mut rows) {
            near.check(codec.as_mut());
            row.near.record(&near.encode(codec.as_mut()));
            row.repair.record(&near.mend(codec.as_mut()));
            row.far.record(&far.encode(codec.as_mut()));
        }
    }
    let bytes = near.group as f64;
    println!("\n{scheme}, packets of {size} bytes, {} lost: quiet (median)", near.lost.len());
    let heads = ["encode hot, GB/s", "from memory, GB/s", "repair hot, µs"];
    println!("{:<30}{}", "", heads.map(|head| format!("{head:>20}")).concat());
    for (codec, row) in codecs.iter().zip(&rows) {
        let rate = |times: &Times, groups: f64| {
            let (quiet, median) = times.of_one(groups);
            format!("{:8.1} ({:6.1})", bytes / quiet, bytes / median)
        };
        let (hot, cold) = (rate(&row.near, near.handled()), rate(&row.far, far.handled()));
        let (quiet, median) = row.repair.of_one(near.handled());
        let repair = format!("{:8.2} ({:6.2})", quiet / 1e3, median / 1e3);
        println!("{:<30}{hot:>20}{cold:>20}{repair:>20}", codec.name());
    }
}

/// The same on every machine: what we make, by whichever kernel; all repair what they made.
fn smoke() {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for scheme in SCHEMES.map(|text| text.parse::<Scheme>().expect("a scheme")) {
        let mut groups = Groups::new(scheme, SIZES[0], 1);
        let mut ours: Option<Vec<Vec<u8>>> = None;
        for mut codec in codecs(scheme, SIZES[0]) {
            groups.check(codec.as_mut());
            if codec.name().starts_with("linecard") {
                let first = ours.get_or_insert_with(|| groups.repair.clone());
                assert!(*first == groups.repair, "{} makes something else", codec.name());
            }
        }
        for byte in ours.into_iter().flatten().flatten() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
    println!("output hashes to {hash:016x}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--smoke") {
        return smoke();
    }
    let value = |name: &str| arguments.iter().skip_while(|text| *text != name).nth(1);
    let rounds = value("--rounds").map_or(15, |count| count.parse().expect("a number of rounds"));
    let only = value("--only").map_or("", String::as_str);
    println!("best kernel here: {}", Kernel::best().name());
    for text in SCHEMES.iter().filter(|text| text.contains(only)) {
        let scheme = text.parse().expect("a scheme");
        SIZES.iter().for_each(|size| table(scheme, *size, rounds));
    }
}
