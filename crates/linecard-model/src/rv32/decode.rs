//! Decodes instruction words once, before they run.
//!
//! Operands are laid out so that few operations remain: the second operand of arithmetic is always
//! register `rs2` plus `imm`, of which one is 0, and branches know their target's address.
//! RISC-V ISA manual, volume I: formats in 2.2 and 2.3, opcodes in the table "RV32I Base
//! Instruction Set".

/// One instruction, ready to execute: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) kind: Kind,
    /// Destination register: [`SINK`] instead of x0.
    pub(super) rd: u8,
    pub(super) rs1: u8,
    pub(super) rs2: u8,
    /// The meaning of `kind`.
    pub(super) imm: u32,
}

/// Receives writes to x0, so that x0 stays 0 without a branch.
pub(super) const SINK: u8 = 32;

/// Operation of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    // rd = rs1 ∘ (rs2 + imm)
    Add,
    Sub,
    Sll,
    Slt,
    Sltu,
    Xor,
    Srl,
    Sra,
    Or,
    And,
    // rd = memory at rs1 + imm
    Lb,
    Lh,
    Lw,
    Lbu,
    Lhu,
    // memory at rs1 + imm = rs2
    Sb,
    Sh,
    Sw,
    // to address imm if rs1 ∘ rs2
    Beq,
    Bne,
    Blt,
    Bge,
    Bltu,
    Bgeu,
    /// To address imm.
    Jal,
    /// To rs1 + imm.
    Jalr,
    Wfi,
    Ecall,
    Ebreak,
    /// imm is the word.
    Illegal,
}

const ALU: [Kind; 8] =
    [Kind::Add, Kind::Sll, Kind::Slt, Kind::Sltu, Kind::Xor, Kind::Srl, Kind::Or, Kind::And];

impl Op {
    /// The instruction `word` at address `pc`.
    pub(super) fn decode(word: u32, pc: u32) -> Self {
        let rd = match bits(word, 7, 5) {
            0 => SINK,
            rd => rd,
        };
        let (rs1, rs2) = (bits(word, 15, 5), bits(word, 20, 5));
        let function = usize::from(bits(word, 12, 3));
        let with = |kind, imm| Self { kind, rd, rs1, rs2, imm };
        // Of lui, auipc and fence, which take no register: rd = 0 + 0 + imm.
        let constant = |rd, imm| Self { kind: Kind::Add, rd, rs1: 0, rs2: 0, imm };
        let illegal = Self { kind: Kind::Illegal, rd: SINK, rs1: 0, rs2: 0, imm: word };
        let found = match word & 0x7f {
            0x37 => Some(constant(rd, word & !0xfff)),
            0x17 => Some(constant(rd, pc.wrapping_add(word & !0xfff))),
            0x0f if function == 0 => Some(constant(SINK, 0)),
            0x13 => immediate(word, function).map(|(kind, imm)| Self { rs2: 0, ..with(kind, imm) }),
            0x33 => register(word, function).map(|kind| with(kind, 0)),
            0x03 => load(function).map(|kind| with(kind, i_immediate(word))),
            0x23 => store(function).map(|kind| with(kind, s_immediate(word))),
            0x63 => branch(function).map(|kind| with(kind, pc.wrapping_add(b_immediate(word)))),
            0x6f => Some(with(Kind::Jal, pc.wrapping_add(j_immediate(word)))),
            0x67 if function == 0 => Some(with(Kind::Jalr, i_immediate(word))),
            0x73 => system(word).map(|kind| with(kind, 0)),
            _ => None,
        };
        found.unwrap_or(illegal)
    }
}

fn immediate(word: u32, function: usize) -> Option<(Kind, u32)> {
    let (kind, imm) = (ALU[function], i_immediate(word));
    match (kind, word >> 25) {
        // The manual assigns the other bits of a shift's immediate to its kind.
        (Kind::Sll | Kind::Srl, 0) => Some((kind, imm & 31)),
        (Kind::Srl, 0x20) => Some((Kind::Sra, imm & 31)),
        (Kind::Sll | Kind::Srl, _) => None,
        _ => Some((kind, imm)),
    }
}

fn register(word: u32, function: usize) -> Option<Kind> {
    match (ALU[function], word >> 25) {
        (kind, 0) => Some(kind),
        (Kind::Add, 0x20) => Some(Kind::Sub),
        (Kind::Srl, 0x20) => Some(Kind::Sra),
        _ => None,
    }
}

fn load(function: usize) -> Option<Kind> {
    let kinds =
        [Some(Kind::Lb), Some(Kind::Lh), Some(Kind::Lw), None, Some(Kind::Lbu), Some(Kind::Lhu)];
    kinds.get(function).copied().flatten()
}

fn store(function: usize) -> Option<Kind> {
    [Kind::Sb, Kind::Sh, Kind::Sw].get(function).copied()
}

fn branch(function: usize) -> Option<Kind> {
    match function {
        0 => Some(Kind::Beq),
        1 => Some(Kind::Bne),
        4 => Some(Kind::Blt),
        5 => Some(Kind::Bge),
        6 => Some(Kind::Bltu),
        7 => Some(Kind::Bgeu),
        _ => None,
    }
}

fn system(word: u32) -> Option<Kind> {
    match word {
        0x0000_0073 => Some(Kind::Ecall),
        0x0010_0073 => Some(Kind::Ebreak),
        0x1050_0073 => Some(Kind::Wfi),
        _ => None,
    }
}

const fn bits(word: u32, first: u32, count: u32) -> u8 {
    (word >> first & ((1 << count) - 1)) as u8
}

/// `word >> shift`, with its sign.
const fn signed(word: u32, shift: u32) -> u32 {
    (word.cast_signed() >> shift).cast_unsigned()
}

const fn i_immediate(word: u32) -> u32 {
    signed(word, 20)
}

const fn s_immediate(word: u32) -> u32 {
    signed(word, 20) & !31 | word >> 7 & 31
}

const fn b_immediate(word: u32) -> u32 {
    signed(word, 19) & !0xfff | word << 4 & 0x800 | word >> 20 & 0x7e0 | word >> 7 & 0x1e
}

const fn j_immediate(word: u32) -> u32 {
    signed(word, 11) & !0xf_ffff | word & 0xf_f000 | word >> 9 & 0x800 | word >> 20 & 0x7fe
}
