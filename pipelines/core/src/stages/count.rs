//! Counts the frames that its `when` lets through; give it a `name` to find it in the report.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::spec::{Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};
use warpwire_device::Simt;

/// Counts frames and bytes, as every stage does; and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Count;

/// Nothing to say.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
}

impl Stage for Count {
    const SPEC: Spec = SPEC;
    const SEES_MALFORMED: bool = true;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        _context: &Context<'_, S>,
        _args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        let _ = packet;
        Verdict::Next
    }
}

const SPEC: Spec = Spec {
    name: "count",
    about: "counts the frames that `when` lets through",
    fields: &[],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};
