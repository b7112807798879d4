//! Laying out a pipeline in memory: what each block drives, and what is done with its frames.

use warpwire_core::block::{
    Block, BlockCounters, PARTIAL_CHECKSUMS, Parameters as _, PipelineParameters, Port,
    PortCounters, Steering,
};
use warpwire_core::program::{ARGS_BYTES, MAX_NICS, MAX_PORTS, Op, Program};
use warpwire_core::sample::SLOT_BYTES;
use warpwire_core::spec::Span;
use warpwire_gpu::executor::{Control, Parameters};
use warpwire_nic::{Features, Nic, QueuePair};
use warpwire_ring::{DeviceAddress, Location};

use super::kit::{FORMAT_WORDS, format_word};
use super::memory::{Kept, Memory, Row};
use super::promise;
use crate::copies::CopyRing;
use crate::file::{PipelineFile, ReceiveEntry, StageEntry};
use crate::runtime::{Error, Kit};
use crate::sensor::{Records, Tensors};

/// The memory of one pipeline kernel, laid out and ready to launch.
pub(super) struct Layout {
    /// The kernel's name.
    pub(super) kernel: String,
    pub(super) blocks: u32,
    /// The parameter block.
    pub(super) parameters: DeviceAddress,
    pub(super) control: Control,
    pub(super) memory: Kept,
    /// The NICs that the kernel drives, by their places in the file.
    pub(super) nics: Vec<usize>,
    pub(super) block_counters: Vec<Row>,
    pub(super) ports: Vec<PortRecord>,
    pub(super) stages: Vec<StageRecord>,
    pub(super) samples: Vec<SampleRecord>,
    pub(super) gathers: Vec<GatherRecord>,
}

impl Layout {
    /// What a launch is given.
    pub(super) fn promise(&self) -> Parameters {
        let memory = &self.memory.arenas;
        let promised = promise(self.parameters, PipelineParameters::LAYOUT, memory);
        promised.control(self.control.clone())
    }

    /// Where the parameter block has what the kernel obeys.
    pub(super) fn steering(&self) -> DeviceAddress {
        let offset = std::mem::offset_of!(PipelineParameters, steering);
        self.parameters.offset(offset as u64)
    }
}

/// Where a port counts.
pub(super) struct PortRecord {
    pub(super) nic: usize,
    pub(super) queue: u32,
    /// Whether the kernel receives from it.
    pub(super) receives: bool,
    pub(super) counters: Row,
}

/// Where a stage counts, in one port.
pub(super) struct StageRecord {
    /// Its receive, and its place there.
    pub(super) receive: usize,
    pub(super) stage: usize,
    pub(super) counters: Row,
}

/// A ring of samples of one port.
pub(super) struct SampleRecord {
    pub(super) receive: usize,
    pub(super) stage: usize,
    pub(super) ring: CopyRing,
}

/// The tensors of a stage that gathers.
pub(super) struct GatherRecord {
    pub(super) receive: usize,
    pub(super) stage: usize,
    pub(super) tensors: Tensors,
}

/// Samples that a ring can hold.
const RING_DEPTH: u32 = 256;

/// Lays out the kernel that drives one group of NICs.
pub(super) fn lay_out(
    file: &PipelineFile,
    kit: &Kit,
    nics: &[Box<dyn Nic>],
    group: &[usize],
    memory: Memory,
) -> Result<Layout, Error> {
    let mut builder = Builder::new(file, nics, group, memory)?;
    let mut blocks = Vec::new();
    for number in 0..file.blocks {
        blocks.push(builder.block(number)?);
    }
    let mut memory = builder.memory;
    let control_bytes = Control::bytes(file.blocks) as usize + 128;
    let arena = memory.arena(control_bytes, Location::PinnedHost)?;
    let control = Control::allocate(&arena, file.blocks)?;
    let parameters = PipelineParameters {
        header: PipelineParameters::HEADER,
        steering: Steering {
            stop: control.stop_address(),
            heartbeats: memory.heartbeats(&control),
            turns: 0,
        },
        stages: kit.layout(),
        blocks: memory.table(&blocks)?,
        block_count: file.blocks,
        reserved: 0,
    };
    Ok(Layout {
        kernel: builder.kernel,
        blocks: file.blocks,
        parameters: memory.shared(parameters)?.1,
        control,
        memory: memory.keep_all(),
        nics: group.to_vec(),
        block_counters: builder.block_counters,
        ports: builder.ports,
        stages: builder.stages,
        samples: builder.samples,
        gathers: builder.gathers,
    })
}

