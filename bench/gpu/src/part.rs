//! The parts of the check: what each is called, what it measures, how long it may take.

use std::time::{Duration, Instant};

use serde_json::Value;

/// What a part is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Its name in the record.
    pub(crate) name: &'static str,
    /// What is measured, and how.
    pub(crate) measured: &'static str,
    /// How long it may take.
    pub(crate) budget: Duration,
}

/// What a part found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Its figures.
    pub(crate) values: Value,
    /// The same in short: what, and how much.
    pub(crate) lines: Vec<(String, String)>,
    /// What is wrong, if something is.
    pub(crate) failure: Option<String>,
}

/// What a part gives, or why it could not go on.
pub(crate) type Outcome = Result<Found, String>;

/// Until when a part may run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(pub(crate) Instant);

impl Limit {
    /// What is left.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// An error once nothing is left.
    pub(crate) fn check(self) -> Result<(), String> {
        match self.left().is_zero() {
            true => Err("its time is up".to_owned()),
            false => Ok(()),
        }
    }
}

pub(crate) const LOAD: Part = Part {
    name: "load",
    measured: "seconds that the driver takes to compile and load all kernels, by the host's clock",
    budget: Duration::from_secs(150),
};

pub(crate) const PARITY: Part = Part {
    name: "parity",
    measured: "every entry point of the PTX, on the virtual GPU and on this device, gives what its \
               row gives on the CPU: frames that leave, cursors, counters, refusals of wrong \
               parameter blocks; over queues of every format against the format's other half, \
               programs of pipelines, frames in memory. An entry point without a comparison counts \
               as a difference",
    budget: Duration::from_secs(90),
};

pub(crate) const CLOCK: Part = Part {
    name: "clock",
    measured: "differences between two readings of the GPU's nanosecond clock that differ \
               (%globaltimer), one lane, and cycles (%clock64) in the kernel's time by that clock",
    budget: Duration::from_secs(10),
};

pub(crate) const LATENCY: Part = Part {
    name: "latency",
    measured: "from before a lane writes a 64-byte descriptor and a doorbell into mapped host \
               memory, to its seeing the completion that a busy host thread then writes into \
               mapped host memory; by the GPU's clock, one at a time; waits sleep 32 ns a look",
    budget: Duration::from_secs(20),
};

pub(crate) const SWEEPS: Part = Part {
    name: "sweeps",
    measured: "parsing of 64-byte frames, and the ICRC of RoCEv2 frames, over frames in device \
               memory, a frame a lane, by the GPU's clock from the first block's start to the \
               last one's end; against copies on the device by the driver in the same rounds \
               (bytes read and written, by the host's clock); medians of 5 rounds",
    budget: Duration::from_secs(40),
};

pub(crate) const SLICES: Part = Part {
    name: "slices",
    measured: "time of a launch outside of its kernel, a slice: the host's time of a launch less \
               the kernel's own by the GPU's clock; and frames received from a ring in mapped host \
               memory in slices of 4 ms and in launches of 2 turns, of a batch each; 1 block",
    budget: Duration::from_secs(30),
};

pub(crate) const RATES: Part = Part {
    name: "rates",
    measured: "frames through memif rings in mapped host memory, 1024 slots, a ring a block: \
               received, parsed by their first 64 bytes and counted; and written whole and \
               published. The peer is a busy host thread that moves ring indices alone: received \
               frames are the same each lap, sent ones are not read. By the host's clock over a \
               window in the middle; counters lie in mapped host memory as the product's do, and \
               in device memory for comparison; ports and templates lie in device memory",
    budget: Duration::from_secs(60),
};
