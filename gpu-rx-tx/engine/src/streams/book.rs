//! The tables of a block as the leader works on them: places, buckets, chunks, deadlines.
#![expect(
    unsafe_code,
    reason = "reads and writes tables by the addresses that the host gave"
)]

use warpwire_device::Area;
use warpwire_protocols::tcp::Config;
use warpwire_ring::{DeviceAddress, Location, Region, memory};

use super::tables::{
    AcceptBlock, Address, CommandSlot, ConnectionBlock, LAYOUT, ListenerBlock, MOST_PLACES, NONE,
    Standing, StreamBlock, StreamWords,
};
use super::words::{self, Words};
use crate::tables::Path;

/// The tables. Whoever made it is the leader of the warp that drives the block, or only reads
/// between two meetings of the warp.
#[derive(Clone, Copy)]
pub(super) struct Book<'a> {
    pub(super) block: &'a StreamBlock,
}

/// The ends of a connection, as they are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    pub(super) local: [u32; 4],
    pub(super) remote: [u32; 4],
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) ip_version: u8,
}

impl Ends {
    pub(super) const fn of(path: &Path, remote_port: u16) -> Self {
        Self {
            local: path.local,
            remote: path.remote,
            local_port: path.source_port,
            remote_port,
            ip_version: path.ip_version,
        }
    }
}

impl<'a> Book<'a> {
    /// The tables of a block that make sense.
    ///
    /// # Safety
    /// *The engine's promise*, see [`super::StreamEngine::attach`].
    pub(super) unsafe fn attach(block: &'a StreamBlock) -> Option<Self> {
        let book = Self { block };
        let line = |address: DeviceAddress| !address.is_null() && address.is_aligned(128);
        let lines = [
            block.connections,
            block.words,
            block.listeners,
            block.commands,
            block.counters,
            block.standing,
            block.chunks,
            block.asked,
            block.ready,
        ];
        let others = [
            block.buckets,
            block.free_chunks,
            block.free_places,
            block.deadlines,
            block.configs,
        ];
        let is_sound = block.layout == LAYOUT
            && lines.into_iter().all(line)
            && others.iter().all(|one| !one.is_null() && one.is_aligned(8))
            && (1..=MOST_PLACES).contains(&block.connection_count)
            && block.bucket_count.is_power_of_two()
            && block.bucket_count / 2 >= block.connection_count
            && block.chunk_bytes.is_power_of_two()
            && block.chunk_bytes >= LEAST_CHUNK
            && block.command_count.is_power_of_two()
            && (block.homes.is_null() || block.home_count.is_power_of_two())
            && block.config_count > 0;
        let configs = || (0..block.config_count).all(|index| book.is_sound(index));
        (is_sound && configs()).then_some(book)
    }

    /// Whether the rings of a configuration fit chunks.
    fn is_sound(&self, index: u32) -> bool {
        let fits = |bytes: u32| {
            bytes.is_power_of_two() && (LEAST_CHUNK..=self.block.chunk_bytes).contains(&bytes)
        };
        let config = self.config(index);
        fits(config.receive_bytes) && fits(config.send_bytes)
    }

    /// Bytes of the largest frame that a connection of any configuration sends.
    pub(super) fn largest_frame(&self) -> u32 {
        let sizes = (0..self.block.config_count).map(|index| {
            let config = self.config(index);
            u32::from(config.maximum_segment_size) + u32::from(config.ip_header_bytes)
        });
        // Options are part of a segment's size but in segments without payload.
        sizes.fold(0, u32::max).max(LEAST_SEGMENT) + ETHERNET_AND_TCP
    }