struct Builder<'f> {
    file: &'f PipelineFile,
    nics: &'f [Box<dyn Nic>],
    /// NICs of the near format, then of the far one.
    order: Vec<usize>,
    near: &'static str,
    kernel: String,
    memory: Memory,
    block_counters: Vec<Row>,
    ports: Vec<PortRecord>,
    stages: Vec<StageRecord>,
    samples: Vec<SampleRecord>,
    gathers: Vec<GatherRecord>,
    /// Tables of each receive that were placed, to be shared by its ports.
    tables: Vec<Option<(DeviceAddress, DeviceAddress)>>,
}

impl<'f> Builder<'f> {
    fn new(
        file: &'f PipelineFile,
        nics: &'f [Box<dyn Nic>],
        group: &[usize],
        memory: Memory,
    ) -> Result<Self, Error> {
        let word = |nic: usize| {
            let pair = nics.get(nic).and_then(|nic| nic.queues().first());
            pair.and_then(|pair| format_word(&pair.receive))
        };
        let used: Vec<&'static str> = FORMAT_WORDS
            .into_iter()
            .filter(|known| group.iter().any(|nic| word(*nic) == Some(known)))
            .collect();
        let (near, kernel) = match used.as_slice() {
            [one] => (*one, format!("pipeline_{one}")),
            [one, other] => (*one, format!("pipeline_{one}_{other}")),
            _ => {
                return Err(Error::Formats {
                    nics: names(file, group),
                    formats: used.join(", "),
                });
            }
        };
        let (mut order, far): (Vec<usize>, Vec<usize>) =
            group.iter().partition(|nic| word(**nic) == Some(near));
        order.extend(far);
        let mut builder = Self {
            file,
            nics,
            order,
            near,
            kernel,
            memory,
            block_counters: Vec::new(),
            ports: Vec::new(),
            stages: Vec::new(),
            samples: Vec::new(),
            gathers: Vec::new(),
            tables: vec![None; file.receives.len()],
        };
        builder.check(group)?;
        Ok(builder)
    }

    /// Every block has a queue pair of each NIC, and not too many.
    fn check(&mut self, group: &[usize]) -> Result<(), Error> {
        let blocks = self.file.blocks as usize;
        let mut most = 0;
        for nic in group {
            let have = self.pairs(*nic).len();
            if have < blocks {
                return Err(Error::Queues {
                    nic: self.name(*nic),
                    have,
                    blocks: self.file.blocks,
                });
            }
            most += have.div_ceil(blocks);
        }
        if most > MAX_PORTS {
            return Err(Error::Ports {
                nics: names(self.file, group),
                count: most,
                most: MAX_PORTS,
            });
        }
        Ok(())
    }

