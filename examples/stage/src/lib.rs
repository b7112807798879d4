//! A stage of a user's own: tells how far packets have come, and drops those from too far away.
//!
//! Operating systems send with a time to live of 64, 128 or 255; what is missing to the next of
//! these is the number of routers on the way.
//!
//! Invariant: `no_std`, no allocation, no panic path: the same source is a GPU kernel and a CPU
//! thread.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_gpu_kernel))]

use warpwire_core::Simt;
use warpwire_core::context::Context;
use warpwire_core::packet::Packet;
use warpwire_core::reason::Reason;
use warpwire_core::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};
use warpwire_core::stage::{Stage, Verdict};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Counts IP packets by the routers that they have passed.
#[derive(Clone, Copy, Debug)]
pub struct Hops;

/// How many are too many.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    most: u32,
}

impl Stage for Hops {
    const SPEC: Spec = Spec {
        name: "hops",
        about: "counts IP packets by the routers on their way, and drops those from too far away",
        fields: &[Field::optional(
            "most",
            FieldKind::Number {
                bytes: 4,
                low: 0,
                high: 254,
            },
            core::mem::offset_of!(Args, most),
            "packets that have passed more routers are dropped",
        )],
        one_of: &[],
        counters: &[CounterSpec::table("hops", 256)],
        args_bytes: size_of::<Args>(),
        outcome: Outcome::Splits,
    };
    type Args = Args;

    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        let Some(packet) = packet.filter(|packet| packet.headers().ip_version != 0) else {
            return Verdict::Next;
        };
        let ttl = u32::from(packet.headers().ttl);
        let sent_with = match ttl {
            ..=64 => 64,
            65..=128 => 128,
            _ => 255,
        };
        let hops = sent_with - ttl;
        context.count(hops);
        if args.given.has(0) && hops > args.most {
            return Verdict::Drop(Reason::FILTERED);
        }
        Verdict::Next
    }
}

warpwire_core::stages! { Hops }
