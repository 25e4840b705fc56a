//! Mutated captures: no panic, no hang, bounded memory, sensible offsets.
//!
//! The seed is printed on failure; `LINECARD_SEED` gives it back.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::io::Write as _;

use linecard_io::capture::{
    CaptureError, Format, OptionMatch, PacketChange, Reader, Record, Writer, options,
};

#[path = "../src/capture/build.rs"]
mod build;
use build::Build;

/// In the normal run.
const MUTANTS: u64 = 120_000;
const SEED: u64 = 0x1ecd_ca4d;
/// Peak resident memory of this test, harness included: far below what one believed length asks.
const MEMORY_KIB: u64 = 64 << 10;

/// `SplitMix64`: small, and good enough to choose bytes.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for big in [false, true] {
        files.push(Build::pcapng(big).enhanced(0, 1, b"abc", &[]).bytes);
        for (nanoseconds, minor) in [(false, 4), (true, 4), (false, 2), (false, 3)] {
            let file = Build::pcap(big, nanoseconds, minor).packet(1, 2, 60, &[7; 60]);
            files.push(file.packet(1, 2_000_000_000, 5, b"abcde").packet(2, 0, 0, b"").bytes);
        }
        let file = Build::new(big)
            .section(-1)
            .interface(1, 96, &[])
            .enhanced(0, 0x0005_0000_0001, b"packet", &[(1, b"note"), (2, &[0; 4])])
            .interface(1, 96, &[(2, b"eth1"), (9, &[0x80 | 30]), (14, &[1; 8])])
            .obsolete(1, 9, b"old")
            .simple(200, &[1; 96]);
        let file = file.block(0x0bad, &[0xff; 12]).enhanced(1, 77, &[9; 61], &[]);
        let file = file.order(!big).section(-1).interface(101, 0, &[(9, &[12])]);
        files.push(file.enhanced(0, 1, b"x", &[(2989, b"custom!")]).simple(3, b"abc").bytes);
    }
    files
}

fn mutate(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut file = seeds[rng.below(seeds.len())].clone();
    for _ in 0..=rng.below(3) {
        match rng.below(6) {
            0 | 1 => flip(rng, &mut file),
            2 => extreme(rng, &mut file),
            3 => file.truncate(rng.below(file.len() + 1)),
            4 => splice(rng, &mut file, seeds),
            _ => drop_some(rng, &mut file),
        }
    }
    file
}

fn flip(rng: &mut Rng, file: &mut [u8]) {
    let at = rng.below(file.len());
    if let Some(byte) = file.get_mut(at) {
        *byte ^= 1 << rng.below(8);
    }
}

/// Some aligned field becomes a value at which arithmetic breaks.
fn extreme(rng: &mut Rng, file: &mut [u8]) {
    let near = file.len() as u32;
    let value = rng.pick(&[
        0,
        1,
        3,
        4,
        8,
        11,
        12,
        13,
        16,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fff0,
        0xffff_fffc,
        u32::MAX,
        0xffff,
        0x0001_0000,
        2 << 20,
        near,
        near + 1,
        near - near % 4,
    ]);
    let bytes = if rng.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
    let at = rng.below(file.len() / 4) * 4;
    if let Some(field) = file.get_mut(at..at + 4) {
        field.copy_from_slice(&bytes);
    }
}

/// A piece of another file lands in this one.
fn splice(rng: &mut Rng, file: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let other = &seeds[rng.below(seeds.len())];
    let start = rng.below(other.len() / 4) * 4;
    let end = (start + 4 + rng.below(30) * 4).min(other.len());
    let at = rng.below(file.len() / 4 + 1) * 4;
    let at = at.min(file.len());
    file.splice(at..at, other[start..end].iter().copied());
}

fn drop_some(rng: &mut Rng, file: &mut Vec<u8>) {
    let start = rng.below(file.len() + 1);
    let end = (start + rng.below(40)).min(file.len());
    file.drain(start..end);
}

