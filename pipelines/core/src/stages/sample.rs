//! Copies every Nth frame into a ring that the host drains into a pcapng file.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::sample::{SNAP_BYTES, offer};
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};
use warpwire_device::{Copied, Simt};

/// Copies; changes nothing. If the host is slow, samples are lost and counted; frames are not.
#[derive(Clone, Copy, Debug)]
pub struct Sample;

/// Which frames, and how much of them.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    every: u32,
    snap: u32,
}

impl Stage for Sample {
    const SPEC: Spec = SPEC;
    const SEES_MALFORMED: bool = true;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        let Some(copies) = context.samples() else {
            return Verdict::Next;
        };
        let every = if args.given.has(EVERY) { args.every } else { 1 };
        let snap = if args.given.has(SNAP) {
            args.snap
        } else {
            SNAP_BYTES
        };
        match offer(&copies, context.simt, packet.as_deref(), every, snap) {
            Copied::Yes => context.count(TAKEN),
            Copied::Lost => context.count(LOST),
            Copied::No => {}
        }
        Verdict::Next
    }
}

/// Places of fields.
const EVERY: u32 = 1;
const SNAP: u32 = 2;

const TAKEN: u32 = 0;
const LOST: u32 = 1;

const SPEC: Spec = Spec {
    name: "sample",
    about: "copies every Nth frame to a pcapng file",
    fields: &[
        Field::required("file", FieldKind::File, 0, "the pcapng file to write"),
        Field::optional(
            "every",
            FieldKind::Number {
                bytes: 4,
                low: 1,
                high: 1 << 31,
            },
            core::mem::offset_of!(Args, every),
            "one frame out of so many; 1 if left out",
        ),
        Field::optional(
            "snap",
            FieldKind::Number {
                bytes: 4,
                low: 64,
                high: SNAP_BYTES as u64,
            },
            core::mem::offset_of!(Args, snap),
            "bytes to keep of each frame; all that a sample can hold if left out",
        ),
    ],
    one_of: &[],
    counters: &[CounterSpec::one("taken"), CounterSpec::one("lost")],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};
