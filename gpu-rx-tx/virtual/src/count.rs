//! Counting: instructions by class and line, accesses and sectors by space.

use std::collections::BTreeMap;

use crate::module::{Module, Space};

/// What kind of work an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Computes: arithmetic, logic, shifts, comparisons, conversions.
    Arithmetic,
    /// Moves between registers, or reads a special one.
    Move,
    /// Branches, calls, returns.
    Control,
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Read-modify-writes of memory.
    Atomic,
    /// Fences.
    Fence,
    /// Lanes meet: shuffles, votes, reductions, barriers.
    Sync,
    /// Everything else: sleeps, hints.
    Other,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Arithmetic,
        Self::Move,
        Self::Control,
        Self::Load,
        Self::Store,
        Self::Atomic,
        Self::Fence,
        Self::Sync,
        Self::Other,
    ];
}

/// How often something was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// By warps: each time that some lanes did it together.
    pub warps: u64,
    /// By lanes.
    pub lanes: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.warps += other.warps;
        self.lanes += other.lanes;
    }

    fn less(self, other: Self) -> Self {
        Self {
            warps: self.warps - other.warps,
            lanes: self.lanes - other.lanes,
        }
    }
}

/// Accesses to a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Accesses. The elements of a vector are one access.
    pub count: Count,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Sectors of 32 bytes that warps touched: each once per access of a warp, whatever the number
    /// of lanes in it. Local memory counts as a GPU lays it out, four bytes of all lanes side by
    /// side. Shared memory and parameters have no sectors.
    pub sectors: u64,
}

impl Traffic {
    fn add(&mut self, other: Self) {
        self.count.add(other.count);
        self.bytes += other.bytes;
        self.sectors += other.sectors;
    }

    fn less(self, other: Self) -> Self {
        Self {
            count: self.count.less(other.count),
            bytes: self.bytes - other.bytes,
            sectors: self.sectors - other.sectors,
        }
    }
}

/// Which way an access goes. Atomics go both ways and count as stores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From memory.
    Load,
    /// To memory.
    Store,
}

/// What the warps of a kernel did that ended so far, of all its launches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelCounts {
    /// Warps that ended.
    pub warps: u64,
    /// Instructions by class.
    pub classes: BTreeMap<Class, Count>,
    /// Accesses by the space that the address lay in.
    pub traffic: BTreeMap<(Space, Direction), Traffic>,
    /// Instructions that were reached, by their line of the PTX and their place in the function.
    pub lines: BTreeMap<(u32, u32), LineCount>,
}

/// One line of the PTX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineCount {
    /// The function that the line belongs to.
    pub function: String,
    /// The instruction.
    pub instruction: String,
    /// How often.
    pub count: Count,
    /// Sectors that it touched in memory of the launch and tables of the module.
    pub sectors: u64,
    /// Sectors that it touched in local memory.
    pub local_sectors: u64,
}

impl KernelCounts {
    /// All instructions.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.classes.values().for_each(|&count| total.add(count));
        total
    }

    /// Instructions by function.
    pub fn functions(&self) -> BTreeMap<&str, Count> {
        let mut found = BTreeMap::<&str, Count>::new();
        for line in self.lines.values() {
            found.entry(&line.function).or_default().add(line.count);
        }
        found
    }

    /// What was done since a copy of these counts was made.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.clone();
        counts.warps -= earlier.warps;
        for (class, count) in &mut counts.classes {
            *count = count.less(earlier.classes.get(class).copied().unwrap_or_default());
        }
        for (kind, traffic) in &mut counts.traffic {
            *traffic = traffic.less(earlier.traffic.get(kind).copied().unwrap_or_default());
        }
        for (place, line) in &mut counts.lines {
            if let Some(earlier) = earlier.lines.get(place) {
                line.count = line.count.less(earlier.count);
                line.sectors -= earlier.sectors;
                line.local_sectors -= earlier.local_sectors;
            }
        }
        counts.lines.retain(|_, line| line.count.warps > 0);
        counts
    }

    pub(crate) fn add(&mut self, module: &Module, counters: &Counters) {
        self.warps += 1;
        for (function, hits) in module.functions.iter().zip(&counters.hits) {
            let code = (0..).zip(&function.code);
            for ((place, instruction), hits) in code.zip(hits) {
                if hits.count.warps == 0 {
                    continue;
                }
                self.classes
                    .entry(instruction.class)
                    .or_default()
                    .add(hits.count);
                let line = self
                    .lines
                    .entry((instruction.line, place))
                    .or_insert_with(|| LineCount {
                        function: function.name.to_string(),
                        instruction: instruction.name.to_string(),
                        count: Count::default(),
                        sectors: 0,
                        local_sectors: 0,
                    });
                line.count.add(hits.count);
                line.sectors += hits.sectors;
                line.local_sectors += hits.local_sectors;
            }
        }
        for space in Space::REAL {
            for direction in [Direction::Load, Direction::Store] {
                let traffic = counters.traffic[space as usize][direction as usize];
                if traffic.count.warps > 0 {
                    self.traffic
                        .entry((space, direction))
                        .or_default()
                        .add(traffic);
                }
            }
        }
    }
}

/// What one warp did at one instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    count: Count,
    sectors: u64,
    local_sectors: u64,
}

