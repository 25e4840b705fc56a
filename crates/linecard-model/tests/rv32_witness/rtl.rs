//! The modelled timing of available cores beside the cores themselves, simulated by Verilator, where both are
//! installed: random programs, and the firmware that comes with the model.

use crate::assembler::{ECALL, ZERO, addi, jal, load, lui};
use crate::program;
use linecard::rng::Rng;
use linecard_model::rv32::{
    Bus, Config, Core, CoreKind, Fault, FaultKind, Image, Reply, Wake, Width,
};
use linecard_model::{receive, transmit};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAMS: u64 = 40;
const CYCLES: u64 = 1_000_000;
const WFI: u32 = 0x1050_0073;
/// Of a message, as the IP header and the mailbox have it: six packets of TCP.
const LENGTH: u32 = 40 + 5 * 1_460 + 100;
/// Words of data memory that the bench prints.
const SHOWN: usize = 64;

/// Hashes of the sources that are built, by their paths in `target`.
const SOURCES: &str = ".ci/cores.sha256";

/// A core whose source a package has: its name, and how Verilator finds it.
struct Rtl {
    kind: CoreKind,
    name: &'static str,
    /// Where its sources are in `target`, and files and options for Verilator from there.
    folder: &'static str,
    sources: &'static [&'static str],
}

const PICORV32: Rtl = Rtl {
    kind: CoreKind::PicoRv32,
    name: "picorv32",
    folder: "picorv32/pythondata_cpu_picorv32/verilog",
    sources: &["picorv32.v"],
};

/// Ibex with its defaults but for multiplication, which RV32I does not have.
const IBEX: Rtl = Rtl {
    kind: CoreKind::Ibex,
    name: "ibex",
    folder: "ibex/pythondata_cpu_ibex/system_verilog",
    sources: &[
        "-Ivendor/lowrisc_ip/ip/prim/rtl",
        "-Ivendor/lowrisc_ip/ip/prim_generic/rtl",
        "-Ivendor/lowrisc_ip/dv/sv/dv_utils",
        "-Idv/uvm/core_ibex/common/prim",
        "-Irtl",
        "prim_pkg.sv",
        "prim_util_pkg.sv",
        "prim_count_pkg.sv",
        "prim_mubi_pkg.sv",
        "prim_ram_1p_pkg.sv",
        "prim_secded_pkg.sv",
        "prim_cipher_pkg.sv",
        "ibex_pkg.sv",
        "ibex_top.sv",
    ],
};

impl Rtl {
    /// The list of the sources that are built, whose content must be as it says.
    fn check_sources(&self, folder: &Path) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sums = fs::read_to_string(root.join(SOURCES)).unwrap();
        let own = sums.lines().filter(|line| line.contains(self.folder));
        let own: String = own.map(|line| format!("{line}\n")).collect();
        fs::write(folder.join("sums"), &own).unwrap();
        let mut command = Command::new("sha256sum");
        command.args(["--check", "--strict", "--quiet"]).arg(folder.join("sums"));
        let outcome = command.current_dir(root.join("target")).output().unwrap();
        let said = String::from_utf8_lossy(&outcome.stdout);
        let name = self.name;
        assert!(
            outcome.status.success(),
            "{name} in target/ is another one than {SOURCES} says: {said}remove target/{name} and run .ci/setup"
        );
        own
    }
}

/// The simulated core in a folder of its own.
struct Bench {
    rtl: Rtl,
    folder: tempfile::TempDir,
}

/// The result of a simulated run.
struct Run {
    cycles: u64,
    data: Vec<u32>,
}

