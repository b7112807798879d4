//! Sending: queue pairs in turn, a packet a lane.
#![expect(
    unsafe_code,
    reason = "reads queues by the addresses that the host gave"
)]

use warpwire_device::{Claim, CopyHead, MAX_BATCH, Simt};
use warpwire_protocols::checksum::Engine as Sum;
use warpwire_protocols::rdma::{Outgoing, Service};
use warpwire_protocols::wire::bth::Qpn;
use warpwire_ring::{Cause, Post, Receive, Transmit};

use crate::around::Around;
use crate::care::mail_state;
use crate::count;
use crate::depart::{Departure, frame_bytes};
use crate::engine::{Engine, slots};
use crate::job::{Job, datagram_path};
use crate::pairs::Pairs;
use crate::payload::Payload;
use crate::tables::{PairBlock, Path};
use crate::tell;

impl<R: Receive, T: Transmit, E: Sum> Engine<'_, R, T, E> {
    /// *Collective.* Sends what may be sent: a packet a lane.
    #[inline(never)]
    pub(crate) fn transmit<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let mut busy = false;
        let (mut quiet, mut job) = (0, Job::default());
        let mut left = self.credits(simt)?;
        while left > 0 && quiet < self.pairs.block.pair_count {
            let most = left.min(S::WIDTH);
            let count = self.pairs.jobs(simt, most, &mut quiet, &mut job);
            if count == 0 {
                break;
            }
            left -= count;
            busy = true;
            self.depart(simt, &job, simt.lane() < count);
        }
        self.publish(simt)?;
        Ok(busy)
    }

    /// *Collective.* Reserves what is free: frames of which each may take as many slots as any.
    #[inline(always)]
    pub(crate) fn credits<S: Simt>(&mut self, simt: &S) -> Result<u32, Cause> {
        let most = MAX_BATCH.max(self.most_parts.get());
        let free = self.sender.credits(simt, most)?;
        self.sender.reserve(simt, free)?;
        Ok(free / self.most_parts)
    }

    /// *Collective.* Lets the NIC have what was written.
    #[inline(always)]
    pub(crate) fn publish<S: Simt>(&mut self, simt: &S) -> Result<(), Cause> {
        let published = self.sender.publish(simt);
        self.sender.ring(simt);
        published.map(|_| ())
    }

    /// *Collective.* Writes the packets of lanes that have a job.
    #[inline(always)]
    pub(crate) fn depart<S: Simt>(&mut self, simt: &S, job: &Job, has_job: bool) {
        let (path, bytes) = match has_job {
            true => self.pairs.path(job),
            false => Default::default(),
        };
        let parts = slots(bytes, self.capacity);
        let claim = self.sender.claim(simt, parts);
        let mut is_made = false;
        if let Some(claim) = &claim {
            match self.write(job, &path, claim) {
                Ok(()) => is_made = true,
                Err(cause) => self.sender.abandon(cause),
            }
        }
        if let Some(mirror) = &self.mirror {
            let head = CopyHead {
                time_ns: self.pairs.now_ns,
                sequence: 0,
                length: bytes,
                kept: bytes,
            };
            let slot = |part| self.sender.slot(claim.as_ref()?, part);
            mirror.offer(simt, is_made, &head, |_| true, slot);
        }
    }

    /// Writes a packet into its slots, and their descriptors. What fails cuts the batch. By any
    /// lane: none changes a queue pair meanwhile.
    #[inline(always)]
    fn write(&mut self, job: &Job, path: &Path, claim: &Claim) -> Result<(), Cause> {
        // SAFETY: lanes only read here, between two meetings of the warp.
        let block: &PairBlock = unsafe { self.pairs.pair(job.pair) };
        let is_datagram = block.pair.attributes().service == Service::Ud;
        let mut payload = Payload::of(block, job, is_datagram)?;
        let first = self.sender.slot(claim, 0).ok_or(Cause::LocalProtection)?;
        let mut address = first.address();
        let (mut frame, at) = Departure::begin::<E>(&first, path, job.words(), job.payload)?;
        let mut length = frame.fill::<E>(&mut payload, &first, at)?;
        let parts = claim.parts();
        for part in 0..parts {
            if part > 0 {
                let slot = self.sender.slot(claim, part);
                let slot = slot.ok_or(Cause::LocalProtection)?;
                address = slot.address();
                length = frame.fill::<E>(&mut payload, &slot, 0)?;
            }
            let post = Post {
                address,
                length,
                part,
                parts,
                ..Post::default()
            };
            self.sender.write(claim, &post)?;
        }
        if !frame.is_whole() {
            return Err(Cause::FrameTooLong);
        }
        self.sender.count_headers(1);
        Ok(())
    }
}

