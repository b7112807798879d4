//! Sends frames out of another NIC.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{Field, FieldKind, Given, Outcome, Spec};

/// Ends a frame's way at another NIC's transmit queue.
#[derive(Clone, Copy, Debug)]
pub struct Forward;

/// Where to.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    to: u32,
}

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "forward",
    about: "sends frames out of another NIC",
    fields: &[
        Field::required(
            "to",
            FieldKind::Nic,
            core::mem::offset_of!(Args, to),
            "the NIC to send from",
        ),
        Field::optional(
            "malformed",
            FieldKind::Flag,
            0,
            "forward malformed frames too, as a cable would",
        ),
    ],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};
