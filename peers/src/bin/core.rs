//! The modelled RV32I core beside another simulator of the instruction set, which counts no cycles:
//!
//!     taskset -c 1 cargo run --release --manifest-path peers/Cargo.toml --bin core
//!
//! Both run the same loop for the same number of instructions, in turns, and have to end with the same
//! registers.

#[path = "../../../crates/linecard-model/tests/common/rv32.rs"]
mod rv32;

use linecard_model::rv32::{Bus, Config, Core, DATA_AT, Image, Reply, Wake, Width};
use rrs_lib::HartState;
use rrs_lib::instruction_executor::InstructionExecutor;
use rrs_lib::memories::VecMemory;
use rv32::*;
use std::time::Instant;

const INSTRUCTIONS: u64 = 20_000_000;
const ROUNDS: usize = 9;

/// Nobody is there.
struct Nothing;

impl Bus for Nothing {
    fn load(&mut self, _: u64, _: u32, _: Width) -> Reply {
        Reply::Refused
    }

    fn store(&mut self, _: u64, _: u32, _: Width, _: u32) -> Reply {
        Reply::Refused
    }

    fn wait(&mut self, _: u64) -> Wake {
        Wake::Blocked
    }
}

/// The loop of the benchmark `model`, endlessly.
fn program() -> Vec<u32> {
    let body = mixed();
    let mut code = li(A0, DATA_AT).to_vec();
    code.extend(&body);
    code.push(jal(ZERO, -4 * body.len() as i32));
    code
}

/// Millions of instructions a second, and the registers at the end.
fn ours(code: &[u32]) -> (f64, Vec<u32>) {
    // Without bubbles an instruction is a cycle.
    let config = Config { bubbles: 0, ..Config::default() };
    let mut core = Core::new(&Image::of_code(code), config).expect("it fits");
    let begun = Instant::now();
    core.run(&mut Nothing, INSTRUCTIONS).expect("no fault");
    let seconds = begun.elapsed().as_secs_f64();
    (INSTRUCTIONS as f64 / seconds / 1e6, (0..32).map(|number| core.register(number)).collect())
}

fn theirs(code: &[u32]) -> (f64, Vec<u32>) {
    let mut words = code.to_vec();
    words.resize((DATA_AT as usize + 4096) / 4, 0);
    let (mut memory, mut hart) = (VecMemory::new(words), HartState::new());
    hart.pc = 0;
    let mut executor = InstructionExecutor { mem: &mut memory, hart_state: &mut hart };
    let begun = Instant::now();
    for _ in 0..INSTRUCTIONS {
        executor.step().expect("no exception");
    }
    let seconds = begun.elapsed().as_secs_f64();
    (INSTRUCTIONS as f64 / seconds / 1e6, hart.registers.to_vec())
}

fn main() {
    let code = program();
    let (mut rates, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (a, b) = (ours(&code), theirs(&code));
        assert_eq!(a.1, b.1, "the same registers");
        rates.push(a.0);
        others.push(b.0);
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (ours, theirs) = (median(&mut rates), median(&mut others));
    println!("million instructions a second, median of {ROUNDS} rounds in turns");
    println!("  linecard, with cycles   {ours:8.0}");
    println!("  rrs-lib 0.1, without    {theirs:8.0}");
    println!("  ratio                   {:8.2}", ours / theirs);
}
