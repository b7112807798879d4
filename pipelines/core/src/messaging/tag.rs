//! Tagged matching, a thin layer over send and receive: the tag is the immediate, messages come
//! into slots of one size and are copied to where a receive with a fitting tag wants them.
//!
//! Receives that are expected and messages that nobody expects yet are kept in two bounded tables,
//! which lanes look through together. A message without a receive keeps its slot; when all slots
//! are kept, the peer finds no receive and is told to come later. A receive without room in its
//! table is refused with [`Cause::NoResource`]. Longer messages than a slot go by put and signal.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that tables and slots are live memory"
)]

use warpwire_device::{Area, Simt, Wait};
use warpwire_ring::layout_hash;
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::{Cause, DeviceAddress, Location, Region};

use super::arrival::Arrival;
use super::channel::Channel;
use super::progress::{Progress, keep_on};
use crate::block::{ABI, Header};

/// The memory of tagged matching, made by the host.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TagBlock {
    /// [`TagBlock::HEADER`].
    pub header: Header,
    /// [`TagSlot`]s of receives, [`TagBlock::expected_count`] of them, zeroed.
    pub expected: DeviceAddress,
    /// [`TagSlot`]s of messages, one a slot, zeroed.
    pub unexpected: DeviceAddress,
    /// By receive, modulo `receives`: a word of 32 bits with the number of its slot.
    pub posted: DeviceAddress,
    /// Registered memory of the slots, one behind the other.
    pub slots: Gather,
    /// Bytes of a slot: the longest message.
    pub slot_bytes: u32,
    /// Slots.
    pub slot_count: u32,
    /// Receives that may wait.
    pub expected_count: u32,
    /// Depth of the receive queue, at least the slots.
    pub receives: u32,
    /// Counts receives and messages, from 1.
    pub order: u64,
}

impl TagBlock {
    /// The header of such a block.
    pub const HEADER: Header = Header {
        abi: ABI,
        bytes: size_of::<Self>() as u32,
        layout: layout_hash!(TagBlock {
            header,
            expected,
            unexpected,
            posted,
            slots,
            slot_bytes,
            slot_count,
            expected_count,
            receives,
            order,
        }) ^ layout_hash!(TagSlot {
            order,
            at,
            tag,
            mask,
            length,
            reserved,
        }),
    };
}

/// A receive that waits for its message, or a message that waits for its receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct TagSlot {
    /// When it came, counted from 1; 0 for an empty slot.
    pub order: u64,
    /// Of a receive: where its bytes go.
    pub at: u64,
    /// The tag.
    pub tag: u32,
    /// Of a receive: the bits of the tag that count.
    pub mask: u32,
    /// Bytes: of the message, or that there is room for.
    pub length: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// What became of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Its message was there.
    Matched(Matched),
    /// It waits, under this number.
    Waiting(u64),
}

/// A message that met its receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matched {
    /// The number of the receive, see [`Expected::Waiting`].
    pub receive: u64,
    /// The message's tag.
    pub tag: u32,
    /// Its bytes.
    pub length: u32,
    /// [`Cause::LocalLength`] if the receive was shorter: nothing was copied.
    pub failed: Option<Cause>,
}

/// Tagged matching over one channel. A warp holds one, each lane a copy, all copies equal.
#[derive(Clone, Copy, Debug)]
pub struct Tags {
    block: TagBlock,
    home: DeviceAddress,
}

impl Tags {
    /// Attaches where the block stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if there is no such block.
    ///
    /// # Safety
    /// *The tables' promise*: at `block` lies a [`TagBlock`], or at least a header; all that it
    /// names is live memory for as long as the value is used, and nobody else uses it.
    pub unsafe fn attach(block: DeviceAddress) -> Result<Self, Cause> {
        if block.is_null() || !block.is_aligned(align_of::<TagBlock>() as u64) {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: a header lies there by the promise, and any bits are one.
        let header = unsafe { *(block.value() as *const Header) };
        if header != TagBlock::HEADER {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            // SAFETY: the header says that it is such a block.
            block: unsafe { *(block.value() as *const TagBlock) },
            home: block,
        })
    }

    /// *Collective.* Leaves in its block where it stands, for who attaches next.
    pub fn save<S: Simt>(&self, simt: &S) {
        if simt.is_leader() {
            // SAFETY: the block, by the tables' promise.
            unsafe { *(self.home.value() as *mut TagBlock) = self.block };
        }
        simt.sync_warp();
    }

