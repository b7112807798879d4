//! Batches of received slots: which slots make a frame, and which frames can be read.

use warpwire_ring::{DeviceAddress, Segment, SegmentFlags};

use crate::simt::Simt;

/// Slots of received frames, lent by their queue: a contiguous prefix of what had arrived, made of
/// whole frames.
///
/// The queue does not give the slots back to the NIC before the batch comes back, by
/// [`crate::Receiver::release`] or [`crate::Receiver::lend`]. A batch that is dropped instead is
/// never given back.
#[derive(Debug)]
#[must_use = "the slots go back to the NIC only through release or lend"]
pub struct Batch {
    pub(crate) first: u64,
    pub(crate) slots: u32,
    pub(crate) frames: u32,
    pub(crate) bytes: u32,
    pub(crate) faults: u32,
    pub(crate) marks: Marks,
    /// Of lanes that keep anything.
    pub(crate) opened: Rows<Opened>,
}

impl Batch {
    pub(crate) const EMPTY: Self = Self {
        first: 0,
        slots: 0,
        frames: 0,
        bytes: 0,
        faults: 0,
        marks: Marks { more: 0, fault: 0 },
        opened: Rows::NONE,
    };

    /// Slots, at most [`MAX_BATCH`].
    #[inline(always)]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Frames that can be read.
    #[inline(always)]
    pub const fn frames(&self) -> u32 {
        self.frames
    }

    /// Whether nothing had arrived.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// Running index of the first slot.
    #[inline(always)]
    pub const fn first(&self) -> u64 {
        self.first
    }
}

/// Slots of one batch at most, and so the slots of the longest frame: one bit each in [`Marks`].
pub const MAX_BATCH: u32 = 64;

/// What a lane found in its own slots of a batch when it was taken: one in each row of lanes.
///
/// Warps of 32 lanes have two rows at most and keep them in registers; a warp of one lane keeps
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rows<T> {
    first: T,
    second: T,
}

impl Rows<Opened> {
    pub(crate) const NONE: Self = Self {
        first: NOTHING,
        second: NOTHING,
    };
}

impl Rows<()> {
    /// Whether warps of this width keep anything.
    #[inline(always)]
    pub(crate) const fn are_kept<S: Simt>() -> bool {
        S::WIDTH * 2 >= MAX_BATCH
    }
}

impl<T: Copy> Rows<T> {
    /// What is kept of the row that starts in slot `base`.
    #[inline(always)]
    pub(crate) const fn at(&self, base: u32) -> T {
        match base {
            0 => self.first,
            _ => self.second,
        }
    }

    /// Keeps what was found in the row that starts in slot `base`, if warps keep anything.
    #[inline(always)]
    pub(crate) const fn put<S: Simt>(&mut self, base: u32, value: T) {
        match base {
            _ if !Rows::are_kept::<S>() => {}
            0 => self.first = value,
            _ => self.second = value,
        }
    }
}

/// A frame that was found when its batch was taken: its first piece and its extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) address: DeviceAddress,
    /// Bytes of the first piece.
    pub(crate) available: u32,
    /// Bytes from `address` on that may be read.
    pub(crate) room: u32,
    /// Bytes of the frame.
    pub(crate) length: u32,
    /// Slots of the frame; 0 if there is none that starts here and can be read.
    pub(crate) slots: u32,
}

impl Opened {
    /// The frame of one piece in a slot of its own, if there `is_one`.
    #[inline(always)]
    pub(crate) const fn plain(segment: &Segment, is_one: bool) -> Self {
        Self {
            address: segment.address,
            available: segment.length,
            room: segment.room,
            length: segment.length,
            slots: is_one as u32,
        }
    }

    /// The first piece.
    #[inline(always)]
    pub(crate) const fn segment(&self) -> Segment {
        Segment {
            address: self.address,
            length: self.available,
            flags: SegmentFlags::empty(),
            room: self.room,
        }
    }
}

const NOTHING: Opened = Opened {
    address: DeviceAddress::NULL,
    available: 0,
    room: 0,
    length: 0,
    slots: 0,
};

/// What the descriptors of up to 64 consecutive slots said, lowest bit first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks {
    /// The frame goes on in the next slot.
    pub(crate) more: u64,
    /// The slot cannot be read. In a batch: the slot belongs to a frame that cannot be read.
    pub(crate) fault: u64,
}

impl Marks {
    /// Slots of the frame that starts in slot `i`, or 0 if none does that can be read.
    #[inline(always)]
    pub(crate) const fn frame(&self, i: u32) -> u32 {
        if (self.more | self.fault) == 0 {
            return 1;
        }
        let continues = i > 0 && self.more >> (i - 1) & 1 != 0;
        if continues || self.fault >> i & 1 != 0 {
            return 0;
        }
        (self.more >> i).trailing_ones() + 1
    }
}

/// What becomes of the slots that are ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The first `slots` of them are whole frames.
    Take {
        /// Slots.
        slots: u32,
        /// Frames, those at fault included.
        frames: u32,
        /// Frames at fault.
        faults: u32,
        /// Marks of these slots, `fault` spread over whole frames.
        marks: Marks,
    },
    /// The first frame has not arrived whole.
    Wait,
    /// The first frame may end in slots that were not looked at.
    Widen,
    /// The first `slots` belong to a frame that is too long.
    Discard {
        /// Slots.
        slots: u32,
        /// Whether this is where the frame starts.
        starts: bool,
        /// Whether the frame goes on.
        goes_on: bool,
    },
}

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    /// What the descriptors said.
    pub(crate) marks: Marks,
    /// Slots that are ready, at least 1 and at most `window`.
    pub(crate) ready: u32,
    /// Slots that were asked for, at most `limit`.
    pub(crate) window: u32,
    /// Slots that a frame may have, at most [`MAX_BATCH`].
    pub(crate) limit: u32,
    /// Slots that the caller wants; only the first frame may have more.
    pub(crate) wanted: u32,
    /// Whether the slots start within a frame that is too long.
    pub(crate) skipping: bool,
}

