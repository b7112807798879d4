//! What ends a launch: what a lane did wrong, and where.

use std::fmt;

use crate::module::Space;

/// An error of the code that runs: the lane, the line of the PTX and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The function that the line belongs to.
    pub function: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// The instruction that stands there.
    pub instruction: String,
    /// The lane, or the lowest of those that did the same.
    pub lane: u32,
    /// What is wrong.
    pub reason: Reason,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            function,
            line,
            instruction,
            reason,
            ..
        } = self;
        write!(
            f,
            "{reason}, at `{instruction}` in `{function}`, line {line} of the PTX"
        )
    }
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// An access at an address that is not a multiple of its size.
    #[error("misaligned: {bytes} bytes at {address:#x}")]
    Misaligned {
        /// Where.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// An access at or close to address 0.
    #[error("null pointer: {bytes} bytes at {address:#x}")]
    Null {
        /// Where.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// An access outside of all memory of its space.
    #[error("out of bounds: {bytes} bytes at {address:#x} lie in no memory that {space:?} has")]
    OutOfBounds {
        /// Where; in local and shared space, from the start of the window.
        address: u64,
        /// How many.
        bytes: u64,
        /// The space.
        space: Space,
    },
    /// A store to constants.
    #[error("store to read-only memory: {bytes} bytes at {address:#x}")]
    ReadOnly {
        /// Where.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// Atomics work on memory of the launch and of the block.
    #[error("atomic operation at {address:#x}, in local memory")]
    LocalAtomic {
        /// Where.
        address: u64,
    },
    /// A mask of lanes that does not hold the lane that executes the instruction.
    #[error("the mask of lanes {mask:#010x} does not hold the lane itself")]
    NotInMask {
        /// The mask.
        mask: u32,
    },
    /// Lanes of a mask stand at different instructions, and none of them can go on.
    #[error("lanes wait for each other for ever: {0}")]
    Deadlock(String),
    /// Lanes of a warp do not come to the barrier of their block together.
    #[error("barrier under divergence: {0}")]
    Divergence(String),
    /// A barrier that is not over all threads of the block.
    #[error("barrier over {given} threads: the block has {threads}")]
    PartialBarrier {
        /// What the instruction says.
        given: u64,
        /// Threads of the block.
        threads: u64,
    },
    /// Calls within calls.
    #[error("call stack exceeds {limit} {what}")]
    Stack {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// An index behind the end of a table of labels.
    #[error("branch index {index}: the table has {targets} labels")]
    BranchIndex {
        /// The index.
        index: u64,
        /// Labels of the table.
        targets: u64,
    },
    /// `trap`.
    #[error("trap")]
    Trap,
    /// Control ran past the last instruction of a function.
    #[error("the function ends without `ret`")]
    End,
}