/// What one warp did.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// By function and instruction; empty for a function that was not called.
    hits: Vec<Vec<Hits>>,
    /// The instruction that is executed.
    here: (usize, usize),
    /// By space; of each, loads and stores.
    traffic: [[Traffic; 2]; Space::COUNT],
}

impl Counters {
    pub(crate) fn new(functions: usize) -> Self {
        Self {
            hits: vec![Vec::new(); functions],
            here: (0, 0),
            traffic: Default::default(),
        }
    }

    /// Room for the instructions of a function that is called.
    pub(crate) fn ready(&mut self, function: usize, instructions: usize) {
        if let Some(hits) = self.hits.get_mut(function)
            && hits.is_empty()
        {
            hits.resize(instructions, Hits::default());
        }
    }

    #[inline(always)]
    pub(crate) fn hit(&mut self, function: usize, pc: usize, mask: u32) {
        self.here = (function, pc);
        if let Some(hits) = self.hits_here() {
            hits.count.warps += 1;
            hits.count.lanes += u64::from(mask.count_ones());
        }
    }

    #[inline(always)]
    fn hits_here(&mut self) -> Option<&mut Hits> {
        let (function, pc) = self.here;
        self.hits.get_mut(function)?.get_mut(pc)
    }

    /// The instruction that was hit last has accessed memory.
    pub(crate) fn traffic(&mut self, direction: Direction, sectors: &Sectors) {
        if let Some(hits) = self.hits_here() {
            let touched = |space: Space| sectors.touched[space as usize];
            hits.sectors += touched(Space::Global) + touched(Space::Const);
            hits.local_sectors += touched(Space::Local);
        }
        for space in Space::REAL {
            let lanes = sectors.lanes[space as usize];
            if lanes > 0 {
                let traffic = &mut self.traffic[space as usize][direction as usize];
                traffic.count.warps += 1;
                traffic.count.lanes += lanes;
                traffic.bytes += lanes * sectors.bytes;
                traffic.sectors += sectors.touched[space as usize];
            }
        }
    }
}

/// The sectors that one access of a warp touches.
#[derive(Debug)]
pub(crate) struct Sectors {
    /// Bytes that each lane asks for.
    bytes: u64,
    lanes: [u64; Space::COUNT],
    touched: [u64; Space::COUNT],
    keys: [u64; KEYS],
    used: usize,
}

impl Sectors {
    /// Ready for an access of `bytes` bytes a lane.
    pub(crate) fn clear(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.lanes = [0; Space::COUNT];
        self.touched = [0; Space::COUNT];
        self.used = 0;
    }

    pub(crate) fn new() -> Self {
        Self {
            bytes: 0,
            lanes: [0; Space::COUNT],
            touched: [0; Space::COUNT],
            keys: [0; KEYS],
            used: 0,
        }
    }

    #[inline]
    pub(crate) fn touch(&mut self, lane: usize, (space, address): (Space, u64)) {
        self.lanes[space as usize] += 1;
        match space {
            Space::Shared | Space::Param => {}
            Space::Local => {
                let eight = lane as u64 / 8;
                for word in address / 4..(address + self.bytes).div_ceil(4) {
                    self.insert(space, LOCAL_KEYS | word << 2 | eight);
                }
            }
            _ => {
                for sector in address / 32..(address + self.bytes).div_ceil(32) {
                    self.insert(space, sector);
                }
            }
        }
    }

    #[inline]
    fn insert(&mut self, space: Space, key: u64) {
        let used = self.keys.get_mut(..self.used).unwrap_or_default();
        if used.iter().rev().any(|&known| known == key) {
            return;
        }
        if let Some(free) = self.keys.get_mut(self.used) {
            *free = key;
            self.used += 1;
        }
        self.touched[space as usize] += 1;
    }
}

impl Space {
    /// Where addresses lead to.
    pub(crate) const REAL: [Self; 5] = [
        Self::Global,
        Self::Const,
        Self::Shared,
        Self::Local,
        Self::Param,
    ];
    pub(crate) const COUNT: usize = 6;
}

/// Keys of local memory: no address of the host has this bit.
const LOCAL_KEYS: u64 = 1 << 62;
/// 32 lanes of at most 32 bytes each: as many as local memory can have of words times groups.
const KEYS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_counted_once_an_access() {
        let check = |what, bytes, addresses: &[(Space, u64)], expected: [u64; 2]| {
            let mut sectors = Sectors::new();
            sectors.clear(bytes);
            for (lane, &at) in addresses.iter().enumerate() {
                sectors.touch(lane, at);
            }
            let found = [Space::Global, Space::Local].map(|space| sectors.touched[space as usize]);
            assert_eq!(found, expected, "{what}");
        };
        let row = |space, stride: u64| -> Vec<(Space, u64)> {
            (0..32).map(|lane| (space, 4096 + lane * stride)).collect()
        };
        check("the same word", 4, &row(Space::Global, 0), [1, 0]);
        check("side by side", 4, &row(Space::Global, 4), [4, 0]);
        check("side by side, wide", 16, &row(Space::Global, 16), [16, 0]);
        check("scattered", 1, &row(Space::Global, 64), [32, 0]);
        check("local, one offset", 4, &row(Space::Local, 0), [0, 4]);
        check("local, eight bytes", 8, &row(Space::Local, 0), [0, 8]);
        check("local, one lane", 1, &[(Space::Local, 3)], [0, 1]);
    }
}