impl Bench {
    /// `None` where Verilator or the core's source is missing.
    fn build(rtl: Rtl) -> Option<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let core = here.join("../../target").join(rtl.folder);
        let name = rtl.name;
        let missing = |what: &str| {
            linecard_testkit::skip(
                "open cores beside their model",
                format_args!("{name}: {what}: run .ci/setup"),
            );
        };
        if !core.exists() {
            missing(&format!("{} is missing", core.display()));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let witness = here.join("tests/rv32_witness");
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
        command.arg("--Mdir").arg(folder.path().join("obj")).args(["-o", "bench"]);
        command.arg(format!("-I{}", witness.display())).args(rtl.sources);
        command.arg(witness.join(format!("{name}.sv")));
        let sources = rtl.check_sources(folder.path());
        let outcome = command.current_dir(core).output().unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "verilator: {said}");
        // The files that it has read, each in quotes; of the core's by names from its folder.
        let read = fs::read_to_string(folder.path().join("obj/Vbench__verFiles.dat")).unwrap();
        for path in read
            .lines()
            .filter(|line| line.starts_with('S'))
            .filter_map(|line| line.split('"').nth(1))
        {
            let is_known =
                path.starts_with('/') || sources.contains(&format!("{}/{path}\n", rtl.folder));
            assert!(is_known, "{path} of {name} is not in {SOURCES}");
        }
        Some(Self { rtl, folder })
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

/// Packets that wait to be received, and what sorts them: a CAM of one entry, and nodes.
struct Arrivals {
    bus: Recorded,
    headers: VecDeque<Vec<u8>>,
    /// The inserted record.
    record: u32,
    /// Nodes that were taken.
    nodes: u32,
}

impl Arrivals {
    /// Two messages in TCP, of which the second is cut short, another packet, and a datagram in fragments.
    fn new(seed: u64) -> Self {
        let tcp = |at: u32, flags: u8| header((6, 0), 1_000 + at * 1_460, flags);
        let fragment = |at: u16, more: u16| header((17, (more << 13) + at * 185), 0, 0);
        let headers = [
            [tcp(0, 0x10), tcp(1, 0x10), tcp(2, 0x10), tcp(3, 0x18)],
            [tcp(4, 0x10), tcp(5, 0x10), tcp(9, 0x10), tcp(10, 0x18)],
            [header((1, 0), 0, 0), fragment(0, 1), fragment(1, 1), fragment(2, 0)],
        ];
        let headers = headers.into_iter().flatten().collect();
        Self { bus: Recorded::new(seed), headers, record: 0, nodes: 0 }
    }
}

/// The header of a packet of 1,500 bytes: protocol, flags and offset of fragments; sequence number and flags of TCP.
fn header((protocol, fragment): (u8, u16), sequence: u32, flags: u8) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[2..4].copy_from_slice(&1_500_u16.to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[9] = protocol;
    header[24..28].copy_from_slice(&sequence.to_be_bytes());
    header[32..34].copy_from_slice(&[0x50, flags]);
    header
}

impl Bus for Arrivals {
    fn load(&mut self, _: u64, address: u32, width: Width) -> Reply {
        // As firmware/include/receive.inc has them.
        let value = match (address, self.headers.front()) {
            (0x1000_0000..0x1000_0028, None) => return Reply::Refused,
            (0x1000_0000..0x1000_0028, Some(header)) => {
                let at = (address & 0xff) as usize;
                let bytes = &header[at..at + width.bytes() as usize];
                bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
            }
            (0x4000_0004, _) => 0x7000_0010 + 16 * self.nodes,
            (0x4000_000c, _) => 0x7000_0000 + 16 * self.nodes,
            (0x5000_0014, _) => self.record,
            (0x5000_0020, _) => 4,
            _ => 0,
        };
        Reply::Done { value, stall: self.bus.note(false, (address, width), value) }
    }

    fn store(&mut self, _: u64, address: u32, width: Width, value: u32) -> Reply {
        match address {
            0x3000_0000 => self.bus.vector = value,
            0x4000_0010..0x4000_0020 => {
                self.headers.pop_front();
                self.nodes += 1;
            }
            0x5000_0018 => self.record = value,
            0x5000_001c => self.record = 0,
            _ => {}
        }
        Reply::Done { value: 0, stall: self.bus.note(true, (address, width), value) }
    }

