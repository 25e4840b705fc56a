//! Random programs: arithmetic, memory, branches, jumps and loops that end, all random but the registers that control
//! them.

use crate::assembler::*;
use linecard::rng::Rng;
use linecard_model::rv32::DATA_AT;

/// Bytes of data memory that a program writes out: a playground, then its registers.
pub(crate) const AREA: usize = PLAYGROUND + 4 * 32;
const PLAYGROUND: usize = 512;
/// Instructions of a body, about.
const BODY: usize = 150;
/// Holds the middle of the playground; never written.
const BASE: u32 = 31;
/// Counts loops; written by nothing else.
const COUNT: u32 = 30;

/// A program: it fills all registers, does something, and writes the area out by Linux's `write`.
pub(crate) fn random(rng: &mut Rng) -> Vec<u32> {
    let mut code: Vec<u32> = (1..BASE).flat_map(|rd| li(rd, operand(rng))).collect();
    code.extend(li(BASE, DATA_AT + PLAYGROUND as u32 / 2));
    let end = code.len() + BODY;
    while code.len() < end {
        piece(rng, &mut code);
    }
    for register in 0..32 {
        code.push(store(W, register, BASE, (PLAYGROUND / 2) as i32 + 4 * register as i32));
    }
    code.extend([addi(A0, ZERO, 1), lui(A1, DATA_AT), addi(A2, ZERO, AREA as i32)]);
    code.extend([addi(A7, ZERO, 64), ECALL]);
    code
}

/// Ends the process, after the last program.
pub(crate) fn exit() -> [u32; 3] {
    [addi(A0, ZERO, 0), addi(A7, ZERO, 93), ECALL]
}

/// Meaning of the word at offset `at` of the area.
pub(crate) fn place(at: usize) -> String {
    match at.checked_sub(PLAYGROUND) {
        Some(offset) => format!("x{}", offset / 4),
        None => format!("memory at {:#x}", DATA_AT as usize + at),
    }
}

/// Any word, many of them instructions: with an opcode of RV32I, some with bits that fit it.
pub(crate) fn word(rng: &mut Rng) -> u32 {
    const OPCODES: [u32; 11] = [0x37, 0x17, 0x6f, 0x67, 0x63, 0x03, 0x23, 0x13, 0x33, 0x0f, 0x73];
    let any = rng.next_u64() as u32;
    let opcode = OPCODES[rng.below(11) as usize];
    match rng.below(8) {
        // Those of other lengths would put all that follow out of step.
        0 if any & 0x1c != 0x1c => any | 3,
        1 => [ECALL, EBREAK, WFI, FENCE, 0x3020_0073, 0x0000_100f][rng.below(6) as usize],
        2 | 3 => any & !0x7f | opcode,
        // The upper seven bits are a function of arithmetic.
        _ => any & 0x41ff_ff80 | opcode,
    }
}

/// A value at an edge as often as not.
fn operand(rng: &mut Rng) -> u32 {
    const EDGES: [u32; 8] = [0, 1, u32::MAX, 1 << 31, (1 << 31) - 1, 0xff80, 0x7fff, 31];
    let any = rng.next_u64() as u32;
    if any & 1 == 0 { any } else { EDGES[rng.below(8) as usize] }
}

fn below(rng: &mut Rng, bound: u64) -> u32 {
    rng.below(bound) as u32
}

/// A register to be written: none that the program depends on, now and then x0.
fn target(rng: &mut Rng) -> u32 {
    below(rng, u64::from(COUNT))
}

fn source(rng: &mut Rng) -> u32 {
    below(rng, 32)
}

fn piece(rng: &mut Rng, code: &mut Vec<u32>) {
    match rng.below(16) {
        0 | 1 => forward(rng, code),
        2 => around(rng, code),
        3 => repeat(rng, code),
        _ => code.push(straight(rng)),
    }
}

/// An instruction that does not jump.
fn straight(rng: &mut Rng) -> u32 {
    let (rd, rs1, rs2) = (target(rng), source(rng), source(rng));
    let function = below(rng, 8);
    let other = [0, OTHER][rng.below(2) as usize];
    let imm = below(rng, 4096) as i32 - 2048;
    match rng.below(10) {
        0..3 if matches!(function, ADD | SRL) => op(function | other, rd, rs1, rs2),
        0..3 => op(function, rd, rs1, rs2),
        3..6 if function == SRL => opi(SRL | other, rd, rs1, imm & 31),
        3..6 if function == SLL => opi(SLL, rd, rs1, imm & 31),
        3..6 => opi(function, rd, rs1, imm),
        6 => [lui, auipc][rng.below(2) as usize](rd, rng.next_u64() as u32),
        7 => [FENCE, addi(ZERO, rs1, imm)][rng.below(2) as usize],
        8 => {
            let width = [B, H, W, BU, HU][rng.below(5) as usize];
            load(width, rd, BASE, offset(rng, width))
        }
        _ => {
            let width = below(rng, 3);
            store(width, rs2, BASE, offset(rng, width))
        }
    }
}

/// Of an access inside the playground, aligned.
fn offset(rng: &mut Rng, width: u32) -> i32 {
    (below(rng, PLAYGROUND as u64) as i32 & -(1 << (width & 3))) - PLAYGROUND as i32 / 2
}

/// A branch over some instructions, or a `jal`.
fn forward(rng: &mut Rng, code: &mut Vec<u32>) {
    let skipped = below(rng, 6) as i32;
    let offset = 4 * (skipped + 1);
    let condition = [BEQ, BNE, BLT, BGE, BLTU, BGEU][rng.below(6) as usize];
    let same = rng.below(4) == 0;
    let rs1 = source(rng);
    let rs2 = if same { rs1 } else { source(rng) };
    code.push(match rng.below(4) {
        0 => jal(target(rng), offset),
        _ => branch(condition, rs1, rs2, offset),
    });
    code.extend((0..skipped).map(|_| straight(rng)));
}

/// `auipc` and `jalr` over some instructions, now and then to the odd address.
fn around(rng: &mut Rng, code: &mut Vec<u32>) {
    let skipped = below(rng, 6) as i32;
    let base = 1 + below(rng, u64::from(COUNT) - 1);
    let odd = below(rng, 2) as i32;
    code.extend([auipc(base, 0), jalr(target(rng), base, 8 + 4 * skipped + odd)]);
    code.extend((0..skipped).map(|_| straight(rng)));
}

/// Some instructions, some times.
fn repeat(rng: &mut Rng, code: &mut Vec<u32>) {
    let (rounds, len) = (1 + below(rng, 8) as i32, 1 + below(rng, 6) as i32);
    code.push(addi(COUNT, ZERO, rounds));
    code.extend((0..len).map(|_| straight(rng)));
    code.extend([addi(COUNT, COUNT, -1), branch(BNE, COUNT, ZERO, -4 * (len + 1))]);
}
