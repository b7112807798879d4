//! Names that the two ends give.

use core::fmt;

/// What an end calls a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct CommId(pub u32);

impl fmt::Display for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct ServiceId(pub u64);

/// Which ports a service's is one of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PortSpace {
    /// Of connected services (`RDMA_PS_TCP`).
    Tcp = 0x06,
    /// Of datagram services (`RDMA_PS_UDP`).
    Udp = 0x11,
}

/// The key of queue pairs whose service is one at a port of [`PortSpace::Udp`], unless their users
/// agree on another (`RDMA_UDP_QKEY`).
pub const DATAGRAM_QKEY: u32 = 0x0123_4567;

impl ServiceId {
    /// The service at a port (annex A11).
    pub const fn of_port(space: PortSpace, port: u16) -> Self {
        Self(IP_PREFIX | (space as u64) << 16 | port as u64)
    }

    /// The port of a service that has one.
    pub const fn port(self) -> Option<(PortSpace, u16)> {
        let port = self.0 as u16;
        match self.0 & !0xffff {
            TCP => Some((PortSpace::Tcp, port)),
            UDP => Some((PortSpace::Udp, port)),
            _ => None,
        }
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port() {
            Some((PortSpace::Tcp, port)) => write!(f, "tcp port {port}"),
            Some((PortSpace::Udp, port)) => write!(f, "udp port {port}"),
            None => write!(f, "service {:016x}", self.0),
        }
    }
}

const IP_PREFIX: u64 = 0x0000_0000_0100_0000;
const TCP: u64 = IP_PREFIX | (PortSpace::Tcp as u64) << 16;
const UDP: u64 = IP_PREFIX | (PortSpace::Udp as u64) << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_at_ports() {
        for (service, port, text) in [
            (0x0106_1c06, Some((PortSpace::Tcp, 7174)), "tcp port 7174"),
            (0x0111_1c06, Some((PortSpace::Udp, 7174)), "udp port 7174"),
            (0x0112_1c06, None, "service 0000000001121c06"),
            (0x1_0106_1c06, None, "service 0000000101061c06"),
        ] {
            let service = ServiceId(service);
            assert_eq!(service.port(), port);
            assert_eq!(service.to_string(), text);
            if let Some((space, port)) = port {
                assert_eq!(ServiceId::of_port(space, port), service);
            }
        }
        assert_eq!(CommId(0x10).to_string(), "00000010");
    }
}
