//! Instructions that lanes of a mask execute together: they wait until all of them that have not
//! exited stand at the same instruction.
//!
//! The manual asks for an instruction with the same qualifiers and the same mask, which a copy of
//! it elsewhere has as well. Here a copy is another instruction: compilers must not make one, and
//! nobody promises that a GPU joins lanes at two of them.

use std::sync::Arc;

use super::{Group, State, Warp, Wrong};
use crate::column::{Column, LANES, lanes};
use crate::fault::Reason;
use crate::module::{Meeting, MeetingKind, Op, Slot};
use crate::observer::Observer;

impl<O: Observer> Warp<O> {
    /// Lanes of the group at position `at` come to a meeting. Whether it took place at once and
    /// concerned the whole group; else its lanes wait, or have gone on.
    pub(super) fn gather(
        &mut self,
        at: usize,
        group: &Group,
        mask: u32,
        meeting: &Meeting,
    ) -> Result<bool, Wrong> {
        let masks = self.column(group.node, meeting.mask);
        let mut parts = Vec::<Group>::new();
        for lane in lanes(mask) {
            let wanted = masks[lane] as u32;
            if wanted >> lane & 1 == 0 {
                let reason = Reason::NotInMask { mask: wanted };
                return Err(Wrong { lane, reason });
            }
            let state = State::Meeting(wanted);
            match parts.iter_mut().find(|part| part.state == state) {
                Some(part) => part.mask |= 1 << lane,
                None => parts.push(Group {
                    mask: 1 << lane,
                    state,
                    ..*group
                }),
            }
        }
        if let [only] = parts.as_slice()
            && let State::Meeting(wanted) = only.state
            && wanted & self.live == only.mask
            && only.mask == group.mask
        {
            self.hold(&parts, meeting);
            return Ok(true);
        }
        self.part(at, group, &parts);
        self.settle();
        Ok(false)
    }

    /// Lets every meeting take place that all its lanes have come to.
    pub(super) fn settle(&mut self) {
        let mut at = 0;
        while let Some(&group) = self.groups.get(at) {
            at += 1;
            let State::Meeting(wanted) = group.state else {
                continue;
            };
            let members: Vec<usize> = (0..self.groups.len())
                .filter(|&other| self.is_same_meeting(&group, other))
                .collect();
            let mut parties = Vec::new();
            for &member in &members {
                parties.extend(self.groups.get(member).copied());
            }
            let there = parties.iter().fold(0, |mask, party| mask | party.mask);
            if there != wanted & self.live {
                continue;
            }
            let module = Arc::clone(&self.setting.module);
            let function = self.nodes.get(group.node).map_or(0, |node| node.function);
            let code = module.functions.get(function);
            if let Some(Op::Meet(meeting)) = code
                .and_then(|one| one.code.get(group.pc))
                .map(|one| &one.op)
            {
                self.hold(&parties, meeting);
            }
            for member in members {
                if let Some(group) = self.groups.get_mut(member) {
                    group.state = State::Ready;
                    group.pc += 1;
                }
            }
        }
    }

    /// Whether the group at position `other` waits at the same instruction for the same mask. The
    /// call path may be another one.
    fn is_same_meeting(&self, group: &Group, other: usize) -> bool {
        let function = |group: &Group| self.nodes.get(group.node).map(|node| node.function);
        self.groups.get(other).is_some_and(|other| {
            other.state == group.state && other.pc == group.pc && function(other) == function(group)
        })
    }

