//! A pipeline as a table in memory: operations, rules and addresses that a kernel interprets.
//!
//! The host writes it, one copy a block; the kernel reads it and writes nothing but counters.

use warpwire_ring::DeviceAddress;

use crate::spec::{PackedAddress, Span};

/// Stages that one program may have.
pub const MAX_STAGES: usize = 64;

/// Rules that one program may have, over all its stages.
pub const MAX_RULES: usize = 1024;

/// Addresses that one program may answer for.
pub const MAX_ADDRESSES: usize = 64;

/// Queue pairs that one block may drive.
pub const MAX_PORTS: usize = 8;

/// NICs that one program may send from.
pub const MAX_NICS: usize = 8;

/// Bytes that a stage's arguments may have.
pub const ARGS_BYTES: usize = 96;

/// One stage of a program: 128 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Op {
    /// The stage's place in its [`crate::stage::StageSet`].
    pub kind: u32,
    /// How many counters the stage has, frames and bytes included.
    pub counter_count: u32,
    /// Rules of which one must match for the stage to see a frame; if none are given, it sees all.
    pub when: Span,
    /// The stage's counters in this block, as laid out by its [`crate::spec::Spec`].
    pub counters: DeviceAddress,
    /// The stage's ring of copies, or its [`crate::sensor::SensorBlock`], or null.
    pub samples: DeviceAddress,
    /// The stage's arguments.
    pub args: [u64; ARGS_BYTES / 8],
}

const _: () = assert!(size_of::<Op>() == 128);

/// Where the tables of a program lie.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Program {
    /// [`Op`]s, in the order of the file.
    pub ops: DeviceAddress,
    /// [`crate::rule::Rule`]s.
    pub rules: DeviceAddress,
    /// [`PackedAddress`]es.
    pub addresses: DeviceAddress,
    /// How many operations; at most [`MAX_STAGES`].
    pub op_count: u32,
    /// How many rules; at most [`MAX_RULES`].
    pub rule_count: u32,
    /// How many addresses; at most [`MAX_ADDRESSES`].
    pub address_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Program>() == 40);
const _: () = assert!(size_of::<PackedAddress>() == 20);
