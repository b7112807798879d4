//! Sending: queue pairs in turn, a packet a lane.
#![expect(
    unsafe_code,
    reason = "reads queues by the addresses that the host gave"
)]

use warpwire_device::{Claim, MAX_BATCH, Simt};
use warpwire_protocols::checksum::Engine as Sum;
use warpwire_protocols::rdma::{Outgoing, Service};
use warpwire_protocols::wire::bth::Qpn;
use warpwire_ring::mlx5::serve::{Bytes, Walk};
use warpwire_ring::{Cause, DeviceAddress, Post, Receive, Transmit};

use crate::around::Around;
use crate::care::mail_state;
use crate::count;
use crate::depart::{Departure, Slots, frame_bytes};
use crate::engine::{Engine, area};
use crate::job::{Job, Source, datagram_path};
use crate::tables::{PairBlock, Path};
use crate::tell;

impl<R: Receive, T: Transmit, E: Sum> Engine<'_, R, T, E> {
    /// *Collective.* Sends what may be sent: a packet a lane.
    #[inline(never)]
    pub(crate) fn transmit<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let mut busy = false;
        let mut quiet = 0;
        let free = self.sender.credits(simt, MAX_BATCH.max(self.most_parts))?;
        self.sender.reserve(simt, free)?;
        // Frames of which each may take as many slots as any.
        let mut left = free / self.most_parts;
        while left > 0 && quiet < self.block.pair_count {
            let most = left.min(S::WIDTH);
            let (job, count) = self.jobs(simt, most, &mut quiet);
            if count == 0 {
                break;
            }
            left -= count;
            busy = true;
            let path = self.path(&job);
            let bytes = frame_bytes(&path, job.words().len(), job.payload);
            let has_job = simt.lane() < count;
            let parts = match has_job {
                true => bytes.div_ceil(self.capacity),
                false => 0,
            };
            if let Some(claim) = self.sender.claim(simt, parts) {
                match self.depart(&job, &path, &claim) {
                    Ok(length) => self.post(&claim, length),
                    Err(cause) => self.sender.abandon(cause),
                }
            }
            if simt.is_leader() {
                self.counts.add(simt, count::SENT, u64::from(count));
            }
        }
        let published = self.sender.publish(simt);
        self.sender.ring(simt);
        published?;
        Ok(busy)
    }

    /// *Collective.* Asks queue pairs in turn for up to `most` packets; lane `i` gets the `i`-th.
    /// `quiet` counts those in a row that had none.
    #[inline(never)]
    fn jobs<S: Simt>(&mut self, simt: &S, most: u32, quiet: &mut u32) -> (Job, u32) {
        let mut mine = Job::default();
        let mut count = 0;
        let mut of_pair = 0;
        while count < most && *quiet < self.block.pair_count {
            let mut job = None;
            if simt.is_leader() {
                job = self.ask(simt, self.turn);
            }
            let there = job.is_some();
            if simt.any(there) {
                let job = job.unwrap_or_default().of_leader(simt);
                if simt.lane() == count {
                    mine = job;
                }
                count += 1;
                of_pair += 1;
                *quiet = 0;
                if of_pair < self.block.share.max(1) {
                    continue;
                }
            } else {
                *quiet += 1;
            }
            of_pair = 0;
            self.turn = (self.turn + 1) & (self.block.pair_count - 1);
        }
        (mine, count)
    }

    /// The leader's part: the next packet of a queue pair.
    #[inline(never)]
    fn ask<S: Simt>(&self, simt: &S, place: u32) -> Option<Job> {
        // SAFETY: the leader, which holds no other.
        let block = unsafe { self.pair(place) };
        if block.number == 0 || !block.pair.state().receives() {
            return None;
        }
        // SAFETY: live by the engine's promise.
        block.head = unsafe { block.send.head(block.head) };
        let tuning = self.block.tuning;
        let now_ns = simt.now_ns();
        let (pair, mut around) = Around::of(block, self.regions());
        let packet = pair.poll(now_ns, &tuning, &mut around);
        let attributes = *pair.attributes();
        let remote = match (packet, attributes.service) {
            (Some(packet), Service::Ud) => destination(block, &packet),
            _ => attributes.remote_qp,
        };
        tell::tell_sends(block);
        mail_state(block);
        Some(Job::new(place, &packet?, remote, attributes.pkey))
    }

    /// The way of a packet. By any lane: none changes a queue pair meanwhile.
    fn path(&self, job: &Job) -> Path {
        // SAFETY: lanes only read here, between two meetings of the warp.
        let block: &PairBlock = unsafe { self.pair(job.pair) };
        match block.pair.attributes().service {
            Service::Ud => {
                // SAFETY: live by the engine's promise; the request is posted.
                let datagram = unsafe { block.send.datagram(job.request) };
                datagram_path(&block.path, &datagram)
            }
            Service::Rc | Service::Uc => block.path,
        }
    }

    /// Writes the descriptors of a frame that was written. What fails cuts the batch.
    fn post(&mut self, claim: &Claim, length: u32) {
        self.sender.count_headers(1);
        let parts = claim.parts();
        for part in 0..parts {
            let Some(slot) = self.sender.slot(claim, part) else {
                return self.sender.abandon(Cause::LocalProtection);
            };
            let post = Post {
                address: slot.address(),
                length: (length - part * self.capacity).min(self.capacity),
                part,
                parts,
                ..Post::default()
            };
            if self.sender.write(claim, &post).is_err() {
                return;
            }
        }
    }

    /// Writes a packet into its slots; the bytes of the frame. By any lane, as above.
    #[inline(never)]
    fn depart(&self, job: &Job, path: &Path, claim: &Claim) -> Result<u32, Cause> {
        // SAFETY: lanes only read here, between two meetings of the warp.
        let block: &PairBlock = unsafe { self.pair(job.pair) };
        let is_datagram = block.pair.attributes().service == Service::Ud;
        let payload = job.payload;
        let slots = Slots {
            sender: &self.sender,
            claim,
            capacity: self.capacity,
        };
        let mut frame = Departure::begin::<E>(slots, path, job.words(), payload)?;
        match job.source() {
            Source::None => {}
            Source::Memory => {
                let bytes = Bytes {
                    address: DeviceAddress::new(job.at),
                    length: payload,
                    key: 0,
                    is_inline: false,
                };
                if let Some(piece) = area(&bytes).piece(0, payload) {
                    frame.payload::<E>(&piece)?;
                }
            }
            Source::Request => gather::<T, E>(&mut frame, block, job, is_datagram)?,
        }
        frame.end::<E>(payload)
    }
}