    fn pairs(&self, nic: usize) -> &'f [QueuePair] {
        self.nics.get(nic).map_or(&[], |nic| nic.queues())
    }

    fn name(&self, nic: usize) -> String {
        let entry = self.file.nics.get(nic);
        entry.map_or_else(String::new, |entry| entry.name.clone())
    }

    fn block(&mut self, number: u32) -> Result<Block, Error> {
        let mut outputs = [Span::default(); MAX_NICS];
        let mut ports = Vec::new();
        let mut near = 0;
        for nic in self.order.clone() {
            let first = ports.len() as u32;
            for pair in self.pairs(nic) {
                if pair.index % self.file.blocks == number {
                    ports.push(self.port(nic, pair)?);
                }
            }
            let count = ports.len() as u32 - first;
            if let Some(output) = outputs.get_mut(nic) {
                *output = Span { first, count };
            }
            let pair = self.pairs(nic).first();
            if pair.and_then(|pair| format_word(&pair.receive)) == Some(self.near) {
                near += count;
            }
        }
        let counters = self.memory.counters(BlockCounters::ENTRIES)?;
        self.block_counters.push(counters.clone());
        Ok(Block {
            ports: self.memory.table(&ports)?,
            counters: counters.address,
            near,
            far: ports.len() as u32 - near,
            outputs,
        })
    }

    fn port(&mut self, nic: usize, pair: &QueuePair) -> Result<Port, Error> {
        self.memory.keep(&pair.memory);
        let counters = self.memory.counters(PortCounters::ENTRIES)?;
        let receive = self.file.receives.iter().position(|one| one.nic == nic);
        self.ports.push(PortRecord {
            nic,
            queue: pair.index,
            receives: receive.is_some(),
            counters: counters.clone(),
        });
        let program = match receive {
            Some(receive) => self.program(receive)?,
            None => Program::default(),
        };
        let open = self.nics.get(nic);
        let mac = self.file.nics.get(nic).and_then(|entry| entry.mac);
        let partial = open.is_some_and(|nic| {
            let features = nic.caps().features;
            features.contains(Features::RX_PARTIAL_CHECKSUM)
        });
        Ok(Port {
            receive: pair.receive,
            transmit: pair.transmit,
            program,
            counters: counters.address,
            mac: mac.or(open.map(|nic| nic.mac())).unwrap_or_default(),
            flags: if partial { PARTIAL_CHECKSUMS } else { 0 },
            nic: nic as u32,
            queue: pair.index,
        })
    }

    fn program(&mut self, receive: usize) -> Result<Program, Error> {
        let Some(entry) = self.file.receives.get(receive) else {
            return Ok(Program::default());
        };
        let (rules, addresses) = self.tables_of(receive, entry)?;
        let mut ops = Vec::new();
        for (place, stage) in entry.stages.iter().enumerate() {
            ops.push(self.op(receive, place, stage)?);
        }
        Ok(Program {
            ops: self.memory.table(&ops)?,
            rules,
            addresses,
            op_count: ops.len() as u32,
            rule_count: entry.rules.len() as u32,
            address_count: entry.addresses.len() as u32,
            reserved: 0,
        })
    }

    fn tables_of(
        &mut self,
        receive: usize,
        entry: &ReceiveEntry,
    ) -> Result<(DeviceAddress, DeviceAddress), Error> {
        if let Some(Some(tables)) = self.tables.get(receive) {
            return Ok(*tables);
        }
        let rules = self.memory.table(&entry.rules)?;
        let addresses = self.memory.table(&entry.addresses)?;
        if let Some(slot) = self.tables.get_mut(receive) {
            *slot = Some((rules, addresses));
        }
        Ok((rules, addresses))
    }

    fn op(&mut self, receive: usize, place: usize, stage: &StageEntry) -> Result<Op, Error> {
        let counters = self.memory.counters(stage.spec.counter_entries())?;
        self.stages.push(StageRecord {
            receive,
            stage: place,
            counters: counters.clone(),
        });
        let samples = match (&stage.file, &stage.gather) {
            (_, Some(gather)) => self.tensors(receive, place, &gather.records)?,
            (Some(_), None) => self.ring(receive, place)?,
            (None, None) => DeviceAddress::NULL,
        };
        let mut args = [0; ARGS_BYTES / 8];
        let (words, _) = stage.args.as_chunks::<8>();
        for (word, bytes) in args.iter_mut().zip(words) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(Op {
            kind: stage.kind,
            counter_count: counters.entries,
            when: stage.when,
            counters: counters.address,
            samples,
            args,
        })
    }

    /// The tensors of a stage: one warp has all ports of the only block, and gathers by one
    /// gatherer whatever the port.
    fn tensors(
        &mut self,
        receive: usize,
        stage: usize,
        records: &Records,
    ) -> Result<DeviceAddress, Error> {
        let is_it = |one: &&GatherRecord| (one.receive, one.stage) == (receive, stage);
        if let Some(record) = self.gathers.iter().find(is_it) {
            return Ok(record.tensors.address());
        }
        let tensors = Tensors::new(records, Location::PinnedHost)?;
        self.memory.keep(std::slice::from_ref(tensors.memory()));
        let address = tensors.address();
        self.gathers.push(GatherRecord {
            receive,
            stage,
            tensors,
        });
        Ok(address)
    }

    fn ring(&mut self, receive: usize, stage: usize) -> Result<DeviceAddress, Error> {
        let bytes = u64::from(RING_DEPTH) * u64::from(SLOT_BYTES);
        let (slots_arena, slots) = self.memory.zeroed(bytes)?;
        let block = CopyRing::block(slots, RING_DEPTH, SLOT_BYTES);
        let (arena, block) = self.memory.shared(block)?;
        self.samples.push(SampleRecord {
            receive,
            stage,
            ring: CopyRing {
                arena,
                block,
                slots_arena,
                slots,
                depth: RING_DEPTH,
                slot_bytes: SLOT_BYTES,
            },
        });
        Ok(block)
    }
}

fn names(file: &PipelineFile, group: &[usize]) -> String {
    let names: Vec<&str> = group
        .iter()
        .filter_map(|nic| file.nics.get(*nic))
        .map(|nic| nic.name.as_str())
        .collect();
    names.join(", ")
}
