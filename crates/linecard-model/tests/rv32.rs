//! The core, instruction by instruction: boundary values, cycles, faults, waits on the bus.

#[path = "common/rv32.rs"]
mod assembler;

use assembler::*;
use linecard_model::rv32::{
    Access, Bus, Config, Core, Counts, Cycles, DATA_AT, Fault, FaultKind, Image, LoadError, Reply,
    Segment, Stop, Timing, Wake, Width, annotate,
};

/// The environment: answers given in advance, and what was asked.
#[derive(Default)]
struct Script {
    replies: Vec<Reply>,
    wakes: Vec<Wake>,
    seen: Vec<(u64, u32, Width, Option<u32>)>,
}

impl Script {
    fn access(&mut self, cycle: u64, address: u32, width: Width, value: Option<u32>) -> Reply {
        self.seen.push((cycle, address, width, value));
        if self.replies.is_empty() { Reply::Refused } else { self.replies.remove(0) }
    }
}

impl Bus for Script {
    fn load(&mut self, cycle: u64, address: u32, width: Width) -> Reply {
        self.access(cycle, address, width, None)
    }

    fn store(&mut self, cycle: u64, address: u32, width: Width, value: u32) -> Reply {
        self.access(cycle, address, width, Some(value))
    }

    fn wait(&mut self, _: u64) -> Wake {
        if self.wakes.is_empty() { Wake::Blocked } else { self.wakes.remove(0) }
    }
}

fn core(code: &[u32]) -> Core {
    Core::new(&Image::of_code(code), Config::default()).expect("an image that fits")
}

fn sum(cycles: Cycles) -> u64 {
    cycles.busy + cycles.stalled + cycles.bubbles + cycles.asleep
}

/// Runs one instruction at address 8 with `a0`, `a1`, and gives `a2`.
fn result(word: u32, a0: u32, a1: u32) -> u32 {
    let mut image = Image::of_code(&[EBREAK, EBREAK, word, EBREAK]);
    image.entry = 8;
    let mut core = Core::new(&image, Config::default()).expect("an image that fits");
    for (number, value) in [(10, a0), (11, a1), (12, 0xdead_beef)] {
        core.set_register(number, value);
    }
    assert_eq!(core.run(&mut Script::default(), 100), Ok(Stop::Halted), "{word:#010x}");
    assert_eq!((core.pc(), core.cycle()), (12, 1), "{word:#010x}");
    core.register(12)
}

/// Two operands and the result.
type Cases<B> = &'static [(u32, B, u32)];

const MIN: u32 = 0x8000_0000;
const MAX: u32 = 0x7fff_ffff;
const ONES: u32 = 0xffff_ffff;

/// Promise (Hardware model): The core executes RV32I: the tests of this file cover every
/// instruction.
#[test]
fn registers_with_registers() {
    // The function, and its results for pairs of operands.
    let table: [(u32, Cases<u32>); 10] = [
        (ADD, &[(1, 2, 3), (ONES, 1, 0), (MAX, 1, MIN), (MIN, MIN, 0), (5, ONES, 4)]),
        (ADD | OTHER, &[(3, 2, 1), (0, 1, ONES), (MIN, 1, MAX), (0, MIN, MIN), (7, 7, 0)]),
        (SLL, &[(1, 0, 1), (1, 31, MIN), (3, 31, MIN), (1, 32, 1), (1, 0xffff_ffe1, 2)]),
        (SRL, &[(MIN, 0, MIN), (MIN, 31, 1), (ONES, 31, 1), (MIN, 32, MIN), (ONES, 33, MAX)]),
        (
            SRL | OTHER,
            &[
                (MIN, 0, MIN),
                (MIN, 31, ONES),
                (MAX, 31, 0),
                (ONES, 5, ONES),
                (MIN, 33, 0xc000_0000),
            ],
        ),
        (SLT, &[(MIN, MAX, 1), (MAX, MIN, 0), (ONES, 0, 1), (0, ONES, 0), (5, 5, 0)]),
        (SLTU, &[(MIN, MAX, 0), (MAX, MIN, 1), (ONES, 0, 0), (0, ONES, 1), (5, 5, 0)]),
        (XOR, &[(ONES, ONES, 0), (0xff00_ff00, 0x0ff0_0ff0, 0xf0f0_f0f0)]),
        (OR, &[(MIN, 1, 0x8000_0001), (0xff00_ff00, 0x0ff0_0ff0, 0xfff0_fff0)]),
        (AND, &[(MIN, 1, 0), (0xff00_ff00, 0x0ff0_0ff0, 0x0f00_0f00)]),
    ];
    for (function, cases) in table {
        for &(a, b, expected) in cases {
            let got = result(op(function, A2, A0, A1), a, b);
            assert_eq!(got, expected, "function {function:#x} of {a:#x} and {b:#x}");
        }
    }
}

