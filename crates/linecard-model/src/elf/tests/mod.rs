//! Firmware files, other files, and damaged firmware files.

mod bombs;
mod build;

use super::lines::MAX_RANGES;
use super::symbols::MAX_SYMBOLS;
use super::{Firmware, Refusal, SourceLine};
use crate::rv32::{Bus, Config, Core, Counts, DATA_AT, Reply, Segment, Stop, Wake, Width};
use build::{Build, CODE, EXECUTE, WRITE};
use linecard::rng::Rng;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// In the normal run.
const MUTANTS: u64 = 20_000;
const NOP: [u8; 4] = [0x13, 0, 0, 0];

/// A device that takes all and keeps the last.
#[derive(Default)]
struct Device {
    last: u32,
}

impl Bus for Device {
    fn load(&mut self, _: u64, _: u32, _: Width) -> Reply {
        Reply::Done { value: self.last, stall: 1 }
    }

    fn store(&mut self, _: u64, _: u32, _: Width, value: u32) -> Reply {
        self.last = value;
        Reply::Done { value: 0, stall: 3 }
    }

    fn wait(&mut self, cycle: u64) -> Wake {
        Wake::At { cycle, vector: None }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/firmware")
}

fn sum() -> Vec<u8> {
    std::fs::read(folder().join("sum.elf")).unwrap()
}

fn refusal(bytes: &[u8]) -> Refusal {
    let error = Firmware::parse("a.elf", bytes).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("a.elf: ") && text.lines().count() == 1, "{text}");
    error.what
}

/// Two segments, of which one is longer in memory.
fn simple() -> Vec<u8> {
    let build = Build::executable().segment(CODE, &NOP, 4, EXECUTE);
    build.segment(DATA_AT + 8, &[1, 2], 5, WRITE).bytes()
}

#[test]
fn segments_go_where_they_are_linked_with_zeros_behind() {
    let firmware = Firmware::parse("a.elf", &simple()).unwrap();
    let image = firmware.image();
    let segments = [
        Segment { address: CODE, bytes: NOP.to_vec() },
        Segment { address: DATA_AT + 8, bytes: vec![1, 2, 0, 0, 0] },
    ];
    assert_eq!((image.entry, &image.segments[..]), (CODE, &segments[..]));
    let core = Core::new(image, Config::default()).unwrap();
    assert_eq!((core.pc(), &core.data()[7..11]), (CODE, &[0, 1, 2, 0][..]));
    assert!(firmware.place(CODE).is_none() && firmware.line(CODE).is_none());
}

#[test]
fn what_the_core_cannot_run_is_refused_in_one_line() {
    // Offset in the header, the bytes there, and a part of the message.
    let table: [(usize, &[u8], &str); 14] = [
        (0, b"MZ", "not an ELF file"),
        (4, &[2], "64 bits, for RISC-V"),
        (5, &[2], "big-endian ELF file, for machine 62208"),
        (4, &[3], "damaged"),
        (18, &[62, 0], "a program for x86-64"),
        (18, &[183, 0], "a program for AArch64"),
        (18, &[0xff, 0xee], "a program for machine 61183"),
        (16, &[1], "relocatable object"),
        (16, &[3], "shared or position-independent"),
        (36, &[1], "compressed instructions"),
        (36, &[4], "-mabi=ilp32"),
        (24, &[2, 0x10], "begins at 0x00001002"),
        (24, &[4, 0x10], "begins at 0x00001004"),
        (44, &[0], "no code"),
    ];
    for (offset, bytes, said) in table {
        let mut file = simple();
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        let text = refusal(&file).to_string();
        assert!(text.contains(said), "{text}: not {said}");
    }
    let mut wide = simple();
    wide[4] = 2;
    wide[18] = 62;
    assert!(refusal(&wide).to_string().contains("64 bits, for x86-64"));
    assert!(matches!(refusal(b""), Refusal::NotElf));
}

