//! The host's end of rings of copies: what a kernel copied, one after the other; and of such rings
//! as the host fills.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_device::{COPY_AT, CopyBlock, CopyHead};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::DeviceAddress;

/// A ring of copies.
#[derive(Clone, Debug)]
pub(crate) struct CopyRing {
    /// What the block lies in, and where.
    pub(crate) arena: Arc<Arena>,
    pub(crate) block: DeviceAddress,
    /// What the slots lie in, and where.
    pub(crate) slots_arena: Arc<Arena>,
    pub(crate) slots: DeviceAddress,
    /// How many there are; a power of two.
    pub(crate) depth: u32,
    pub(crate) slot_bytes: u32,
}

impl CopyRing {
    /// The block of an empty ring.
    pub(crate) fn block(slots: DeviceAddress, depth: u32, slot_bytes: u32) -> CopyBlock {
        CopyBlock {
            depth,
            slots,
            slot_bytes,
            ..CopyBlock::default()
        }
    }

    /// Frames that were offered to it so far.
    pub(crate) fn offered(&self) -> u64 {
        let at = self
            .block
            .offset(std::mem::offset_of!(CopyBlock, offered) as u64);
        let word = self.arena.word(at);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Hands up to `most` copies to `take`, each once; returns how many there were.
    pub(crate) fn drain(&self, most: u32, mut take: impl FnMut(&CopyHead, &[u8])) -> u32 {
        let word = |offset: usize| self.arena.half_word(self.block.offset(offset as u64));
        let written = word(std::mem::offset_of!(CopyBlock, written));
        let (Ok(written), Ok(read)) = (written, word(std::mem::offset_of!(CopyBlock, read))) else {
            return 0;
        };
        // pairs with: the kernel's release of what it has written.
        let end = written.load(Ordering::Acquire);
        let start = read.load(Ordering::Relaxed);
        let count = end.wrapping_sub(start).min(most);
        let mut bytes = vec![
            0;
            if count > 0 {
                self.slot_bytes as usize
            } else {
                0
            }
        ];
        for number in 0..count {
            let index = start.wrapping_add(number);
            if let Ok(head) = self.read(index & (self.depth - 1), &mut bytes) {
                let kept = COPY_AT as usize..COPY_AT as usize + head.kept as usize;
                take(&head, bytes.get(kept).unwrap_or_default());
            }
            // pairs with: the kernel's acquire before it writes a slot again.
            read.store(index.wrapping_add(1), Ordering::Release);
        }
        count
    }

    /// Puts a frame into a ring that the host fills. Says whether there was room for it.
    pub(crate) fn offer(&self, time_ns: u64, frame: &[u8]) -> bool {
        let word = |offset: usize| self.arena.half_word(self.block.offset(offset as u64));
        let written = word(std::mem::offset_of!(CopyBlock, written));
        let (Ok(written), Ok(read)) = (written, word(std::mem::offset_of!(CopyBlock, read))) else {
            return false;
        };
        let index = written.load(Ordering::Relaxed);
        // pairs with: the kernel's release of what it has read.
        let waiting = index.wrapping_sub(read.load(Ordering::Acquire));
        let room = (self.slot_bytes - COPY_AT) as usize;
        if waiting >= self.depth || frame.len() > room {
            return false;
        }
        let mut head = Vec::with_capacity(COPY_AT as usize + frame.len());
        head.extend(time_ns.to_ne_bytes());
        head.extend(u64::from(index).to_ne_bytes());
        for _ in 0..2 {
            head.extend((frame.len() as u32).to_ne_bytes());
        }
        head.resize(COPY_AT as usize, 0);
        head.extend(frame);
        let slot = u64::from(index & (self.depth - 1)) * u64::from(self.slot_bytes);
        let is_there = self.slots_arena.write(self.slots.offset(slot), &head);
        if is_there.is_ok() {
            // pairs with: the kernel's acquire before it reads frames.
            written.store(index.wrapping_add(1), Ordering::Release);
        }
        is_there.is_ok()
    }

    fn read(&self, slot: u32, bytes: &mut [u8]) -> Result<CopyHead, ArenaError> {
        let offset = u64::from(slot) * u64::from(self.slot_bytes);
        self.slots_arena.read(self.slots.offset(offset), bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |index: usize| words.get(index).map_or(0, |word| u32::from_ne_bytes(*word));
        let long = |index: usize| {
            let halves = [word(index).to_ne_bytes(), word(index + 1).to_ne_bytes()];
            u64::from_ne_bytes(halves.as_flattened().try_into().unwrap_or_default())
        };
        Ok(CopyHead {
            time_ns: long(0),
            sequence: long(2),
            length: word(4),
            kept: word(5),
        })
    }
}