#[test]
fn registers_with_immediates() {
    let table: [(u32, Cases<i32>); 9] = [
        (ADD, &[(1, 2, 3), (0, -1, ONES), (MAX, 2047, 0x8000_07fe), (0, -2048, 0xffff_f800)]),
        (SLL, &[(1, 0, 1), (1, 31, MIN), (0x8000_0003, 1, 6)]),
        (SRL, &[(MIN, 0, MIN), (MIN, 31, 1), (ONES, 4, 0x0fff_ffff)]),
        (SRL | OTHER, &[(MIN, 0, MIN), (MIN, 31, ONES), (MAX, 4, 0x07ff_ffff)]),
        (SLT, &[(ONES, 0, 1), (0, -1, 0), (MIN, -2048, 1), (0xffff_f800, -2048, 0)]),
        // The immediate has its sign first, and is then unsigned.
        (SLTU, &[(0, 1, 1), (5, -1, 1), (ONES, -1, 0), (0xffff_f7ff, -2048, 1)]),
        (XOR, &[(5, -1, 0xffff_fffa), (0xff, 0x0f, 0xf0)]),
        (OR, &[(0, -2048, 0xffff_f800), (0xf0, 0x0f, 0xff)]),
        (AND, &[(ONES, -2048, 0xffff_f800), (0xff, 0x0f, 0x0f)]),
    ];
    for (function, cases) in table {
        for &(a, imm, expected) in cases {
            let got = result(opi(function, A2, A0, imm), a, 0);
            assert_eq!(got, expected, "function {function:#x} of {a:#x} and {imm}");
        }
    }
}

#[test]
fn constants_fences_and_x0() {
    assert_eq!(result(lui(A2, 0xffff_f000), 0, 0), 0xffff_f000);
    assert_eq!(result(lui(A2, 0x1000), 0, 0), 0x1000);
    // At address 8.
    assert_eq!(result(auipc(A2, 0x1000), 0, 0), 0x1008);
    assert_eq!(result(auipc(A2, 0xffff_f000), 0, 0), 0xffff_f008);
    assert_eq!(result(FENCE, 0, 0), 0xdead_beef);
    // Writes to x0 are discarded, whichever instruction makes them.
    let mut code = vec![lui(ZERO, 0x1000), auipc(ZERO, 0x1000), addi(ZERO, ZERO, 1)];
    code.extend([op(OR, ZERO, A0, A0), load(W, ZERO, A1, 0), jal(ZERO, 4), jalr(ZERO, ZERO, 28)]);
    code.extend([op(ADD, A2, ZERO, ZERO), EBREAK]);
    let mut core = core(&code);
    core.set_register(0, 9);
    core.set_register(10, ONES);
    core.set_register(11, DATA_AT);
    core.data_mut()[0] = 7;
    assert_eq!(core.run(&mut Script::default(), 100), Ok(Stop::Halted));
    assert_eq!((core.register(0), core.register(12), core.cycles().busy), (0, 0, 8));
}

