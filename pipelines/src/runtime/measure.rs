//! Launching the plain kernels that measure, on a NIC and an executor of the caller's.

use std::time::Duration;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{
    MAX_TEMPLATES, MeasureCounters, MeasureParameters, MeasurePort, TransmitCounters,
};
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Control, Grid, Launch, Placement};
use warpwire_nic::Nic;
use warpwire_ring::{Cause, DeviceAddress, Location};

use super::kit::format_word;
use super::memory::{Memory, Row};
use super::{generator, promise};
use crate::file::GenerateEntry;
use crate::runtime::{Error, Kit};

/// A kernel that measures: a block for each queue pair of a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plain {
    /// Receives, parses every header, counts, gives back.
    ReceiveCount,
    /// Receives, parses every header, exchanges the Ethernet addresses, sends back.
    MacSwap,
}

impl Plain {
    const fn word(self) -> &'static str {
        match self {
            Self::ReceiveCount => "receive_count",
            Self::MacSwap => "mac_swap",
        }
    }
}

/// A plain kernel that runs. Dropping it unwinds the kernel.
pub struct Measurement {
    launch: Launch,
    rows: Vec<Row>,
}

impl Measurement {
    /// Starts a kernel over all queues of a NIC; batches of at most `batch` frames, 0 for 64.
    ///
    /// # Errors
    /// Memory that cannot be had, a format without a kernel, an executor that refuses.
    pub fn start(
        executor: &CpuExecutor,
        kernel: Plain,
        nic: &dyn Nic,
        batch: u32,
        placement: Placement,
    ) -> Result<Self, Error> {
        let mut memory = Memory::default();
        let mut rows = Vec::new();
        let mut ports = Vec::new();
        for pair in nic.queues() {
            memory.keep(&pair.memory);
            let row = memory.counters((size_of::<MeasureCounters>() / 8) as u32)?;
            ports.push(MeasurePort {
                receive: pair.receive,
                transmit: pair.transmit,
                counters: row.address,
            });
            rows.push(row);
        }
        let blocks = ports.len() as u32;
        let arena = memory.arena(Control::bytes(blocks) as usize + 128, Location::PinnedHost)?;
        let control = Control::allocate(&arena, blocks)?;
        let parameters = MeasureParameters {
            header: MeasureParameters::HEADER,
            steering: Steering {
                stop: control.stop_address(),
                heartbeats: DeviceAddress::NULL,
                turns: 0,
            },
            ports: memory.table(&ports)?,
            port_count: blocks,
            batch,
        };
        let address = memory.shared(parameters)?.1;
        let name = format!("{}_{}", kernel.word(), word(nic));
        let row = Kit::built_in().kernel(&name)?;
        let arenas = memory.keep_all().arenas;
        let promised = promise(address, MeasureParameters::LAYOUT, &arenas).control(control);
        let grid = Grid { blocks, warps: 1 };
        let launch = executor.launch_on(row, grid, promised, placement)?;
        Ok(Self { launch, rows })
    }

    /// What all blocks counted so far.
    pub fn counters(&self) -> MeasureCounters {
        total(&self.rows)
    }

    /// Asks the kernel to end, waits for it, and says what it counted.
    ///
    /// # Errors
    /// Why it ended otherwise, or did not end within `deadline`.
    pub fn finish(self, deadline: Duration) -> Result<MeasureCounters, Error> {
        self.launch.stop();
        let report = self.launch.join(deadline)?;
        check(report.kernel, report.cause())?;
        Ok(total(&self.rows))
    }
}

/// What some blocks counted together.
fn total(rows: &[Row]) -> MeasureCounters {
    let at = |offset: usize| {
        let index = (offset / 8) as u32;
        rows.iter().map(|row| row.value(index)).sum::<u64>()
    };
    let mut total = MeasureCounters {
        received: at(std::mem::offset_of!(MeasureCounters, received)),
        not_sent: at(std::mem::offset_of!(MeasureCounters, not_sent)),
        malformed: at(std::mem::offset_of!(MeasureCounters, malformed)),
        turns: at(std::mem::offset_of!(MeasureCounters, turns)),
        idle_turns: at(std::mem::offset_of!(MeasureCounters, idle_turns)),
        ..MeasureCounters::default()
    };
    let kinds = std::mem::offset_of!(MeasureCounters, kinds);
    for (place, kind) in total.kinds.iter_mut().enumerate() {
        *kind = at(kinds + place * 8);
    }
    total
}

/// A generator that runs. Dropping it unwinds the kernel.
pub struct Generation {
    launch: Launch,
    rows: Vec<Row>,
}

impl Generation {
    /// Starts a generator over all queues of a NIC.
    ///
    /// # Errors
    /// Memory that cannot be had, a format without a kernel, an executor that refuses.
    pub fn start(
        executor: &CpuExecutor,
        entry: &GenerateEntry,
        nic: &dyn Nic,
        placement: Placement,
    ) -> Result<Self, Error> {
        let layout = generator::lay_out(entry, nic, Memory::default())?;
        let row = Kit::built_in().kernel(&layout.kernel)?;
        let promised = layout.promise();
        let grid = Grid {
            blocks: layout.blocks,
            warps: 1,
        };
        let launch = executor.launch_on(row, grid, promised, placement)?;
        let rows = layout.counters;
        Ok(Self { launch, rows })
    }

    /// Frames sent so far, of all blocks.
    pub fn sent(&self) -> u64 {
        frames_sent(&self.rows)
    }

    /// Rounds that found no free slot, of all blocks.
    pub fn full_turns(&self) -> u64 {
        let place = std::mem::offset_of!(TransmitCounters, full_turns) / 8;
        self.rows.iter().map(|row| row.value(place as u32)).sum()
    }

    /// Whether all frames were sent.
    pub fn is_finished(&self) -> bool {
        self.launch.is_finished()
    }

    /// Asks the kernel to end, waits for it, and says how many frames it sent.
    ///
    /// # Errors
    /// Why it ended otherwise, or did not end within `deadline`.
    pub fn finish(self, deadline: Duration) -> Result<u64, Error> {
        self.launch.stop();
        let report = self.launch.join(deadline)?;
        check(report.kernel, report.cause())?;
        Ok(frames_sent(&self.rows))
    }
}

/// What some blocks sent together.
fn frames_sent(rows: &[Row]) -> u64 {
    let first = std::mem::offset_of!(TransmitCounters, templates) / 8;
    let of_row = |row: &Row| row.values(first as u32, MAX_TEMPLATES as u32).sum::<u64>();
    rows.iter().map(of_row).sum()
}

fn word(nic: &dyn Nic) -> &'static str {
    let pair = nic.queues().first();
    pair.and_then(|pair| format_word(&pair.receive))
        .unwrap_or("unknown")
}

fn check(kernel: &'static str, cause: Option<Cause>) -> Result<(), Error> {
    let place = "the NIC that is measured".to_owned();
    match cause {
        Some(cause) => Err(Error::Ended {
            kernel,
            place,
            cause,
        }),
        None => Ok(()),
    }
}
