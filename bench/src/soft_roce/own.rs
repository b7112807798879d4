//! Our end: a device, its queue pair, and memory with patterns.

use std::net::IpAddr;
use std::time::Duration;

use warpwire::pipelines::messaging::{
    Completed, Device, DeviceConfig, EndpointConfig, Message, Pair, PairConfig, Work,
};
use warpwire_protocols::rdma::{Attributes, ROUTE_HEADER_BYTES, Service, Start};
use warpwire_protocols::wire::bth::Psn;
use warpwire_ring::mlx5::layout::{DatagramSegment, Opcode};
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::puppet::Its;
use super::{DST, SRC, Wire};

/// Our end.
pub(super) struct Own {
    pub(super) device: Device,
    pair: Pair,
    service: Service,
    datagram: Option<DatagramSegment>,
    patience: Duration,
}

impl Own {
    pub(super) fn open(peer: IpAddr, nic: Option<&str>) -> Result<Self, String> {
        let config = DeviceConfig {
            nic: nic.map(str::to_owned),
            bytes: 4 << 20,
            memory: Vec::new(),
            endpoint: EndpointConfig {
                pairs: 2,
                log_send: 6,
                log_receive: 6,
                first_number: 0x0c40,
                ..EndpointConfig::default()
            },
            patience: PATIENCE,
            chance: 0x5eed,
            fused: false,
            capture: None,
        };
        let device = Device::open(peer, &config).map_err(|error| error.to_string())?;
        let pair = device.endpoint().pair(PairConfig::default());
        Ok(Self {
            pair: pair.map_err(|error| error.to_string())?,
            device,
            service: Service::Rc,
            datagram: None,
            patience: PATIENCE,
        })
    }

    /// Our queue pair begins anew, with the peer's at its other end. Its first sequence number.
    pub(super) fn join(&mut self, wire: &Wire, its: &Its, psn: Psn) -> Result<(), String> {
        self.pair.reset().map_err(|error| error.to_string())?;
        let attributes = Attributes {
            service: wire.service,
            mtu: wire.mtu,
            timeout: wire.timeout,
            remote_qp: its.qp,
            qkey: its.qkey,
            ..Attributes::default()
        };
        let start = Start {
            send: psn,
            receive: its.psn,
        };
        let (own, other) = (self.pair.number(), its.qp.value());
        let path = self.device.path(&its.gid, own, other, 0);
        let path = path.map_err(|error| error.to_string())?;
        self.service = wire.service;
        self.datagram =
            (wire.service == Service::Ud).then(|| path.datagram(other, its.qkey, its.gid));
        let joined = self.pair.connect(attributes, start, path);
        joined.map_err(|error| error.to_string())
    }

    pub(super) const fn number(&self) -> u32 {
        self.pair.number()
    }

    fn piece(&self, at: u64, length: u32) -> Gather {
        self.device.region().gather(at, length)
    }

    /// The address and the key of a part of our memory, as the puppet reads them.
    pub(super) fn place(&self, at: u64) -> String {
        let region = self.device.region();
        format!("{:x} {:x}", region.address + at, region.key)
    }

    pub(super) fn fill(&self, at: u64, length: u32, seed: u32) -> Result<(), String> {
        let bytes: Vec<u8> = (0..length).map(|i| pattern(i, seed)).collect();
        let written = self.device.write(at, &bytes);
        written.map_err(|error| error.to_string())
    }

    pub(super) fn check(&self, at: u64, length: u32, seed: u32) -> Result<(), String> {
        let mut bytes = vec![0; length as usize];
        let read = self.device.read(at, &mut bytes);
        read.map_err(|error| error.to_string())?;
        let wrong = bytes
            .iter()
            .zip(0..)
            .find(|(byte, i)| **byte != pattern(*i, seed));
        match wrong {
            None => Ok(()),
            Some((byte, i)) => {
                let want = pattern(i, seed);
                Err(format!("our byte {i} is {byte:02x}, not {want:02x}"))
            }
        }
    }

    pub(super) fn word(&self, at: u64) -> Result<u64, String> {
        let mut bytes = [0; 8];
        let read = self.device.read(at, &mut bytes);
        read.map_err(|error| error.to_string())?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Bytes before a message in its receive.
    pub(super) fn header(&self) -> u32 {
        match self.service {
            Service::Ud => ROUTE_HEADER_BYTES,
            _ => 0,
        }
    }

    /// Posts a receive for a message of `length` bytes.
    pub(super) fn post(&mut self, length: u32) -> Result<(), String> {
        let header = self.header();
        let piece = [self.piece(DST - u64::from(header), length + header)];
        let pieces = if length + header == 0 {
            &[]
        } else {
            &piece[..]
        };
        let posted = self.pair.receive(pieces);
        posted.map(drop).map_err(|error| error.to_string())
    }

    /// Waits for a message.
    pub(super) fn receive(&mut self) -> Result<Message, String> {
        match self.pair.wait(self.patience) {
            Ok(Completed::Received(message)) => Ok(message),
            Ok(other) => Err(format!("we received {other:?}")),
            Err(error) => Err(format!("we received nothing: {error}")),
        }
    }

    /// Carries an operation out and waits until it is done. Its bytes come from [`SRC`], or go to
    /// [`DST`].
    pub(super) fn carry_out(&mut self, mut order: Order, length: u32) -> Result<(), String> {
        let fetches = [Opcode::READ, Opcode::FETCH_ADD, Opcode::COMPARE_SWAP];
        let at = match fetches.contains(&order.opcode) {
            true => DST,
            false => SRC,
        };
        order.datagram = self.datagram;
        let piece = [self.piece(at, length)];
        let payload = Payload::Pieces(if length == 0 { &[] } else { &piece });
        let posted = self.pair.post(&[Work { order, payload }]);
        posted.map_err(|error| error.to_string())?;
        match self.pair.wait(self.patience) {
            Ok(Completed::Sent { .. }) => Ok(()),
            Ok(Completed::SendFailed { cause, .. }) => Err(format!("our request failed: {cause}")),
            Ok(other) => Err(format!("our request: {other:?}")),
            Err(error) => Err(format!("our request: {error}")),
        }
    }
}

/// Byte `i` of a pattern; the puppet's are the same.
pub(super) const fn pattern(i: u32, seed: u32) -> u8 {
    i.wrapping_mul(7).wrapping_add(seed).wrapping_add(i >> 8) as u8
}

const PATIENCE: Duration = Duration::from_secs(30);
