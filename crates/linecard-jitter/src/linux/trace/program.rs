//! BPF programs that write events into a log per core (RFC 9669 defines the instructions).
//!
//! A record costs one clock read, one atomic addition and four stores: no lock, no wakeup of a
//! reader, no copy. The log of a core is read at the end of the trace; the addition also counts
//! records that do not fit.

use super::probes::Kind;
use linecard_io::sys::tracing::instruction;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Words of a record: time; kind and first value; second value; third value.
pub(super) const RECORD_WORDS: usize = 4;
/// Words per counter: each core's counter has its own cache line.
pub(super) const COUNTER_WORDS: usize = 8;
/// Bytes that a program can reach from one address: less than 2^29.
pub(super) const MAX_BYTES: usize = (1 << 29) - 4_096;

/// Registers.
pub(super) const R0: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R3: u8 = 3;
const R4: u8 = 4;
/// The arguments of the tracepoint, until the record begins.
pub(super) const CONTEXT: u8 = 6;
/// The first value of a record, 32 bits.
pub(super) const FIRST: u8 = 7;
/// The second value.
pub(super) const SECOND: u8 = 8;
/// The third value.
pub(super) const THIRD: u8 = 9;
const STACK: u8 = 10;

/// Kernel helper functions from `linux/bpf.h`.
const KTIME_GET_NS: i32 = 5;
const GET_SMP_PROCESSOR_ID: i32 = 8;
const PROBE_READ_KERNEL: i32 = 113;
const RINGBUF_OUTPUT: i32 = 130;
/// Flag for the last one: do not wake a reader.
const NO_WAKEUP: i32 = 1;

/// Load sizes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// The log that records go to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log<'a> {
    pub(super) map: BorrowedFd<'a>,
    /// The traced cores, each with its own log, in this order.
    pub(super) cores: &'a [u16],
    /// Records per core: a power of two if new ones overwrite the oldest.
    pub(super) capacity: usize,
    pub(super) overwrites: bool,
}

/// A program under construction.
pub(super) struct Program {
    code: Vec<[u8; 8]>,
    /// Jumps to the end.
    exits: Vec<usize>,
}

