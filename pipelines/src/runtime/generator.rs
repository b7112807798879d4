//! Laying out a generator in memory.

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{
    TEMPLATE_BYTES, Template, TransmitCounters, TransmitParameters, TransmitPort,
};
use warpwire_gpu::executor::{Control, Parameters};
use warpwire_nic::Nic;
use warpwire_ring::{DeviceAddress, Location};

use super::kit::format_word;
use super::memory::{Kept, Memory, Row};
use super::promise;
use crate::file::{FrameEntry, GenerateEntry};
use crate::runtime::Error;

/// The memory of one generator kernel, laid out and ready to launch.
pub(super) struct Layout {
    pub(super) kernel: String,
    /// The NIC, by its place in the file.
    pub(super) nic: usize,
    pub(super) blocks: u32,
    pub(super) parameters: DeviceAddress,
    pub(super) control: Control,
    pub(super) memory: Kept,
    /// Counters, a row a block.
    pub(super) counters: Vec<Row>,
    /// For each template, the frame that it was made from.
    pub(super) order: Vec<usize>,
}

impl Layout {
    /// What a launch is given.
    pub(super) fn promise(&self) -> Parameters {
        let memory = &self.memory.arenas;
        let promised = promise(self.parameters, TransmitParameters::LAYOUT, memory);
        promised.control(self.control.clone())
    }

    /// Where the parameter block has what the kernel obeys.
    pub(super) fn steering(&self) -> DeviceAddress {
        let offset = std::mem::offset_of!(TransmitParameters, steering);
        self.parameters.offset(offset as u64)
    }
}

/// Lays out the kernel that sends from one NIC: a block for each of its queues.
pub(super) fn lay_out(
    entry: &GenerateEntry,
    nic: &dyn Nic,
    mut memory: Memory,
) -> Result<Layout, Error> {
    let order = order(&entry.frames);
    let templates: Vec<Template> = order
        .iter()
        .filter_map(|place| entry.frames.get(*place))
        .map(template)
        .collect();
    let mut counters = Vec::new();
    let mut ports = Vec::new();
    for pair in nic.queues() {
        memory.keep(&pair.memory);
        let row = memory.counters((size_of::<TransmitCounters>() / 8) as u32)?;
        ports.push(TransmitPort {
            transmit: pair.transmit,
            counters: row.address,
        });
        counters.push(row);
    }
    let blocks = ports.len() as u32;
    let control_bytes = Control::bytes(blocks) as usize + 128;
    let arena = memory.arena(control_bytes, Location::PinnedHost)?;
    let control = Control::allocate(&arena, blocks)?;
    let word = nic.queues().first();
    let word = word.and_then(|pair| format_word(&pair.receive));
    let parameters = TransmitParameters {
        header: TransmitParameters::HEADER,
        steering: Steering {
            stop: control.stop_address(),
            heartbeats: memory.heartbeats(&control),
            turns: 0,
        },
        ports: memory.table(&ports)?,
        port_count: blocks,
        template_count: templates.len() as u32,
        templates: memory.table(&templates)?,
        frames: entry.count,
        rate: entry.rate,
        batch: 0,
        reserved: 0,
    };
    Ok(Layout {
        nic: entry.nic,
        kernel: format!("transmit_{}", word.unwrap_or("unknown")),
        blocks,
        parameters: memory.shared(parameters)?.1,
        control,
        memory: memory.keep_all(),
        counters,
        order,
    })
}

/// The frames in the order of one round: each as often as its weight says, spread out.
fn order(frames: &[FrameEntry]) -> Vec<usize> {
    let total: u32 = frames.iter().map(|frame| frame.weight).sum();
    let mut credit = vec![0i64; frames.len()];
    let mut order = Vec::new();
    for _ in 0..total {
        for (credit, frame) in credit.iter_mut().zip(frames) {
            *credit += i64::from(frame.weight);
        }
        let most = (0..frames.len()).max_by_key(|place| {
            let credit = credit.get(*place).copied().unwrap_or(0);
            (credit, std::cmp::Reverse(*place))
        });
        if let Some(place) = most {
            if let Some(credit) = credit.get_mut(place) {
                *credit -= i64::from(total);
            }
            order.push(place);
        }
    }
    order
}

fn template(entry: &FrameEntry) -> Template {
    let mut bytes = [0; TEMPLATE_BYTES];
    for (to, from) in bytes.iter_mut().zip(&entry.frame.bytes) {
        *to = *from;
    }
    Template {
        length: entry.frame.bytes.len() as u32,
        flows: entry.flows,
        vary_at: entry.frame.vary_at,
        checksum_at: entry.frame.checksum_at,
        reserved: [0; 28],
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Recipe;

    #[test]
    fn weights_are_kept_and_spread_out() {
        let frame = |weight| FrameEntry {
            name: String::new(),
            weight,
            flows: 1,
            frame: Recipe::default().build(),
        };
        assert_eq!(order(&[frame(1)]), [0]);
        assert_eq!(order(&[frame(2), frame(1)]), [0, 1, 0]);
        let many = order(&[frame(5), frame(1), frame(2)]);
        let count = |place| many.iter().filter(|one| **one == place).count();
        assert_eq!((count(0), count(1), count(2)), (5, 1, 2));
        assert!(many.windows(3).all(|three| three.contains(&0)));
    }
}
