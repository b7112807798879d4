//! Answers ARP, neighbour solicitations and pings for declared addresses, in the kernel.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Span, Spec};

/// Turns a request for one of the addresses into its answer and sends it back; other frames go on.
#[derive(Clone, Copy, Debug)]
pub struct Respond;

/// What is answered, and for whom.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    answer: u32,
    addresses: Span,
}

const ARP: u32 = 1;
const NEIGHBOUR: u32 = 2;
const ECHO: u32 = 4;

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "respond",
    about: "answers ARP, neighbour discovery and ICMP echo for declared addresses",
    fields: &[
        Field::optional(
            "answer",
            FieldKind::Words(&[("arp", ARP), ("neighbour", NEIGHBOUR), ("echo", ECHO)]),
            core::mem::offset_of!(Args, answer),
            "what to answer; all if left out",
        ),
        Field::optional(
            "addresses",
            FieldKind::OwnAddresses,
            core::mem::offset_of!(Args, addresses),
            "whom to answer for; the NIC's addresses if left out",
        ),
    ],
    one_of: &[],
    counters: &[
        CounterSpec::one("arp"),
        CounterSpec::one("neighbour"),
        CounterSpec::one("echo_v4"),
        CounterSpec::one("echo_v6"),
        CounterSpec::one("fragments"),
        CounterSpec::one("checksum_wrong"),
        CounterSpec::one("not_in_one_piece"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};
