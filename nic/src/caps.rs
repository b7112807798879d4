//! What a NIC can do, as data.

use bitflags::bitflags;
use warpwire_ring::{Format, Trigger};

bitflags! {
    /// Abilities that a pipeline may ask for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Features: u32 {
        /// Frames larger than a slot are received as several pieces.
        const RX_SEGMENTS = 1;
        /// Frames of several pieces are sent.
        const TX_SEGMENTS = 1 << 1;
        /// IPv4 header checksums are filled in on request.
        const TX_L3_CHECKSUM = 1 << 2;
        /// TCP and UDP checksums are filled in on request.
        const TX_L4_CHECKSUM = 1 << 3;
        /// Checksums of received frames were looked at.
        const RX_CHECKSUM = 1 << 4;
        /// Received frames carry a time of arrival.
        const RX_TIMESTAMP = 1 << 5;
        /// Received frames carry a hash.
        const RX_HASH = 1 << 6;
        /// VLAN tags are taken off and reported.
        const RX_VLAN_STRIP = 1 << 7;
        /// Received frames carry the tag of a flow rule.
        const RX_FLOW_TAG = 1 << 8;
        /// The NIC spreads flows over its queues by their hash.
        const SPREAD = 1 << 9;
        /// Buffers can be handed from receive to transmit without a copy.
        const ZERO_COPY_FORWARD = 1 << 10;
        /// A local peer may hand over frames whose checksum holds the pseudo-header sum alone.
        const RX_PARTIAL_CHECKSUM = 1 << 11;
    }
}

/// What a NIC can do and how large its things are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caps {
    /// The format of its queues.
    pub format: Format,
    /// Queue pairs that were opened.
    pub queues: u32,
    /// Slots of each receive queue.
    pub rx_depth: u32,
    /// Slots of each transmit queue.
    pub tx_depth: u32,
    /// Bytes of a slot's buffer that a frame may use.
    pub slot_bytes: u32,
    /// Bytes of the largest frame that can pass, checksum sequence not counted.
    pub max_frame_bytes: u32,
    /// How the consumer of a transmit queue learns of new slots.
    pub trigger: Trigger,
    /// Abilities.
    pub features: Features,
}

impl Caps {
    /// Bytes of the largest IP packet that can pass behind an Ethernet header with two tags.
    pub const fn max_packet_bytes(&self) -> u32 {
        self.max_frame_bytes.saturating_sub(ETHERNET_BYTES)
    }
}

/// Bytes of an Ethernet header with two tags.
const ETHERNET_BYTES: u32 = 22;