    /// A configuration; of an index that there is none of, the first.
    pub(super) fn config(&self, index: u32) -> &'a Config {
        let index = match index < self.block.config_count {
            true => index,
            false => 0,
        };
        let offset = u64::from(index) * size_of::<Config>() as u64;
        let at = self.block.configs.offset(offset);
        // SAFETY: within the table, which nobody changes, by the engine's promise.
        unsafe { &*(at.value() as *const Config) }
    }

    /// Where the engine stands.
    pub(super) fn standing(&self) -> &'a mut Standing {
        // SAFETY: the block's own, by the engine's promise; one reference at a time, by the leader.
        unsafe { &mut *(self.block.standing.value() as *mut Standing) }
    }

    /// The connection of a place that was used; `None` of another one.
    #[inline(always)]
    pub(super) fn connection(&self, place: u32) -> Option<&'a mut ConnectionBlock> {
        let used = self.standing().used.min(self.block.connection_count);
        if place >= used {
            return None;
        }
        let at = self.connection_at(place);
        // SAFETY: within the table, and written when the place was first used; one reference at a
        // time, by the leader.
        let block = unsafe { &mut *(at.value() as *mut ConnectionBlock) };
        block.is_used.then_some(block)
    }

    /// The connection of a place that a job names, to read. By any lane.
    #[inline(always)]
    pub(super) fn seen(&self, place: u32) -> Option<&'a ConnectionBlock> {
        if place >= self.block.connection_count {
            return None;
        }
        let at = self.connection_at(place);
        // SAFETY: within the table, and written, as there is a job of it; lanes only read here,
        // between two meetings of the warp.
        Some(unsafe { &*(at.value() as *const ConnectionBlock) })
    }

    fn connection_at(&self, place: u32) -> DeviceAddress {
        let offset = u64::from(place) * size_of::<ConnectionBlock>() as u64;
        self.block.connections.offset(offset)
    }

    /// The words of a place.
    pub(super) fn words(&self, place: u32) -> Words {
        let place = place.min(self.block.connection_count - 1);
        let offset = u64::from(place) * size_of::<StreamWords>() as u64;
        // SAFETY: words of the table, live by the engine's promise.
        unsafe { Words::attach(self.block.words.offset(offset)) }
    }

    /// A listener.
    pub(super) fn listener(&self, index: u32) -> Option<&'a mut ListenerBlock> {
        if index >= self.block.listener_count {
            return None;
        }
        let offset = u64::from(index) * size_of::<ListenerBlock>() as u64;
        let at = self.block.listeners.offset(offset);
        // SAFETY: within the table, by the engine's promise; one reference at a time, by the
        // leader.
        Some(unsafe { &mut *(at.value() as *mut ListenerBlock) })
    }

    /// The listener of an own address and port.
    pub(super) fn listener_of(&self, address: &Address, port: u16) -> Option<u32> {
        (0..self.block.listener_count).find(|index| {
            self.listener(*index).is_some_and(|one| {
                let any = [0; 4];
                one.port == u32::from(port)
                    && port != 0
                    && one.address.ip_version == address.ip_version
                    && (one.address.words == any || one.address.words == address.words)
            })
        })
    }

    /// The slot of the next command.
    pub(super) fn command_slot(&self, number: u32) -> DeviceAddress {
        let slot = number & (self.block.command_count - 1);
        let offset = u64::from(slot) * size_of::<CommandSlot>() as u64;
        self.block.commands.offset(offset)
    }

    /// Entries that the ring of a listener has room for.
    pub(super) fn accept_room(&self, listener: &ListenerBlock) -> u32 {
        if listener.accepts.is_null() {
            return 0;
        }
        let ring = accept_words(listener.accepts);
        // SAFETY: words of the ring, live by the engine's promise.
        let written = unsafe { memory::load_u32(ring.written) };
        // SAFETY: as above. pairs with: the reader's release of what it took.
        let read = unsafe { memory::load_acquire_u32(ring.read) };
        // SAFETY: as above.
        let depth = unsafe { memory::load_u32(ring.depth) };
        depth.saturating_sub(written.wrapping_sub(read))
    }

    /// Puts a connection into the ring of its listener, which has room.
    pub(super) fn offer(&self, listener: &ListenerBlock, place: u32, generation: u32) {
        let ring = accept_words(listener.accepts);
        // SAFETY: words of the ring, live by the engine's promise.
        let written = unsafe { memory::load_u32(ring.written) };
        // SAFETY: as above.
        let depth = unsafe { memory::load_u32(ring.depth) };
        // SAFETY: as above.
        let entries = DeviceAddress::new(unsafe { memory::load_u64(ring.entries) });
        let slot = written & depth.wrapping_sub(1);
        let entry = u64::from(generation) << 32 | u64::from(place);
        // SAFETY: an entry of the ring, which its reader gave back.
        unsafe { memory::store_u64(entries.offset(u64::from(slot) * 8), entry) };
        // SAFETY: as above. pairs with: the reader's acquire.
        unsafe { memory::store_release_u32(ring.written, written.wrapping_add(1)) };
    }

    fn home(&self, hash: u32) -> Option<DeviceAddress> {
        let index = hash & self.block.home_count.wrapping_sub(1);
        let at = self.block.homes.offset(u64::from(index) * 8);
        (!self.block.homes.is_null()).then_some(at)
    }

    /// The other block whose connections of such a hash are, if one has any.
    pub(super) fn elsewhere(&self, hash: u32) -> Option<u32> {
        // SAFETY: within the table, by the engine's promise. pairs with: the claim of that block.
        let word = unsafe { memory::load_acquire_u64(self.home(hash)?) };
        let owner = (word >> 32) as u32;
        (word as u32 > 0 && owner != self.block.number).then_some(owner)
    }

    /// A connection of such a hash begins here; not if another block has some.
    pub(super) fn claim(&self, hash: u32) -> bool {
        let Some(at) = self.home(hash) else {
            return true;
        };
        // SAFETY: within the table, by the engine's promise.
        let mut word = unsafe { memory::load_acquire_u64(at) };
        for _ in 0..TRIES {
            let (owner, count) = ((word >> 32) as u32, word as u32);
            if count > 0 && owner != self.block.number {
                return false;
            }
            let mine = u64::from(self.block.number) << 32 | u64::from(count.wrapping_add(1));
            // SAFETY: as above. pairs with: blocks that look who has such connections.
            let before = unsafe { memory::remote_compare_swap_u64(at, word, mine) };
            if before == word {
                return true;
            }
            word = before;
        }
        false
    }

    /// A connection that was claimed is not found here any more.
    pub(super) fn unclaim(&self, hash: u32) {
        if let Some(at) = self.home(hash) {
            // SAFETY: within the table; while there is one of ours, no other block changes it.
            unsafe { memory::remote_add_u64(at, u64::MAX) };
        }
    }

    /// The connection between these ends.
    #[inline]
    pub(super) fn find(&self, hash: u32, ends: &Ends) -> Option<u32> {
        let mut at = hash;
        for _ in 0..self.block.bucket_count {
            let bucket = self.bucket(at);
            if bucket == EMPTY {
                return None;
            }
            let place = (bucket & PLACE).wrapping_sub(1);
            if bucket & TAG == hash & TAG
                && let Some(block) = self.connection(place)
                && Ends::of(&block.path, block.remote_port) == *ends
            {
                return Some(place);
            }
            at = at.wrapping_add(1);
        }
        None
    }

    /// Makes a connection that is not there to be found.
    fn insert(&self, hash: u32, place: u32) {
        let mut at = hash;
        for _ in 0..self.block.bucket_count {
            if self.bucket(at) == EMPTY {
                self.set_bucket(at, hash & TAG | (place + 1));
                return;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Makes a connection not be found any more, and its home others'. Those behind it move up, so
    /// that no bucket between a connection and where it is looked for is empty.
    pub(super) fn remove(&self, hash: u32, place: u32) {
        let mask = self.block.bucket_count - 1;
        self.unclaim(hash);
        let mut hole = hash;
        for _ in 0..self.block.bucket_count {
            match self.bucket(hole) {
                EMPTY => return,
                bucket if bucket & PLACE == place + 1 => break,
                _ => hole = hole.wrapping_add(1),
            }
        }
        let mut at = hole;
        for _ in 0..self.block.bucket_count {
            at = at.wrapping_add(1);
            let bucket = self.bucket(at);
            let other = (bucket & PLACE).wrapping_sub(1);
            let Some(block) = self.connection(other).filter(|_| bucket != EMPTY) else {
                break;
            };
            let distance = at.wrapping_sub(block.hash) & mask;
            if distance >= at.wrapping_sub(hole) & mask {
                self.set_bucket(hole, bucket);
                hole = at;
            }
        }
        self.set_bucket(hole, EMPTY);
    }

    fn bucket_at(&self, at: u32) -> DeviceAddress {
        let index = at & (self.block.bucket_count - 1);
        self.block.buckets.offset(u64::from(index) * 4)
    }

    fn bucket(&self, at: u32) -> u32 {
        // SAFETY: within the table, by the engine's promise.
        unsafe { memory::load_u32(self.bucket_at(at)) }
    }

    fn set_bucket(&self, at: u32, value: u32) {
        // SAFETY: within the table, by the engine's promise.
        unsafe { memory::store_u32(self.bucket_at(at), value) }
    }

    /// Takes a place for a connection; `None` if there is none.
    pub(super) fn take_place(&self, new: ConnectionBlock) -> Option<u32> {
        let standing = self.standing();
        standing.free_places = standing.free_places.checked_sub(1)?;
        let place = self.stacked(self.block.free_places, standing.free_places);
        let place = place.min(self.block.connection_count - 1);
        while standing.used <= place {
            let fresh = ConnectionBlock {
                is_used: false,
                generation: 0,
                ..new
            };
            let at = self.connection_at(standing.used).value() as *mut ConnectionBlock;
            // SAFETY: within the table, by the engine's promise; nobody looked at it before.
            unsafe { at.write(fresh) };
            standing.used += 1;
        }
        let at = self.connection_at(place).value() as *mut ConnectionBlock;
        // SAFETY: within the table, and written; one reference at a time, by the leader.
        let old = unsafe { &mut *at };
        *old = ConnectionBlock {
            generation: old.generation.wrapping_add(1).max(1),
            is_used: true,
            ..new
        };
        let tuple = words::tuple(&old.path, old.remote_port);
        self.words(place).begin(&tuple, old.generation);
        self.insert(old.hash, place);
        Some(place)
    }

    /// Gives a place back that cannot be found any more.
    pub(super) fn free_place(&self, place: u32) {
        let Some(block) = self.connection(place) else {
            return;
        };
        self.free_chunks(block);
        block.is_used = false;
        self.words(place).end();
        self.set_deadline(place, u64::MAX);
        let standing = self.standing();
        self.stack(self.block.free_places, standing.free_places, place);
        standing.free_places += 1;
    }

    /// A connection lingers: who needs its place may have it, once older ones are gone.
    pub(super) fn linger(&self, place: u32) {
        let standing = self.standing();
        let newest = standing.newest;
        let Some(block) = self.connection(place).filter(|one| !one.is_lingering) else {
            return;
        };
        block.is_lingering = true;
        (block.older, block.newer) = (newest, NONE);
        match self.connection(newest) {
            Some(newest) => newest.newer = place,
            None => self.standing().oldest = place,
        }
        self.standing().newest = place;
    }

    /// A connection lingers no more.
    pub(super) fn leave(&self, place: u32) {
        let Some(block) = self.connection(place).filter(|one| one.is_lingering) else {
            return;
        };
        block.is_lingering = false;
        let (older, newer) = (block.older, block.newer);
        match self.connection(older) {
            Some(older) => older.newer = newer,
            None => self.standing().oldest = newer,
        }
        match self.connection(newer) {
            Some(newer) => newer.older = older,
            None => self.standing().newest = older,
        }
    }

    /// Takes memory for both rings of a connection; says whether there is enough.
    pub(super) fn take_chunks(&self, block: &mut ConnectionBlock) -> bool {
        let standing = self.standing();
        let Some(left) = standing.free_chunks.checked_sub(2) else {
            return false;
        };
        standing.free_chunks = left;
        block.receive_chunk = self.stacked(self.block.free_chunks, left);
        block.send_chunk = self.stacked(self.block.free_chunks, left + 1);
        true
    }

    /// Gives the memory of both rings back.
    pub(super) fn free_chunks(&self, block: &mut ConnectionBlock) {
        let standing = self.standing();
        for chunk in [&mut block.receive_chunk, &mut block.send_chunk] {
            if *chunk != NONE {
                self.stack(self.block.free_chunks, standing.free_chunks, *chunk);
                standing.free_chunks += 1;
                *chunk = NONE;
            }
        }
    }

    fn stacked(&self, stack: DeviceAddress, at: u32) -> u32 {
        // SAFETY: within the stack, by the engine's promise.
        unsafe { memory::load_u32(stack.offset(u64::from(at) * 4)) }
    }

    fn stack(&self, stack: DeviceAddress, at: u32, value: u32) {
        // SAFETY: within the stack: it has room for all there are, and each is on it once.
        unsafe { memory::store_u32(stack.offset(u64::from(at) * 4), value) };
    }

    /// Where a chunk lies.
    pub(super) fn chunk(&self, chunk: u32) -> DeviceAddress {
        let offset = u64::from(chunk) * u64::from(self.block.chunk_bytes);
        self.block.chunks.offset(offset)
    }

    /// A ring in a chunk, of so many bytes.
    pub(super) fn ring(&self, chunk: u32, bytes: u32) -> Option<Area> {
        if chunk >= self.block.chunk_count || bytes > self.block.chunk_bytes {
            return None;
        }
        let region = Region {
            address: self.chunk(chunk),
            length: u64::from(bytes),
            key: 0,
            location: Location::Device,
        };
        // SAFETY: within the chunks, live by the engine's promise; the application leaves bytes
        // alone that are not its own by the positions.
        Some(unsafe { Area::attach(region) })
    }

    /// When a place wants to be looked at, in ns. By any lane.
    #[inline(always)]
    pub(super) fn deadline(&self, place: u32) -> u64 {
        // SAFETY: within the table, as the caller goes by the number of places.
        unsafe { memory::load_u64(self.block.deadlines.offset(u64::from(place) * 8)) }
    }

    /// Says when a place wants to be looked at.
    pub(super) fn set_deadline(&self, place: u32, at_ns: u64) {
        if place < self.block.connection_count {
            // SAFETY: within the table.
            unsafe { memory::store_u64(self.block.deadlines.offset(u64::from(place) * 8), at_ns) };
        }
    }
}

/// Where the words of a ring of accepted connections lie.
struct AcceptWords {
    written: DeviceAddress,
    depth: DeviceAddress,
    entries: DeviceAddress,
    read: DeviceAddress,
}

const fn accept_words(at: DeviceAddress) -> AcceptWords {
    AcceptWords {
        written: at.offset(core::mem::offset_of!(AcceptBlock, written) as u64),
        depth: at.offset(core::mem::offset_of!(AcceptBlock, depth) as u64),
        entries: at.offset(core::mem::offset_of!(AcceptBlock, entries) as u64),
        read: at.offset(core::mem::offset_of!(AcceptBlock, read) as u64),
    }
}

/// In a bucket: nothing. Else the place and one, below bits of the hash.
const EMPTY: u32 = 0;
const PLACE: u32 = MOST_PLACES;
const TAG: u32 = !PLACE;
/// Bytes of IPv6's header and all options of TCP.
const LEAST_SEGMENT: u32 = 40 + 40;
/// Bytes of an Ethernet header with a tag, and of TCP's without options.
const ETHERNET_AND_TCP: u32 = 18 + 20;
const LEAST_CHUNK: u32 = 1024;
/// How often a home is tried to be had, of which another block has had its last connection.
const TRIES: u32 = 4;