#[test]
fn data_memory_takes_every_width() {
    let bytes = [0x80, 0x7f, 0xfe, 0xff, 0x01, 0x80, 0x34, 0x12];
    let loads: [(u32, i32, u32); 11] = [
        (B, 0, 0xffff_ff80),
        (B, 1, 0x7f),
        (B, 3, ONES),
        (BU, 0, 0x80),
        (BU, 3, 0xff),
        (H, 0, 0x7f80),
        (H, 2, 0xffff_fffe),
        (H, 4, 0xffff_8001),
        (HU, 4, 0x8001),
        (HU, 6, 0x1234),
        (W, 4, 0x1234_8001),
    ];
    for (width, offset, expected) in loads {
        // From both sides: offsets have a sign.
        for (base, imm) in [(0, offset), (2047, offset - 2047), (-24, offset + 24)] {
            let mut core = core(&[load(width, A2, A0, imm), EBREAK]);
            core.data_mut()[..8].copy_from_slice(&bytes);
            core.set_register(10, DATA_AT.wrapping_add_signed(base));
            assert_eq!(core.run(&mut Script::default(), 9), Ok(Stop::Halted));
            assert_eq!(core.register(12), expected, "width {width} at {offset}");
        }
    }
    let stores: [(u32, i32, [u8; 8]); 5] = [
        (B, 0, [0x44, 0, 0, 0, 0, 0, 0, 0]),
        (B, 3, [0, 0, 0, 0x44, 0, 0, 0, 0]),
        (H, 2, [0, 0, 0x44, 0x33, 0, 0, 0, 0]),
        (W, 0, [0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0]),
        (W, 4, [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]),
    ];
    for (width, offset, expected) in stores {
        for (base, imm) in [(0, offset), (2047, offset - 2047), (-24, offset + 24)] {
            let mut core = core(&[store(width, A1, A0, imm), EBREAK]);
            core.set_register(10, DATA_AT.wrapping_add_signed(base));
            core.set_register(11, 0x1122_3344);
            assert_eq!(core.run(&mut Script::default(), 9), Ok(Stop::Halted));
            assert_eq!(core.data()[..8], expected, "width {width} at {offset}");
        }
    }
}

#[test]
fn branches_go_by_their_condition_and_cost_bubbles_when_taken() {
    // Equal, less with a sign, less without.
    let pairs = [(7, 7), (MIN, MAX), (MAX, MIN), (ONES, 0), (0, ONES), (1, 2), (2, 1)];
    for (a, b) in pairs {
        let (less, below) = (a.cast_signed() < b.cast_signed(), a < b);
        let table = [
            (BEQ, a == b),
            (BNE, a != b),
            (BLT, less),
            (BGE, !less),
            (BLTU, below),
            (BGEU, !below),
        ];
        for (condition, taken) in table {
            for (offset, bubbles) in [(8, 0), (8, 1), (-8, 2)] {
                let code = [EBREAK, EBREAK, branch(condition, A0, A1, offset), EBREAK, EBREAK];
                let image = Image { entry: 8, ..Image::of_code(&code) };
                let config = Config { timing: Timing::pipelined(bubbles), ..Config::default() };
                let mut core = Core::new(&image, config).expect("an image that fits");
                core.set_register(10, a);
                core.set_register(11, b);
                assert_eq!(core.run(&mut Script::default(), 99), Ok(Stop::Halted));
                let (pc, lost) = if taken { ((8 + offset) as u32, bubbles) } else { (12, 0) };
                let what = format!("condition {condition} of {a:#x}, {b:#x}");
                assert_eq!(core.pc(), pc, "{what}");
                let expected = Cycles { busy: 1, bubbles: lost, ..Cycles::default() };
                assert_eq!(core.cycles(), expected, "{what}");
            }
        }
    }
}

#[test]
fn branches_and_jumps_reach_as_far_as_they_say() {
    for (word, target) in [
        (branch(BEQ, ZERO, ZERO, 4094 & !3), 0x8000 + 4092),
        (branch(BEQ, ZERO, ZERO, -4096), 0x8000 - 4096),
        (jal(A2, 0x7ffc), 0x8000 + 0x7ffc),
        (jal(A2, -0x8000), 0),
        (jalr(A2, A0, 2047), 0x4000 + 2044),
        (jalr(A2, A0, -2048), 0x4000 - 2048),
        // The lowest bit is cleared.
        (jalr(A2, A0, 9), 0x4008),
    ] {
        let mut code = vec![EBREAK; 0x4000];
        code[0x8000 / 4] = word;
        let image = Image { entry: 0x8000, ..Image::of_code(&code) };
        // The offset that makes the farthest target legal.
        let base = if word == jalr(A2, A0, 2047) { 0x4000 - 3 } else { 0x4000 };
        let mut core = Core::new(&image, Config::default()).expect("an image that fits");
        core.set_register(10, base);
        assert_eq!(core.run(&mut Script::default(), 99), Ok(Stop::Halted));
        let links = word & 0x7f != 0x63;
        assert_eq!((core.pc(), core.register(12)), (target, if links { 0x8004 } else { 0 }));
        assert_eq!(core.cycles(), Cycles { busy: 1, bubbles: 1, ..Cycles::default() });
    }
    // A register that is base and link.
    let mut core = core(&[jalr(A0, A0, 0), EBREAK, EBREAK]);
    core.set_register(10, 8);
    assert_eq!(core.run(&mut Script::default(), 99), Ok(Stop::Halted));
    assert_eq!((core.pc(), core.register(10)), (8, 4));
}