impl Look {
    /// Decides. Pure, so that every lane comes to the same end.
    pub(crate) const fn judge(&self) -> Verdict {
        let seen = low(self.ready);
        let ends = !self.marks.more & seen;
        if self.skipping {
            return match ends {
                0 => Verdict::Discard {
                    slots: self.ready,
                    starts: false,
                    goes_on: true,
                },
                _ => Verdict::Discard {
                    slots: ends.trailing_zeros() + 1,
                    starts: false,
                    goes_on: false,
                },
            };
        }
        if ends == 0 {
            return if self.ready >= self.limit {
                Verdict::Discard {
                    slots: self.ready,
                    starts: true,
                    goes_on: true,
                }
            } else if self.ready == self.window {
                Verdict::Widen
            } else {
                Verdict::Wait
            };
        }
        let wanted = ends & low(self.wanted);
        let slots = if wanted == 0 {
            ends.trailing_zeros() + 1
        } else {
            64 - wanted.leading_zeros()
        };
        self.take(slots)
    }

    const fn take(&self, slots: u32) -> Verdict {
        let taken = low(slots);
        let more = self.marks.more & taken;
        let ends = !more & taken;
        let mut fault = self.marks.fault & taken;
        let mut faults = 0;
        if fault != 0 {
            // Frame by frame: one bad piece makes the whole frame unreadable.
            let bad = fault;
            let mut start = 0;
            while start < slots {
                let length = (more >> start).trailing_ones() + 1;
                let frame = low(length) << start;
                if bad & frame != 0 {
                    fault |= frame;
                    faults += 1;
                }
                start += length;
            }
        }
        Verdict::Take {
            slots,
            frames: ends.count_ones(),
            faults,
            marks: Marks { more, fault },
        }
    }
}

/// The lowest `count` bits, at most 64.
#[inline(always)]
pub(crate) const fn low(count: u32) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(more: u64, ready: u32) -> Look {
        Look {
            marks: Marks { more, fault: 0 },
            ready,
            window: 8,
            limit: 16,
            wanted: 8,
            skipping: false,
        }
    }

    fn take(slots: u32, frames: u32, faults: u32, more: u64, fault: u64) -> Verdict {
        let marks = Marks { more, fault };
        Verdict::Take {
            slots,
            frames,
            faults,
            marks,
        }
    }

    #[test]
    fn only_whole_frames_are_taken() {
        let discard = |slots, starts, goes_on| Verdict::Discard {
            slots,
            starts,
            goes_on,
        };
        let skipping = |more, ready| Look {
            skipping: true,
            ..look(more, ready)
        };
        let with = |look: Look, window, wanted| Look {
            window,
            wanted,
            ..look
        };
        let bad = |look: Look, fault| Look {
            marks: Marks {
                fault,
                ..look.marks
            },
            ..look
        };
        let cases = [
            (look(0, 5), take(5, 5, 0, 0, 0)),
            (look(0b1_0000, 5), take(4, 4, 0, 0, 0)),
            (look(0b0_0110, 5), take(5, 3, 0, 0b110, 0)),
            (look(0b111, 3), Verdict::Wait),
            (look(0xff, 8), Verdict::Widen),
            (with(look(0x1ff, 10), 16, 8), take(10, 1, 0, 0x1ff, 0)),
            (with(look(0x1ff, 16), 16, 8), take(10, 1, 0, 0x1ff, 0)),
            (with(look(u64::MAX, 16), 16, 8), discard(16, true, true)),
            (skipping(0xff, 8), discard(8, false, true)),
            (skipping(0b111, 8), discard(4, false, false)),
            (bad(look(0, 3), 0b010), take(3, 3, 1, 0, 0b010)),
            (bad(look(0b0110, 5), 0b0100), take(5, 3, 1, 0b0110, 0b1110)),
            (bad(look(0b1000, 4), 0b1000), take(3, 3, 0, 0, 0)),
        ];
        for (look, want) in cases {
            assert_eq!(look.judge(), want, "{look:?}");
        }
    }

    #[test]
    fn a_full_window_of_64_slots_is_judged() {
        let look = Look {
            marks: Marks::default(),
            ready: 64,
            window: 64,
            limit: 64,
            wanted: 64,
            skipping: false,
        };
        assert_eq!(look.judge(), take(64, 64, 0, 0, 0));
        let one = Look {
            marks: Marks {
                more: u64::MAX >> 1,
                fault: 1 << 63,
            },
            ..look
        };
        assert_eq!(one.judge(), take(64, 1, 1, u64::MAX >> 1, u64::MAX));
    }

    #[test]
    fn frames_are_found_by_their_first_slot() {
        let marks = Marks {
            more: 0b0_0110,
            fault: 0b1_0000,
        };
        let found: [u32; 5] = core::array::from_fn(|i| marks.frame(i as u32));
        assert_eq!(found, [1, 3, 0, 0, 0]);
    }
}