impl Pairs<'_> {
    /// *Collective.* Asks queue pairs in turn for up to `most` packets; lane `i` gets the `i`-th in
    /// `mine`. `quiet` counts those in a row that had none. Returns how many there are.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn jobs<S: Simt>(
        &mut self,
        simt: &S,
        most: u32,
        quiet: &mut u32,
        mine: &mut Job,
    ) -> u32 {
        let mut asked = Job::default();
        let mut count = 0;
        while count < most && *quiet < self.block.pair_count {
            let mut there = false;
            if S::WIDTH == 1 {
                there = self.ask(self.turn, mine);
            } else if simt.is_leader() {
                there = self.ask(self.turn, &mut asked);
            }
            if simt.any(there) {
                if S::WIDTH > 1 {
                    let asked = asked.of_leader(simt);
                    if simt.lane() == count {
                        *mine = asked;
                    }
                }
                count += 1;
                self.taken += 1;
                *quiet = 0;
                if self.taken < self.block.share.max(1) {
                    continue;
                }
            } else {
                *quiet += 1;
            }
            self.taken = 0;
            self.turn = (self.turn + 1) & (self.block.pair_count - 1);
        }
        if simt.is_leader() {
            self.counts.add(simt, count::SENT, u64::from(count));
        }
        // What the leader changed is seen by the lanes that write the packets.
        simt.sync_warp();
        count
    }

    /// The leader's part: the next packet of a queue pair, if there is one.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn ask(&self, place: u32, job: &mut Job) -> bool {
        if !self.is_own(place) {
            return false;
        }
        // SAFETY: the leader, which holds no other.
        let block = unsafe { self.pair(place) };
        if block.number == 0 || !block.pair.state().receives() {
            return false;
        }
        // SAFETY: live by the engine's promise.
        block.head = unsafe { block.send.head(block.head) };
        let now_ns = self.now_ns;
        let (pair, mut around) = Around::of(block, self.regions());
        let packet = pair.poll(now_ns, &self.block.tuning, &mut around);
        if let Some(packet) = &packet {
            let attributes = block.pair.attributes();
            let remote = match attributes.service {
                Service::Ud => destination(block, packet),
                Service::Rc | Service::Uc => attributes.remote_qp,
            };
            job.set(place, packet, remote, attributes.pkey);
        }
        tell::tell_sends(block);
        mail_state(block);
        packet.is_some()
    }

    /// The way of a packet, and the bytes of its frame. By any lane: none changes a queue pair
    /// meanwhile.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn path(&self, job: &Job) -> (Path, u32) {
        // SAFETY: lanes only read here, between two meetings of the warp.
        let block: &PairBlock = unsafe { self.pair(job.pair) };
        let path = match block.pair.attributes().service {
            Service::Ud => {
                // SAFETY: live by the engine's promise; the request is posted.
                let datagram = unsafe { block.send.datagram(job.request) };
                datagram_path(&block.path, &datagram)
            }
            Service::Rc | Service::Uc => block.path,
        };
        let bytes = frame_bytes(&path, job.words().len(), job.payload);
        (path, bytes)
    }
}

/// The queue pair that a datagram goes to.
fn destination(block: &PairBlock, packet: &Outgoing) -> Qpn {
    // SAFETY: live by the engine's promise; the request is posted.
    let datagram = unsafe { block.send.datagram(packet.request) };
    Qpn::new(datagram.dqp_dct.get())
}
