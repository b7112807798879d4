//! A queue pair driven by the host: frames in and out as bytes, for uplinks, tools and tests.
//!
//! This is the driver half of a queue, run by the host through the same receiver and sender that
//! kernels use. A pair has one driver: a kernel, or this.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use std::sync::Arc;

use warpwire_device::{Receiver, Scalar, ScalarHost, Sender};
use warpwire_gpu::Arena;
use warpwire_ring::memif::{ClientRx, ClientTx, Role, ServerRx, ServerTx};
use warpwire_ring::{Cause, Format, Meta, Post, PostFlags, QueueBlock, Receive, Transmit};
use warpwire_ring::{mlx5, xdp};

use crate::QueuePair;

/// What a frame asks of the NIC that sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// [`PostFlags::OFFLOAD_L3`] and [`PostFlags::OFFLOAD_L4`].
    pub offloads: PostFlags,
    /// See [`Post::checksum_start`].
    pub checksum_start: u16,
    /// See [`Post::checksum_offset`].
    pub checksum_offset: u16,
    /// Split the frame over at least so many slots; 0 and 1: as few as possible.
    pub parts: u32,
}

/// A queue pair of any format, driven by the host.
pub struct HostPort {
    queues: Box<dyn Queues>,
    /// Holds what the queues lie in.
    _memory: Vec<Arc<Arena>>,
}

impl HostPort {
    /// Attaches to a pair and goes on where its cursors stand.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if the blocks are of no format that this build knows.
    ///
    /// # Safety
    /// Nobody else drives the pair while this lives, and its NIC outlives this.
    pub unsafe fn attach(pair: &QueuePair) -> Result<Self, Cause> {
        let (receive, transmit) = (&pair.receive, &pair.transmit);
        let format = |format: Format| receive.format == format as u32;
        let queues = if format(Format::Mlx5) {
            // SAFETY: passed on.
            unsafe { Driver::<mlx5::Rx, mlx5::Tx>::attach(receive, transmit) }
        } else if format(Format::Xdp) {
            // SAFETY: passed on.
            unsafe { Driver::<xdp::RxQueue, xdp::TxQueue>::attach(receive, transmit) }
        } else if Role::of(receive) == Some(Role::Client) {
            // SAFETY: passed on.
            unsafe { Driver::<ClientRx, ClientTx>::attach(receive, transmit) }
        } else {
            // SAFETY: passed on.
            unsafe { Driver::<ServerRx, ServerTx>::attach(receive, transmit) }
        }?;
        let _memory = pair.memory.clone();
        Ok(Self { queues, _memory })
    }

    /// Puts a frame into the transmit queue; [`HostPort::kick`] makes the NIC look.
    ///
    /// # Errors [`Cause::NoResource`] if the queue is full, [`Cause::FrameTooLong`] if it can
    /// never fit, or the cause of an earlier frame's failure.
    pub fn send(&mut self, frame: &[u8], options: SendOptions) -> Result<(), Cause> {
        self.queues.send(frame, options)
    }

    /// Tells the NIC of what was sent, and collects completions.
    ///
    /// # Errors
    /// The cause of an earlier frame's failure.
    pub fn kick(&mut self) -> Result<(), Cause> {
        self.queues.kick()
    }

    /// Takes a received frame, if there is one: its bytes go to the start of `into` as far as they
    /// fit. Returns the length of the whole frame, and what the NIC found out.
    ///
    /// # Errors
    /// [`Cause::RingCorrupted`] if the peer broke the ring.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<Option<(usize, Meta)>, Cause> {
        self.queues.receive(into)
    }

    /// Slots that could not be read so far, and the last reason.
    pub fn receive_faults(&self) -> (u64, Option<Cause>) {
        self.queues.receive_faults()
    }
}

trait Queues: Send {
    fn send(&mut self, frame: &[u8], options: SendOptions) -> Result<(), Cause>;
    fn kick(&mut self) -> Result<(), Cause>;
    fn receive(&mut self, into: &mut [u8]) -> Result<Option<(usize, Meta)>, Cause>;
    fn receive_faults(&self) -> (u64, Option<Cause>);
}

