//! A module as it is executed: names are slots, labels are indices.

use std::collections::HashMap;

use crate::column::{Compare, Op1, Op2, Op3};
use crate::count::Class;
use crate::memory::{Order, Scope};
use crate::parse::{self, ParseError};

/// A register of a frame. Slot 0 takes what nobody wants.
pub(crate) type Slot = u16;

/// PTX that was read, checked and made ready to run.
#[derive(Debug)]
pub struct Module {
    pub(crate) functions: Vec<Function>,
    pub(crate) entries: HashMap<Box<str>, usize>,
    pub(crate) tables: Tables,
    /// Bytes of static `.shared` variables.
    pub(crate) shared_bytes: u64,
}

impl Module {
    /// Reads PTX.
    ///
    /// # Errors
    /// The first line that is not understood, and what stands there: an instruction that the
    /// virtual GPU does not know is found here and not when it is reached.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        crate::decode::module(&parse::parse(text)?)
    }

    /// The entry points, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(AsRef::as_ref)
    }

    /// Functions with a body, entry points among them.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| &*function.name)
    }

    /// Instructions of all functions.
    pub fn instructions(&self) -> usize {
        let lengths = self.functions.iter().map(|function| function.code.len());
        lengths.sum()
    }
}

/// The module's variables in `.global` and `.const` space, as they are at the start.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) bytes: Vec<u8>,
    /// From here on they may be written; before lie `.const` ones.
    pub(crate) writable_from: u64,
}

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: Box<str>,
    pub(crate) code: Vec<Instruction>,
    /// General registers of a frame, constants among them.
    pub(crate) registers: usize,
    pub(crate) predicates: usize,
    pub(crate) constants: Vec<(Slot, Constant)>,
    /// Bytes of parameters and local variables.
    pub(crate) frame_bytes: u64,
    /// A power of two, at least 8.
    pub(crate) frame_align: u64,
    /// Where the parameters lie in the frame.
    pub(crate) parameters: Vec<Span>,
    /// Where the results lie in the frame.
    pub(crate) returns: Vec<Span>,
    pub(crate) most_threads: Option<u64>,
}

/// Bytes of a frame; they start at a multiple of 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// What a register holds from the start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Constant {
    Value(u64),
    Special(Special),
    /// An offset into the frame, as an address of local space.
    Local(u64),
}

/// Special registers that do not change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Special {
    ThreadX,
    ThreadsX,
    BlockX,
    BlocksX,
    Lane,
    Warp,
    Warps,
    MaskEq,
    MaskLe,
    MaskLt,
    MaskGe,
    MaskGt,
    SharedBytes,
    DynamicSharedBytes,
    Zero,
    One,
    Width,
}

/// Special registers that do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clock {
    /// `%globaltimer`: the executor's clock.
    Nanoseconds,
    /// Its low and high half.
    NanosecondsLow,
    NanosecondsHigh,
    /// `%clock64`: instructions of this warp so far.
    Cycles,
    /// `%clock`.
    CyclesLow,
    /// `%clock_hi`.
    CyclesHigh,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    pub(crate) guard: Flag,
    pub(crate) line: u32,
    pub(crate) class: Class,
    /// What it is called in the text.
    pub(crate) name: Box<str>,
}

/// A predicate that is read, perhaps negated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flag {
    pub(crate) slot: Slot,
    /// All ones to negate, else 0.
    pub(crate) flip: u32,
}

impl Flag {
    /// Always true: predicate slot 0 holds it.
    pub(crate) const TRUE: Self = Self { slot: 0, flip: 0 };
    /// Always false.
    pub(crate) const FALSE: Self = Self {
        slot: 0,
        flip: u32::MAX,
    };
    /// The slot of predicates that nobody wants.
    pub(crate) const SINK: Slot = 1;
    /// Slots that are not the function's own.
    pub(crate) const RESERVED: Slot = 2;
}

