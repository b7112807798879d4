//! Sends frames out of another NIC.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::spec::{Field, FieldKind, Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};
use warpwire_device::Simt;

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

impl Stage for Forward {
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
        if packet.fault().is_some() && !args.given.has(MALFORMED) {
            return Verdict::Next;
        }
        match context.port(args.to, context.own_queue()) {
            Some(port) => Verdict::Send(port),
            None => Verdict::Drop(Reason::NO_PORT),
        }
    }
}

/// The place of `malformed` in the fields.
const MALFORMED: u32 = 1;

const SPEC: Spec = Spec {
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
