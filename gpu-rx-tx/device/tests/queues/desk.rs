//! A host for one scalar warp: a clock that moves when the warp pauses, and a script that runs
//! then.

use std::cell::{Cell, RefCell};

use warpwire_device::ScalarHost;

type Script<'a> = Box<dyn FnMut(u64) + 'a>;

pub(crate) struct Desk<'a> {
    now_ns: Cell<u64>,
    pauses: Cell<u64>,
    script: RefCell<Script<'a>>,
}

/// How far the clock moves in a pause.
pub(crate) const PAUSE_NS: u64 = 100;

impl<'a> Desk<'a> {
    /// Nothing happens in a pause.
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// `script` runs in every pause; it gets the pause's number, from 1.
    pub(crate) fn with(script: impl FnMut(u64) + 'a) -> Self {
        Self {
            now_ns: Cell::new(1_000_000),
            pauses: Cell::new(0),
            script: RefCell::new(Box::new(script)),
        }
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.get()
    }
}

impl ScalarHost for Desk<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
        self.now_ns.set(self.now_ns.get() + PAUSE_NS);
        assert!(self.pauses.get() < 100_000, "a wait that does not end");
        (self.script.borrow_mut())(self.pauses.get());
    }

    fn sync_block(&self) {}
}

/// A frame whose bytes tell its number.
pub(crate) fn frame(number: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (number.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(0x85eb_ca6b)) as u8)
        .collect()
}
