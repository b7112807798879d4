//! Lets through or drops by prefix, port, protocol, VLAN, RoCE opcode and queue pair.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Span, Spec};

/// Drops what a rule of `deny` matches, then what no rule of `allow` matches.
#[derive(Clone, Copy, Debug)]
pub struct Filter;

/// The rules.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    deny: Span,
    allow: Span,
}

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "filter",
    about: "drops frames that a rule of `deny` matches, or that no rule of `allow` matches",
    fields: &[
        Field::optional(
            "deny",
            FieldKind::Rules,
            core::mem::offset_of!(Args, deny),
            "frames that any of these rules matches are dropped",
        ),
        Field::optional(
            "allow",
            FieldKind::Rules,
            core::mem::offset_of!(Args, allow),
            "frames that none of these rules matches are dropped",
        ),
    ],
    one_of: &["deny", "allow"],
    counters: &[CounterSpec::one("denied"), CounterSpec::one("not_allowed")],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};
