//! Spreads flows over the queues of a NIC by the Toeplitz hash.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};

/// Ends a frame's way at the transmit queue that its flow's hash picks.
#[derive(Clone, Copy, Debug)]
pub struct Spread;

/// Where to, and by which key.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    to: u32,
    key: [u8; KEY_BYTES],
}

/// Bytes of a Toeplitz key: enough for the addresses and ports of IPv6.
pub const KEY_BYTES: usize = 40;

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "spread",
    about: "spreads flows over the queues of a NIC by the Toeplitz hash",
    fields: &[
        Field::required(
            "to",
            FieldKind::Nic,
            core::mem::offset_of!(Args, to),
            "the NIC to send from",
        ),
        Field::optional(
            "key",
            FieldKind::Hex(KEY_BYTES),
            core::mem::offset_of!(Args, key),
            "the key; the one of the RSS specification if left out",
        ),
    ],
    one_of: &[],
    counters: &[CounterSpec::table("queue", 8)],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};
