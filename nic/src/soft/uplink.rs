//! Ways out of a fabric: whatever takes and gives Ethernet frames.

use crate::error::Error;

/// A port of a fabric that leads elsewhere: a capture file, a tap, another NIC.
pub trait Uplink: Send {
    /// What it is, for reports.
    fn name(&self) -> &str;

    /// Takes a frame that left the fabric. False if it cannot: the frame is lost and counted.
    fn send(&mut self, frame: &[u8]) -> bool;

    /// A frame that enters the fabric, if there is one: its bytes go to the start of `into`, its
    /// length is returned. Never blocks.
    fn receive(&mut self, into: &mut [u8], now_ns: u64) -> Option<usize>;

    /// Whether the source can wait: then it is asked only when every adapter could take a frame.
    fn patient(&self) -> bool {
        false
    }

    /// Called once a round, after frames were sent and before they are asked for: kicks, control
    /// sockets. Returns whether it did anything.
    fn round(&mut self, _now_ns: u64) -> bool {
        false
    }

    /// When it has its next frame, if that is known: a virtual clock may be turned that far.
    fn next_due_ns(&self) -> Option<u64> {
        None
    }

    /// What it counted itself, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Finishes: flushes files, gives back what the system lent.
    ///
    /// # Errors
    /// What could not be finished.
    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