    /// The meeting takes place among all of `parties`.
    fn hold(&mut self, parties: &[Group], meeting: &Meeting) {
        let mask = parties.iter().fold(0, |mask, party| mask | party.mask);
        let a = self.joined(parties, meeting.a);
        let mut flags = 0;
        for party in parties {
            flags |= self.flag(party.node, meeting.flag) & party.mask;
        }
        let (value, predicate) = match meeting.kind {
            MeetingKind::ShuffleUp
            | MeetingKind::ShuffleDown
            | MeetingKind::ShuffleButterfly
            | MeetingKind::ShuffleIndex => {
                let b = self.joined(parties, meeting.b);
                let c = self.joined(parties, meeting.c);
                self.shuffle(meeting.kind, mask, (&a, &b, &c))
            }
            kind => agree(kind, mask, flags, &a),
        };
        for party in parties {
            let Some(node) = self.nodes.get_mut(party.node) else {
                continue;
            };
            if let Some(d) = node.registers.get_mut(meeting.d as usize) {
                for lane in lanes(party.mask) {
                    d[lane] = value[lane];
                }
            }
            if let Some(p) = node.predicates.get_mut(meeting.p as usize) {
                *p = *p & !party.mask | predicate & party.mask;
            }
        }
        if O::WATCHES {
            let line = parties.first().map_or(0, |group| self.at(group).1);
            self.observer.met(mask, line);
        }
    }

    /// A register of all parties, which may stand in different frames.
    fn joined(&self, parties: &[Group], slot: Slot) -> Column {
        let mut found = [0; LANES];
        for party in parties {
            let column = self.column(party.node, slot);
            for lane in lanes(party.mask) {
                found[lane] = column[lane];
            }
        }
        found
    }

    /// `shfl.sync`, as the manual has it. What comes from a lane that is not there is undefined:
    /// here it is drawn, so that nothing can depend on it.
    fn shuffle(
        &mut self,
        kind: MeetingKind,
        mask: u32,
        (a, b, c): (&Column, &Column, &Column),
    ) -> (Column, u32) {
        let (mut value, mut predicate) = ([0; LANES], 0);
        for lane in lanes(mask) {
            let (here, by) = (lane as u64, b[lane] & 31);
            let (clamp, segment) = (c[lane] & 31, c[lane] >> 8 & 31);
            let least = here & segment;
            let most = least | clamp & !segment;
            let (from, inside) = match kind {
                MeetingKind::ShuffleUp => (here.wrapping_sub(by), here >= by + most),
                MeetingKind::ShuffleDown => (here + by, here + by <= most),
                MeetingKind::ShuffleButterfly => (here ^ by, here ^ by <= most),
                _ => {
                    let from = least | by & !segment;
                    (from, from <= most)
                }
            };
            let from = match inside {
                true => from as usize % LANES,
                false => lane,
            };
            predicate |= u32::from(inside) << lane;
            value[lane] = match mask >> from & 1 {
                1 => a[from],
                _ => self.random.bits() & 0xffff_ffff,
            };
        }
        (value, predicate)
    }
}

/// Everything that is the same for all lanes, or depends on equality alone.
fn agree(kind: MeetingKind, mask: u32, flags: u32, a: &Column) -> (Column, u32) {
    let all = |yes: bool| ([0; LANES], if yes { u32::MAX } else { 0 });
    match kind {
        MeetingKind::VoteAll => all(flags == mask),
        MeetingKind::VoteAny => all(flags != 0),
        MeetingKind::VoteUniform => all(flags == mask || flags == 0),
        MeetingKind::Ballot => ([u64::from(flags); LANES], 0),
        MeetingKind::Reduce(f) => {
            let sum = lanes(mask).map(|lane| a[lane]).reduce(f);
            ([sum.unwrap_or(0); LANES], 0)
        }
        MeetingKind::MatchAny => {
            let mut found = [0; LANES];
            for lane in lanes(mask) {
                let equal = lanes(mask).filter(|&other| a[other] == a[lane]);
                found[lane] = equal.fold(0, |mask, other| mask | 1 << other);
            }
            (found, 0)
        }
        MeetingKind::MatchAll => {
            let first = a[super::lowest(mask)];
            match lanes(mask).all(|lane| a[lane] == first) {
                true => ([u64::from(mask); LANES], u32::MAX),
                false => all(false),
            }
        }
        MeetingKind::Elect => {
            let leader = super::lowest(mask);
            ([leader as u64; LANES], 1 << leader)
        }
        _ => all(false),
    }
}