#[test]
fn segments_outside_the_memories_are_refused() {
    let with = |address, len| {
        let code = Build::executable().segment(CODE, &NOP, 4, EXECUTE);
        code.segment(address, &[], len, WRITE).bytes()
    };
    for (address, len) in [(0, 0x1_0000), (DATA_AT, 0x1_0000), (0x1_ffff, 1), (0x8000_0000, 0)] {
        assert!(Firmware::parse("a.elf", &with(address, len)).is_ok(), "{len} at {address:#x}");
    }
    for (address, len) in [
        (0, 0x1_0001),
        (0xffff, 2),
        (DATA_AT, 0x1_0001),
        (0x2_0000, 1),
        (0x8000_0000, 4),
        (u32::MAX, 2),
        (u32::MAX, u32::MAX as usize),
    ] {
        let refused = matches!(refusal(&with(address, len)), Refusal::Segment { .. });
        assert!(refused, "{len} at {address:#x}");
    }
    // Code that is data, or only zeros.
    let data = Build::executable().segment(DATA_AT, &NOP, 4, EXECUTE).bytes();
    assert!(matches!(refusal(&data), Refusal::NoCode));
    let empty = Build::executable().segment(CODE, &[], 4, EXECUTE).bytes();
    assert!(matches!(refusal(&empty), Refusal::NoCode));
    let many = (0..65).fold(Build::executable(), |all, _| all.segment(CODE, &NOP, 4, EXECUTE));
    assert!(refusal(&many.bytes()).to_string().contains("more than 64"));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = sum();
    for len in 0..whole.len() {
        let what = refusal(&whole[..len]);
        let expected = if len < 4 {
            matches!(what, Refusal::NotElf)
        } else {
            matches!(what, Refusal::Truncated { .. })
        };
        assert!(expected, "{len} bytes: {what}");
    }
    let simple = simple();
    assert!(matches!(refusal(&simple[..0x1002]), Refusal::Truncated { wanted: 0x1004, .. }));
}

#[test]
fn a_program_of_a_compiler_runs_and_is_annotated() {
    let firmware = Firmware::read(&folder().join("sum.elf")).unwrap();
    let mut core = Core::new(firmware.image(), Config::default()).unwrap();
    core.start_profile();
    let mut device = Device::default();
    assert_eq!(core.run(&mut device, 1_000), Ok(Stop::Halted));
    assert_eq!(device.last, 10);
    let calls = (firmware.address("calls").unwrap() - DATA_AT) as usize;
    assert_eq!(core.data()[calls..calls + 4], [1, 0, 0, 0]);
    assert_eq!(firmware.place(core.pc()).unwrap().function, "begin");
    let sum = firmware.address("sum").unwrap();
    let place = firmware.place(sum + 8).unwrap();
    assert_eq!((place.function, place.offset), ("sum", 8));

    let lines = firmware.annotate(core.profile().unwrap());
    let mut total = Counts::default();
    lines.values().for_each(|counts| total += *counts);
    let cycles = core.cycles();
    assert_eq!((total.busy, total.stalled, total.bubbles), (cycles.busy, 3, cycles.bubbles));
    let counts = |name: &str, line| {
        let wanted = |place: &SourceLine<'_>| place.file.ends_with(name) && place.line == line;
        let found = lines.iter().find(|(place, _)| place.as_ref().is_some_and(wanted));
        found.map(|(_, counts)| (counts.busy, counts.stalled, counts.bubbles))
    };
    // The inlined addition: two instructions, four times. The loop: `i++`, and three branches back.
    assert_eq!(counts("sum.c", 10), Some((8, 0, 0)));
    assert_eq!(counts("sum.c", 16), Some((4 + 4 + 4, 0, 3)));
    // The call and the store to the device, which waits.
    assert_eq!(counts("sum.c", 24), Some((6, 3, 1)));
    assert_eq!(counts("start.S", 9), Some((1, 0, 1)));
    assert!(!lines.contains_key(&None), "{lines:?}");
}

/// The output of `riscv64-unknown-elf-TOOL`, or `None` if it is not installed.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    let program = format!("riscv64-unknown-elf-{name}");
    let mut command = Command::new(&program);
    match command.args(arguments).current_dir(folder()).stdin(Stdio::null()).output() {
        Ok(outcome) => Some(String::from_utf8(outcome.stdout).unwrap()),
        Err(error) => {
            linecard_testkit::skip(
                format_args!("firmware beside {program}"),
                format_args!("{error}: run .ci/setup"),
            );
            None
        }
    }
}

