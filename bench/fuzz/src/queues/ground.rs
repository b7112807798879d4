//! What the memory of wires is made of: an arena, which any executor can be given.

use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_ring::{DeviceAddress, Location};

/// Zeroed pages.
pub(crate) struct Ground(pub(crate) Arc<Arena>);

impl Ground {
    pub(crate) fn new(bytes: usize) -> Self {
        let arena = Arena::new(bytes, Location::PageableHost);
        Self(Arc::new(arena.expect("memory can be had")))
    }

    pub(crate) fn start(&mut self) -> DeviceAddress {
        self.0.whole().address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.whole().length as usize
    }
}
