//! Drops frames.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{Given, Outcome, Spec};

/// Ends a frame's way here.
#[derive(Clone, Copy, Debug)]
pub struct Drop;

/// Nothing to say.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
}

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "drop",
    about: "drops frames",
    fields: &[],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};
