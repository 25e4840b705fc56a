//! The modelled core beside witnesses, where they are installed: random programs run by
//! qemu-riscv32, random words read by binutils' objdump, open cores, and the official tests.
//! `LINECARD_SEED` gives a seed back.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

#[path = "../common/rv32.rs"]
mod assembler;
#[path = "../../src/elf/tests/build.rs"]
mod build;
#[cfg(feature = "elf")]
mod official;
mod program;
mod rtl;

use build::{Build, CODE, EXECUTE, WRITE};
use linecard::rng::Rng;
use linecard_model::rv32::{
    Bus, Config, Core, DATA_AT, Fault, FaultKind, Image, Reply, Segment, Wake, Width,
};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts of qemu, and programs in each.
const BATCHES: u64 = 12;
const PROGRAMS: usize = 50;
/// No program takes longer: 150 instructions, loops of 8 rounds at most.
const CYCLES: u64 = 20_000;
/// Words for objdump.
const WORDS: usize = 300_000;

/// Nothing is outside.
struct Nothing;

impl Bus for Nothing {
    fn load(&mut self, _: u64, _: u32, _: Width) -> Reply {
        Reply::Refused
    }

    fn store(&mut self, _: u64, _: u32, _: Width, _: u32) -> Reply {
        Reply::Refused
    }

    fn wait(&mut self, cycle: u64) -> Wake {
        Wake::At { cycle, vector: None }
    }
}

fn seed() -> u64 {
    std::env::var("LINECARD_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(32)
}

/// The output of `tool` for a file with `bytes`, or `None` if it is not installed.
fn output(tool: &str, arguments: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = run(tool, arguments, &path)?;
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{tool}: {}: {said}", outcome.status);
    Some(outcome.stdout)
}

fn run(tool: &str, arguments: &[&str], path: &Path) -> Option<std::process::Output> {
    let mut command = Command::new(tool);
    match command.args(arguments).arg(path).stdin(Stdio::null()).output() {
        Ok(outcome) => Some(outcome),
        Err(error) => {
            linecard_testkit::skip(
                format_args!("the core beside {tool}"),
                format_args!("{error}: run .ci/setup"),
            );
            None
        }
    }
}

/// Promise (Hardware model): 600 random programs end as in qemu-riscv32, and 300,000 words are
/// instructions where objdump says so, if those programs are installed.
#[test]
fn random_programs_end_as_in_qemu() {
    let seed = seed();
    for batch in 0..BATCHES {
        let seed = seed.wrapping_mul(1_000).wrapping_add(batch);
        let mut rng = Rng::new(seed);
        let mut words = Vec::new();
        let mut starts = Vec::new();
        for _ in 0..PROGRAMS {
            starts.push(4 * words.len());
            words.extend(program::random(&mut rng));
        }
        words.extend(program::exit());
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(code.len() <= (DATA_AT - CODE) as usize, "{} bytes of code", code.len());
        let elf = Build::executable()
            .segment(CODE, &code, code.len(), EXECUTE)
            .segment(DATA_AT, &[0; 4096], 4096, WRITE)
            .bytes();
        let Some(witness) = output("qemu-riscv32", &[], &elf) else { return };
        assert_eq!(witness.len(), PROGRAMS * program::AREA, "seed {seed}");
        compare(&code, &starts, &witness, seed);
    }
}

/// Runs the programs at `starts`, each with the data that the one before has left.
fn compare(code: &[u8], starts: &[usize], witness: &[u8], seed: u64) {
    let segment = Segment { address: CODE, bytes: code.to_vec() };
    let mut image = Image { entry: 0, segments: vec![segment] };
    let mut left: Option<Core> = None;
    for (number, (start, expected)) in starts.iter().zip(witness.chunks(program::AREA)).enumerate()
    {
        image.entry = CODE + *start as u32;
        let mut core = Core::new(&image, Config::default()).unwrap();
        if let Some(left) = left {
            core.data_mut().copy_from_slice(left.data());
        }
        let end = core.run(&mut Nothing, CYCLES);
        let what = format!("seed {seed}, program {number}, at {:#x}", image.entry);
        assert!(
            matches!(end, Err(Fault { what: FaultKind::Ecall, .. })),
            "{what}: {end:?} instead of the call that writes"
        );
        let got = &core.data()[..program::AREA];
        let word = |bytes: &[u8], at| u32::from_le_bytes(bytes[at..][..4].try_into().unwrap());
        for at in (0..program::AREA).step_by(4) {
            let place = program::place(at);
            assert_eq!(word(got, at), word(expected, at), "{what}: {place}, and in qemu");
        }
        left = Some(core);
    }
}

#[test]
fn words_are_instructions_where_objdump_says_so() {
    const NAMES: &str = "lui auipc jal jalr beq bne blt bge bltu bgeu lb lh lw lbu lhu sb sh sw \
        addi slti sltiu xori ori andi slli srli srai add sub sll slt sltu xor srl sra or and \
        fence fence.tso ecall ebreak wfi";
    let names: HashSet<&str> = NAMES.split_whitespace().collect();
    let mut rng = Rng::new(seed());
    let words: Vec<u32> = (0..WORDS).map(|_| program::word(&mut rng)).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let arguments = ["-D", "-z", "-b", "binary", "-m", "riscv:rv32", "-M", "no-aliases"];
    let Some(text) = output("riscv64-unknown-elf-objdump", &arguments, &bytes) else { return };
    let text = String::from_utf8(text).unwrap();
    // "   4:	00a50533          	add	a0,a0,a0"
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.split_once(":\t")?.1.split('\t');
        let word = u32::from_str_radix(fields.next()?.trim(), 16).ok()?;
        Some((word, fields.next()?.trim()))
    });
    let mut counts = [0_usize; 2];
    for ((word, name), written) in rows.zip(&words) {
        assert_eq!(word, *written, "objdump's line for another word");
        let mut core = Core::new(&Image::of_code(&[word]), Config::default()).unwrap();
        let end = core.run(&mut Nothing, 1);
        let legal = !matches!(end, Err(Fault { what: FaultKind::Illegal(_), .. }));
        let known = match word & 0x707f {
            // "Implementations shall ignore" the fields of a fence that objdump does not know.
            0x000f => true,
            // Shifts by more than 31 are RV64's, which it does not tell apart.
            0x1013 | 0x5013 if word >> 25 & 1 == 1 => false,
            _ => names.contains(name),
        };
        assert_eq!(legal, known, "{word:#010x}, {name} for objdump: {end:?}");
        counts[usize::from(legal)] += 1;
    }
    assert_eq!(counts[0] + counts[1], WORDS);
    assert!(counts.iter().all(|count| *count > WORDS / 5), "{counts:?}: illegal, legal");
}
