//! Sends frames back out of the NIC that they came from.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::spec::{Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};
use warpwire_device::Simt;

/// Ends a frame's way at the transmit queue of its own NIC.
#[derive(Clone, Copy, Debug)]
pub struct Reply;

/// Nothing to say.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
}

impl Stage for Reply {
    const SPEC: Spec = SPEC;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        _args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        match packet {
            Some(_) => Verdict::Send(context.own_port()),
            None => Verdict::Next,
        }
    }
}

const SPEC: Spec = Spec {
    name: "reply",
    about: "sends frames back out of the NIC that they came from",
    fields: &[],
    one_of: &[],
    counters: &[],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};
