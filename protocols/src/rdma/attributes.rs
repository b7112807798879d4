//! What both ends of a connection agreed on, and the states that a queue pair passes through.

use super::arrived::SELECTIVE_WINDOW;
use crate::wire::aeth::RnrTimer;
use crate::wire::bth::{PKey, Psn, Qpn};

/// A service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    #[default]
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Unreliable datagram.
    Ud = 3,
}

impl Service {
    /// The upper three bits of its opcodes.
    pub const fn opcode_base(self) -> u8 {
        (self as u8) << 5
    }
}

/// A path MTU: the payload of a packet that is not the last of its message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1024 bytes.
    #[default]
    M1024 = 3,
    /// 2048 bytes.
    M2048 = 4,
    /// 4096 bytes.
    M4096 = 5,
}

impl Mtu {
    /// All of them, the smallest first.
    pub const ALL: [Self; 5] = [
        Self::M256,
        Self::M512,
        Self::M1024,
        Self::M2048,
        Self::M4096,
    ];

    /// The MTU of a code as verbs and connection managers write it, 1 to 5.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| *mtu as u8 == code)
    }

    /// The largest whose packets, with headers of [`Mtu::HEADROOM`] bytes, fit a link.
    pub fn of_link(link_mtu: u32) -> Option<Self> {
        let fits = |mtu: &Self| mtu.bytes() + Self::HEADROOM <= link_mtu;
        Self::ALL.into_iter().rev().find(fits)
    }

    /// What headers and invariant CRC take of a link's MTU, with room to spare.
    pub const HEADROOM: u32 = 80;

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u8
    }

    /// Packets of a message: one at least.
    pub const fn packets(self, length: u32) -> u32 {
        let log = 7 + self as u32;
        let whole = length >> log;
        let rest = (length & (self.bytes() - 1) != 0) as u32;
        if length == 0 { 1 } else { whole + rest }
    }
}

/// What a peer may do to memory, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Access(pub u32);

impl Access {
    /// Nothing but being read by the owner's own requests.
    pub const NONE: Self = Self(0);
    /// The owner's own requests may write.
    pub const LOCAL_WRITE: Self = Self(1);
    /// Peers may write.
    pub const REMOTE_WRITE: Self = Self(2);
    /// Peers may read.
    pub const REMOTE_READ: Self = Self(4);
    /// Peers may use atomics.
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// All of it.
    pub const ALL: Self = Self(15);

    /// Whether everything in `other` is allowed.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a connection agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Attributes {
    /// The service.
    pub service: Service,
    /// Path MTU.
    pub mtu: Mtu,
    /// Local acknowledgement timeout, coded: 4.096 us times 2^code; 0 for none.
    pub timeout: u8,
    /// How often a request is repeated that nobody answers: 0 to 7.
    pub retries: u8,
    /// How often a request is repeated that finds no receive; 7 for ever.
    pub rnr_retries: u8,
    /// What a peer is told to wait for that finds no receive here, coded.
    pub rnr_timer: RnrTimer,
    /// Reads and atomics that may be under way to the peer.
    pub reads: u8,
    /// Reads and atomics that the peer may have under way to us.
    pub reads_served: u8,
    /// Partition.
    pub pkey: PKey,
    /// Packets that may be unacknowledged; at most [`SELECTIVE_WINDOW`] where repetition is
    /// selective.
    pub window: u16,
    /// What the peer may do at all.
    pub access: Access,
    /// The queue pair's own number.
    pub local_qp: Qpn,
    /// The peer's queue pair.
    pub remote_qp: Qpn,
    /// Of datagrams: our key.
    pub qkey: u32,
    /// The protection domain: regions of others are out of reach.
    pub domain: u32,
    /// The longest message that the peer takes.
    pub max_message: u32,
    /// Only what was lost is repeated, and writes are placed as they come. Of reliable connections
    /// alone, and both ends must have agreed on it: see [`crate::rdma`].
    pub selective: bool,
}

impl Default for Attributes {
    /// A reliable connection with the values that verbs' tools use.
    fn default() -> Self {
        Self {
            service: Service::Rc,
            mtu: Mtu::M1024,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
            rnr_timer: RnrTimer::new(12).unwrap_or(RnrTimer::SHORTEST),
            reads: 16,
            reads_served: 16,
            pkey: PKey::DEFAULT,
            window: 128,
            access: Access::ALL,
            local_qp: Qpn::new(0),
            remote_qp: Qpn::new(0),
            qkey: 0,
            domain: 0,
            max_message: MAX_MESSAGE,
            selective: false,
        }
    }
}

impl Attributes {
    /// Whether only what was lost is repeated.
    pub const fn is_selective(&self) -> bool {
        self.selective && matches!(self.service, Service::Rc)
    }

