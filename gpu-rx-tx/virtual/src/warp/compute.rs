//! Instructions that do not decide where lanes go.

use super::{Node, Warp, Wrong};
use crate::alu::{self, ones};
use crate::column::{Column, LANES, each1, lanes};
use crate::memory::{self, LOCAL_WINDOW, SHARED_WINDOW, TABLE_WINDOW, WINDOW_MASK};
use crate::module::{Carry, Clock, Comparison, Flag, Instruction, Op, Slot, Space};
use crate::observer::Observer;

impl<O: Observer> Warp<O> {
    /// Lanes of `mask` in a node execute an instruction.
    #[inline]
    pub(super) fn compute(
        &mut self,
        at: usize,
        mask: u32,
        instruction: &Instruction,
    ) -> Result<(), Wrong> {
        let line = instruction.line;
        match &instruction.op {
            Op::Load(access) => return self.load(at, mask, access, line),
            Op::Store(access) => return self.store(at, mask, access, line),
            Op::Atomic(atomic) => return self.atomic(at, mask, atomic, line),
            Op::Fence(order, scope) => {
                memory::order(*order);
                if O::WATCHES {
                    self.observer.fence(mask, line, *order, *scope);
                }
            }
            Op::Clock { d, clock } => {
                let now = self.clock(*clock);
                if let Some(node) = self.nodes.get_mut(at) {
                    let same = [now; LANES];
                    node.write(*d, |d| each1(mask, d, &same, |now| now));
                }
            }
            Op::Carry(carry) => self.carry(at, mask, carry),
            op => {
                if let Some(node) = self.nodes.get_mut(at) {
                    node.compute(mask, op);
                }
            }
        }
        Ok(())
    }

    /// A register of a node.
    #[inline(always)]
    pub(super) fn column(&self, node: usize, slot: Slot) -> Column {
        self.nodes
            .get(node)
            .map_or([0; LANES], |node| node.read(slot))
    }

    fn clock(&self, clock: Clock) -> u64 {
        let now_ns = || (self.setting.now_ns)();
        match clock {
            Clock::Nanoseconds => now_ns(),
            Clock::NanosecondsLow => now_ns() & ones(32),
            Clock::NanosecondsHigh => now_ns() >> 32,
            Clock::Cycles => self.cycles,
            Clock::CyclesLow => self.cycles & ones(32),
            Clock::CyclesHigh => self.cycles >> 32,
        }
    }

    fn carry(&mut self, at: usize, mask: u32, carry: &Carry) {
        let Some(node) = self.nodes.get_mut(at) else {
            return;
        };
        let [a, b, c] = carry.from.map(|slot| node.read(slot));
        let before = match carry.reads {
            true => self.carry,
            false => 0,
        };
        let mut after = self.carry;
        node.write(carry.d, |d| {
            for lane in lanes(mask) {
                let carried = before >> lane & 1 == 1;
                let (value, carries) = (carry.f)(a[lane], b[lane], c[lane], carried);
                d[lane] = value;
                after = after & !(1 << lane) | u32::from(carries) << lane;
            }
        });
        if carry.writes {
            self.carry = after;
        }
    }
}

impl Node {
    #[inline(always)]
    fn read(&self, slot: Slot) -> Column {
        self.registers
            .get(slot as usize)
            .copied()
            .unwrap_or([0; LANES])
    }

    #[inline(always)]
    fn write(&mut self, slot: Slot, f: impl FnOnce(&mut Column)) {
        if let Some(column) = self.registers.get_mut(slot as usize) {
            f(column);
        }
    }

    #[inline(always)]
    fn test(&self, flag: Flag) -> u32 {
        let value = self.predicates.get(flag.slot as usize);
        value.copied().unwrap_or(0) ^ flag.flip
    }

    /// Predicates of the lanes of `mask` become `value`.
    #[inline(always)]
    fn set(&mut self, slot: Slot, mask: u32, value: u32) {
        if let Some(predicate) = self.predicates.get_mut(slot as usize) {
            *predicate = *predicate & !mask | value & mask;
        }
    }

