//! Queue pair 1: datagrams of 256 bytes, from and to queue pairs 1.

use std::sync::Arc;
use std::time::Duration;

use warpwire_gpu::Arena;
use warpwire_protocols::cm::Transmit;
use warpwire_protocols::rdma::{Attributes, ROUTE_HEADER_BYTES, Service, Start};
use warpwire_protocols::wire::bth::Psn;
use warpwire_protocols::wire::{Gid, mad};
use warpwire_ring::DeviceAddress;
use warpwire_ring::mlx5::layout::{DatagramSegment, Opcode};
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::chance;
use crate::messaging::{
    Completed, Device, Error, MANAGEMENT_BYTES, MemoryRegion, Message, Pair, PairConfig, Path,
    Work, words,
};

/// Queue pair 1 of a device, ready.
pub(super) struct Post {
    pair: Pair,
    memory: Arc<Arena>,
    region: MemoryRegion,
    here: Gid,
    /// Slots of the memory, one a receive, and the number of the first receive.
    slots: u64,
    first: u64,
    /// Datagrams that could not be what they say.
    pub(super) strange: u64,
}

/// A datagram that arrived.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    pub(super) there: Gid,
    pub(super) here: Gid,
    pub(super) bytes: [u8; mad::LENGTH],
}

impl Post {
    pub(super) fn open(device: &Device, patience: Duration) -> Result<Self, Error> {
        let mut pair = device.endpoint().management_pair(PairConfig { patience })?;
        let (memory, region) = device.management().ok_or(Error::Management)?;
        let attributes = Attributes {
            service: Service::Ud,
            mtu: device.mtu().unwrap_or_default(),
            qkey: QKEY,
            ..Attributes::default()
        };
        let start = Start {
            send: Psn::new(chance() as u32),
            receive: Psn::new(0),
        };
        let here = Gid(device.gid());
        let (local, ip_version) = words(&here.0);
        let path = Path {
            local,
            mac: device.mac(),
            source_port: SOURCE_PORT,
            ip_version,
            hop_limit: 64,
            ..Path::default()
        };
        pair.connect(attributes, start, path)?;
        let slots = (MANAGEMENT_BYTES / SLOT).min(u64::from(pair.free_receives()));
        let mut post = Self {
            pair,
            memory,
            region,
            here,
            slots,
            first: 0,
            strange: 0,
        };
        for slot in 0..slots {
            post.first = post.fill(slot)? - slot;
        }
        Ok(post)
    }

    /// Posts the receive of a slot.
    fn fill(&mut self, slot: u64) -> Result<u64, Error> {
        let at = self.region.address + slot * SLOT;
        // Of an IPv4 header the first half of the room says nothing: it must not look like IPv6.
        self.memory
            .write(DeviceAddress::new(at), &[0; ROUTE_HEADER_BYTES as usize])?;
        let piece = Gather {
            address: at,
            length: SLOT as u32,
            key: self.region.key,
        };
        self.pair.receive(&[piece])
    }

    /// The next datagram, if there is one.
    pub(super) fn receive(&mut self) -> Result<Option<Letter>, Error> {
        while let Some(completed) = self.pair.poll() {
            let Completed::Received(message) = completed else {
                continue;
            };
            let slot = message.index.wrapping_sub(self.first) % self.slots;
            let letter = self.read(slot, &message);
            self.fill(slot)?;
            match letter {
                Some(letter) => return Ok(Some(letter)),
                None => self.strange += 1,
            }
        }
        Ok(None)
    }

    fn read(&self, slot: u64, message: &Message) -> Option<Letter> {
        let mut bytes = [0; ROUTE_HEADER_BYTES as usize + mad::LENGTH];
        if message.source_qp != NUMBER || message.length as usize != bytes.len() {
            return None;
        }
        let at = DeviceAddress::new(self.region.address + slot * SLOT);
        self.memory.read(at, &mut bytes).ok()?;
        let (header, datagram) = bytes.split_first_chunk::<{ ROUTE_HEADER_BYTES as usize }>()?;
        let (there, here) = ends(header);
        let is_ours = here == self.here && there.is_unicast();
        Some(Letter {
            there,
            here,
            bytes: datagram.try_into().ok()?,
        })
        .filter(|_| is_ours)
    }

