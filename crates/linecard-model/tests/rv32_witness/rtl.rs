//! The timing of `PicoRV32` beside the core itself, simulated by Verilator, where both are installed: random programs,
//! and the firmware that comes with the model.

use crate::assembler::{ECALL, ZERO, addi, jal, load, lui};
use crate::program;
use linecard::rng::Rng;
use linecard_model::rv32::{
    Bus, Config, Core, CoreKind, Fault, FaultKind, Image, Reply, Wake, Width,
};
use linecard_model::transmit::firmware;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: u64 = 40;
const CYCLES: u64 = 1_000_000;
const WFI: u32 = 0x1050_0073;
/// Of a message, as the IP header and the mailbox have it: six packets of TCP.
const LENGTH: u32 = 40 + 5 * 1_460 + 100;
/// Words of data memory that the bench prints.
const SHOWN: usize = 64;

/// The simulated core in a folder of its own.
struct Bench {
    folder: tempfile::TempDir,
}

/// What a simulated run gave.
struct Run {
    cycles: u64,
    data: Vec<u32>,
}

impl Bench {
    /// `None` where Verilator or the core's source is missing.
    fn build() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let given = std::env::var_os("LINECARD_PICORV32").map(PathBuf::from);
        let core = given.unwrap_or_else(|| {
            root.join("target/picorv32/pythondata_cpu_picorv32/verilog/picorv32.v")
        });
        let missing = |what: &str| {
            linecard_testkit::skip(
                "PicoRV32 beside its model",
                format_args!("{what}: run .ci/setup"),
            );
        };
        if !core.exists() {
            missing(&format!("{} is missing", core.display()));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rv32_witness/picorv32.sv");
        let version = Command::new("verilator").arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        // "Verilator 5.006 2023-01-22 …": earlier ones build no programs by themselves.
        let major = version.as_deref().ok().and_then(|text| text.split([' ', '.']).nth(1));
        if major.and_then(|text| text.parse().ok()).is_none_or(|major: u32| major < 5) {
            missing(&format!("verilator 5 is missing ({version:?})"));
            return None;
        }
        let mut command = Command::new("verilator");
        command.args(["--binary", "--top-module", "bench", "-Wno-fatal", "-Wno-lint", "-O3"]);
        command.args(["--Mdir", "obj", "-o", "bench"]).arg(core).arg(bench);
        let outcome = command.current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "verilator: {said}");
        Some(Self { folder })
    }

    /// Runs a program from address 0 to its trap, or to an access beyond those given.
    fn run(&self, code: &[u32], accesses: &str) -> Run {
        let path = |name| self.folder.path().join(name);
        let words: String = code.iter().fold(String::new(), |mut text, word| {
            writeln!(text, "{word:08x}").unwrap();
            text
        });
        fs::write(path("image"), words).unwrap();
        fs::write(path("bus"), accesses).unwrap();
        let outcome = Command::new(path("obj/bench"))
            .args(["+image=image", "+bus=bus"])
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8(outcome.stdout).unwrap();
        assert!(outcome.status.success() && !text.contains("are left"), "{text}");
        let mut lines = text.lines().skip_while(|line| !line.starts_with("cycles "));
        let cycles = lines.next().and_then(|line| line[7..].parse().ok());
        let data = lines.by_ref().take(SHOWN).map(|line| u32::from_str_radix(line, 16).unwrap());
        Run { data: data.collect(), cycles: cycles.expect(&text) }
    }
}

/// A bus that answers by address, waits now and then, and remembers what happened.
struct Recorded {
    rng: Rng,
    accesses: String,
    /// Loads of the message's length until none is answered any more.
    messages: u32,
    vector: u32,
}

impl Recorded {
    fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), accesses: String::new(), messages: 1, vector: 0 }
    }

    fn note(&mut self, is_store: bool, (address, width): (u32, Width), value: u32) -> u64 {
        let stall = self.rng.below(4) * self.rng.below(3);
        // On each part of the word that it may be taken from.
        let value = match width {
            Width::Byte => (value & 0xff) * 0x0101_0101,
            Width::Half => (value & 0xffff) * 0x0001_0001,
            Width::Word => value,
        };
        let (is_store, address) = (u8::from(is_store), address & !3);
        writeln!(self.accesses, "{is_store} {address:08x} {value:08x} {stall}").unwrap();
        stall
    }
}

