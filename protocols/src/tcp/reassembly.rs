//! Bytes that came before their turn: a bounded list of ranges, the newest first, which is the
//! order in which SACK tells of them (RFC 2018 section 4).

use crate::wire::tcp::TcpSequence;
use crate::wire::tcp_option::SackBlock;

/// Ranges beyond the next byte expected; they neither overlap nor touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Reassembly {
    ranges: [SackBlock; MOST_RANGES],
    count: u8,
}

impl Reassembly {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ranges, the newest first.
    pub(super) fn ranges(&self) -> &[SackBlock] {
        self.ranges.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// The first part of `[left, right)` that is not held; `None` if all is.
    pub(super) fn missing(&self, left: TcpSequence, right: TcpSequence) -> Option<SackBlock> {
        let mut from = left;
        // Ranges do not touch: behind one that holds the first byte a gap follows.
        for range in self.ranges() {
            if !from.is_before(range.left) && from.is_before(range.right) {
                from = range.right;
                break;
            }
        }
        if !from.is_before(right) {
            return None;
        }
        let mut to = right;
        for range in self.ranges() {
            if from.is_before(range.left) && range.left.is_before(to) {
                to = range.left;
            }
        }
        Some(SackBlock {
            left: from,
            right: to,
        })
    }

    /// Holds `[left, right)`, joined with what it touches, as the newest. `false`, and nothing
    /// changed, if there is no room for one more range.
    pub(super) fn insert(&mut self, left: TcpSequence, right: TcpSequence) -> bool {
        let mut joined = SackBlock { left, right };
        let mut others = Self::default();
        for range in self.ranges() {
            let is_apart = range.right.is_before(left) || right.is_before(range.left);
            if is_apart {
                others.push(*range);
                continue;
            }
            if range.left.is_before(joined.left) {
                joined.left = range.left;
            }
            if joined.right.is_before(range.right) {
                joined.right = range.right;
            }
        }
        if usize::from(others.count) >= MOST_RANGES {
            return false;
        }
        let mut new = Self::default();
        new.push(joined);
        for range in others.ranges() {
            new.push(*range);
        }
        *self = new;
        true
    }

    /// Everything before `next` came in order: drops it, and what follows without a gap. Says
    /// where the first gap is.
    pub(super) fn advance(&mut self, next: TcpSequence) -> TcpSequence {
        if self.is_empty() {
            return next;
        }
        let mut end = next;
        let mut kept = Self::default();
        for range in self.ranges() {
            if next.is_before(range.left) {
                kept.push(*range);
            } else if end.is_before(range.right) {
                end = range.right;
            }
        }
        *self = kept;
        end
    }

    /// The end of the last range.
    pub(super) fn end(&self) -> Option<TcpSequence> {
        let mut ends = self.ranges().iter().map(|range| range.right);
        let first = ends.next()?;
        Some(ends.fold(first, |end, one| if end.is_before(one) { one } else { end }))
    }

    fn push(&mut self, range: SackBlock) {
        if let Some(free) = self.ranges.get_mut(usize::from(self.count)) {
            *free = range;
            self.count += 1;
        }
    }
}

/// Ranges that are kept: what comes beyond more gaps is left to the peer to repeat.
pub(super) const MOST_RANGES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes by number, from a base close to where numbers wrap.
    const BASE: u32 = u32::MAX - 100;

    fn number(offset: u32) -> TcpSequence {
        TcpSequence(BASE.wrapping_add(offset))
    }

    proptest! {
        /// Against a set of bytes: what is missing is named once, and counted once.
        #[test]
        fn agrees_with_a_set_of_bytes(
            segments in prop::collection::vec((0u32..300, 1u32..40), 1..60),
        ) {
            let mut list = Reassembly::default();
            let mut held = [false; 400];
            let mut next = 0usize;
            for (offset, length) in segments {
                let from = (offset as usize).max(next);
                let to = offset as usize + length as usize;
                if from >= to {
                    continue;
                }
                let part = list.missing(number(from as u32), number(to as u32));
                let first = (from..to).find(|at| !held[*at]);
                prop_assert_eq!(part.is_some(), first.is_some());
                let (Some(part), Some(first)) = (part, first) else { continue };
                let last = (first..to).find(|at| held[*at]).unwrap_or(to);
                prop_assert_eq!(part.left, number(first as u32));
                prop_assert_eq!(part.right, number(last as u32));
                if first == next {
                    held[first..last].fill(true);
                    let end = list.advance(part.right);
                    while held[next] { next += 1 }
                    prop_assert_eq!(end, number(next as u32));
                } else {
                    let before = list;
                    if list.insert(part.left, part.right) {
                        held[first..last].fill(true);
                        let newest = list.ranges()[0];
                        prop_assert!(newest.left.diff(part.left) <= 0);
                        prop_assert!(newest.right.diff(part.right) >= 0);
                    } else {
                        prop_assert_eq!(before, list);
                        prop_assert_eq!(list.ranges().len(), MOST_RANGES);
                    }
                }
                let beyond = held[next..].iter().filter(|is_held| **is_held).count() as i32;
                let told: i32 = list.ranges().iter().map(|one| one.right.diff(one.left)).sum();
                prop_assert_eq!(told, beyond);
                let end = held.iter().rposition(|is_held| *is_held).filter(|at| *at >= next);
                prop_assert_eq!(list.end(), end.map(|at| number(at as u32 + 1)));
            }
        }
    }
}
