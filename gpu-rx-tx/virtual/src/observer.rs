//! Watching every access: the place for checkers of races and orders.

use warpwire_device::Place;

use crate::memory::{Order, Scope};
use crate::module::Space;

/// Makes an observer for each warp of a launch. What observers of a launch share is up to it.
pub trait Watch: std::fmt::Debug + Send + Sync + 'static {
    /// What watches one warp.
    type Observer: Observer;

    /// An observer of the warp at `place` of a launch of `kernel`.
    fn observer(&self, kernel: &str, place: Place) -> Self::Observer;
}

/// Told about each access of one warp, in the order in which it happens.
pub trait Observer: Send + 'static {
    /// Whether there is anything to tell; where it is false, events are not even made.
    const WATCHES: bool = true;

    /// A lane is about to access memory.
    fn access(&mut self, access: &AccessEvent);

    /// Lanes execute a fence.
    fn fence(&mut self, lanes: u32, line: u32, order: Order, scope: Scope);

    /// Lanes met: at an instruction with a mask.
    fn met(&mut self, lanes: u32, line: u32);

    /// The warp arrived at the barrier of its block.
    fn arrived(&mut self, line: u32);

    /// The warp goes on behind the barrier of its block.
    fn passed(&mut self);
}

/// One access of one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessEvent {
    /// The lane.
    pub lane: u32,
    /// The line of the PTX.
    pub line: u32,
    /// The space that the address lies in, never [`Space::Generic`].
    pub space: Space,
    /// The address: of the host's memory in [`Space::Global`], else from the start of the space.
    pub address: u64,
    /// Bytes of one element; the elements of a vector are accesses of their own.
    pub bytes: u32,
    /// What is done.
    pub kind: AccessKind,
    /// The order that the instruction asks for.
    pub order: Order,
    /// The scope that it asks for.
    pub scope: Scope,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write.
    Atomic,
}

/// Nobody watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    type Observer = Self;

    fn observer(&self, _kernel: &str, _place: Place) -> Self {
        Self
    }
}

impl Observer for Unwatched {
    const WATCHES: bool = false;

    fn access(&mut self, _access: &AccessEvent) {}
    fn fence(&mut self, _lanes: u32, _line: u32, _order: Order, _scope: Scope) {}
    fn met(&mut self, _lanes: u32, _line: u32) {}
    fn arrived(&mut self, _line: u32) {}
    fn passed(&mut self) {}
}
