//! Running a group of lanes, one instruction after the other.

use std::sync::Arc;

use super::{Group, State, Warp, Wrong, lowest};
use crate::column::lanes;
use crate::fault::{Fault, Reason};
use crate::module::{Flag, Op, Slot};
use crate::observer::Observer;

/// What comes after an instruction.
enum Next {
    /// The next one.
    Step,
    /// Another one of the same function.
    Jump(usize),
    /// The group changed, or it is another one's turn.
    Pick,
}

impl<O: Observer> Warp<O> {
    /// Runs the group at position `at` until it parts, waits, meets another one or has run long
    /// enough.
    pub(super) fn run(&mut self, at: usize, budget: &mut u32) -> Result<(), Fault> {
        let module = Arc::clone(&self.setting.module);
        let Some(&(mut group)) = self.groups.get(at) else {
            return Ok(());
        };
        let Some(node) = self.nodes.get(group.node) else {
            return Ok(());
        };
        let number = node.function;
        self.memory.top = node.top;
        let code = module
            .functions
            .get(number)
            .map_or(&[][..], |one| &one.code);
        let (alone, meets) = self.company(at, &group);
        let mut left = match alone {
            true => *budget,
            false => QUANTUM.min(*budget),
        };
        let quantum = left;
        while left > 0 {
            let Some(instruction) = code.get(group.pc) else {
                return Err(self.fault(&group, lowest(group.mask), Reason::End));
            };
            left -= 1;
            self.cycles += 1;
            let mask = group.mask & self.flag(group.node, instruction.guard);
            self.counters.hit(number, group.pc, mask);
            let done = match instruction.op.is_control() {
                true => self.step(at, &mut group, mask, &instruction.op),
                false if mask == 0 => Ok(Next::Step),
                false => self
                    .compute(group.node, mask, instruction)
                    .map(|()| Next::Step),
            };
            let mut jumped = false;
            match done {
                Ok(Next::Step) => group.pc += 1,
                Ok(Next::Jump(target)) => {
                    group.pc = target;
                    jumped = true;
                }
                Ok(Next::Pick) => {
                    *budget -= quantum - left;
                    return Ok(());
                }
                Err(Wrong { lane, reason }) => return Err(self.fault(&group, lane, reason)),
            }
            if group.pc == meets || (jumped && !alone) {
                break;
            }
        }
        self.unfair = !alone && left == 0;
        *budget -= quantum - left;
        if let Some(place) = self.groups.get_mut(at) {
            *place = group;
        }
        Ok(())
    }

    /// Whether no other group could run, and the next instruction of this function where another
    /// one stands.
    fn company(&self, at: usize, group: &Group) -> (bool, usize) {
        let (mut alone, mut meets) = (true, usize::MAX);
        for (place, other) in self.groups.iter().enumerate() {
            if place != at && other.state == State::Ready {
                alone = false;
                if other.node == group.node && other.pc > group.pc {
                    meets = meets.min(other.pc);
                }
            }
        }
        (alone, meets)
    }

    /// A predicate of a node, a bit a lane.
    #[inline(always)]
    pub(super) fn flag(&self, node: usize, flag: Flag) -> u32 {
        let predicates = self.nodes.get(node).map(|node| &node.predicates);
        let value = predicates.and_then(|predicates| predicates.get(flag.slot as usize));
        value.copied().unwrap_or(0) ^ flag.flip
    }

    /// An instruction that decides where lanes go; those of `mask` execute it.
    fn step(&mut self, at: usize, group: &mut Group, mask: u32, op: &Op) -> Result<Next, Wrong> {
        if mask == 0 {
            return Ok(Next::Step);
        }
        let here = |pc: usize| Group { mask, pc, ..*group };
        match op {
            Op::Branch(target) if mask == group.mask => return Ok(Next::Jump(*target as usize)),
            Op::Branch(target) => self.part(at, group, &[here(*target as usize)]),
            Op::Table { index, targets } => return self.choose(at, group, mask, *index, targets),
            Op::Call(call) => {
                let entered = self.enter(group, mask, call);
                let entered = entered.map_err(|reason| wrong(mask, reason))?;
                self.part(at, group, &[entered]);
            }
            Op::Return => match self.leave(group, mask) {
                Some(back) => self.part(at, group, &[back]),
                None => self.exit(at, group, mask),
            },
            Op::Exit => self.exit(at, group, mask),
            Op::Trap => return Err(wrong(mask, Reason::Trap)),
            Op::Sleep => {
                let sleeping = Group {
                    state: State::Paused,
                    ..here(group.pc + 1)
                };
                self.part(at, group, &[sleeping]);
            }
            Op::Meet(meeting) => return self.meet(at, group, mask, meeting),
            Op::Barrier { aligned, threads } => {
                self.check_threads(group, mask, *threads)?;
                let waiting = Group {
                    state: State::Barrier { aligned: *aligned },
                    ..here(group.pc)
                };
                self.part(at, group, &[waiting]);
            }
            _ => return Ok(Next::Step),
        }
        Ok(Next::Pick)
    }