/// What an instruction does.
#[derive(Debug)]
pub(crate) enum Op {
    Copy {
        d: Slot,
        a: Slot,
    },
    One {
        f: Op1,
        d: Slot,
        a: Slot,
    },
    Two {
        f: Op2,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Three {
        f: Op3,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Insert {
        bits: u32,
        d: Slot,
        from: [Slot; 4],
    },
    Lop3 {
        table: u8,
        d: Slot,
        from: [Slot; 3],
    },
    /// Keeps some bits.
    Mask {
        d: Slot,
        a: Slot,
        mask: u64,
    },
    Convert {
        d: Slot,
        a: Slot,
        convert: Convert,
    },
    Carry(Box<Carry>),
    Compare(Box<Comparison>),
    Select {
        d: Slot,
        a: Slot,
        b: Slot,
        by: Flag,
    },
    Logic {
        f: fn(u32, u32) -> u32,
        p: Slot,
        a: Flag,
        b: Flag,
    },
    /// Joins registers of `bits` bits, lowest first.
    Pack {
        bits: u32,
        d: Slot,
        from: Vec<Slot>,
    },
    Unpack {
        bits: u32,
        d: Vec<Slot>,
        from: Slot,
    },
    Clock {
        d: Slot,
        clock: Clock,
    },
    IsSpace {
        p: Slot,
        a: Slot,
        space: Space,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Fence(Order, Scope),
    Branch(u32),
    Table {
        index: Slot,
        targets: Box<[u32]>,
    },
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    Sleep,
    Nothing,
    ActiveMask {
        d: Slot,
    },
    Meet(Box<Meeting>),
    Barrier {
        aligned: bool,
        threads: Option<Slot>,
    },
}

/// `add.cc` and its kin.
#[derive(Debug)]
pub(crate) struct Carry {
    /// From three values and the carry to a value and the carry.
    pub(crate) f: fn(u64, u64, u64, bool) -> (u64, bool),
    pub(crate) d: Slot,
    pub(crate) from: [Slot; 3],
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// `cvt`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) from_bits: u32,
    pub(crate) from_signed: bool,
    pub(crate) to_bits: u32,
    pub(crate) to_signed: bool,
    pub(crate) saturates: bool,
    /// Bits of the destination, which the result is extended to.
    pub(crate) register_bits: u32,
}

/// `setp`.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) f: Compare,
    pub(crate) combine: fn(u32, u32) -> u32,
    pub(crate) with: Flag,
    pub(crate) p: Slot,
    pub(crate) q: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
}

/// State spaces of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Space {
    /// Any of the others, told by the address.
    Generic,
    /// Memory of the launch and tables of the module.
    Global,
    /// The module's constants.
    Const,
    /// Memory of the block.
    Shared,
    /// Memory of the lane.
    Local,
    /// Parameters and results of functions.
    Param,
}

/// A load or store.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) order: Order,
    pub(crate) scope: Scope,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(crate) size: u8,
    /// Of a load: the bits of the destination that the sign fills, 0 for zero extension.
    pub(crate) sign_bits: u8,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
    /// The elements: destinations of a load, sources of a store.
    pub(crate) data: Vec<Slot>,
}

/// `atom` and `red`.
#[derive(Debug)]
pub(crate) struct Atomic {
    pub(crate) space: Space,
    pub(crate) order: Order,
    pub(crate) scope: Scope,
    pub(crate) size: u8,
    pub(crate) update: Update,
    pub(crate) d: Slot,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
    pub(crate) a: Slot,
    /// Of `cas`: what is stored; `a` is what is compared with.
    pub(crate) b: Slot,
}

/// What an atomic makes of the old value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Update {
    /// A function of the old value and the operand.
    Apply(fn(u64, u64) -> u64),
    CompareExchange,
}

/// A call of a function of the module.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: u32,
    pub(crate) arguments: Vec<Span>,
    pub(crate) results: Vec<Span>,
}

/// An instruction that lanes of a mask execute together.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(crate) kind: MeetingKind,
    pub(crate) d: Slot,
    pub(crate) p: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    pub(crate) flag: Flag,
    pub(crate) mask: Slot,
}

/// What they do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MeetingKind {
    Sync,
    ShuffleUp,
    ShuffleDown,
    ShuffleButterfly,
    ShuffleIndex,
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    Reduce(fn(u64, u64) -> u64),
    MatchAny,
    MatchAll,
    Elect,
}
