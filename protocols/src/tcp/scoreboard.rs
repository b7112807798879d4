//! What the peer has beyond its acknowledgement, and what was sent again. RFC 6675 section 4.
//!
//! ```text
//! una          left   right          left   right            nxt
//!  ├── hole 0 ──┼ range ┼── hole 1 ────┼ range ┼── tail ──────┤
//!  └ repeated ┘                └ lost, not yet repeated
//! ```
//! Each hole remembers how far it was repeated, what had been sent at that time, and when: so that
//! a repetition that is lost in turn is noticed.

use crate::wire::tcp::TcpSequence;

/// Bytes that the peer does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
struct Hole {
    /// What is before this was repeated.
    repeated: TcpSequence,
    /// What was sent for the first time after the last repetition begins here.
    mark: TcpSequence,
    /// When that was, in units of 1024 ns.
    at: u32,
}

/// A range that the peer has, and the hole before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
struct Entry {
    left: TcpSequence,
    right: TcpSequence,
    hole: Hole,
}

/// What is known of the bytes under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Scoreboard {
    entries: [Entry; MOST_RANGES],
    tail: Hole,
    count: u8,
}

/// What there is to know beside the scoreboard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flight {
    /// The oldest byte that is not acknowledged.
    pub(super) una: TcpSequence,
    /// The next byte that was never sent.
    pub(super) nxt: TcpSequence,
    /// Everything before it that the peer does not have is lost.
    pub(super) lost_to: TcpSequence,
    /// Segments that may overtake another one without its being lost.
    pub(super) tolerance: u32,
    /// Bytes of a segment.
    pub(super) mss: u32,
}

impl Flight {
    /// Whether bytes with so many bytes in so many ranges behind them are lost.
    const fn is_overtaken(&self, bytes: u32, ranges: u32) -> bool {
        let most = self.tolerance.saturating_sub(1).saturating_mul(self.mss);
        bytes > most || ranges >= self.tolerance
    }
}

/// A hole while all are looked at.
struct View {
    left: TcpSequence,
    right: TcpSequence,
    hole: Hole,
    is_overtaken: bool,
}

impl View {
    fn length(&self) -> u32 {
        self.right.diff(self.left).max(0) as u32
    }

    fn repeated(&self) -> u32 {
        (self.hole.repeated.diff(self.left).max(0) as u32).min(self.length())
    }

    fn lost(&self, flight: &Flight) -> u32 {
        if self.is_overtaken {
            return self.length();
        }
        (flight.lost_to.diff(self.left).max(0) as u32).min(self.length())
    }
}

impl Scoreboard {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets everything but that bytes before `una` are repeated.
    pub(super) fn clear(&mut self, una: TcpSequence) {
        self.count = 0;
        self.tail.repeated = una;
    }

    /// The end of the last range.
    pub(super) fn end(&self) -> Option<TcpSequence> {
        self.entries().last().map(|entry| entry.right)
    }

    /// Bytes that the peer has beyond its acknowledgement.
    pub(super) fn bytes(&self) -> u32 {
        let lengths = self.entries().iter().map(|entry| entry.length());
        lengths.fold(0, u32::wrapping_add)
    }

    fn entries(&self) -> &[Entry] {
        self.entries.get(..usize::from(self.count)).unwrap_or(&[])
    }

    fn push(&mut self, entry: Entry) -> bool {
        let Some(free) = self.entries.get_mut(usize::from(self.count)) else {
            return false;
        };
        *free = entry;
        self.count += 1;
        true
    }

    /// Everything before `una` was acknowledged. `false` if the peer has less than it once had
    /// (RFC 2018 section 8): what is known of it is worth nothing, and forgotten.
    pub(super) fn advance(&mut self, una: TcpSequence) -> bool {
        if !self.is_empty() {
            let old = *self;
            self.count = 0;
            for entry in old.entries() {
                if una.is_before(entry.left) {
                    self.push(*entry);
                } else if una.is_before(entry.right) {
                    self.clear(una);
                    return false;
                }
            }
        }
        if self.is_empty() && self.tail.repeated.is_before(una) {
            self.tail.repeated = una;
        }
        true
    }

    /// The peer has `[left, right)`, which lies between una and nxt. Says how many bytes of it
    /// are news. With too many ranges the last ones are forgotten.
    pub(super) fn mark(&mut self, left: TcpSequence, right: TcpSequence) -> u32 {
        let holds = |entry: &Entry| !left.is_before(entry.left) && !entry.right.is_before(right);
        if self.entries().iter().any(holds) {
            return 0;
        }
        let before = self.bytes();
        let old = *self;
        self.count = 0;
        // Both parts of a hole that is split remember what was known of the whole.
        let mut hole = None;
        let (mut left, mut right) = (left, right);
        let mut is_placed = false;
        for entry in old.entries() {
            if entry.right.is_before(left) {
                self.keep(*entry);
            } else if right.is_before(entry.left) {
                if !is_placed {
                    is_placed = true;
                    let hole = hole.unwrap_or(entry.hole);
                    self.keep(Entry { left, right, hole });
                }
                self.keep(*entry);
            } else {
                hole = hole.or(Some(entry.hole));
                if entry.left.is_before(left) {
                    left = entry.left;
                }
                if right.is_before(entry.right) {
                    right = entry.right;
                }
            }
        }
        if !is_placed {
            let hole = hole.unwrap_or(old.tail);
            self.keep(Entry { left, right, hole });
        }
        self.bytes().saturating_sub(before)
    }