    /// Lanes of the group at position `at` go other ways, as `parts` say; the rest of them goes to
    /// the next instruction.
    pub(super) fn part(&mut self, at: usize, group: &Group, parts: &[Group]) {
        let gone = parts.iter().fold(0, |mask, part| mask | part.mask);
        let rest = Group {
            mask: group.mask & !gone,
            pc: group.pc + 1,
            ..*group
        };
        let mut first = true;
        let all = parts.iter().chain(std::iter::once(&rest));
        for &part in all.filter(|part| part.mask != 0) {
            match self.groups.get_mut(at) {
                Some(place) if first => *place = part,
                _ => self.groups.push(part),
            }
            first = false;
        }
        if first {
            self.groups.swap_remove(at);
        }
    }

    /// Each lane goes to the label that its index names.
    fn choose(
        &mut self,
        at: usize,
        group: &Group,
        mask: u32,
        index: Slot,
        targets: &[u32],
    ) -> Result<Next, Wrong> {
        let indices = self.column(group.node, index);
        let mut parts = Vec::<Group>::new();
        for lane in lanes(mask) {
            let Some(&target) = targets.get(indices[lane] as usize) else {
                let reason = Reason::BranchIndex {
                    index: indices[lane],
                    targets: targets.len() as u64,
                };
                return Err(Wrong { lane, reason });
            };
            let pc = target as usize;
            match parts.iter_mut().find(|part| part.pc == pc) {
                Some(part) => part.mask |= 1 << lane,
                None => parts.push(Group {
                    mask: 1 << lane,
                    pc,
                    ..*group
                }),
            }
        }
        if let [only] = parts.as_slice()
            && only.mask == group.mask
        {
            return Ok(Next::Jump(only.pc));
        }
        self.part(at, group, &parts);
        Ok(Next::Pick)
    }

    /// Lanes are over: nobody waits for them any more.
    fn exit(&mut self, at: usize, group: &Group, mask: u32) {
        self.live &= !mask;
        let rest = Group {
            mask: group.mask & !mask,
            pc: group.pc + 1,
            ..*group
        };
        match self.groups.get_mut(at) {
            Some(place) if rest.mask != 0 => *place = rest,
            _ => {
                self.groups.swap_remove(at);
            }
        }
        self.settle();
    }

    fn check_threads(&self, group: &Group, mask: u32, threads: Option<Slot>) -> Result<(), Wrong> {
        let Some(slot) = threads else {
            return Ok(());
        };
        let all = u64::from(self.place.warps) * crate::column::LANES as u64;
        let given = self.column(group.node, slot);
        match lanes(mask).find(|&lane| given[lane] != all) {
            None => Ok(()),
            Some(lane) => Err(Wrong {
                lane,
                reason: Reason::PartialBarrier {
                    given: given[lane],
                    threads: all,
                },
            }),
        }
    }

    fn meet(
        &mut self,
        at: usize,
        group: &Group,
        mask: u32,
        meeting: &crate::module::Meeting,
    ) -> Result<Next, Wrong> {
        match self.gather(at, group, mask, meeting)? {
            true => Ok(Next::Step),
            false => Ok(Next::Pick),
        }
    }
}

impl Op {
    /// Whether it decides where lanes go.
    #[inline(always)]
    fn is_control(&self) -> bool {
        matches!(
            self,
            Self::Branch(_)
                | Self::Table { .. }
                | Self::Call(_)
                | Self::Return
                | Self::Exit
                | Self::Trap
                | Self::Sleep
                | Self::Meet(_)
                | Self::Barrier { .. }
        )
    }
}

fn wrong(mask: u32, reason: Reason) -> Wrong {
    Wrong {
        lane: lowest(mask),
        reason,
    }
}

/// Instructions that a group runs before another one that could run has its chance.
const QUANTUM: u32 = 512;
