//! An assembler in one page: words from fields. RISC-V ISA manual, volume I, 2.2 to 2.8.
#![expect(dead_code, reason = "each user needs some of it")]

/// Registers by their names in the calling convention.
pub(crate) const ZERO: u32 = 0;
pub(crate) const RA: u32 = 1;
pub(crate) const T0: u32 = 5;
pub(crate) const T1: u32 = 6;
pub(crate) const T2: u32 = 7;
pub(crate) const A0: u32 = 10;
pub(crate) const A1: u32 = 11;
pub(crate) const A2: u32 = 12;
pub(crate) const A3: u32 = 13;
pub(crate) const A7: u32 = 17;

pub(crate) const ECALL: u32 = 0x0000_0073;
pub(crate) const EBREAK: u32 = 0x0010_0073;
pub(crate) const WFI: u32 = 0x1050_0073;
pub(crate) const FENCE: u32 = 0x0ff0_000f;

/// `funct3` of arithmetic.
pub(crate) const ADD: u32 = 0;
pub(crate) const SLL: u32 = 1;
pub(crate) const SLT: u32 = 2;
pub(crate) const SLTU: u32 = 3;
pub(crate) const XOR: u32 = 4;
pub(crate) const SRL: u32 = 5;
pub(crate) const OR: u32 = 6;
pub(crate) const AND: u32 = 7;
/// Added to `funct3` for `sub` and `sra`.
pub(crate) const OTHER: u32 = 0x20 << 3;

/// `funct3` of branches.
pub(crate) const BEQ: u32 = 0;
pub(crate) const BNE: u32 = 1;
pub(crate) const BLT: u32 = 4;
pub(crate) const BGE: u32 = 5;
pub(crate) const BLTU: u32 = 6;
pub(crate) const BGEU: u32 = 7;

/// `funct3` of loads and stores.
pub(crate) const B: u32 = 0;
pub(crate) const H: u32 = 1;
pub(crate) const W: u32 = 2;
pub(crate) const BU: u32 = 4;
pub(crate) const HU: u32 = 5;

/// Register with register.
pub(crate) fn op(function: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    function >> 3 << 25 | rs2 << 20 | rs1 << 15 | (function & 7) << 12 | rd << 7 | 0x33
}

/// Register with immediate, shifts too.
pub(crate) fn opi(function: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    let imm = imm as u32 & 0xfff | function >> 3 << 5;
    imm << 20 | rs1 << 15 | (function & 7) << 12 | rd << 7 | 0x13
}

pub(crate) fn addi(rd: u32, rs1: u32, imm: i32) -> u32 {
    opi(ADD, rd, rs1, imm)
}

pub(crate) fn load(width: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm as u32) << 20 | rs1 << 15 | width << 12 | rd << 7 | 0x03
}

pub(crate) fn store(width: u32, rs2: u32, rs1: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    (imm >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | width << 12 | (imm & 31) << 7 | 0x23
}

pub(crate) fn branch(condition: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let imm = offset as u32;
    let high = (imm >> 12 & 1) << 31 | (imm >> 5 & 0x3f) << 25;
    let low = (imm >> 1 & 15) << 8 | (imm >> 11 & 1) << 7;
    high | rs2 << 20 | rs1 << 15 | condition << 12 | low | 0x63
}

pub(crate) fn jal(rd: u32, offset: i32) -> u32 {
    let imm = offset as u32;
    let high = (imm >> 20 & 1) << 31 | (imm >> 1 & 0x3ff) << 21;
    high | (imm >> 11 & 1) << 20 | (imm >> 12 & 0xff) << 12 | rd << 7 | 0x6f
}

pub(crate) fn jalr(rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm as u32) << 20 | rs1 << 15 | rd << 7 | 0x67
}

pub(crate) fn lui(rd: u32, value: u32) -> u32 {
    value & !0xfff | rd << 7 | 0x37
}

pub(crate) fn auipc(rd: u32, value: u32) -> u32 {
    value & !0xfff | rd << 7 | 0x17
}

/// `li`: any constant in two instructions.
pub(crate) fn li(rd: u32, value: u32) -> [u32; 2] {
    // addi adds with its sign, so that lui gives one more for its upper half.
    [lui(rd, value.wrapping_add(0x800)), addi(rd, rd, (value << 20) as i32 >> 20)]
}

/// Every kind of instruction by turns, and one branch taken of three.
pub(crate) fn mixed() -> Vec<u32> {
    vec![
        load(W, T0, A0, 0),
        addi(T0, T0, 77),
        store(W, T0, A0, 0),
        op(XOR, T1, T1, T0),
        opi(SLL, T2, T1, 3),
        load(BU, A2, A0, 1),
        op(SLTU, A3, T2, T0),
        branch(BEQ, ZERO, A0, 8),
        op(ADD, T1, T1, A3),
        store(B, T1, A0, 5),
        branch(BNE, A0, ZERO, 8),
        addi(T1, T1, 1),
        load(H, A2, A0, 4),
        branch(BLT, A0, ZERO, 8),
        op(OR, A3, A2, T1),
    ]
}
