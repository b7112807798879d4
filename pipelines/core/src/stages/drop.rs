//! Drops frames.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::spec::{Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};
use warpwire_device::Simt;

/// Ends a frame's way here.
#[derive(Clone, Copy, Debug)]
pub struct Drop;

/// Nothing to say.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
}

impl Stage for Drop {
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
        Verdict::Drop(Reason::DROPPED)
    }
}

const SPEC: Spec = Spec {
    name: "drop",
    about: "drops frames",
    fields: &[],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};
