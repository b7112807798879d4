//! What a stage is to the kernel, and sets of stages.
//!
//! # Writing a stage
//! A stage is one file: a type, its arguments, its [`Spec`], its code.
//!
//! 1. Write `struct MyStage;`, and a `repr(C)` struct of its arguments that derives zerocopy's
//!    `FromBytes`, `Immutable` and `KnownLayout` and starts with a [`Given`](crate::spec::Given).
//! 2. Describe it in a `const` [`Spec`]: its word, its fields and where each lies in the arguments,
//!    its counters. The host reads pipeline files and prints counters by that alone.
//! 3. Implement [`Stage`]: look at the frame, change it in place, count, return a [`Verdict`].
//! 4. Name it: a built-in stage in `stages/mod.rs`; one of your own by
//!    [`stages!`](crate::stages!) at the root of your crate, which `warpwire kernel build` turns
//!    into a command and a kernel. `examples/stage` is such a crate.

use warpwire_device::Simt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::program::{ARGS_BYTES, Op};
use crate::reason::Reason;
use crate::spec::Spec;

/// What becomes of a frame after a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The next stage sees it.
    Next,
    /// Its way ends here.
    Drop(Reason),
    /// It is sent from one of the block's ports, by the port's number.
    Send(u32),
}

/// A stage of a pipeline.
pub trait Stage {
    /// What the stage says about itself.
    const SPEC: Spec;

    /// Whether the stage sees frames that the parser refused. Those that it does not see go on.
    const SEES_MALFORMED: bool = false;

    /// The stage's arguments, packed as [`Stage::SPEC`] says.
    type Args: FromBytes + Immutable + KnownLayout;

    /// *Collective.* Works on one frame a lane; lanes without one pass `None`, and their verdict
    /// counts for nothing. A stage that makes no collective calls may return for them at once.
    ///
    /// Never panics and never waits.
    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Self::Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict;
}

/// A list of stages that a kernel is made with.
pub trait StageSet {
    /// What each stage says about itself; an operation's kind is a place in this list.
    const SPECS: &'static [&'static Spec];

    /// *Collective.* Runs the stage that `context.op` names; an unknown one lets every frame go on.
    fn run<S: Simt>(context: &Context<'_, S>, packet: Option<&mut Packet<'_>>) -> Verdict;

    /// A hash of what host and kernel must agree on: names, fields, sizes, counters, in their
    /// order.
    const LAYOUT: u64 = hash(Self::SPECS);
}

/// *Collective.* Runs one stage: the body of an arm of [`StageSet::run`].
#[inline(always)]
pub fn run<T: Stage, S: Simt>(
    context: &Context<'_, S>,
    packet: Option<&mut Packet<'_>>,
) -> Verdict {
    const { assert!(size_of::<T::Args>() <= ARGS_BYTES && align_of::<T::Args>() <= 8) };
    let packet = packet.filter(|packet| T::SEES_MALFORMED || packet.fault().is_none());
    context.seen(packet.as_deref());
    match args_of::<T>(context.op) {
        Some(args) => T::run(context, args, packet),
        None => Verdict::Next,
    }
}

#[inline(always)]
fn args_of<T: Stage>(op: &Op) -> Option<&T::Args> {
    let bytes = op.args.as_bytes().get(..size_of::<T::Args>())?;
    T::Args::ref_from_bytes(bytes).ok()
}

/// Makes a [`StageSet`]: `stage_set! { pub struct Mine: stages::classify::Classify, MyStage }`.
#[macro_export]
macro_rules! stage_set {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident: $($stage:ty),+ $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        impl $crate::stage::StageSet for $name {
            const SPECS: &'static [&'static $crate::spec::Spec] =
                &[$(&<$stage as $crate::stage::Stage>::SPEC),+];

            #[inline(always)]
            fn run<S: $crate::Simt>(
                context: &$crate::context::Context<'_, S>,
                packet: ::core::option::Option<&mut $crate::packet::Packet<'_>>,
            ) -> $crate::stage::Verdict {
                let mut place = 0;
                $(
                    if context.op.kind == place {
                        return $crate::stage::run::<$stage, S>(context, packet);
                    }
                    place += 1;
                )+
                let _ = place;
                $crate::stage::Verdict::Next
            }
        }
    };
}

const fn hash(specs: &[&Spec]) -> u64 {
    use warpwire_ring::layout::{SEED, fold};
    let mut hash = SEED;
    let mut rest = specs;
    while let [spec, tail @ ..] = rest {
        hash = text(hash, spec.name);
        hash = fold(hash, spec.args_bytes);
        hash = fold(hash, spec.counter_entries() as usize);
        let mut fields = spec.fields;
        while let [field, others @ ..] = fields {
            hash = fold(text(hash, field.name), field.at);
            fields = others;
        }
        rest = tail;
    }
    hash
}

const fn text(hash: u64, words: &str) -> u64 {
    let mut hash = hash;
    let mut bytes = words.as_bytes();
    while let [byte, tail @ ..] = bytes {
        hash = warpwire_ring::layout::fold(hash, *byte as usize);
        bytes = tail;
    }
    hash
}