    /// What touches registers of this node and nothing else.
    #[inline]
    fn compute(&mut self, mask: u32, op: &Op) {
        match op {
            Op::Copy { d, a } => {
                let a = self.read(*a);
                self.write(*d, |d| each1(mask, d, &a, |a| a));
            }
            Op::One { f, d, a } => {
                let a = self.read(*a);
                self.write(*d, |d| f(mask, d, &a));
            }
            Op::Two { f, d, a, b } => {
                let (a, b) = (self.read(*a), self.read(*b));
                self.write(*d, |d| f(mask, d, &a, &b));
            }
            Op::Three { f, d, a, b, c } => {
                let (a, b, c) = (self.read(*a), self.read(*b), self.read(*c));
                self.write(*d, |d| f(mask, d, &a, &b, &c));
            }
            Op::Mask { d, a, mask: bits } => {
                let (a, bits) = (self.read(*a), *bits);
                self.write(*d, |d| each1(mask, d, &a, |a| a & bits));
            }
            Op::Convert { d, a, convert } => {
                let a = self.read(*a);
                self.write(*d, |d| each1(mask, d, &a, |a| alu::convert(convert, a)));
            }
            Op::Compare(comparison) => self.compare(mask, comparison),
            Op::Select { d, a, b, by } => {
                let (a, b, by) = (self.read(*a), self.read(*b), self.test(*by));
                self.write(*d, |d| {
                    for lane in lanes(mask) {
                        d[lane] = if by >> lane & 1 == 1 {
                            a[lane]
                        } else {
                            b[lane]
                        };
                    }
                });
            }
            Op::Logic { f, p, a, b } => {
                let value = f(self.test(*a), self.test(*b));
                self.set(*p, mask, value);
            }
            Op::ActiveMask { d } => {
                self.write(*d, |d| each1(mask, d, &[0; LANES], |_| u64::from(mask)));
            }
            _ => self.compute_rarely(mask, op),
        }
    }

    fn compute_rarely(&mut self, mask: u32, op: &Op) {
        match op {
            Op::Insert { bits, d, from } => {
                let [a, b, position, length] = from.map(|slot| self.read(slot));
                self.write(*d, |d| {
                    for lane in lanes(mask) {
                        let (position, length) = (position[lane], length[lane]);
                        d[lane] = alu::insert(*bits, a[lane], b[lane], position, length);
                    }
                });
            }
            Op::Lop3 { table, d, from } => {
                let [a, b, c] = from.map(|slot| self.read(slot));
                self.write(*d, |d| {
                    for lane in lanes(mask) {
                        d[lane] = alu::lop3(*table, a[lane], b[lane], c[lane]);
                    }
                });
            }
            Op::Pack { bits, d, from } => {
                let mut value = [0; LANES];
                for (shift, &slot) in (0..).step_by(*bits as usize).zip(from) {
                    let part = self.read(slot);
                    for lane in lanes(mask) {
                        value[lane] |= part[lane] << shift;
                    }
                }
                self.write(*d, |d| each1(mask, d, &value, |value| value));
            }
            Op::Unpack { bits, d, from } => {
                let value = self.read(*from);
                for (shift, &slot) in (0..).step_by(*bits as usize).zip(d) {
                    let part = |value: u64| value >> shift & ones(*bits);
                    self.write(slot, |d| each1(mask, d, &value, part));
                }
            }
            Op::IsSpace { p, a, space } => {
                let window = match space {
                    Space::Local | Space::Param => LOCAL_WINDOW,
                    Space::Shared => SHARED_WINDOW,
                    Space::Const => TABLE_WINDOW,
                    Space::Global | Space::Generic => 0,
                };
                let address = self.read(*a);
                let is_global = *space == Space::Global;
                let found = lanes(mask).fold(0, |found, lane| {
                    let here = address[lane] & WINDOW_MASK;
                    let yes = here == window || (is_global && here == TABLE_WINDOW);
                    found | u32::from(yes) << lane
                });
                self.set(*p, mask, found);
            }
            _ => {}
        }
    }

    #[inline]
    fn compare(&mut self, mask: u32, comparison: &Comparison) {
        let (a, b) = (self.read(comparison.a), self.read(comparison.b));
        let (found, with) = ((comparison.f)(mask, &a, &b), self.test(comparison.with));
        self.set(comparison.p, mask, (comparison.combine)(found, with));
        self.set(comparison.q, mask, (comparison.combine)(!found, with));
    }
}
