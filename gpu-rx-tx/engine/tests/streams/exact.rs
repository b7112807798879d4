//! What is written at one end comes out at the other, whatever the network does.

use warpwire_engine::streams::tables::{CLOSE, CLOSED, CONNECTED, PEER_CLOSED, RELEASE};
use warpwire_protocols::tcp::Cause;

use crate::ends::{End, Plan};
use crate::net::{Faults, Net};
use crate::wires::{Client, Memif, Mlx5, Server, Wire, Xdp};

/// An application that writes bytes and reads what the peer writes.
pub(crate) struct Talk {
    place: u32,
    pub(crate) to_write: Vec<u8>,
    written: usize,
    pub(crate) read: Vec<u8>,
    is_closed: bool,
}

pub(crate) fn bytes(seed: u32, count: usize) -> Vec<u8> {
    let mut state = u64::from(seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let byte = |_| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(12345);
        (state >> 56) as u8
    };
    (0..count).map(byte).collect()
}

impl Talk {
    pub(crate) fn new(place: u32, to_write: Vec<u8>) -> Self {
        Self {
            place,
            to_write,
            written: 0,
            read: Vec::new(),
            is_closed: false,
        }
    }

    pub(crate) const fn place(&self) -> u32 {
        self.place
    }

    /// Does what can be done; whether all is done.
    pub(crate) fn step<W: Wire>(&mut self, end: &mut End<W>, most: u32) -> bool {
        let flags = end.flags(self.place);
        let read = end.read(self.place, most);
        self.read.extend(&read);
        if self.written < self.to_write.len() {
            let behind = self.to_write.len().min(self.written + most as usize);
            self.written += end.write(self.place, &self.to_write[self.written..behind]);
        } else if !self.is_closed {
            self.is_closed = true;
            end.wish(self.place, CLOSE);
        }
        self.is_closed && flags & PEER_CLOSED != 0 && read.is_empty()
    }
}

/// Bytes both ways over one connection; both ends close.
fn check<W: Wire>(seed: u64, count: usize, faults: Faults, is_ipv6: bool) {
    for warps in [1, 2, 4] {
        check_crew::<W>(warps, seed, count, faults, is_ipv6);
    }
}

fn check_crew<W: Wire>(warps: u32, seed: u64, count: usize, faults: Faults, is_ipv6: bool) {
    let plan = Plan {
        warps,
        config: warpwire_protocols::tcp::Config {
            maximum_segment_size: if is_ipv6 { 1440 } else { 1460 },
            ip_header_bytes: if is_ipv6 { 40 } else { 20 },
            ..Plan::default().config
        },
        ..Plan::default()
    };
    let mut net = Net::<W>::new(&plan, seed, is_ipv6);
    let clock = &net.clock;
    net.ends[1].listen(clock, 0, 80, 4);
    net.faults = faults;
    let places = net.connected(40_000);
    let mut talks = [0, 1].map(|end| {
        let amount = bytes(seed as u32 * 2 + end as u32, count);
        Talk::new(places[end], amount)
    });
    net.until(600, |ends| {
        let [one, other] = &mut talks;
        let [first, second] = ends;
        let done = one.step(first, 60_000);
        other.step(second, 7_001) && done
    });
    for end in 0..2 {
        let same = talks[end].read == talks[1 - end].to_write;
        assert!(
            same,
            "{warps} warps, seed {seed}: end {end} read {}",
            talks[end].read.len()
        );
        assert_ne!(net.ends[end].flags(places[end]) & CONNECTED, 0);
        net.ends[end].wish(places[end], RELEASE);
    }
    net.check_ends(&plan);
    for end in &net.ends {
        let counters = end.counters();
        assert_eq!(
            (counters.connected, counters.closed, counters.failed),
            (1, 1, 0)
        );
        assert!(counters.placed_bytes >= count as u64);
        assert_eq!(counters.slow_lost, 0);
    }
}

#[test]
fn a_mebibyte_each_way_over_every_format() {
    check::<Memif<Client>>(1, 1 << 20, Faults::NONE, false);
    check::<Memif<Server>>(2, 1 << 20, Faults::NONE, false);
    check::<Xdp>(3, 1 << 20, Faults::NONE, false);
    check::<Mlx5<1>>(4, 1 << 20, Faults::NONE, false);
    check::<Mlx5<4>>(5, 1 << 20, Faults::NONE, true);
    check::<Memif<Client>>(6, 1 << 20, Faults::NONE, true);
}

#[test]
fn few_bytes_and_none() {
    for (seed, count) in [(1, 0), (2, 1), (3, 1459), (4, 1460), (5, 1461), (6, 65_536)] {
        check::<Memif<Client>>(seed, count, Faults::NONE, false);
    }
}

#[test]
fn whatever_the_network_does() {
    for seed in 0..8 {
        let faults = Faults {
            loss: [1, 10, 50, 0][seed as usize % 4],
            doubles: 20,
            reorders: 30,
            corrupts: 10,
        };
        check::<Memif<Client>>(seed, 200_000, faults, seed % 2 == 1);
    }
}

#[test]
fn the_end_is_told_with_its_cause() {
    let plan = Plan::default();
    let mut net = Net::<Memif<Client>>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let places = net.connected(40_000);
    for end in [0, 1] {
        net.ends[end].wish(places[end], CLOSE);
        net.until(5, |ends| {
            ends[1 - end].flags(places[1 - end]) & PEER_CLOSED != 0
        });
    }
    net.until(5, |ends| ends[0].flags(places[0]) & CLOSED != 0);
    net.until(5, |ends| ends[1].flags(places[1]) & CLOSED != 0);
    for (end, place) in net.ends.iter_mut().zip(places) {
        assert_eq!(end.cause(place), Cause::Finished as u32 + 1);
        end.wish(place, RELEASE);
    }
    net.check_ends(&plan);
}
