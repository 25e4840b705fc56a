//! The core itself: registers, memories, and the loop that executes.
//!
//! Instructions are decoded when they are loaded. Nothing is stepped cycle by cycle: an instruction
//! adds its cycles to the count, waits included. A run ends at a given cycle.

use super::bus::{Bus, Reply, Wake, Width};
use super::config::{Config, DATA_AT, Timing};
use super::decode::{Kind, Op, SINK};
use super::fault::{Access, Fault, FaultKind};
use super::image::{Image, LoadError, lay_out};
use super::profile::{Counts, Profile};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// No core runs beyond this cycle (at 100 GHz, 5.8 years), so that counts never overflow.
const LAST_CYCLE: u64 = u64::MAX - 2 * Timing::MAX_CYCLES;

/// A bubble that shows a jump, where other timing than a pipeline's adds cycles after each instruction.
const MARK: u64 = 1;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The cycle count has reached or exceeded the given limit.
    Reached,
    /// The instruction at [`Core::pc`] waits for an event at an unknown time. The next run executes
    /// it again; [`Core::stall_until`] counts the cycles waited.
    Blocked,
    /// `ebreak`: the program has ended. The core stays at this instruction.
    Halted,
}

/// Cycles by purpose. Their sum is [`Core::cycle`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cycles {
    /// Instructions.
    pub busy: u64,
    /// Waiting for bus accesses.
    pub stalled: u64,
    /// Refilling the pipeline after branches and jumps.
    pub bubbles: u64,
    /// In `wfi`.
    pub asleep: u64,
}

/// An RV32I core with its memories.
///
/// At reset all registers are 0, and so is memory that the image does not fill: the program's own
/// start code sets a stack pointer where it needs one.
///
/// ```
/// use linecard_model::rv32::{Config, Core, Image, Bus, Reply, Stop, Wake, Width};
/// /// A core alone.
/// struct Nothing;
/// impl Bus for Nothing {
///     fn load(&mut self, _: u64, _: u32, _: Width) -> Reply { Reply::Refused }
///     fn store(&mut self, _: u64, _: u32, _: Width, _: u32) -> Reply { Reply::Refused }
///     fn wait(&mut self, _: u64) -> Wake { Wake::Blocked }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // addi a0, zero, 3; addi a0, a0, -1; bne a0, zero, -4; ebreak
/// let image = Image::of_code(&[0x0030_0513, 0xfff5_0513, 0xfe05_1ee3, 0x0010_0073]);
/// let mut core = Core::new(&image, Config::default())?;
/// assert_eq!(core.run(&mut Nothing, 1_000)?, Stop::Halted);
/// // Seven instructions, and a bubble for each of two branches taken.
/// assert_eq!((core.cycles().busy, core.cycles().bubbles, core.cycle()), (7, 2, 9));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Core {
    /// 0 … 31, and [`SINK`]; 256 entries, so that no `u8` is out of bounds.
    registers: [u32; 256],
    /// Decoded instructions by address / 4, as far as any are loaded, and their bytes.
    ops: Vec<Op>,
    code: Vec<u8>,
    data: Vec<u8>,
    timing: Timing,
    /// Bubbles of a pipeline, or [`MARK`].
    bubbles_per_jump: u64,
    is_pipelined: bool,
    now: Now,
    stalled: u64,
    bubbles: u64,
    asleep: u64,
    profile: Option<Box<Profile>>,
}

/// The state of the loop, which is kept in host registers: in memory, each instruction would wait
/// for the previous one's store.
#[derive(Debug, Clone, Copy)]
struct Now {
    cycle: u64,
    /// Index of the next instruction in `ops`.
    at: usize,
}

impl Now {
    /// Behind an instruction.
    #[inline(always)]
    const fn advance(&mut self) {
        self.cycle += 1;
        self.at += 1;
    }
}

/// Why the loop ends within an instruction.
enum Exit {
    Reached,
    Blocked,
    Halted,
    Fault(FaultKind),
}