    /// Puts an entry behind the others; one that finds no room becomes part of the tail.
    fn keep(&mut self, entry: Entry) {
        if !self.push(entry) {
            self.tail = entry.hole;
        }
    }

    fn holes(&self, flight: &Flight) -> Holes<'_> {
        Holes {
            board: self,
            flight: *flight,
            start: flight.una,
            above: self.bytes(),
            index: 0,
        }
    }

    /// Whether something is lost by what overtook it. RFC 6675, IsLost of the first byte.
    pub(super) fn sees_loss(&self, flight: &Flight) -> bool {
        let first = self.holes(flight).next();
        first.is_some_and(|hole| hole.is_overtaken && hole.length() > 0)
    }

    /// Bytes that are thought to be in the network. RFC 6675, SetPipe.
    pub(super) fn pipe(&self, flight: &Flight) -> u32 {
        self.holes(flight).fold(0, |pipe: u32, hole| {
            let alive = hole.length() - hole.lost(flight);
            pipe.wrapping_add(alive).wrapping_add(hole.repeated())
        })
    }

    /// The first bytes that are lost and not repeated. RFC 6675, NextSeg, rule 1.
    pub(super) fn next_lost(&self, flight: &Flight) -> Option<(TcpSequence, TcpSequence)> {
        let mut parts = self.holes(flight).map(|hole| {
            let lost = hole.lost(flight);
            let repeated = hole.repeated();
            let from = hole.left.wrapping_add(repeated);
            (repeated < lost).then(|| (from, hole.left.wrapping_add(lost)))
        });
        parts.find_map(|part| part)
    }

    fn hole_mut(&mut self, index: usize) -> &mut Hole {
        match index < usize::from(self.count) {
            true => match self.entries.get_mut(index) {
                Some(entry) => &mut entry.hole,
                None => &mut self.tail,
            },
            false => &mut self.tail,
        }
    }

    /// Bytes before `to`, from what [`next_lost`](Self::next_lost) gave, are sent again.
    pub(super) fn repeated(&mut self, flight: &Flight, to: TcpSequence, now_ns: u64) {
        let holds = |hole: &View| hole.left.is_before(to) && !hole.right.is_before(to);
        if let Some(index) = self.holes(flight).position(|hole| holds(&hole)) {
            *self.hole_mut(index) = Hole {
                repeated: to,
                mark: flight.nxt,
                at: units(now_ns),
            };
        }
    }

    /// Looks for repetitions that were lost: what was sent for the first time after them overtook
    /// them, or they are older than `longest_ns`. They are to be repeated again. Says how many.
    pub(super) fn judge(&mut self, flight: &Flight, now_ns: u64, longest_ns: u64) -> u32 {
        let old = *self;
        let end = old.end();
        let mut count = 0;
        for (index, hole) in old.holes(flight).enumerate() {
            if hole.repeated() == 0 {
                continue;
            }
            let mark = hole.hole.mark;
            let sees = end.is_some_and(|end| mark.is_before(end));
            let is_overtaken = sees && flight.is_overtaken(old.bytes_from(mark), 0);
            let age = units(now_ns).wrapping_sub(hole.hole.at);
            if is_overtaken || age > units(longest_ns) {
                self.hole_mut(index).repeated = hole.left;
                count += 1;
            }
        }
        count
    }

    /// Bytes from `mark` on that the peer has.
    fn bytes_from(&self, mark: TcpSequence) -> u32 {
        let parts = self.entries().iter().map(|entry| {
            let left = if entry.left.is_before(mark) {
                mark
            } else {
                entry.left
            };
            entry.right.diff(left).max(0) as u32
        });
        parts.fold(0, u32::wrapping_add)
    }

    /// Nothing counts as repeated any more.
    pub(super) fn forget_repetitions(&mut self, flight: &Flight) {
        let old = *self;
        for (index, hole) in old.holes(flight).enumerate() {
            self.hole_mut(index).repeated = hole.left;
        }
    }
}

impl Entry {
    const fn length(&self) -> u32 {
        self.right.diff(self.left) as u32
    }
}

/// Walks the holes, the tail last.
struct Holes<'a> {
    board: &'a Scoreboard,
    flight: Flight,
    start: TcpSequence,
    /// Bytes that the peer has from here on.
    above: u32,
    index: usize,
}

impl Iterator for Holes<'_> {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        let entries = self.board.entries();
        let (left, index) = (self.start, self.index);
        self.index += 1;
        if let Some(entry) = entries.get(index) {
            let ranges = entries.len().saturating_sub(index) as u32;
            let is_overtaken = self.flight.is_overtaken(self.above, ranges);
            self.above = self.above.wrapping_sub(entry.length());
            self.start = entry.right;
            return Some(View {
                left,
                right: entry.left,
                hole: entry.hole,
                is_overtaken,
            });
        }
        (index == entries.len()).then_some(View {
            left,
            right: self.flight.nxt,
            hole: self.board.tail,
            is_overtaken: false,
        })
    }
}

const fn units(ns: u64) -> u32 {
    (ns >> 10) as u32
}

/// Ranges that are kept.
const MOST_RANGES: usize = 16;

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