#[test]
fn constants_are_loaded_from_instruction_memory() {
    let mut core = core(&[
        load(W, A1, ZERO, 16),
        load(BU, A2, ZERO, 19),
        load(H, A3, ZERO, 18),
        EBREAK,
        0x80f1_2345,
    ]);
    assert_eq!(core.run(&mut Script::default(), 99), Ok(Stop::Halted));
    let registers = [core.register(11), core.register(12), core.register(13)];
    assert_eq!(registers, [0x80f1_2345, 0x80, 0xffff_80f1]);
}

#[test]
fn accesses_outside_wait_and_then_take_their_cycle() {
    let bus = 0x8000_0000;
    let code = [addi(T0, ZERO, 1), load(BU, A2, A0, 3), store(H, A1, A0, 2), EBREAK];
    let mut core = core(&code);
    core.set_register(10, bus);
    core.set_register(11, 0xabcd);
    let mut script = Script::default();
    // Bits above the width do not affect the result.
    script.replies.push(Reply::Done { value: 0xffff_ff42, stall: 5 });
    script.replies.push(Reply::Blocked);
    assert_eq!(core.run(&mut script, 99), Ok(Stop::Blocked));
    assert_eq!((core.register(12), core.pc(), core.cycle()), (0x42, 8, 7));
    core.stall_until(6);
    core.stall_until(20);
    script.replies.push(Reply::Done { value: 0, stall: 1 });
    assert_eq!(core.run(&mut script, 99), Ok(Stop::Halted));
    assert_eq!(core.cycles(), Cycles { busy: 3, stalled: 5 + 13 + 1, bubbles: 0, asleep: 0 });
    assert_eq!(core.cycle(), 22);
    let stored = |cycle| (cycle, bus + 2, Width::Half, Some(0xabcd));
    assert_eq!(script.seen, [(1, bus + 3, Width::Byte, None), stored(7), stored(20)]);
}

#[test]
fn sleep_is_idle_time_and_ends_where_the_vector_says() {
    let mut core = core(&[WFI, WFI, WFI, EBREAK, EBREAK, EBREAK]);
    let wakes = vec![
        Wake::At { cycle: 10, vector: None },
        // Already over: it costs a cycle.
        Wake::At { cycle: 3, vector: None },
        Wake::Blocked,
        Wake::At { cycle: 31, vector: Some(20) },
    ];
    let mut script = Script { wakes, ..Script::default() };
    assert_eq!(core.run(&mut script, 99), Ok(Stop::Blocked));
    assert_eq!((core.pc(), core.cycle()), (8, 11));
    core.stall_until(30);
    assert_eq!(core.run(&mut script, 99), Ok(Stop::Halted));
    assert_eq!((core.pc(), core.cycle()), (20, 31));
    assert_eq!(core.cycles(), Cycles { asleep: 31, ..Cycles::default() });
    script.wakes.push(Wake::At { cycle: u64::MAX, vector: Some(0) });
    let mut core = self::core(&[WFI]);
    assert_eq!(core.run(&mut script, u64::MAX), Ok(Stop::Reached));
    assert_eq!(core.run(&mut script, u64::MAX), Ok(Stop::Reached), "the end of time");
}

#[test]
fn runs_end_at_their_cycle_and_go_on_as_if_they_had_not() {
    let code = [
        addi(A1, A1, 1),
        load(W, T0, A0, 0),
        store(W, A1, A2, 0),
        branch(BNE, A1, A3, -12),
        EBREAK,
    ];
    let whole = |steps: &[u64]| {
        let mut core = core(&code);
        for (number, value) in [(10, 0x9000_0000), (12, DATA_AT), (13, 10)] {
            core.set_register(number, value);
        }
        let replies = (0..10).map(|n| Reply::Done { value: n as u32, stall: n % 3 }).collect();
        let mut script = Script { replies, ..Script::default() };
        for &until in steps {
            let stop = core.run(&mut script, until);
            assert!(stop == Ok(Stop::Halted) || core.cycle() >= until, "{stop:?} before {until}");
            assert_eq!(sum(core.cycles()), core.cycle());
        }
        (core.cycles(), core.register(5), core.data()[0], script.seen)
    };
    let every: Vec<u64> = (0..200).collect();
    let at_once = whole(&[1_000]);
    assert_eq!(at_once.0, Cycles { busy: 40, stalled: 9, bubbles: 9, asleep: 0 });
    assert_eq!(whole(&every), at_once);
    assert_eq!(whole(&[7, 7, 3, 55, 200]), at_once);
}

