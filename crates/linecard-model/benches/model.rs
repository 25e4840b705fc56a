//! How fast the modelled core runs: millions of its cycles in a second of one host core.
//!
//!     taskset -c 1 cargo bench -p linecard --bench model
//!     cargo bench -p linecard --bench model -- --only outside --rounds 9
//!     cargo bench -p linecard --bench model -- --smoke         # tiny; prints a hash
//!
//! The median of the rounds and the best are shown; the rounds of all programs take turns.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/common/rv32.rs"]
mod rv32;

use linecard_model::rv32::{Bus, Config, Core, DATA_AT, Image, Reply, Stop, Wake, Width};
use rv32::*;

/// Core cycles of a round.
const CYCLES: u64 = 50_000_000;
const SMOKE_CYCLES: u64 = 10_000;
/// A device on the bus.
const DEVICE: u32 = 0x8000_0000;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// A bus that is busy two cycles of eight, and a word behind it.
struct Device {
    word: u32,
}

impl Device {
    fn stall(cycle: u64) -> u64 {
        2_u64.saturating_sub(cycle % 8)
    }
}

impl Bus for Device {
    fn load(&mut self, cycle: u64, _: u32, _: Width) -> Reply {
        Reply::Done { value: self.word, stall: Self::stall(cycle) }
    }

    fn store(&mut self, cycle: u64, _: u32, _: Width, value: u32) -> Reply {
        self.word = self.word.rotate_left(1) ^ value;
        Reply::Done { value: 0, stall: Self::stall(cycle) }
    }

    fn wait(&mut self, cycle: u64) -> Wake {
        Wake::At { cycle: cycle + 100, vector: None }
    }
}

/// An endless loop: its prologue, and the repeated part.
struct Program {
    name: &'static str,
    setup: Vec<u32>,
    body: Vec<u32>,
    profiled: bool,
}

impl Program {
    fn new(name: &'static str, setup: Vec<u32>, body: Vec<u32>) -> Self {
        Self { name, setup, body, profiled: false }
    }

    fn core(&self) -> Core {
        let mut code = li(A0, DATA_AT).to_vec();
        code.extend(li(A1, DEVICE));
        code.extend(&self.setup);
        code.extend(&self.body);
        code.push(jal(ZERO, -4 * self.body.len() as i32));
        let mut core = Core::new(&Image::of_code(&code), Config::default()).expect("it fits");
        if self.profiled {
            core.start_profile();
        }
        core
    }
}

/// The Internet checksum of 1 KiB of data memory, by halves, and its store.
fn checksum() -> Vec<u32> {
    vec![
        addi(T0, A0, 0),
        addi(A2, A0, 1024),
        load(HU, T1, T0, 0),
        op(ADD, T2, T2, T1),
        load(HU, T1, T0, 2),
        op(ADD, T2, T2, T1),
        addi(T0, T0, 4),
        branch(BNE, T0, A2, -20),
        opi(SRL, T1, T2, 16),
        opi(SLL, T2, T2, 16),
        opi(SRL, T2, T2, 16),
        op(ADD, T2, T2, T1),
        store(W, T2, A0, 512),
    ]
}

/// An unpredictable branch: on a bit of a xorshift generator.
fn unpredictable() -> Vec<u32> {
    vec![
        opi(SLL, T1, T0, 13),
        op(XOR, T0, T0, T1),
        opi(SRL, T1, T0, 17),
        op(XOR, T0, T0, T1),
        opi(SLL, T1, T0, 5),
        op(XOR, T0, T0, T1),
        opi(AND, T1, T0, 1),
        branch(BEQ, T1, ZERO, 8),
        addi(T2, T2, 1),
        store(W, T0, A0, 0),
    ]
}

/// Six instructions of eight inside, one load and one store outside.
fn outside() -> Vec<u32> {
    vec![
        load(W, T0, A1, 0),
        addi(T0, T0, 1),
        store(W, T0, A0, 0),
        load(W, T1, A0, 0),
        op(ADD, T2, T2, T1),
        store(W, T2, A1, 4),
        op(XOR, T2, T2, T0),
    ]
}

fn programs() -> Vec<Program> {
    let seed = vec![addi(T0, ZERO, 1)];
    vec![
        Program::new("checksum of data memory", Vec::new(), checksum()),
        Program::new("mixed instructions", Vec::new(), mixed()),
        Program { profiled: true, ..Program::new("mixed, profiled", Vec::new(), mixed()) },
        Program::new("unpredictable branch", seed, unpredictable()),
        Program::new("two of eight outside", Vec::new(), outside()),
        Program::new("asleep, 100 of 102", Vec::new(), vec![WFI]),
    ]
}

/// Registers and data memory in one number (FNV-1a).
fn hash(core: &Core) -> u64 {
    let registers = (0..32).flat_map(|number| core.register(number).to_le_bytes());
    let bytes = registers.chain(core.data().iter().copied()).chain(core.cycle().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Runs `program` for `cycles` and gives millions of cycles a second, of instructions a second,
/// and the hash of its end.
fn round(program: &Program, cycles: u64) -> (f64, f64, u64) {
    let (mut core, mut device) = (program.core(), Device { word: 1 });
    let begun = clock();
    let stop = core.run(&mut device, cycles).expect("no fault");
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(stop, Stop::Reached, "{}", program.name);
    let per_second = |count: u64| count as f64 / seconds / 1e6;
    (per_second(core.cycle()), per_second(core.cycles().busy), hash(&core))
}

fn main() {
    let (mut smoke, mut rounds, mut only) = (false, 9, String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--smoke" => smoke = true,
            "--rounds" => {
                let count = arguments.next().and_then(|text| text.parse::<usize>().ok());
                rounds = count.expect("--rounds takes a number").max(1);
            }
            "--only" => only = arguments.next().expect("--only takes a name"),
            // Cargo adds --bench.
            _ => {}
        }
    }
    let mut programs = programs();
    programs.retain(|program| program.name.contains(&only));
    if smoke {
        let ends = programs.iter().map(|program| round(program, SMOKE_CYCLES).2);
        println!("hash {:016x}", ends.fold(0, |all: u64, end| all.rotate_left(1) ^ end));
        return;
    }
    let mut results = vec![Vec::new(); programs.len()];
    for _ in 0..rounds {
        for (program, results) in programs.iter().zip(&mut results) {
            results.push(round(program, CYCLES));
        }
    }
    println!(
        "{:25} {:>10} {:>10} {:>14}",
        "million in a second of", "cycles", "best", "instructions"
    );
    for (program, results) in programs.iter().zip(&mut results) {
        results.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (median, best) = (results[results.len() / 2], results[results.len() - 1]);
        println!("{:25} {:10.0} {:10.0} {:14.0}", program.name, median.0, best.0, median.1);
    }
}