    fn wait(&mut self, _: u64) -> Wake {
        Wake::Blocked
    }
}

/// A core with the timing to be tried, at its end.
fn modelled(kind: CoreKind, code: &[u32], bus: &mut impl Bus) -> Core {
    let config = Config { timing: kind.timing(1), ..Config::default() };
    let mut core = Core::new(&Image::of_code(code), config).unwrap();
    let end = core.run(bus, CYCLES);
    let is_end = match end {
        Err(Fault { what: FaultKind::Ecall, .. }) => true,
        Err(Fault { what: FaultKind::Refused(access), .. }) => {
            [0x3000_0008, 0x1000_0006].contains(&access.address)
        }
        _ => false,
    };
    assert!(is_end, "{end:?}");
    core
}

/// Promise (Hardware model): With the timing of `PicoRV32`, 40 random programs and the firmware of both sides take the
/// cycles that the core itself takes, simulated by Verilator, where both are installed.
#[test]
fn programs_take_the_cycles_of_picorv32() {
    if let Some(bench) = Bench::build(PICORV32) {
        bench.compare();
    }
}

/// Promise (Hardware model): With the timing of Ibex, the same programs take the cycles that Ibex takes, where it is installed.
#[test]
fn programs_take_the_cycles_of_ibex() {
    if let Some(bench) = Bench::build(IBEX) {
        bench.compare();
    }
}

impl Bench {
    /// Random programs and firmware on this core and in its model.
    fn compare(&self) {
        let kind = self.rtl.kind;
        // From reset to the first instruction, and from its start to the trap.
        let around = self.run(&[ECALL], "").cycles;
        let seed = crate::seed();
        for number in 0..PROGRAMS {
            let mut rng = Rng::new(seed.wrapping_mul(1_000).wrapping_add(number));
            let code = program::random(&mut rng);
            let core = modelled(kind, &code, &mut Recorded::new(0));
            let run = self.run(&code, "");
            let what = format!("seed {seed}, program {number}");
            assert_eq!(run.cycles, around + core.cycle(), "{what}");
            let data = core.data().as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
            assert_eq!(run.data, data.take(SHOWN).collect::<Vec<u32>>(), "{what}");
        }
        // The same to an access that is not answered.
        let asks = [lui(1, 0x3000_0000), load(2, 2, 1, 8)];
        let before_load = self.run(&asks, "").cycles - modelled(kind, &asks, &mut none()).cycle();
        let all = [
            ("approach1", transmit::firmware::approach_1()),
            ("approach2", transmit::firmware::approach_2()),
            ("best", transmit::firmware::best()),
            ("lso", transmit::firmware::compiled()),
        ];
        for (name, image) in all {
            let mut code = code_of(&image);
            let (is_answered, waits) = without_wfi(&mut code);
            assert!(waits > 0, "{name} waits for messages");
            let mut bus = Recorded::new(seed);
            let cycles = modelled(kind, &code, &mut bus).cycle();
            let around = if is_answered { around } else { before_load };
            assert_eq!(self.run(&code, &bus.accesses).cycles, around + cycles, "{name}");
            assert!(bus.accesses.lines().count() > 20, "{name} sends: {}", bus.accesses);
        }
        for (name, image) in
            [("receive", receive::firmware::published()), ("best", receive::firmware::best())]
        {
            let mut code = code_of(&image);
            go_on(&mut code);
            let mut bus = Arrivals::new(seed);
            let cycles = modelled(kind, &code, &mut bus).cycle();
            assert_eq!(self.run(&code, &bus.bus.accesses).cycles, before_load + cycles, "{name}");
            assert_eq!((bus.headers.len(), bus.nodes), (0, 12), "{name} receives");
            // Each list is handed over: two messages, what the second was cut short by, the other packet, the datagram.
            let handed = bus.bus.accesses.lines().filter(|line| line.starts_with("1 60000000"));
            assert_eq!(handed.count(), 5, "{name}: {}", bus.bus.accesses);
        }
    }
}

fn code_of(image: &Image) -> Vec<u32> {
    let words = image.segments[0].bytes.chunks(4);
    words
        .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
        .collect()
}

/// Answers nothing.
fn none() -> Recorded {
    Recorded { messages: 0, ..Recorded::new(0) }
}

/// Replaces each `wfi`, which `PicoRV32` does not have: the first by a jump to where the program continues, others by
/// an end. A program that goes on behind its only one ends when a second message is not there: then false.
fn without_wfi(code: &mut [u32]) -> (bool, usize) {
    let all = all_wfi(code);
    let Some(first) = all.first() else { return (false, 0) };
    let mut bus = Recorded::new(0);
    modelled(CoreKind::PicoRv32, code, &mut bus);
    code[*first] = match bus.vector {
        0 => addi(ZERO, ZERO, 0),
        vector => jal(ZERO, vector as i32 - 4 * *first as i32),
    };
    (bus.vector != 0, all.len())
}

/// Replaces each `wfi` of a receiver by a jump to where the next packet is taken.
fn go_on(code: &mut [u32]) {
    let all = all_wfi(code);
    let mut bus = Arrivals::new(0);
    modelled(CoreKind::PicoRv32, code, &mut bus);
    for at in all {
        code[at] = jal(ZERO, bus.bus.vector as i32 - 4 * at as i32);
    }
}

/// Where each `wfi` is, with an end in its place.
fn all_wfi(code: &mut [u32]) -> Vec<usize> {
    let all: Vec<usize> = (0..code.len()).filter(|at| code[*at] == WFI).collect();
    for at in &all {
        code[*at] = ECALL;
    }
    all
}
