//! What a connection is told from outside: sizes, times, and which extensions it offers.

use core::num::NonZeroU64;

/// How a connection, or every connection of a listener, behaves. It does not change while the
/// connection lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The largest payload of a segment without options, in bytes: told to the peer, and never
    /// exceeded by what is sent. The MTU without IP header and the 20 bytes of TCP.
    pub maximum_segment_size: u16,
    /// Bytes of the IP header: 20 or 40.
    pub ip_header_bytes: u16,
    /// Bytes of the receive ring: a power of two, 2^10 to 2^30.
    pub receive_bytes: u32,
    /// Bytes of the send ring: a power of two, 2^10 to 2^30.
    pub send_bytes: u32,
    /// Congestion control.
    pub control: Controller,
    /// Small segments leave at once (no Nagle algorithm, RFC 9293 section 3.7.4).
    pub no_delay: bool,
    /// Offers selective acknowledgements.
    pub sack: bool,
    /// Offers timestamps.
    pub timestamps: bool,
    /// Offers scaled windows.
    pub window_scaling: bool,
    /// Offers explicit congestion notification.
    pub ecn: bool,
    /// How long an acknowledgement may wait, in ns; 0: every segment is acknowledged at once.
    pub delayed_ack_ns: u64,
    /// Time before the first repetition while no round trip was measured, in ns.
    pub initial_rto_ns: u64,
    /// The shortest time before a repetition, in ns.
    pub min_rto_ns: u64,
    /// The longest time before a repetition or a probe, in ns.
    pub max_rto_ns: u64,
    /// A handshake that takes longer fails, in ns.
    pub handshake_timeout_ns: u64,
    /// A peer that acknowledges nothing for so long is gone, in ns. RFC 9293 section 3.8.3 asks
    /// for 100 seconds at least.
    pub user_timeout_ns: u64,
    /// How long the connection lingers in TIME-WAIT: twice the maximum segment lifetime, in ns.
    pub time_wait_ns: u64,
    /// Probes of an idle peer.
    pub keep_alive: Option<KeepAlive>,
}

/// Which congestion control a connection uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// CUBIC, RFC 9438.
    Cubic,
    /// A fixed rate, paced; loss and marks do not change it. For networks of which the operator
    /// knows what they carry.
    FixedRate {
        /// Payload bytes a second.
        bytes_per_s: NonZeroU64,
    },
}

/// Probes of an idle peer. RFC 9293 section 3.8.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepAlive {
    /// Silence before the first probe, in ns.
    pub idle_ns: u64,
    /// Time between probes, in ns.
    pub interval_ns: u64,
    /// So many probes without an answer end the connection.
    pub probes: u8,
}

impl Config {
    /// The usual values for a path of this MTU, in bytes: 68 or more for IPv4, 1280 or more for
    /// IPv6.
    pub const fn of_mtu(mtu: u16, is_ipv6: bool) -> Self {
        let ip_header_bytes = if is_ipv6 { 40 } else { 20 };
        let payload = mtu.saturating_sub(ip_header_bytes + 20);
        Self {
            maximum_segment_size: if payload < LEAST_SEGMENT {
                LEAST_SEGMENT
            } else {
                payload
            },
            ip_header_bytes,
            receive_bytes: 1 << 18,
            send_bytes: 1 << 18,
            control: Controller::Cubic,
            no_delay: false,
            sack: true,
            timestamps: true,
            window_scaling: true,
            ecn: false,
            delayed_ack_ns: 40 * MS,
            initial_rto_ns: 1000 * MS,
            min_rto_ns: 200 * MS,
            max_rto_ns: 60_000 * MS,
            handshake_timeout_ns: 60_000 * MS,
            user_timeout_ns: 300_000 * MS,
            time_wait_ns: 60_000 * MS,
            keep_alive: None,
        }
    }

    /// The narrowest way that there can be, in bytes of IP packets. RFC 791 section 3.2, RFC 8200
    /// section 5.
    pub(super) const fn least_mtu(&self) -> u16 {
        if self.ip_header_bytes <= 20 { 68 } else { 1280 }
    }

    /// What a peer takes that does not say, in bytes. RFC 9293 section 3.7.1.
    pub(super) const fn default_peer_mss(&self) -> u16 {
        if self.ip_header_bytes <= 20 {
            536
        } else {
            1220
        }
    }

    /// The shift of windows that are offered: the smallest by which the ring fits 16 bits.
    pub(super) const fn window_shift(&self) -> u8 {
        let bits = 32 - (self.receive_bytes >> 16).leading_zeros();
        if bits > 14 { 14 } else { bits as u8 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::of_mtu(1500, false)
    }
}

const MS: u64 = 1_000_000;
/// Payload and options of a segment on the narrowest way of IPv4.
pub(super) const LEAST_SEGMENT: u16 = 68 - 40;