    /// *Collective.* Posts all slots as receives of a channel that has none posted.
    ///
    /// # Errors
    /// As [`Channel::post_receive`].
    pub fn start<S: Simt>(&mut self, simt: &S, channel: &mut Channel) -> Result<(), Cause> {
        (0..self.block.slot_count).try_for_each(|slot| self.post(simt, channel, slot))
    }

    /// *Collective.* Wants the first message whose tag fits: that has the same bits as `tag` where
    /// `mask` has ones. All lanes name the same. Its bytes go to `into`, whose key is not looked
    /// at.
    ///
    /// # Errors
    /// [`Cause::NoResource`] if too many receives wait; what posting a slot again says.
    ///
    /// # Safety
    /// *The area's promise*, see [`Area::attach`], for `into`, until the receive is matched.
    pub unsafe fn expect<S: Simt>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
        (tag, mask): (u32, u32),
        into: Gather,
    ) -> Result<Expected, Cause> {
        let receive = TagSlot {
            order: self.number(),
            at: into.address,
            tag,
            mask,
            length: into.length,
            reserved: 0,
        };
        let (table, count) = (self.block.unexpected, self.block.slot_count);
        let fits = |message: &TagSlot| (message.tag ^ tag) & mask == 0;
        if let Some((slot, message)) = first(simt, table, count, fits) {
            put(simt, table, slot, TagSlot::default());
            let matched = self.hand_over(simt, channel, slot, &receive, &message)?;
            return Ok(Expected::Matched(matched));
        }
        let (table, count) = (self.block.expected, self.block.expected_count);
        let place = empty(simt, table, count).ok_or(Cause::NoResource)?;
        put(simt, table, place, receive);
        Ok(Expected::Waiting(receive.order))
    }

    /// *Collective.* Takes messages that came, until one meets its receive or none is left.
    ///
    /// # Errors
    /// Why a receive came back without a message; what posting a slot again says.
    pub fn poll<S: Simt>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
    ) -> Result<Option<Matched>, Cause> {
        let mut most = self.block.slot_count;
        while most > 0
            && let Some(arrival) = channel.poll_arrival(simt)
        {
            most -= 1;
            if let Some(matched) = self.arrived(simt, channel, &arrival)? {
                return Ok(Some(matched));
            }
        }
        Ok(None)
    }

    /// *Collective.* Waits until a message meets its receive.
    ///
    /// # Errors
    /// As [`Tags::poll`]; how the queue pair failed; what ends waits.
    pub fn wait<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<Matched, Cause> {
        let wait = channel.guarded(wait);
        keep_on(simt, &wait, progress, |_| {
            match self.poll(simt, channel) {
                Ok(Some(matched)) => return Some(Ok(matched)),
                Ok(None) => {}
                Err(cause) => return Some(Err(cause)),
            }
            channel.collect(simt);
            channel.fault().map(Err)
        })?
    }

    fn arrived<S: Simt>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
        arrival: &Arrival,
    ) -> Result<Option<Matched>, Cause> {
        if let Some(cause) = arrival.failed {
            return Err(cause);
        }
        let slot = self.slot_of(arrival.index);
        let message = TagSlot {
            order: self.number(),
            at: 0,
            tag: arrival.immediate.unwrap_or(0),
            mask: 0,
            length: arrival.length,
            reserved: 0,
        };
        let (table, count) = (self.block.expected, self.block.expected_count);
        let fits = |receive: &TagSlot| (receive.tag ^ message.tag) & receive.mask == 0;
        match first(simt, table, count, fits) {
            Some((place, receive)) => {
                put(simt, table, place, TagSlot::default());
                self.hand_over(simt, channel, slot, &receive, &message)
                    .map(Some)
            }
            None => {
                put(simt, self.block.unexpected, slot, message);
                Ok(None)
            }
        }
    }

    /// Copies a message to its receive and posts its slot again.
    fn hand_over<S: Simt>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
        slot: u32,
        receive: &TagSlot,
        message: &TagSlot,
    ) -> Result<Matched, Cause> {
        let fits = message.length <= receive.length && message.length <= self.block.slot_bytes;
        if fits {
            let from = self.slot(slot);
            copy(simt, from.address, receive.at, message.length);
        }
        self.post(simt, channel, slot)?;
        Ok(Matched {
            receive: receive.order,
            tag: message.tag,
            length: message.length,
            failed: (!fits).then_some(Cause::LocalLength),
        })
    }

    fn number(&mut self) -> u64 {
        self.block.order = self.block.order.wrapping_add(1).max(1);
        self.block.order
    }

    fn slot(&self, slot: u32) -> Gather {
        let offset = u64::from(slot) * u64::from(self.block.slot_bytes);
        Gather {
            address: self.block.slots.address.wrapping_add(offset),
            length: self.block.slot_bytes,
            key: self.block.slots.key,
        }
    }

    /// The word that has the slot of a receive.
    fn posted(&self, receive: u64) -> *mut u32 {
        let place = receive & u64::from(self.block.receives.wrapping_sub(1));
        self.block.posted.offset(place * 4).value() as *mut u32
    }

    fn slot_of(&self, receive: u64) -> u32 {
        // SAFETY: within the table, by the tables' promise: masked to the depth of the queue.
        let slot = unsafe { self.posted(receive).read_volatile() };
        slot.min(self.block.slot_count.saturating_sub(1))
    }

    fn post<S: Simt>(&mut self, simt: &S, channel: &mut Channel, slot: u32) -> Result<(), Cause> {
        let pieces = [self.slot(slot)];
        let mine = simt.is_leader().then_some(&pieces[..]);
        let outcome = channel.post_receive(simt, mine);
        if let Ok(Some(receive)) = outcome {
            // SAFETY: as in `slot_of`; the leader alone writes.
            unsafe { self.posted(receive).write_volatile(slot) };
        }
        let refused = outcome.err().map_or(0, |cause| cause as u32);
        simt.sync_warp();
        match Cause::from_number(simt.shuffle(refused, 0)) {
            Some(cause) => Err(cause),
            None => Ok(()),
        }
    }
}