/// Appends a part of a request.
#[inline(never)]
fn gather<T: Transmit, E: Sum>(
    frame: &mut Departure<'_, T>,
    block: &PairBlock,
    job: &Job,
    is_datagram: bool,
) -> Result<(), Cause> {
    let posted = block.head.wrapping_sub(job.at);
    // SAFETY: live by the engine's promise; the request is posted.
    let entry = unsafe { block.send.entry(job.at, posted, is_datagram) };
    let entry = entry.map_err(|_| Cause::LocalQpOperation)?;
    let (mut skip, mut left) = (job.offset, job.payload);
    let mut walk = Walk::default();
    while left > 0 {
        // SAFETY: as above.
        let bytes = unsafe { block.send.bytes(job.at, &entry, &mut walk) };
        let Ok(Some(bytes)) = bytes else {
            return Err(Cause::LocalQpOperation);
        };
        if skip >= bytes.length {
            skip -= bytes.length;
            continue;
        }
        let count = (bytes.length - skip).min(left);
        if let Some(piece) = area(&bytes).piece(u64::from(skip), count) {
            frame.payload::<E>(&piece)?;
        }
        left -= count;
        skip = 0;
    }
    Ok(())
}

/// The queue pair that a datagram goes to.
fn destination(block: &PairBlock, packet: &Outgoing) -> Qpn {
    // SAFETY: live by the engine's promise; the request is posted.
    let datagram = unsafe { block.send.datagram(packet.request) };
    Qpn::new(datagram.dqp_dct.get())
}