impl Program {
    /// A program that has saved its context.
    pub(super) fn new() -> Self {
        let mut program = Self { code: Vec::new(), exits: Vec::new() };
        program.copy(CONTEXT, R1);
        program.set(FIRST, 0);
        program.set(SECOND, 0);
        program.set(THIRD, 0);
        program
    }

    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.code.push(instruction(code, to, from, offset, value));
    }

    pub(super) fn set(&mut self, to: u8, value: i32) {
        self.push(0xB7, to, 0, 0, value);
    }

    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.push(0xBF, to, from, 0, 0);
    }

    pub(super) fn add(&mut self, to: u8, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    pub(super) fn shift_left(&mut self, to: u8, bits: i32) {
        self.push(0x67, to, 0, 0, bits);
    }

    pub(super) fn and(&mut self, to: u8, value: i32) {
        self.push(0x57, to, 0, 0, value);
    }

    pub(super) fn or(&mut self, to: u8, from: u8) {
        self.push(0x4F, to, from, 0, 0);
    }

    /// `to = argument n of the tracepoint`.
    pub(super) fn argument(&mut self, to: u8, n: i16) {
        self.push(0x79, to, CONTEXT, 8 * n, 0);
    }

    /// Loads from the stack, `at` bytes below its top.
    pub(super) fn load(&mut self, size: Size, to: u8, at: i16) {
        self.push(0x61 | size as u8, to, STACK, -at, 0);
    }

    /// Copies `len` bytes from the kernel address in R3 to the stack, `at` bytes below its top.
    /// Bytes that cannot be read become zeros.
    pub(super) fn read_kernel(&mut self, at: i16, len: i32) {
        self.copy(R1, STACK);
        self.add(R1, -i32::from(at));
        self.set(R2, len);
        self.call(PROBE_READ_KERNEL);
    }

    /// Converts a big-endian number of 64 bits on a little-endian machine.
    pub(super) fn big_endian(&mut self, register: u8) {
        self.push(0xDC, register, 0, 0, 64);
    }

    fn call(&mut self, function: i32) {
        self.push(0x85, 0, 0, 0, function);
    }

    /// Ends the program unless the register's lower half has this value.
    pub(super) fn only_if(&mut self, register: u8, value: u32) {
        // JEQ in 32 bits, over the jump to the end.
        self.push(0x16, register, 0, 1, value.cast_signed());
        self.leave();
    }

    /// Ends the program if the register is 0.
    pub(super) fn unless_zero(&mut self, register: u8) {
        self.push(0x55, register, 0, 1, 0);
        self.leave();
    }

    /// `to = 1` if the register's lower half is zero, else 0.
    pub(super) fn is_zero(&mut self, to: u8, register: u8) {
        self.set(to, 1);
        self.push(0x16, register, 0, 1, 0);
        self.set(to, 0);
    }

    /// Continues only if the register's lower half is one of these values.
    pub(super) fn only_if_any(&mut self, register: u8, values: &[u32]) {
        for (index, value) in values.iter().enumerate() {
            let behind = (values.len() - index) as i16;
            self.push(0x16, register, 0, behind, value.cast_signed());
        }
        self.leave();
    }

    fn leave(&mut self) {
        self.exits.push(self.code.len());
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Appends the record, and completes the program.
    pub(super) fn record(mut self, kind: u8, log: Log<'_>) -> Vec<[u8; 8]> {
        self.call(KTIME_GET_NS);
        self.copy(CONTEXT, R0);
        self.slot(log.cores);
        self.log_address(log.map, 0);
        self.copy(R3, R1);
        self.shift_left(R3, (COUNTER_WORDS * 8).ilog2() as i32);
        self.push(0x0F, R2, R3, 0, 0);
        if kind == Kind::Switch as u8 {
            // The second word of the counter says which thread has the core: also once this record is overwritten.
            self.set(R4, 1);
            self.shift_left(R4, 32);
            self.or(R4, FIRST);
            self.push(0x7B, R2, R4, 8, 0);
        }
        self.set(R4, 1);
        // Fetch-and-add: a program that interrupts this one gets the next slot.
        self.push(0xDB, R2, R4, 0, 0x01);
        if log.overwrites {
            self.and(R4, log.capacity as i32 - 1);
        } else {
            self.push(0xA5, R4, 0, 1, log.capacity as i32);
            self.leave();
        }
        self.shift_left(R4, (RECORD_WORDS * 8).ilog2() as i32);
        self.push(0x27, R1, 0, 0, (log.capacity * RECORD_WORDS * 8) as i32);
        self.push(0x0F, R1, R4, 0, 0);
        self.log_address(log.map, (log.cores.len() * COUNTER_WORDS * 8) as i32);
        self.push(0x0F, R2, R1, 0, 0);
        self.shift_left(FIRST, 32);
        self.push(0x47, FIRST, 0, 0, i32::from(kind));
        for (index, register) in [CONTEXT, FIRST, SECOND, THIRD].into_iter().enumerate() {
            self.push(0x7B, R2, register, 8 * index as i16, 0);
        }
        self.end()
    }

    /// Writes the same record into the kernel's ring buffer, for comparison.
    pub(super) fn output(mut self, kind: u8, ring: BorrowedFd<'_>) -> Vec<[u8; 8]> {
        self.call(KTIME_GET_NS);
        self.shift_left(FIRST, 32);
        self.push(0x47, FIRST, 0, 0, i32::from(kind));
        let len = (RECORD_WORDS * 8) as i16;
        for (at, register) in (0..len).step_by(8).zip([R0, FIRST, SECOND, THIRD]) {
            self.push(0x7B, STACK, register, at - len, 0);
        }
        // BPF_PSEUDO_MAP_FD.
        self.push(0x18, R1, 1, 0, ring.as_raw_fd());
        self.push(0, 0, 0, 0, 0);
        self.copy(R2, STACK);
        self.add(R2, -i32::from(len));
        self.set(R3, len.into());
        self.set(R4, NO_WAKEUP);
        self.call(RINGBUF_OUTPUT);
        self.end()
    }

    /// Appends the target of the early exits.
    fn end(mut self) -> Vec<[u8; 8]> {
        let end = self.code.len();
        for at in std::mem::take(&mut self.exits) {
            self.code[at] = instruction(0x05, 0, 0, (end - at - 1) as i16, 0);
        }
        self.set(R0, 0);
        self.push(0x95, 0, 0, 0, 0);
        self.code
    }

    /// `R1 =` index of this core's log; ends the program on other cores.
    fn slot(&mut self, cores: &[u16]) {
        self.call(GET_SMP_PROCESSOR_ID);
        if cores.iter().copied().eq(0..cores.len() as u16) {
            self.push(0xA5, R0, 0, 1, cores.len() as i32);
            self.leave();
            return self.copy(R1, R0);
        }
        for (slot, core) in cores.iter().enumerate() {
            self.set(R1, slot as i32);
            let behind = 2 * (cores.len() - slot) as i16 - 1;
            self.push(0x15, R0, 0, behind, i32::from(*core));
        }
        self.leave();
    }

    /// `R2 =` the address of this byte of the log.
    fn log_address(&mut self, map: BorrowedFd<'_>, offset: i32) {
        // BPF_PSEUDO_MAP_VALUE: a 64-bit constant that the kernel replaces with an address.
        self.push(0x18, R2, 2, 0, map.as_raw_fd());
        self.push(0, 0, 0, 0, offset);
    }
}
