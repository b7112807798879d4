//! Loads, stores and atomics of the lanes of a group.

use super::{Warp, Wrong};
use crate::alu::{ones, signed};
use crate::column::lanes;
use crate::count::Direction;
use crate::memory::Spot;
use crate::module::{Access, Atomic, Space};
use crate::observer::{AccessEvent, AccessKind, Observer};

impl<O: Observer> Warp<O> {
    pub(super) fn load(
        &mut self,
        node: usize,
        mask: u32,
        access: &Access,
        line: u32,
    ) -> Result<(), Wrong> {
        let base = self.column(node, access.base);
        let size = u64::from(access.size);
        let total = size * access.data.len() as u64;
        self.sectors.clear(total);
        let Some(node) = self.nodes.get_mut(node) else {
            return Ok(());
        };
        for lane in lanes(mask) {
            let wrong = |reason| Wrong { lane, reason };
            let address = base[lane].wrapping_add_signed(access.offset);
            let spot = self.memory.resolve(access.space, address, total, false);
            let spot = spot.map_err(wrong)?;
            self.sectors.touch(lane, known_as(access.space, spot));
            for (index, &d) in access.data.iter().enumerate() {
                let spot = spot.element(index, size);
                if O::WATCHES {
                    let event = event(lane, line, spot, AccessKind::Load, access);
                    self.observer.access(&event);
                }
                let value = self.memory.load(lane, spot, access.order).map_err(wrong)?;
                let value = match access.sign_bits {
                    0 => value,
                    bits => {
                        let extended = signed(value, 8 * u32::from(access.size)) as u64;
                        extended & ones(u32::from(bits))
                    }
                };
                if let Some(column) = node.registers.get_mut(d as usize) {
                    column[lane] = value;
                }
            }
        }
        self.counters.traffic(Direction::Load, &self.sectors);
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        node: usize,
        mask: u32,
        access: &Access,
        line: u32,
    ) -> Result<(), Wrong> {
        let base = self.column(node, access.base);
        let size = u64::from(access.size);
        let total = size * access.data.len() as u64;
        self.sectors.clear(total);
        let Some(node) = self.nodes.get(node) else {
            return Ok(());
        };
        for lane in lanes(mask) {
            let wrong = |reason| Wrong { lane, reason };
            let address = base[lane].wrapping_add_signed(access.offset);
            let spot = self.memory.resolve(access.space, address, total, true);
            let spot = spot.map_err(wrong)?;
            self.sectors.touch(lane, known_as(access.space, spot));
            for (index, &source) in access.data.iter().enumerate() {
                let spot = spot.element(index, size);
                if O::WATCHES {
                    let event = event(lane, line, spot, AccessKind::Store, access);
                    self.observer.access(&event);
                }
                let column = node.registers.get(source as usize);
                let value = column.map_or(0, |column| column[lane]);
                let stored = self.memory.store(lane, spot, value, access.order);
                stored.map_err(wrong)?;
            }
        }
        self.counters.traffic(Direction::Store, &self.sectors);
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        node: usize,
        mask: u32,
        atomic: &Atomic,
        line: u32,
    ) -> Result<(), Wrong> {
        let base = self.column(node, atomic.base);
        let (a, b) = (self.column(node, atomic.a), self.column(node, atomic.b));
        let size = u64::from(atomic.size);
        self.sectors.clear(size);
        let Some(node) = self.nodes.get_mut(node) else {
            return Ok(());
        };
        for lane in lanes(mask) {
            let wrong = |reason| Wrong { lane, reason };
            let address = base[lane].wrapping_add_signed(atomic.offset);
            let spot = self.memory.resolve(atomic.space, address, size, true);
            let spot = spot.map_err(wrong)?;
            self.sectors.touch(lane, spot.known_as());
            if O::WATCHES {
                let (space, address) = spot.known_as();
                self.observer.access(&AccessEvent {
                    lane: lane as u32,
                    line,
                    space,
                    address,
                    bytes: u32::from(atomic.size),
                    kind: AccessKind::Atomic,
                    order: atomic.order,
                    scope: atomic.scope,
                });
            }
            let operands = (a[lane], b[lane]);
            let old = self
                .memory
                .update(spot, atomic.order, atomic.update, operands);
            let old = old.map_err(wrong)?;
            if let Some(column) = node.registers.get_mut(atomic.d as usize) {
                column[lane] = old;
            }
        }
        self.counters.traffic(Direction::Store, &self.sectors);
        Ok(())
    }
}

/// The space and the address of an access. Parameters lie on the stack and are no local variables.
fn known_as(space: Space, spot: Spot) -> (Space, u64) {
    let (found, address) = spot.known_as();
    match space {
        Space::Param => (Space::Param, address),
        _ => (found, address),
    }
}

fn event(lane: usize, line: u32, spot: Spot, kind: AccessKind, access: &Access) -> AccessEvent {
    let (space, address) = known_as(access.space, spot);
    AccessEvent {
        lane: lane as u32,
        line,
        space,
        address,
        bytes: u32::from(access.size),
        kind,
        order: access.order,
        scope: access.scope,
    }
}