impl Core {
    /// A core at reset, with `image` in its memories.
    ///
    /// # Errors
    /// Errors that [`LoadError`] lists: memories, a segment, the entry or the bubbles are not what they
    /// can be.
    pub fn new(image: &Image, config: Config) -> Result<Self, LoadError> {
        if !config.timing.is_valid() {
            return Err(LoadError::Timing(config.timing));
        }
        let (code, data) = lay_out(image, &config)?;
        let words = code.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes));
        let ops = words.zip((0..).step_by(4)).map(|(word, pc)| Op::decode(word, pc)).collect();
        Ok(Self {
            registers: [0; 256],
            ops,
            code,
            data,
            timing: config.timing,
            bubbles_per_jump: config.timing.bubbles().unwrap_or(MARK),
            is_pipelined: config.timing.bubbles().is_some(),
            now: Now { cycle: 0, at: image.entry as usize / 4 },
            stalled: 0,
            bubbles: 0,
            asleep: 0,
            profile: None,
        })
    }

    /// Executes until the count of cycles is `until` or more. The last instruction may end later:
    /// by its stall, its bubbles or its sleep.
    ///
    /// # Errors
    /// If the program does something illegal: the core stays at that instruction.
    pub fn run<O: Bus>(&mut self, bus: &mut O, until: u64) -> Result<Stop, Fault> {
        let until = until.min(LAST_CYCLE);
        match self.profile {
            None if self.is_pipelined => self.execute::<O, false>(bus, until),
            _ => self.execute::<O, true>(bus, until),
        }
    }

    /// Advances a blocked core's time to `cycle`: asleep if it is at `wfi`, otherwise stalled. No
    /// effect if `cycle` is not later than now.
    pub fn stall_until(&mut self, cycle: u64) {
        let cycles = cycle.min(LAST_CYCLE).saturating_sub(self.now.cycle);
        let asleep = self.ops.get(self.now.at).is_some_and(|op| op.kind == Kind::Wfi);
        let count = if asleep { &mut self.asleep } else { &mut self.stalled };
        *count += cycles;
        self.now.cycle += cycles;
        if !asleep && let Some(profile) = &mut self.profile {
            profile.add(self.now.at, Counts { stalled: cycles, ..Counts::default() });
        }
    }

    /// Cycles since reset.
    #[must_use]
    pub const fn cycle(&self) -> u64 {
        self.now.cycle
    }

    /// The cycles by purpose.
    #[must_use]
    pub const fn cycles(&self) -> Cycles {
        let Self { now, stalled, bubbles, asleep, .. } = *self;
        Cycles { busy: now.cycle - stalled - bubbles - asleep, stalled, bubbles, asleep }
    }

    /// Address of the next instruction.
    #[must_use]
    pub const fn pc(&self) -> u32 {
        self.now.at as u32 * 4
    }

    /// Value of register x0 … x31; `number` counts modulo 32.
    #[must_use]
    pub const fn register(&self, number: u8) -> u32 {
        self.registers[(number & 31) as usize]
    }

    /// Sets a register; x0 stays 0.
    pub const fn set_register(&mut self, number: u8, value: u32) {
        if number & 31 != 0 {
            self.registers[(number & 31) as usize] = value;
        }
    }

    /// Data memory; its first byte is at [`DATA_AT`].
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Data memory, to be written.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }

    /// Starts counting per instruction, from zero. Runs take about twice as long.
    pub fn start_profile(&mut self) {
        self.profile = Some(Box::new(Profile::new(self.ops.len())));
    }

    /// The counts since [`Core::start_profile`].
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// `WATCHED` if something is done after each instruction.
    fn execute<O: Bus, const WATCHED: bool>(
        &mut self,
        bus: &mut O,
        until: u64,
    ) -> Result<Stop, Fault> {
        let mut now = self.now;
        let exit = loop {
            if now.cycle >= until {
                break Exit::Reached;
            }
            let Some(&op) = self.ops.get(now.at) else { break Exit::Fault(FaultKind::End) };
            let before = if WATCHED { (now.at, self.cycles()) } else { (0, Cycles::default()) };
            if WATCHED && self.profile.is_some() {
                bus.fetched(now.at as u32 * 4);
            }
            if let Err(exit) = self.step(op, &mut now, bus) {
                break exit;
            }
            if WATCHED {
                if !self.is_pipelined {
                    self.take_time(op.kind, before.1.bubbles, &mut now);
                }
                self.now = now;
                self.count_cycles(before);
            }
        };
        self.now = now;
        match exit {
            Exit::Reached => Ok(Stop::Reached),
            Exit::Blocked => Ok(Stop::Blocked),
            Exit::Halted => Ok(Stop::Halted),
            Exit::Fault(what) => Err(Fault { cycle: now.cycle, pc: self.pc(), what }),
        }
    }

    /// Adds the cycles of an instruction beyond its first; `bubbles` were counted before it. Those of a jump beyond
    /// arithmetic are bubbles.
    fn take_time(&mut self, kind: Kind, bubbles: u64, now: &mut Now) {
        let Timing { alu, shift, load, store, branch, taken, jal, jalr } = self.timing;
        let has_jumped = self.bubbles > bubbles;
        let cycles = match kind {
            Kind::Sll | Kind::Srl | Kind::Sra => shift,
            Kind::Lb | Kind::Lh | Kind::Lw | Kind::Lbu | Kind::Lhu => load,
            Kind::Sb | Kind::Sh | Kind::Sw => store,
            Kind::Jal => jal,
            Kind::Jalr => jalr,
            Kind::Beq | Kind::Bne | Kind::Blt | Kind::Bge | Kind::Bltu | Kind::Bgeu => {
                if has_jumped { taken } else { branch }
            }
            _ => alu,
        };
        now.cycle += cycles - 1;
        if has_jumped {
            now.cycle -= MARK;
            self.bubbles = bubbles + cycles.saturating_sub(alu);
        }
    }

    /// Adds the cycles since `before` to the instruction at an index.
    fn count_cycles(&mut self, (at, before): (usize, Cycles)) {
        let cycles = self.cycles();
        if let Some(profile) = &mut self.profile {
            let counts = Counts {
                busy: cycles.busy - before.busy,
                stalled: cycles.stalled - before.stalled,
                bubbles: cycles.bubbles - before.bubbles,
            };
            profile.add(at, counts);
        }
    }

    /// Executes one instruction. Nothing has changed if it fails.
    #[inline(always)]
    fn step(&mut self, op: Op, now: &mut Now, bus: &mut impl Bus) -> Result<(), Exit> {
        let a = self.registers[usize::from(op.rs1)];
        let other = self.registers[usize::from(op.rs2)];
        let b = other.wrapping_add(op.imm);
        let address = a.wrapping_add(op.imm);
        let result = match op.kind {
            Kind::Add => a.wrapping_add(b),
            Kind::Sub => a.wrapping_sub(b),
            Kind::Sll => a.wrapping_shl(b),
            Kind::Slt => u32::from(a.cast_signed() < b.cast_signed()),
            Kind::Sltu => u32::from(a < b),
            Kind::Xor => a ^ b,
            Kind::Srl => a.wrapping_shr(b),
            Kind::Sra => a.cast_signed().wrapping_shr(b).cast_unsigned(),
            Kind::Or => a | b,
            Kind::And => a & b,
            Kind::Lb => extend(i8::from_le_bytes(self.load(now, address, bus)?)),
            Kind::Lh => extend(i16::from_le_bytes(self.load(now, address, bus)?)),
            Kind::Lw => u32::from_le_bytes(self.load(now, address, bus)?),
            Kind::Lbu => u32::from(u8::from_le_bytes(self.load(now, address, bus)?)),
            Kind::Lhu => u32::from(u16::from_le_bytes(self.load(now, address, bus)?)),
            Kind::Sb => return self.store::<1>(now, (address, other), bus),
            Kind::Sh => return self.store::<2>(now, (address, other), bus),
            Kind::Sw => return self.store::<4>(now, (address, other), bus),
            Kind::Beq => return self.branch(a == other, op, now),
            Kind::Bne => return self.branch(a != other, op, now),
            Kind::Blt => return self.branch(a.cast_signed() < other.cast_signed(), op, now),
            Kind::Bge => return self.branch(a.cast_signed() >= other.cast_signed(), op, now),
            Kind::Bltu => return self.branch(a < other, op, now),
            Kind::Bgeu => return self.branch(a >= other, op, now),
            Kind::Jal => return self.jump(op.imm, op.rd, now),
            Kind::Jalr => return self.jump(address & !1, op.rd, now),
            Kind::Wfi => {
                *now = self.sleep(*now, bus)?;
                return Ok(());
            }
            Kind::Ebreak => return Err(Exit::Halted),
            Kind::Ecall => return Err(Exit::Fault(FaultKind::Ecall)),
            Kind::Illegal => return Err(Exit::Fault(FaultKind::Illegal(op.imm))),
        };
        self.registers[usize::from(op.rd)] = result;
        now.advance();
        Ok(())
    }

    #[inline(always)]
    fn branch(&mut self, taken: bool, op: Op, now: &mut Now) -> Result<(), Exit> {
        if taken {
            return self.jump(op.imm, SINK, now);
        }
        now.advance();
        Ok(())
    }

    #[inline(always)]
    fn jump(&mut self, target: u32, link: u8, now: &mut Now) -> Result<(), Exit> {
        let at = self.place_of(target)?;
        self.registers[usize::from(link)] = (now.at as u32 + 1) * 4;
        now.at = at;
        now.cycle += 1 + self.bubbles_per_jump;
        self.bubbles += self.bubbles_per_jump;
        Ok(())
    }

    /// The index in `ops` of address `target`.
    #[inline(always)]
    fn place_of(&self, target: u32) -> Result<usize, Exit> {
        // A misaligned address gets high bits set, beyond any memory.
        let at = target.rotate_right(2) as usize;
        if at < self.ops.len() { Ok(at) } else { Err(Exit::Fault(FaultKind::Jump(target))) }
    }

    #[inline(always)]
    fn load<const N: usize>(
        &mut self,
        now: &mut Now,
        address: u32,
        bus: &mut impl Bus,
    ) -> Result<[u8; N], Exit> {
        if let Some(bytes) = self.data.as_chunks().0.get(place_in_data::<N>(address)) {
            return Ok(*bytes);
        }
        let access = access::<N>(false, address);
        let (value, stall) = self.load_elsewhere(now.cycle, access, bus)?;
        now.cycle += stall;
        Ok(value.to_le_bytes().first_chunk().copied().unwrap_or([0; N]))
    }

    #[inline(always)]
    fn store<const N: usize>(
        &mut self,
        now: &mut Now,
        (address, value): (u32, u32),
        bus: &mut impl Bus,
    ) -> Result<(), Exit> {
        let place = self.data.as_chunks_mut::<N>().0.get_mut(place_in_data::<N>(address));
        if let (Some(place), Some(bytes)) = (place, value.to_le_bytes().first_chunk()) {
            *place = *bytes;
        } else {
            let access = access::<N>(true, address);
            now.cycle += self.store_elsewhere(now.cycle, (access, value), bus)?;
        }
        now.advance();
        Ok(())
    }

    /// Loads from instruction memory, which may contain constants, or from the bus: returns value
    /// and stall.
    #[inline(never)]
    fn load_elsewhere(
        &mut self,
        cycle: u64,
        access: Access,
        bus: &mut impl Bus,
    ) -> Result<(u32, u64), Exit> {
        let Access { address, width, .. } = access;
        if !access.is_aligned() {
            return Err(Exit::Fault(FaultKind::Misaligned(access)));
        }
        if address >= DATA_AT {
            let reply = bus.load(cycle, address, width);
            return self.answer(cycle, reply, access);
        }
        match self.code.as_chunks().0.get(address as usize / 4) {
            Some(&word) => Ok((u32::from_le_bytes(word) >> (8 * (address & 3)), 0)),
            None => Err(Exit::Fault(access.refused())),
        }
    }

    /// Stores to the bus: returns the stall.
    #[inline(never)]
    fn store_elsewhere(
        &mut self,
        cycle: u64,
        (access, value): (Access, u32),
        bus: &mut impl Bus,
    ) -> Result<u64, Exit> {
        if !access.is_aligned() {
            return Err(Exit::Fault(FaultKind::Misaligned(access)));
        }
        if access.address < DATA_AT {
            return Err(Exit::Fault(access.refused()));
        }
        let reply = bus.store(cycle, access.address, access.width, value);
        self.answer(cycle, reply, access).map(|(_, stall)| stall)
    }

    /// Evaluates the reply of a bus access.
    fn answer(&mut self, cycle: u64, reply: Reply, access: Access) -> Result<(u32, u64), Exit> {
        match reply {
            Reply::Done { value, stall } => {
                let stall = stall.min(LAST_CYCLE - cycle);
                self.stalled += stall;
                Ok((value, stall))
            }
            Reply::Blocked => Err(Exit::Blocked),
            Reply::Refused => Err(Exit::Fault(access.refused())),
            Reply::Denied(why) => Err(Exit::Fault(FaultKind::Denied(access, why))),
        }
    }

    /// The state after a sleep that begins `now`.
    #[inline(never)]
    fn sleep(&mut self, now: Now, bus: &mut impl Bus) -> Result<Now, Exit> {
        let Wake::At { cycle, vector } = bus.wait(now.cycle) else {
            return Err(Exit::Blocked);
        };
        let at = match vector {
            Some(vector) => self.place_of(vector)?,
            None => now.at + 1,
        };
        let cycle = cycle.clamp(now.cycle + 1, LAST_CYCLE);
        self.asleep += cycle - now.cycle;
        Ok(Now { cycle, at })
    }
}

/// The index of `N` bytes of data memory at `address`.
#[inline(always)]
const fn place_in_data<const N: usize>(address: u32) -> usize {
    // A misaligned address gets high bits set, beyond the memory; so does one below it.
    address.wrapping_sub(DATA_AT).rotate_right(N.trailing_zeros()) as usize
}

fn extend(value: impl Into<i32>) -> u32 {
    value.into().cast_unsigned()
}

const fn access<const N: usize>(store: bool, address: u32) -> Access {
    let width = match N {
        1 => Width::Byte,
        2 => Width::Half,
        _ => Width::Word,
    };
    Access { store, width, address }
}
