//! Sending: connections in turn, a segment a lane; and frames of the host.

use warpwire_device::{Area, Claim, CopyHead, MAX_BATCH, Simt};
use warpwire_ring::{Cause, Post, PostFlags, Receive, Transmit};

use super::count;
use super::depart::{CHECKSUM_AT, Departure, header_bytes};
use super::engine::StreamEngine;
use super::job::Job;
use super::tables::{NONE, OFFLOAD_CHECKSUM};
use crate::engine::slots;
use crate::tables::Path;

impl<R: Receive, T: Transmit> StreamEngine<'_, R, T> {
    /// *Collective.* Sends what may be sent: a segment a lane.
    #[inline(never)]
    pub(super) fn transmit<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let mut busy = false;
        let mut job = Job::default();
        let mut left = self.credits(simt)?;
        while left > 0 {
            let count = self.flow.jobs(simt, left, &mut job);
            if count == 0 {
                break;
            }
            left -= count;
            busy = true;
            let has_job = simt.lane() < count;
            let (mut path, mut ring) = (Path::default(), None);
            if has_job {
                path = self.path(&job);
                ring = self.ring(&job);
            }
            self.depart(simt, &job, &path, ring.as_ref(), has_job);
        }
        let published = self.sender.publish(simt);
        self.sender.ring(simt);
        published.map(|_| busy)
    }

    /// *Collective.* Reserves what is free: frames of which each may take as many slots as any.
    #[inline(always)]
    pub(super) fn credits<S: Simt>(&mut self, simt: &S) -> Result<u32, Cause> {
        let most = MAX_BATCH.max(self.most_parts.get());
        let free = self.sender.credits(simt, most)?;
        self.sender.reserve(simt, free)?;
        Ok(free / self.most_parts)
    }

    /// *Collective.* Writes the segments of lanes that have a job: by what way, and the send ring
    /// that its payload lies in.
    #[inline(always)]
    pub(super) fn depart<S: Simt>(
        &mut self,
        simt: &S,
        job: &Job,
        path: &Path,
        ring: Option<&Area>,
        has_job: bool,
    ) {
        let headers = header_bytes(path, job.words().len());
        let bytes = if has_job { headers + job.length } else { 0 };
        let claim = self.sender.claim(simt, slots(bytes, self.capacity));
        let mut is_made = false;
        if let Some(claim) = &claim {
            match self.write(job, path, ring, claim, headers) {
                Ok(()) => is_made = true,
                Err(cause) => self.sender.abandon(cause),
            }
        }
        self.copy(simt, is_made, bytes, claim.as_ref());
        // pairs with: the leader, which changes connections that lanes have read here.
        simt.sync_warp();
    }

    /// *Collective.* Copies what was written for the host's capture.
    #[inline(always)]
    fn copy<S: Simt>(&self, simt: &S, is_made: bool, bytes: u32, claim: Option<&Claim>) {
        if let Some(mirror) = &self.mirror {
            let head = CopyHead {
                time_ns: self.flow.now_ns,
                sequence: 0,
                length: bytes,
                kept: bytes,
            };
            let slot = |part| self.sender.slot(claim?, part);
            mirror.offer(simt, is_made, &head, |_| true, slot);
        }
    }

    /// The way of a segment. By any lane: none changes a connection meanwhile.
    #[inline(always)]
    pub(super) fn path(&self, job: &Job) -> Path {
        match job.place {
            NONE => job.path,
            place => self.flow.book.seen(place).map_or(job.path, |one| one.path),
        }
    }

    /// The send ring that the payload of a segment lies in.
    #[inline(always)]
    pub(super) fn ring(&self, job: &Job) -> Option<Area> {
        if job.length == 0 {
            return None;
        }
        let block = self.flow.book.seen(job.place)?;
        let bytes = self.flow.book.config(block.config).send_bytes;
        self.flow.book.ring(block.send_chunk, bytes)
    }

    /// Writes a segment into its slots, and their descriptors. What fails cuts the batch.
    #[inline(always)]
    fn write(
        &mut self,
        job: &Job,
        path: &Path,
        ring: Option<&Area>,
        claim: &Claim,
        headers: u32,
    ) -> Result<(), Cause> {
        let offloads = self.flow.book.block.offloads & OFFLOAD_CHECKSUM != 0;
        let first = self.sender.slot(claim, 0).ok_or(Cause::LocalProtection)?;
        let mut frame = Departure::new(job, ring);
        let mut end = frame.fill(&first, headers).ok_or(Cause::LocalProtection)?;
        let (mut address, first_end) = (first.address(), end);
        let parts = claim.parts();
        for part in 1..parts {
            let slot = self.sender.slot(claim, part);
            let slot = slot.ok_or(Cause::LocalProtection)?;
            frame.fill(&slot, 0).ok_or(Cause::LocalProtection)?;
        }
        if !frame.is_whole() || !frame.head(&first, path, job, offloads) {
            return Err(Cause::FrameTooLong);
        }
        let transport = headers - job.words().len() as u32 * 4;
        let bytes = headers + job.length;
        end = first_end;
        for part in 0..parts {
            if part > 0 {
                let slot = self.sender.slot(claim, part);
                let slot = slot.ok_or(Cause::LocalProtection)?;
                address = slot.address();
                end = (bytes - part * self.capacity.get()).min(slot.length());
            }
            let post = Post {
                address,
                length: end,
                part,
                parts,
                flags: match offloads {
                    true => PostFlags::OFFLOAD_L4,
                    false => PostFlags::empty(),
                },
                checksum_start: transport as u16,
                checksum_offset: CHECKSUM_AT as u16,
                ..Post::default()
            };
            self.sender.write(claim, &post)?;
        }
        self.sender.count_headers(1);
        Ok(())
    }

    /// *Collective.* Sends frames of the host, a lane each.
    pub(super) fn inject<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let Some(inject) = self.inject else {
            return Ok(false);
        };
        let waiting = inject.waiting(simt);
        if waiting == 0 {
            return Ok(false);
        }
        let count = waiting.min(S::WIDTH).min(self.credits(simt)?);
        let frame = match simt.lane() < count {
            true => inject.frame(simt.lane()),
            false => None,
        };
        let bytes = frame.map_or(0, |frame| frame.length());
        let parts = slots(bytes, self.capacity);
        let fits = parts > 0 && parts <= self.most_parts.get();
        let claim = self.sender.claim(simt, if fits { parts } else { 0 });
        if let (Some(claim), Some(frame)) = (&claim, &frame) {
            for part in 0..parts {
                let at = part * self.capacity.get();
                let count = (bytes - at).min(self.capacity.get());
                let pieces = self.sender.slot(claim, part).zip(frame.part(at, count));
                let Some((slot, from)) = pieces else {
                    self.sender.abandon(Cause::LocalProtection);
                    break;
                };
                from.copy_to(&slot);
                let post = Post {
                    address: slot.address(),
                    length: count,
                    part,
                    parts,
                    ..Post::default()
                };
                // A frame that cannot be written cuts the batch, of which `publish` tells.
                let _ = self.sender.write(claim, &post);
            }
        }
        if simt.lane() < count {
            let counter = match claim {
                Some(_) => count::INJECTED,
                None => count::INJECT_REFUSED,
            };
            self.flow.counts.add(simt, counter, 1);
        }
        self.copy(simt, claim.is_some(), bytes, claim.as_ref());
        self.sender.publish(simt)?;
        inject.give_back(simt, count);
        Ok(count > 0)
    }
}
