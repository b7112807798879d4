//! Drops frames whose checksums are wrong.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};

/// Checks the IPv4 header checksum, the TCP, UDP or ICMP checksum and the RoCEv2 ICRC.
///
/// A TCP or UDP checksum that holds nothing but the pseudo-header sum is how a local Linux peer
/// hands over a frame whose checksum its NIC was to fill in: it passes, and is counted.
#[derive(Clone, Copy, Debug)]
pub struct Verify;

/// What to check.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    checks: u32,
}

const IPV4: u32 = 1;
const TRANSPORT: u32 = 2;
const ICRC: u32 = 4;

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "verify",
    about: "drops frames whose IPv4, TCP, UDP, ICMP or RoCE checksum is wrong",
    fields: &[Field::optional(
        "checks",
        FieldKind::Words(&[("ipv4", IPV4), ("transport", TRANSPORT), ("icrc", ICRC)]),
        core::mem::offset_of!(Args, checks),
        "what to check; all if left out",
    )],
    one_of: &[],
    counters: &[
        CounterSpec::one("right"),
        CounterSpec::one("partial"),
        CounterSpec::one("unchecked"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};