/// *Collective.* The slot that fits and came first.
fn first<S: Simt>(
    simt: &S,
    table: DeviceAddress,
    count: u32,
    fits: impl Fn(&TagSlot) -> bool,
) -> Option<(u32, TagSlot)> {
    let (mut order, mut place) = (u64::MAX, 0);
    let mut row = simt.lane();
    while row < count {
        let slot = load(table, row);
        if slot.order != 0 && slot.order < order && fits(&slot) {
            (order, place) = (slot.order, row);
        }
        row += S::WIDTH;
    }
    let mut distance = S::WIDTH / 2;
    while distance > 0 {
        let other = simt.lane() ^ distance;
        let (their_order, their_place) =
            (simt.shuffle_u64(order, other), simt.shuffle(place, other));
        if their_order < order {
            (order, place) = (their_order, their_place);
        }
        distance /= 2;
    }
    (order != u64::MAX).then(|| (place, load(table, place)))
}

/// *Collective.* An empty slot.
fn empty<S: Simt>(simt: &S, table: DeviceAddress, count: u32) -> Option<u32> {
    let mut row = 0;
    while row < count {
        let place = row + simt.lane();
        let is_empty = place < count && load(table, place).order == 0;
        let bits = simt.ballot(is_empty);
        if bits != 0 {
            return Some(row + bits.trailing_zeros());
        }
        row += S::WIDTH;
    }
    None
}

fn load(table: DeviceAddress, place: u32) -> TagSlot {
    let offset = u64::from(place) * size_of::<TagSlot>() as u64;
    let at = table.offset(offset).value() as *const TagSlot;
    // SAFETY: within the table, by the tables' promise; written by this warp alone.
    unsafe { at.read_volatile() }
}

/// *Collective.* Stores a slot: the leader writes, and all see it after.
fn put<S: Simt>(simt: &S, table: DeviceAddress, place: u32, slot: TagSlot) {
    // Nobody reads it any more.
    simt.sync_warp();
    if simt.is_leader() {
        let offset = u64::from(place) * size_of::<TagSlot>() as u64;
        let at = table.offset(offset).value() as *mut TagSlot;
        // SAFETY: as in `load`.
        unsafe { at.write_volatile(slot) };
    }
    simt.sync_warp();
}

/// *Collective.* Copies bytes, a part a lane.
fn copy<S: Simt>(simt: &S, from: u64, to: u64, length: u32) {
    let area = |address| {
        let region = Region {
            address: DeviceAddress::new(address),
            length: u64::from(length),
            key: 0,
            location: Location::Device,
        };
        // SAFETY: a slot, by the tables' promise; or where a receive wants its bytes, by the
        // promise of who posted it.
        unsafe { Area::attach(region) }
    };
    let share = length.div_ceil(S::WIDTH).next_multiple_of(16);
    let at = share.saturating_mul(simt.lane());
    let mine = length.saturating_sub(at).min(share);
    let (from, to) = (area(from), area(to));
    if let (Some(from), Some(to)) = (
        from.piece(u64::from(at), mine),
        to.piece(u64::from(at), mine),
    ) {
        from.copy_to(&to);
    }
    simt.sync_warp();
}
