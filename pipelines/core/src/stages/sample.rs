//! Copies every Nth frame into a ring that the host drains into a pcapng file.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};

/// Copies; changes nothing. If the host is slow, samples are lost and counted; frames are not.
#[derive(Clone, Copy, Debug)]
pub struct Sample;

/// Which frames, and how much of them.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    every: u32,
    snap: u32,
}

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "sample",
    about: "copies every Nth frame to a pcapng file",
    fields: &[
        Field::required("file", FieldKind::File, 0, "the pcapng file to write"),
        Field::optional(
            "every",
            FieldKind::Number {
                bytes: 4,
                low: 1,
                high: 1 << 31,
            },
            core::mem::offset_of!(Args, every),
            "one frame out of so many; 1 if left out",
        ),
        Field::optional(
            "snap",
            FieldKind::Number {
                bytes: 4,
                low: 64,
                high: crate::sample::SNAP_BYTES as u64,
            },
            core::mem::offset_of!(Args, snap),
            "bytes to keep of each frame; all that a sample can hold if left out",
        ),
    ],
    one_of: &[],
    counters: &[CounterSpec::one("taken"), CounterSpec::one("lost")],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};
