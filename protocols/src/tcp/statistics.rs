//! What a connection tells of itself.

/// Figures of a connection, as they are now. What is rare is counted up to 65535.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Smoothed round-trip time in ns; 0 if none was measured.
    pub srtt_ns: u64,
    /// Its variation in ns.
    pub rttvar_ns: u64,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start ends here, in bytes.
    pub ssthresh: u32,
    /// Sent and not acknowledged, in bytes.
    pub in_flight: u32,
    /// The peer's window in bytes.
    pub peer_window: u32,
    /// Largest payload of a segment in bytes.
    pub segment_bytes: u16,
    /// Segments that were sent again, probes included.
    pub retransmits: u32,
    /// Times that nothing came back in time.
    pub timeouts: u32,
    /// Times that loss was seen before.
    pub recoveries: u32,
    /// Probes for a lost tail.
    pub tail_probes: u32,
    /// Repetitions that were lost as well.
    pub lost_repetitions: u32,
    /// Reductions because the peer saw marks.
    pub marks: u32,
    /// Segments of the peer that came after a gap.
    pub out_of_order: u32,
    /// Times that a gap turned out to be another order, not loss.
    pub reordered: u32,
    /// Duplicate acknowledgements that came.
    pub duplicate_acks: u32,
    /// Challenge acknowledgements that were sent.
    pub challenges: u32,
}