struct Driver<R, T> {
    receiver: Receiver<R>,
    sender: Sender<T>,
    slot_bytes: usize,
    max_parts: u32,
}

impl<R: Receive + Send + 'static, T: Transmit + Send + 'static> Driver<R, T> {
    /// # Safety
    /// As [`HostPort::attach`].
    unsafe fn attach(
        receive: &QueueBlock,
        transmit: &QueueBlock,
    ) -> Result<Box<dyn Queues>, Cause> {
        // SAFETY: passed on.
        let receiver = unsafe { Receiver::<R>::attach(receive) }?;
        // SAFETY: passed on.
        let sender = unsafe { Sender::<T>::attach(transmit) }?;
        // SAFETY: passed on; only asked for its limits.
        let max_parts = unsafe { T::attach(transmit) }?.max_parts();
        let slot_bytes = transmit.slot_bytes as usize;
        Ok(Box::new(Self {
            receiver,
            sender,
            slot_bytes,
            max_parts,
        }))
    }
}

impl<R: Receive + Send, T: Transmit + Send> Queues for Driver<R, T> {
    fn send(&mut self, frame: &[u8], options: SendOptions) -> Result<(), Cause> {
        let simt = Scalar::new(&Alone);
        let least = frame.len().div_ceil(self.slot_bytes).max(1);
        let parts = least.max(options.parts as usize).min(frame.len());
        if parts == 0 || parts > self.max_parts as usize || parts > self.sender.depth() as usize {
            return Err(Cause::FrameTooLong);
        }
        self.sender.reserve(&simt, parts as u32)?;
        let claim = self
            .sender
            .claim(&simt, parts as u32)
            .ok_or(Cause::NoResource)?;
        let bytes = frame.len().div_ceil(parts).min(self.slot_bytes);
        let mut rest = frame;
        for part in 0..parts as u32 {
            // The last parts may be shorter, but none is empty.
            let behind = parts - 1 - part as usize;
            let here = bytes.min(rest.len().saturating_sub(behind));
            let (bytes, after) = rest.split_at(here);
            let address = match self.sender.slot(&claim, part) {
                Some(slot) if slot.copy_in(0, bytes) => slot.address(),
                _ => return Err(Cause::LocalLength),
            };
            let post = Post {
                address,
                length: here as u32,
                part,
                flags: options.offloads,
                checksum_start: options.checksum_start,
                checksum_offset: options.checksum_offset,
                ..Post::default()
            };
            self.sender.write(&claim, &post)?;
            rest = after;
        }
        self.sender.publish(&simt).map(|_| ())
    }

    fn kick(&mut self) -> Result<(), Cause> {
        let simt = Scalar::new(&Alone);
        self.sender.ring(&simt);
        self.sender.poll(&simt)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<Option<(usize, Meta)>, Cause> {
        let simt = Scalar::new(&Alone);
        // A batch without a frame is one at fault: look further, within what the queue can hold.
        for _ in 0..self.sender.depth().max(1) {
            let batch = self.receiver.peek(&simt, 1)?;
            if batch.is_empty() {
                return Ok(None);
            }
            let taken = self.receiver.frame(&batch, 0).map(|frame| {
                self.receiver.copy_out(&frame, 0, into);
                (frame.length() as usize, self.receiver.meta(&frame))
            });
            self.receiver.release(&simt, batch);
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    fn receive_faults(&self) -> (u64, Option<Cause>) {
        let cursor = self.receiver.cursor();
        (cursor.faults, Cause::from_number(cursor.last_cause))
    }
}

/// The one warp of a host that drives a queue by itself.
struct Alone;

impl ScalarHost for Alone {
    /// Nothing here waits.
    fn now_ns(&self) -> u64 {
        0
    }

    fn pause(&self) {
        std::hint::spin_loop();
    }

    fn sync_block(&self) {}
}
