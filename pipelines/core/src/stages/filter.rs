//! Lets through or drops by prefix, port, protocol, VLAN, RoCE opcode and queue pair.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::{Context, any, any_or_none};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Span, Spec};
use crate::stage::{Stage, Verdict};
use warpwire_device::Simt;

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

impl Stage for Filter {
    const SPEC: Spec = SPEC;
    const SEES_MALFORMED: bool = true;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        let Some(packet) = packet else {
            return Verdict::Next;
        };
        if any(context.rules(args.deny), packet) {
            context.count(DENIED);
            return Verdict::Drop(Reason::FILTERED);
        }
        if !any_or_none(context.rules(args.allow), packet) {
            context.count(NOT_ALLOWED);
            return Verdict::Drop(Reason::FILTERED);
        }
        Verdict::Next
    }
}

const DENIED: u32 = 0;
const NOT_ALLOWED: u32 = 1;

const SPEC: Spec = Spec {
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