#[test]
fn places_and_lines_are_what_binutils_says() {
    let firmware = Firmware::parse("sum.elf", &sum()).unwrap();
    let len = firmware.image().segments[0].bytes.len();
    let addresses: Vec<String> = (0..len).step_by(4).map(|pc| format!("{pc:#x}")).collect();
    let mut arguments = vec!["-f", "-e", "sum.elf"];
    arguments.extend(addresses.iter().map(String::as_str));
    let Some(text) = tool("addr2line", &arguments) else { return };
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), len / 2);
    for (row, pc) in rows.chunks(2).zip((0..).step_by(4)) {
        let function = firmware.place(pc).unwrap().function;
        let SourceLine { file, line } = firmware.line(pc).unwrap();
        let found = format!("{}:{line}", file.rsplit('/').next().unwrap());
        let expected = row[1].split(' ').next().unwrap().rsplit('/').next().unwrap();
        assert_eq!(found, expected, "at {pc:#x}");
        // Its function is the one inlined, ours the one that can be called.
        assert!(row[0] == function || (row[0] == "add" && function == "sum"), "at {pc:#x}");
    }
}

/// The memory for their tables is bounded; the tests of the command look at the peak.
#[test]
fn tables_that_repeat_themselves_stay_small() {
    for (name, bytes) in bombs::all(&NOP) {
        assert!(bytes.len() < 512 << 10, "{name}: {} bytes", bytes.len());
        let firmware = Firmware::parse(name, &bytes).unwrap();
        let ((ranges, paths), (symbols, names)) = (firmware.lines.size(), firmware.symbols.size());
        let found = format!("{name}: {ranges} ranges, {paths} of paths; {symbols}, {names}");
        assert!(ranges <= MAX_RANGES && symbols <= MAX_SYMBOLS, "{found}");
        assert!(paths < 5 << 20 && names < 9 << 20, "{found}");
        // Everything that fits is present.
        assert!(name != "rows" || firmware.line(4).is_some(), "{found}");
        assert!(name != "paths" || paths > 1 << 20, "{found}");
        assert!(name != "symbols" || names > 1 << 20, "{found}");
    }
}

/// Promise (Hardware model): 20,000 mutated ELF files cause no panic.
#[test]
fn mutants_do_no_harm() {
    let seeds = [sum(), simple()];
    let mut rng = Rng::new(7);
    let mut loaded = 0;
    for _ in 0..MUTANTS {
        let mut file = seeds[usize::from(rng.below(4) == 0)].clone();
        for _ in 0..=rng.below(4) {
            mutate(&mut rng, &mut file);
        }
        let Ok(firmware) = Firmware::parse("mutant", &file) else { continue };
        loaded += 1;
        for pc in (0..DATA_AT).step_by(4) {
            let _ = (firmware.place(pc), firmware.line(pc));
        }
        let mut core = Core::new(firmware.image(), Config::default()).unwrap();
        core.start_profile();
        let _ = core.run(&mut Device::default(), 500);
        let _ = firmware.annotate(core.profile().unwrap());
    }
    assert!(loaded > MUTANTS / 20, "only {loaded} could still be loaded");
}

fn mutate(rng: &mut Rng, file: &mut Vec<u8>) {
    let at = match rng.below(4) {
        // The tables that say where everything is.
        0 => rng.below(148.min(file.len() as u64)) as usize,
        1 => file.len() - 1 - rng.below(600.min(file.len() as u64)) as usize,
        _ => rng.below(file.len() as u64) as usize,
    };
    let value = rng.next_u64();
    match rng.below(6) {
        0 => file[at] ^= 1 << (value & 7),
        1 => file[at] = value as u8,
        2 => file[at] = [0, 1, 0x7f, 0x80, 0xff][(value % 5) as usize],
        3 => file.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xff),
        4 => {
            let from = rng.below(file.len() as u64) as usize;
            let len = (value as usize % 16).min(file.len() - at.max(from));
            file.copy_within(from..from + len, at);
        }
        _ if value.is_multiple_of(8) => file.truncate(at.max(1)),
        _ => file[at] = file[at].wrapping_add(1),
    }
}