/// Runs `code` from address 0 with `a0` until it faults.
fn fault(code: &[u32], a0: u32) -> Fault {
    let mut core = core(code);
    core.set_register(10, a0);
    let fault = core.run(&mut Script::default(), 99).expect_err("a fault");
    assert_eq!(core.run(&mut Script::default(), 99), Err(fault), "it stays where it is");
    assert_eq!(fault.cycle, core.cycle());
    fault
}

#[test]
fn what_rv32i_has_not_is_illegal() {
    let words = [
        (op(ADD | 1 << 3, A2, A0, A1), "mul"),
        (op(SLL | OTHER, A2, A0, A1), "sll with the bit of sra"),
        (opi(SLL, A2, A0, 3) | 1 << 25, "a shift by more than 31"),
        (opi(SRL | OTHER, A2, A0, 3) | 1 << 25, "another"),
        (load(3, A2, A0, 0), "ld"),
        (load(6, A2, A0, 0), "lwu"),
        (store(3, A2, A0, 0), "sd"),
        (branch(2, A0, A1, 8), "a branch without a condition"),
        (jalr(RA, A0, 0) | 1 << 12, "jalr with a function"),
        (FENCE | 1 << 12, "fence.i"),
        (0x3020_0073, "mret"),
        (0xc000_2573, "rdcycle"),
        (0x0000_4501, "a compressed li"),
        (ONES, "ones"),
    ];
    for (word, what) in words {
        assert_eq!(fault(&[word], 0).what, FaultKind::Illegal(word), "{what}");
    }
}

#[test]
fn faults_say_what_went_wrong_and_where() {
    let access = |store, width, address| Access { store, width, address };
    let nop = addi(ZERO, ZERO, 0);
    let cases = [
        (vec![nop, 0], 0, 4, FaultKind::Illegal(0)),
        (vec![nop, ECALL], 0, 4, FaultKind::Ecall),
        (vec![nop], 0, 4, FaultKind::End),
        (
            vec![load(H, A1, A0, 1)],
            DATA_AT,
            0,
            FaultKind::Misaligned(access(false, Width::Half, DATA_AT + 1)),
        ),
        (
            vec![store(W, A1, A0, 2)],
            DATA_AT,
            0,
            FaultKind::Misaligned(access(true, Width::Word, DATA_AT + 2)),
        ),
        (
            vec![load(W, A1, A0, 0)],
            0x2_0000,
            0,
            FaultKind::Refused(access(false, Width::Word, 0x2_0000)),
        ),
        (vec![load(B, A1, A0, -1)], 0, 0, FaultKind::Refused(access(false, Width::Byte, ONES))),
        (vec![load(W, A1, A0, 4)], 0, 0, FaultKind::Refused(access(false, Width::Word, 4))),
        (vec![store(B, A1, A0, 0)], 8, 0, FaultKind::StoreToCode(access(true, Width::Byte, 8))),
        (vec![nop, jal(RA, 8)], 0, 4, FaultKind::Jump(12)),
        (vec![jal(RA, 2)], 0, 0, FaultKind::Jump(2)),
        (vec![branch(BEQ, ZERO, ZERO, -4)], 0, 0, FaultKind::Jump(0xffff_fffc)),
        (vec![jalr(RA, A0, 0)], 0x1_0000, 0, FaultKind::Jump(0x1_0000)),
        (vec![jalr(RA, A0, 0)], 6, 0, FaultKind::Jump(6)),
    ];
    for (code, a0, pc, what) in cases {
        let fault = fault(&code, a0);
        assert_eq!((fault.pc, fault.what), (pc, what));
        assert_eq!(fault.to_string().lines().count(), 1);
    }
    // A branch to an invalid address that is not taken is harmless.
    let mut core = core(&[branch(BNE, ZERO, ZERO, -4), branch(BNE, ZERO, ZERO, 2), EBREAK]);
    assert_eq!(core.run(&mut Script::default(), 99), Ok(Stop::Halted));
    assert_eq!(
        fault(&[nop, load(H, A1, A0, 0)], 0x10001).to_string(),
        "cycle 1, pc 0x00000004: a load of 16 bits at 0x00010001 is misaligned: give a multiple \
         of 2"
    );
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let config = Config { timing: Timing::pipelined(1), imem_bytes: 16, dmem_bytes: 8 };
    let image = |address, len| Image {
        entry: 0,
        segments: vec![
            Segment { address: 0, bytes: vec![0; 4] },
            Segment { address, bytes: vec![1; len] },
        ],
    };
    let refused = |image: &Image, config| Core::new(image, config).map(drop).expect_err("refused");
    for (address, len, fits) in [
        (0, 16, true),
        (0, 17, false),
        (16, 0, true),
        (17, 0, false),
        (DATA_AT, 8, true),
        (DATA_AT + 4, 5, false),
        (DATA_AT - 4, 8, false),
        (ONES, 4, false),
    ] {
        let image = image(address, len);
        let core = Core::new(&image, config);
        assert_eq!(core.is_ok(), fits, "{len} bytes at {address:#x}");
        if !fits {
            let error = LoadError::Segment { address, len, imem_end: 16, dmem_end: DATA_AT + 8 };
            assert_eq!(refused(&image, config), error);
        }
    }
    let entry = |entry| Image { entry, ..image(DATA_AT, 0) };
    assert_eq!(refused(&entry(2), config), LoadError::Entry(2));
    assert_eq!(refused(&entry(4), config), LoadError::Entry(4));
    assert_eq!(refused(&Image::default(), config), LoadError::Entry(0));
    let timing = Timing { jalr: 0, ..Timing::default() };
    assert_eq!(refused(&entry(0), Config { timing, ..config }), LoadError::Timing(timing));
    for bytes in [0, 6, 0x1_0004] {
        assert_eq!(
            refused(&entry(0), Config { imem_bytes: bytes, ..config }),
            LoadError::Memory(bytes)
        );
        assert_eq!(
            refused(&entry(0), Config { dmem_bytes: bytes, ..config }),
            LoadError::Memory(bytes)
        );
    }
}