/// Reads all of a file and writes it in every way; delivered packets must be those of the file.
fn exercise(file: &[u8], record: &mut Record) -> u64 {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return check_error(&error, file),
    };
    let (source, format) = (reader.source(), reader.format());
    let other = if format == Format::Pcap { Format::PcapNg } else { Format::Pcap };
    let mut same = Writer::new(Vec::new(), format, source).unwrap();
    let mut cross = Writer::new(Vec::new(), other, source).ok();
    let mut wide = Writer::new(Vec::new(), format, source.sizes_will_change()).unwrap();
    let mut delivered = 0;
    let mut offset = reader.offset();
    loop {
        match reader.read(record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                check_error(&error, file);
                assert!(error.is_damage());
                break;
            }
        }
        assert!(reader.offset() > offset, "reading moves on");
        offset = reader.offset();
        delivered += 1;
        same.write(record).unwrap();
        change(&mut wide, record);
        if let Some(Err(error)) = cross.as_mut().map(|cross| cross.write(record)) {
            assert!(matches!(error, CaptureError::LinkTypes { .. }), "{error}");
            cross = None;
        }
    }
    assert_eq!(same.finish().unwrap(), file[..offset as usize]);
    cross.map(|cross| cross.finish().unwrap());
    check_wide(&wide.finish().unwrap(), delivered);
    delivered
}

fn change(writer: &mut Writer<Vec<u8>>, record: &mut Record) {
    options::Options::new(record.options(), record.endianness()).for_each(drop);
    if !record.is_packet() {
        return writer.write(record).unwrap();
    }
    let strip = [OptionMatch { code: 1, prefix: b"" }];
    let append = Some((options::CUSTOM_BYTES, &b"1234567"[..]));
    let data = record.data();
    let change = PacketChange { strip: &strip, append, ..PacketChange::default() };
    writer.write_packet(record, &[data, b"more"], change).unwrap();
    record.as_mut().fill(0);
    record.as_mut().reverse();
}

/// Written captures are never damaged, whatever they were made from.
fn check_wide(written: &[u8], wanted: u64) {
    if wanted == 0 {
        return;
    }
    let mut reader = Reader::new(written).unwrap();
    let mut record = Record::default();
    let mut read = 0;
    while reader.read(&mut record).unwrap() {
        read += 1;
    }
    assert_eq!(read, wanted);
}

fn check_error(error: &CaptureError, file: &[u8]) -> u64 {
    if let CaptureError::Damaged { offset, .. } = error {
        assert!(*offset <= file.len() as u64, "{error}");
    }
    assert_eq!(error.to_string().lines().count(), 1);
    0
}

fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Promise (Captures): Damaged captures cause no panic and bounded memory, and everything before
/// the damage is delivered: 120,000 mutated files of both formats and byte orders.
#[test]
fn mutants_do_no_harm() {
    let seed = std::env::var("LINECARD_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or(SEED);
    let seeds = seeds();
    let mut record = Record::default();
    let mut delivered = 0;
    let mut stderr = std::io::stderr();
    for number in 0..MUTANTS {
        // One seed for each: a failing one is repeated alone.
        let each = seed.wrapping_add(number);
        let file = mutate(&mut Rng(each), &seeds);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            delivered += exercise(&file, &mut record);
        }));
        if let Err(panic) = result {
            writeln!(stderr, "LINECARD_SEED={each} repeats it at once").unwrap();
            std::panic::resume_unwind(panic);
        }
    }
    let peak = peak_kib();
    writeln!(stderr, "{MUTANTS} mutants, {delivered} entries, peak {peak:?} KiB").unwrap();
    assert!(delivered > MUTANTS, "most mutants must be readable in part, or nothing was tested");
    assert!(peak.is_none_or(|peak| peak < MEMORY_KIB));
}

#[test]
fn seeds_are_sound() {
    for file in seeds() {
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut record = Record::default();
        while reader.read(&mut record).unwrap() {}
        assert_eq!(reader.offset(), file.len() as u64);
    }
}