    /// Whether everything was sent.
    pub(super) fn is_idle(&self) -> bool {
        self.pair.free_sends() == self.pair.send_slots()
    }

    /// Sends a datagram by way of `next_hop`. False if there is no room now.
    pub(super) fn send(&mut self, transmit: &Transmit, next_hop: [u8; 6]) -> Result<bool, Error> {
        let mut bytes = [0; mad::LENGTH];
        // There is room for all of it.
        let _ = transmit.datagram.emit(&mut bytes);
        if self.pair.free_sends() < SEND_SLOTS {
            return Ok(false);
        }
        let mut order = Order::new(Opcode::SEND);
        order.datagram = Some(DatagramSegment {
            rlid: SOURCE_PORT.into(),
            rmac: next_hop,
            tclass: transmit.traffic_class.0,
            hop_limit: transmit.hop_limit,
            ..DatagramSegment::to(NUMBER, QKEY, transmit.there.0)
        });
        let payload = Payload::Inline(&bytes);
        self.pair.post(&[Work { order, payload }])?;
        Ok(true)
    }
}

/// Who sent a datagram, and to whom, by the header before it.
fn ends(header: &[u8; ROUTE_HEADER_BYTES as usize]) -> (Gid, Gid) {
    let number = u128::from_be_bytes;
    let (fours, _) = header.as_chunks::<4>();
    let wide = |at: usize| {
        let words = fours.iter().skip(at).take(4);
        words.fold(0u128, |all, word| {
            all << 32 | u128::from(u32::from_be_bytes(*word))
        })
    };
    let first = header.first().map_or(0, |byte| byte >> 4);
    match first {
        6 => (Gid(wide(2).to_be_bytes()), Gid(wide(6).to_be_bytes())),
        // The IPv4 header stands in the second half: its addresses are the last two words.
        _ => {
            let mapped = number(Gid::of([0, 0, 0, 0].into()).0);
            let word = |at: usize| mapped | (wide(at - 3) & 0xffff_ffff);
            (Gid(word(8).to_be_bytes()), Gid(word(9).to_be_bytes()))
        }
    }
}

/// The queue pair of management.
const NUMBER: u32 = 1;
/// The key that all queue pairs 1 share.
const QKEY: u32 = 0x8001_0000;
/// The UDP source port of queue pair 1: Linux spreads by the number of the queue pair.
const SOURCE_PORT: u16 = 0xc000 | (0x61c8_8647_u32 >> 18) as u16;
/// Bytes of a receive: header and datagram, and the room up to a whole line.
const SLOT: u64 = 320;
/// Slots of the send queue that a datagram takes at most: control, datagram, inline bytes.
const SEND_SLOTS: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_datagrams_are_read() {
        let mut four = [0; 40];
        four[20] = 0x45;
        four[32..36].copy_from_slice(&[10, 77, 0, 3]);
        four[36..].copy_from_slice(&[10, 77, 0, 2]);
        let (there, here) = ends(&four);
        assert_eq!(there.to_string(), "::ffff:10.77.0.3");
        assert_eq!(here.to_string(), "::ffff:10.77.0.2");
        let mut six = [0; 40];
        six[0] = 0x60;
        six[8..24].copy_from_slice(&Gid::of("fd77::3".parse().expect("is one")).0);
        six[24..].copy_from_slice(&Gid::of("fd77::2".parse().expect("is one")).0);
        let (there, here) = ends(&six);
        assert_eq!(
            (there.to_string(), here.to_string()),
            ("fd77::3".into(), "fd77::2".into())
        );
    }

    #[test]
    fn the_source_port_is_that_of_linux() {
        assert_eq!(SOURCE_PORT, 55410);
        let bytes = 16 + 48 + (4 + mad::LENGTH).next_multiple_of(16);
        assert_eq!(bytes.div_ceil(64) as u32, SEND_SLOTS);
    }
}
