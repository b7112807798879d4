//! What a NIC counted.

/// Frames, bytes and named drops. Drops are by reason; a frame is in one of them at most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames handed to receive queues.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames taken from transmit queues and sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Host kicks (system calls that a queue asked for).
    pub kicks: u64,
    /// Frames lost, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// Everything else worth knowing, by name.
    pub other: Vec<(&'static str, u64)>,
}

impl Counters {
    /// Frames lost for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, count)| count).sum()
    }
}