impl Bus for Recorded {
    fn load(&mut self, _: u64, address: u32, width: Width) -> Reply {
        // As firmware/include/linecard.inc has them.
        let value = match address {
            0x3000_0000 => 1,
            0x3000_0004 => 40,
            0x3000_0008 if self.messages == 0 => return Reply::Refused,
            0x3000_0008 => {
                self.messages -= 1;
                LENGTH
            }
            0x1000_0002 => LENGTH,
            0x3000_000c => 1_500,
            0x3000_0010 => 1_460,
            0x3000_0014 => 0x5018,
            0x4000_0014 => u32::from(self.rng.below(3) == 0),
            _ => self.rng.next_u64() as u32 & !0x4000,
        };
        Reply::Done { value, stall: self.note(false, (address, width), value) }
    }

    fn store(&mut self, _: u64, address: u32, width: Width, value: u32) -> Reply {
        if address == 0x3000_0020 {
            self.vector = value;
        }
        Reply::Done { value: 0, stall: self.note(true, (address, width), value) }
    }

    fn wait(&mut self, _: u64) -> Wake {
        Wake::Blocked
    }
}

/// A core with the timing to be tried, at its end.
fn modelled(code: &[u32], bus: &mut Recorded) -> Core {
    let timing = CoreKind::PicoRv32.timing(1);
    let config = Config { timing, ..Config::default() };
    let mut core = Core::new(&Image::of_code(code), config).unwrap();
    let end = core.run(bus, CYCLES);
    let is_end = match end {
        Err(Fault { what: FaultKind::Ecall, .. }) => true,
        Err(Fault { what: FaultKind::Refused(access), .. }) => access.address == 0x3000_0008,
        _ => false,
    };
    assert!(is_end, "{end:?}");
    core
}

/// Promise (Hardware model): With the timing of `PicoRV32`, 40 random programs and the firmware of the sending
/// side take the cycles that the core itself takes, simulated by Verilator, where both are installed.
#[test]
fn programs_take_the_cycles_of_picorv32() {
    let Some(bench) = Bench::build() else { return };
    // From reset to the first instruction, and from its start to the trap.
    let around = bench.run(&[ECALL], "").cycles;
    let seed = crate::seed();
    for number in 0..PROGRAMS {
        let mut rng = Rng::new(seed.wrapping_mul(1_000).wrapping_add(number));
        let code = program::random(&mut rng);
        let core = modelled(&code, &mut Recorded::new(0));
        let run = bench.run(&code, "");
        let what = format!("seed {seed}, program {number}");
        assert_eq!(run.cycles, around + core.cycle(), "{what}");
        let data = core.data().as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        assert_eq!(run.data, data.take(SHOWN).collect::<Vec<u32>>(), "{what}");
    }
    // The same to an access that is not answered.
    let asks = [lui(1, 0x3000_0000), load(2, 2, 1, 8)];
    let before_load = bench.run(&asks, "").cycles - modelled(&asks, &mut none()).cycle();
    let all = [
        ("approach1", firmware::approach_1()),
        ("approach2", firmware::approach_2()),
        ("best", firmware::best()),
        ("lso", firmware::compiled()),
    ];
    for (name, image) in all {
        let mut code: Vec<u32> = image.segments[0]
            .bytes
            .chunks(4)
            .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
            .collect();
        let (is_answered, waits) = without_wfi(&mut code);
        assert!(waits > 0, "{name} waits for messages");
        let mut bus = Recorded::new(seed);
        let core = modelled(&code, &mut bus);
        let run = bench.run(&code, &bus.accesses);
        let around = if is_answered { around } else { before_load };
        assert_eq!(run.cycles, around + core.cycle(), "{name}");
        assert!(bus.accesses.lines().count() > 20, "{name} sends: {}", bus.accesses);
    }
}

/// Answers nothing.
fn none() -> Recorded {
    Recorded { messages: 0, ..Recorded::new(0) }
}

/// Replaces each `wfi`, which `PicoRV32` has not: the first by a jump to where the program wants to go on, others by
/// an end. A program that goes on behind its only one ends when a second message is not there: then false.
fn without_wfi(code: &mut [u32]) -> (bool, usize) {
    let all: Vec<usize> = (0..code.len()).filter(|at| code[*at] == WFI).collect();
    for at in &all {
        code[*at] = ECALL;
    }
    let Some(first) = all.first() else { return (false, 0) };
    let mut bus = Recorded::new(0);
    modelled(code, &mut bus);
    code[*first] = match bus.vector {
        0 => addi(ZERO, ZERO, 0),
        vector => jal(ZERO, vector as i32 - 4 * *first as i32),
    };
    (bus.vector != 0, all.len())
}