#[test]
fn a_profile_has_every_cycle_but_sleep() {
    let code = [
        addi(A1, A1, 1),
        store(W, A1, A0, 0),
        branch(BNE, A1, A3, -8),
        WFI,
        load(W, A1, A0, 0),
        EBREAK,
    ];
    let mut core = core(&code);
    core.set_register(10, 0x9000_0000);
    core.set_register(13, 3);
    let mut asleep = self::core(&[WFI]);
    asleep.start_profile();
    assert_eq!(asleep.run(&mut Script::default(), 9), Ok(Stop::Blocked));
    asleep.stall_until(9);
    assert_eq!(asleep.profile().expect("it was begun").instructions().count(), 0);
    core.start_profile();
    let replies = vec![Reply::Done { value: 0, stall: 4 }; 3];
    let mut script = Script { replies, ..Script::default() };
    script.replies.push(Reply::Blocked);
    script.replies.push(Reply::Done { value: 0, stall: 2 });
    script.wakes.push(Wake::At { cycle: 100, vector: None });
    assert_eq!(core.run(&mut script, 999), Ok(Stop::Blocked));
    core.stall_until(core.cycle() + 10);
    assert_eq!(core.run(&mut script, 999), Ok(Stop::Halted));
    let profile = core.profile().expect("it was begun");
    let counts = |busy, stalled, bubbles| Counts { busy, stalled, bubbles };
    let expected =
        [(0, counts(3, 0, 0)), (4, counts(3, 12, 0)), (8, counts(3, 0, 2)), (16, counts(1, 12, 0))];
    assert_eq!(profile.instructions().collect::<Vec<_>>(), expected);
    let mut total = Counts::default();
    let lines = annotate(profile, |pc| (pc < 16).then_some(pc / 8));
    lines.values().for_each(|counts| total += *counts);
    let cycles = core.cycles();
    assert_eq!(total, counts(cycles.busy, cycles.stalled, cycles.bubbles));
    let expected =
        [(None, counts(1, 12, 0)), (Some(0), counts(6, 12, 0)), (Some(1), counts(3, 0, 2))];
    assert!(lines.into_iter().eq(expected));
}
