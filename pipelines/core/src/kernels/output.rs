//! The transmit queues of a block: frames with a verdict go out of them, batch by batch.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_device::{Frame, Reader, Sender, SharedCounters, Simt};
use warpwire_ring::{Cause, Receive, Transmit};

use crate::block::{Port, PortCounters};
use crate::context::add;
use crate::kernels::count::{DROPS, TRANSMIT_CAUSE, set};
use crate::reason::Reason;

/// A transmit queue and what became of this batch's frames at it.
pub(crate) struct Output<T> {
    sender: Sender<T>,
    /// The [`PortCounters`] of its own port.
    own: SharedCounters,
    /// Whether slots are reserved for this batch.
    is_open: bool,
    /// Frames that this batch handed over.
    frames: u32,
    /// Why the queue cannot be used, until it is counted.
    death: Option<Cause>,
}

impl<T: Transmit> Output<T> {
    /// # Safety
    /// *The port's promise*: its transmit queue's and its counters' memory is live.
    #[inline(never)]
    pub(crate) unsafe fn attach(port: &Port) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let sender = unsafe { Sender::attach(&port.transmit) }?;
        Ok(Self {
            sender,
            // SAFETY: the port's counters, by the promise.
            own: unsafe { SharedCounters::attach(port.counters, PortCounters::ENTRIES) },
            is_open: false,
            frames: 0,
            death: None,
        })
    }

    /// *Collective.* Sends a frame a lane; `room` slots are wanted for the rest of the batch at
    /// most. Returns why this lane's frame was not sent, if it was not.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    pub(crate) fn send<S: Simt, R: Receive>(
        &mut self,
        simt: &S,
        reader: &Reader<R>,
        frame: Option<(Frame<'_>, u32)>,
        room: u32,
    ) -> Option<Reason> {
        if !self.is_open {
            self.open(simt, room);
            self.sender.prepare_pass(simt, reader);
        }
        let parts = match &frame {
            Some((frame, _)) => self.sender.parts_for(reader, frame),
            None => 0,
        };
        let claim = self.sender.claim(simt, parts);
        let mut failure = None;
        let mut handed = false;
        match (frame, claim) {
            (Some((frame, headers)), Some(claim)) => {
                // A frame that fails here cuts the batch; `close` counts it.
                let _ = self.sender.pass(reader, frame, &claim);
                self.sender.count_headers(headers);
                handed = true;
            }
            (Some(_), None) if parts == 0 => failure = Some(Reason::NOT_SENDABLE),
            (Some(_), None) => failure = Some(Reason::TRANSMIT_FULL),
            (None, _) => {}
        }
        self.frames += simt.ballot(handed).count_ones();
        failure
    }

    /// *Collective.* Takes credits for a batch: all that there are, up to `room`.
    #[inline(never)]
    fn open<S: Simt>(&mut self, simt: &S, room: u32) {
        self.is_open = true;
        let want = room.min(self.sender.depth());
        let free = match self.sender.credits(simt, want) {
            Err(Cause::RingCorrupted) => {
                self.death = Some(Cause::RingCorrupted);
                0
            }
            // An error completion was counted; its slots are free like any other's.
            Err(_) => self.sender.credits(simt, want).unwrap_or(0),
            Ok(free) => free,
        };
        // As many as are free: this cannot fail.
        let _ = self.sender.reserve(simt, free);
    }

    /// *Collective.* Publishes what the batch handed over; what could not be sent after all is
    /// counted in `counters`, those of the port that the batch came from.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    pub(crate) fn close<S: Simt>(&mut self, simt: &S, counters: SharedCounters) {
        if !self.is_open {
            return;
        }
        self.is_open = false;
        let before = self.sender.cursor().frames;
        // The cause of a cut is in the queue's cursor.
        let cut = self.sender.publish(simt).is_err();
        self.sender.ring(simt);
        if cut && simt.is_leader() {
            let sent = self.sender.cursor().frames.wrapping_sub(before);
            let lost = u64::from(self.frames).wrapping_sub(sent);
            add(simt, counters, DROPS + Reason::NOT_SENDABLE.index(), lost);
        }
        if let Some(cause) = self.death
            && simt.is_leader()
        {
            set(self.own, TRANSMIT_CAUSE, cause as u64);
        }
        self.frames = 0;
    }

    /// *Collective.* Writes the queue's cursor for the next run.
    #[inline(never)]
    pub(crate) fn save<S: Simt>(&mut self, simt: &S) {
        self.sender.save(simt);
    }
}