    /// Packets that may be unacknowledged, whatever the window says.
    pub const fn most_under_way(&self) -> u32 {
        let window = self.window as u32;
        match self.is_selective() && window > SELECTIVE_WINDOW {
            true => SELECTIVE_WINDOW,
            false => window,
        }
    }

    /// The time after which an unanswered request is repeated; `None` for never.
    pub const fn timeout_ns(&self) -> Option<u64> {
        match self.timeout & 31 {
            0 => None,
            code => Some(4096 << code),
        }
    }
}

/// The longest message of the specification.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// The longest message that a queue pair sends at one piece: its packets must stay within a
/// quarter of the sequence numbers, so that old and new ones cannot be taken for each other.
pub const fn longest_message(mtu: Mtu) -> u32 {
    let packets = 1 << 22;
    match mtu.bytes().checked_mul(packets) {
        Some(bytes) if bytes < MAX_MESSAGE => bytes,
        _ => MAX_MESSAGE,
    }
}

/// Where a queue pair stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// It does nothing.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// It receives.
    ReadyToReceive,
    /// It receives and sends.
    ReadyToSend,
    /// It receives, and sends what it has begun.
    Draining,
    /// It receives; a send failed, and those behind it with it. Unreliable services only.
    SendError,
    /// Nothing goes on; everything posted comes back flushed.
    Error,
}

impl State {
    /// Whether packets of peers are looked at.
    pub const fn receives(self) -> bool {
        matches!(
            self,
            Self::ReadyToReceive | Self::ReadyToSend | Self::Draining | Self::SendError
        )
    }

    /// Whether requests are sent, or sent again.
    pub const fn sends(self) -> bool {
        matches!(self, Self::ReadyToSend | Self::Draining)
    }

    /// Whether the owner may move a queue pair from here to `to`.
    pub const fn may_become(self, to: Self) -> bool {
        match to {
            Self::Reset | Self::Error => true,
            Self::Init => matches!(self, Self::Reset | Self::Init),
            Self::ReadyToReceive => matches!(self, Self::Init),
            Self::ReadyToSend => matches!(
                self,
                Self::ReadyToReceive | Self::ReadyToSend | Self::Draining | Self::SendError
            ),
            Self::Draining => matches!(self, Self::ReadyToSend),
            Self::SendError => false,
        }
    }
}

/// Sequence numbers to start with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Start {
    /// Of the first packet that is sent.
    pub send: Psn,
    /// Of the first packet that is expected.
    pub receive: Psn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_message() {
        for mtu in Mtu::ALL {
            let bytes = mtu.bytes();
            let cases = [
                (0, 1),
                (1, 1),
                (bytes - 1, 1),
                (bytes, 1),
                (bytes + 1, 2),
                (4 * bytes + 5, 5),
                (MAX_MESSAGE, MAX_MESSAGE / bytes),
                (MAX_MESSAGE - 1, MAX_MESSAGE / bytes),
            ];
            for (length, packets) in cases {
                assert_eq!(mtu.packets(length), packets, "{length} bytes at {bytes}");
            }
            assert!(mtu.packets(longest_message(mtu)) <= 1 << 22);
            assert_eq!(Mtu::from_code(mtu as u8), Some(mtu));
        }
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
    }

    #[test]
    fn mtu_of_a_link() {
        let cases = [
            (300, None),
            (336, Some(Mtu::M256)),
            (1500, Some(Mtu::M1024)),
            (4176, Some(Mtu::M4096)),
            (4175, Some(Mtu::M2048)),
            (9000, Some(Mtu::M4096)),
        ];
        for (link, mtu) in cases {
            assert_eq!(Mtu::of_link(link), mtu, "{link}");
        }
    }

    #[test]
    fn timeouts_by_code() {
        let timeout = |timeout| {
            Attributes {
                timeout,
                ..Attributes::default()
            }
            .timeout_ns()
        };
        assert_eq!(timeout(0), None);
        assert_eq!(timeout(1), Some(8192));
        assert_eq!(timeout(14), Some(67_108_864));
        assert_eq!(timeout(31), Some(4096 << 31));
    }

    #[test]
    fn states_follow_the_specification() {
        use State::*;
        let all = [
            Reset,
            Init,
            ReadyToReceive,
            ReadyToSend,
            Draining,
            SendError,
            Error,
        ];
        let allowed = [
            (Init, &[Reset, Init][..]),
            (ReadyToReceive, &[Init]),
            (
                ReadyToSend,
                &[ReadyToReceive, ReadyToSend, Draining, SendError],
            ),
            (Draining, &[ReadyToSend]),
            (SendError, &[]),
            (Reset, &all),
            (Error, &all),
        ];
        for (to, from) in allowed {
            for state in all {
                let want = from.contains(&state);
                assert_eq!(state.may_become(to), want, "{state:?} to {to:?}");
            }
        }
    }
}
