//! Calls and returns: the tree of call paths.

use super::{Group, Node, State, Warp};
use crate::column::LANES;
use crate::fault::Reason;
use crate::module::{Call, Constant, Flag, Function, Op, Special};
use crate::observer::Observer;

impl<O: Observer> Warp<O> {
    /// The node of a call of `function` at `site` of `parent`: the one there is, or a new one.
    pub(super) fn node(
        &mut self,
        parent: Option<usize>,
        site: usize,
        function: usize,
    ) -> Result<usize, Reason> {
        let above = parent.and_then(|parent| self.nodes.get(parent));
        let known = above.and_then(|above| above.children.iter().find(|child| child.0 == site));
        if let Some(&(_, node)) = known {
            return Ok(node);
        }
        let (depth, above_top) = above.map_or((0, 0), |above| (above.depth + 1, above.top));
        if depth > MOST_DEPTH {
            return Err(Reason::Stack {
                what: "calls",
                limit: MOST_DEPTH,
            });
        }
        let module = std::sync::Arc::clone(&self.setting.module);
        let Some(code) = module.functions.get(function) else {
            return Err(Reason::End);
        };
        let base = above_top.next_multiple_of(code.frame_align);
        let top = base + code.frame_bytes;
        self.memory.stack.grow(top, &mut self.random)?;
        self.counters.ready(function, code.code.len());
        let number = self.nodes.len();
        let mut node = Node {
            function,
            parent,
            site,
            depth,
            base,
            top,
            registers: Vec::new(),
            predicates: Vec::new(),
            children: Vec::new(),
        };
        // What nobody wrote is drawn, so that nothing can depend on it; as 16 bits, which every
        // register has.
        node.registers
            .resize_with(code.registers, || [self.random.bits() & 0xffff; LANES]);
        node.predicates
            .resize_with(code.predicates, || self.random.bits() as u32);
        self.fill(&mut node, code);
        self.nodes.push(node);
        if let Some(above) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
            above.children.push((site, number));
        }
        Ok(number)
    }

    /// Writes what registers hold from the start.
    fn fill(&self, node: &mut Node, function: &Function) {
        for &(slot, constant) in &function.constants {
            let Some(column) = node.registers.get_mut(slot as usize) else {
                continue;
            };
            for (lane, value) in column.iter_mut().enumerate() {
                *value = match constant {
                    Constant::Value(value) => value,
                    Constant::Local(offset) => node.base + offset,
                    Constant::Special(special) => self.special(special, lane as u64),
                };
            }
        }
        if let Some(always) = node.predicates.get_mut(Flag::TRUE.slot as usize) {
            *always = u32::MAX;
        }
    }

    fn special(&self, special: Special, lane: u64) -> u64 {
        let place = self.place;
        let width = LANES as u64;
        let below = (1 << lane) - 1u64;
        match special {
            Special::ThreadX => u64::from(place.warp) * width + lane,
            Special::ThreadsX => u64::from(place.warps) * width,
            Special::BlockX => u64::from(place.block),
            Special::BlocksX => u64::from(place.blocks),
            Special::Lane => lane,
            Special::Warp => u64::from(place.warp),
            Special::Warps => u64::from(place.warps),
            Special::MaskEq => 1 << lane,
            Special::MaskLt => below,
            Special::MaskLe => below | 1 << lane,
            Special::MaskGt => u64::from(!((below | 1 << lane) as u32)),
            Special::MaskGe => u64::from(!(below as u32)),
            Special::DynamicSharedBytes => self.setting.dynamic_shared_bytes,
            Special::SharedBytes => {
                self.setting.module.shared_bytes + self.setting.dynamic_shared_bytes
            }
            Special::Zero => 0,
            Special::One => 1,
            Special::Width => width,
        }
    }

    /// Lanes of `group` go into a function, with its arguments.
    pub(super) fn enter(&mut self, group: &Group, mask: u32, call: &Call) -> Result<Group, Reason> {
        let function = call.function as usize;
        let node = self.node(Some(group.node), group.pc, function)?;
        let base = |node: Option<&Node>| node.map_or(0, |node| node.base);
        let (here, there) = (base(self.nodes.get(group.node)), base(self.nodes.get(node)));
        let module = std::sync::Arc::clone(&self.setting.module);
        if let Some(function) = module.functions.get(function) {
            for (from, to) in call.arguments.iter().zip(&function.parameters) {
                let stack = &mut self.memory.stack;
                stack.copy(mask, here + from.offset, there + to.offset, *from);
            }
        }
        Ok(Group {
            mask,
            node,
            pc: 0,
            state: State::Ready,
        })
    }

    /// Lanes of `group` go back to where they were called from, with the results; `None` if nobody
    /// called them.
    pub(super) fn leave(&mut self, group: &Group, mask: u32) -> Option<Group> {
        let node = self.nodes.get(group.node)?;
        let (function, base, site) = (node.function, node.base, node.site);
        let parent = node.parent?;
        let above = self.nodes.get(parent)?;
        let (above_base, above_function) = (above.base, above.function);
        let module = std::sync::Arc::clone(&self.setting.module);
        let callee = module.functions.get(function)?;
        let caller = module.functions.get(above_function)?;
        if let Op::Call(call) = &caller.code.get(site)?.op {
            for (from, to) in callee.returns.iter().zip(&call.results) {
                let stack = &mut self.memory.stack;
                stack.copy(mask, base + from.offset, above_base + to.offset, *from);
            }
        }
        Some(Group {
            mask,
            node: parent,
            pc: site + 1,
            state: State::Ready,
        })
    }
}

/// Calls within calls, at most.
const MOST_DEPTH: u64 = 256;
