//! Sends frames back out of the NIC that they came from.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{Given, Outcome, Spec};

/// Ends a frame's way at the transmit queue of its own NIC.
#[derive(Clone, Copy, Debug)]
pub struct Reply;

/// Nothing to say.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
}

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "reply",
    about: "sends frames back out of the NIC that they came from",
    fields: &[],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};
