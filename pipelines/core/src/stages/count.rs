//! Counts the frames that its `when` lets through; give it a `name` to find it in the report.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{Given, Outcome, Spec};

/// Counts frames and bytes, as every stage does; and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Count;

/// Nothing to say.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
}

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "count",
    about: "counts the frames that `when` lets through",
    fields: &[],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};
