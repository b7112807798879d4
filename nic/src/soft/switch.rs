//! The virtual switch: ports, cables between them, and what was learned about addresses.

use warpwire_ring::DeviceMemory;

use super::adapter::Adapter;
use super::config::Impairments;
use super::dice::Dice;
use super::drops::{Drop, Drops};
use super::link::{Flights, Link, corrupt};
use super::packet::mark_congestion;
use super::uplink::Uplink;

/// Who is at a port.
pub(super) enum Owner {
    /// The adapter with this index.
    Adapter(usize),
    /// A way out.
    Uplink(Box<dyn Uplink>),
    /// Nobody any more.
    Nobody,
}

/// A port, and the link that leads to its owner.
pub(super) struct Port {
    pub(super) owner: Owner,
    pub(super) link: Link,
    /// Where everything goes that comes in here; the switch decides if nothing is plugged.
    pub(super) cable: Option<u32>,
    pub(super) drops: Drops,
    /// Frames handed to an uplink.
    pub(super) passed: u64,
}

/// Address table and ports. A fixed number of addresses: a newer one may push an older one out.
pub(super) struct Switch {
    pub(super) ports: Vec<Port>,
    table: Box<[Entry]>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// The address as a number; 0 for none.
    mac: u64,
    port: u32,
    fixed: bool,
}

/// What frames are delivered with.
pub(super) struct Ends<'a, M> {
    pub(super) memory: &'a M,
    pub(super) adapters: &'a mut [Adapter],
    pub(super) dice: &'a mut Dice,
    pub(super) now_ns: u64,
}

impl<M: DeviceMemory> Ends<'_, M> {
    /// The burst is over: receivers get their completions.
    #[inline]
    pub(super) fn flush(&mut self) {
        for adapter in self.adapters.iter_mut() {
            adapter.flush(self.memory);
        }
    }
}

const TABLE_ENTRIES: usize = 1024;
/// Places that an address may take, from the one that it names.
const PROBES: usize = 4;

impl Switch {
    pub(super) fn new() -> Self {
        Self {
            ports: Vec::new(),
            table: vec![Entry::default(); TABLE_ENTRIES].into_boxed_slice(),
        }
    }

    pub(super) fn add(&mut self, owner: Owner, impairments: Impairments) -> u32 {
        self.ports.push(Port {
            owner,
            link: Link::new(impairments),
            cable: None,
            drops: Drops::default(),
            passed: 0,
        });
        self.ports.len() as u32 - 1
    }

    /// The adapter to which everything from a port goes as it is, if that is so: a cable, a plain
    /// wire, and an adapter that changes nothing at its end.
    #[inline]
    pub(super) fn plain_way<M>(&self, ends: &Ends<'_, M>, ingress: usize) -> Option<usize> {
        let cable = self.ports.get(ingress)?.cable?;
        let port = self.ports.get(cable as usize)?;
        let Owner::Adapter(index) = port.owner else {
            return None;
        };
        let plain = port.link.clear() && ends.adapters.get(index)?.receives_plainly();
        plain.then_some(index)
    }

    /// Sends a frame that came in at `ingress` to where it belongs.
    #[inline]
    pub(super) fn forward<M: DeviceMemory>(
        &mut self,
        ends: &mut Ends<'_, M>,
        flights: &mut Flights,
        ingress: u32,
        frame: &mut [u8],
    ) {
        let Some(port) = self.ports.get_mut(ingress as usize) else {
            return;
        };
        if let Some(target) = port.cable {
            return self.offer(ends, flights, target, frame);
        }
        let Some([t0, t1, t2, t3, t4, t5, s0, s1, s2, s3, s4, s5]) = frame.first_chunk::<12>()
        else {
            return port.drops.count(Drop::Runt);
        };
        let target = number([*t0, *t1, *t2, *t3, *t4, *t5]);
        self.learn([*s0, *s1, *s2, *s3, *s4, *s5], ingress, false);
        match self.find(target) {
            Some(port) if port == ingress => {
                if let Some(port) = self.ports.get_mut(ingress as usize) {
                    port.drops.count(Drop::NoPort);
                }
            }
            Some(port) => self.offer(ends, flights, port, frame),
            None => self.flood(ends, flights, ingress, frame),
        }
    }

    fn flood<M: DeviceMemory>(
        &mut self,
        ends: &mut Ends<'_, M>,
        flights: &mut Flights,
        ingress: u32,
        frame: &mut [u8],
    ) {
        let mut copies = 0;
        for port in 0..self.ports.len() as u32 {
            let open = self
                .ports
                .get(port as usize)
                .is_some_and(|port| port.cable.is_none() && !matches!(port.owner, Owner::Nobody));
            if port != ingress && open {
                copies += 1;
                self.offer(ends, flights, port, frame);
            }
        }
        if copies == 0
            && let Some(port) = self.ports.get_mut(ingress as usize)
        {
            port.drops.count(Drop::NoPort);
        }
    }

    /// Puts a frame on the link to a port.
    #[inline(always)]
    fn offer<M: DeviceMemory>(
        &mut self,
        ends: &mut Ends<'_, M>,
        flights: &mut Flights,
        target: u32,
        frame: &mut [u8],
    ) {
        let Some(port) = self.ports.get_mut(target as usize) else {
            return;
        };
        if port.link.clear() {
            port.arrive(ends, frame);
        } else {
            port.delay(ends, flights, target, frame);
        }
    }

    /// Delivers up to `budget` frames that are due; returns how many.
    pub(super) fn land<M: DeviceMemory>(
        &mut self,
        ends: &mut Ends<'_, M>,
        flights: &mut Flights,
        budget: u32,
    ) -> u32 {
        let mut landed = 0;
        while landed < budget
            && let Some(flight) = flights.land(ends.now_ns)
        {
            landed += 1;
            let frame = flights.take(&flight);
            if let Some(port) = self.ports.get_mut(flight.port as usize) {
                port.link.flights -= 1;
                port.arrive(ends, frame);
            }
        }
        landed
    }

    /// Remembers where an address was seen. Group addresses and nulls are nobody's.
    pub(super) fn learn(&mut self, mac: [u8; 6], port: u32, fixed: bool) {
        let [first, ..] = mac;
        let number = number(mac);
        if first & 1 != 0 || number == 0 {
            return;
        }
        let start = place(number);
        let probes = (start..start + PROBES).map(|probe| probe % TABLE_ENTRIES);
        let holds = |probe: &usize, mac| self.table.get(*probe).is_some_and(|e| e.mac == mac);
        let known = probes.clone().find(|probe| holds(probe, number));
        let spare = known.or_else(|| probes.clone().find(|probe| holds(probe, 0)));
        if let Some(entry) = self.table.get_mut(spare.unwrap_or(start))
            && (fixed || !entry.fixed)
        {
            *entry = Entry {
                mac: number,
                port,
                fixed,
            };
        }
    }

    /// Forgets the addresses behind a port.
    pub(super) fn forget(&mut self, port: u32) {
        for entry in self.table.iter_mut().filter(|entry| entry.port == port) {
            *entry = Entry::default();
        }
    }

    fn find(&self, number: u64) -> Option<u32> {
        let start = place(number);
        let entry = (start..start + PROBES)
            .filter_map(|probe| self.table.get(probe % TABLE_ENTRIES))
            .find(|entry| entry.mac == number && number != 0)?;
        Some(entry.port)
    }
}

impl Port {
    /// The frame is at the end of the link.
    #[inline(always)]
    fn arrive<M: DeviceMemory>(&mut self, ends: &mut Ends<'_, M>, frame: &mut [u8]) {
        match &mut self.owner {
            Owner::Adapter(index) => {
                if let Some(adapter) = ends.adapters.get_mut(*index) {
                    adapter.deliver(ends.memory, frame, ends.now_ns, ends.dice);
                }
            }
            Owner::Uplink(uplink) => {
                if uplink.send(frame) {
                    self.passed += 1;
                } else {
                    self.drops.count(Drop::UplinkFull);
                }
            }
            Owner::Nobody => self.drops.count(Drop::NoPort),
        }
    }

    /// The link holds, harms or loses the frame.
    #[cold]
    fn delay<M: DeviceMemory>(
        &mut self,
        ends: &mut Ends<'_, M>,
        flights: &mut Flights,
        port: u32,
        frame: &[u8],
    ) {
        let verdict = match self.link.offer(ends.now_ns, frame.len(), ends.dice) {
            Ok(verdict) => verdict,
            Err(reason) => return self.drops.count(reason),
        };
        for _ in 0..1 + u32::from(verdict.twice) {
            let Some(copy) = flights.launch(port, verdict.due_ns, frame) else {
                self.drops.count(Drop::FabricFull);
                continue;
            };
            self.link.flights += 1;
            if verdict.mark && mark_congestion(copy) {
                self.link.counts.marked += 1;
            }
            if verdict.corrupt {
                corrupt(copy, ends.dice);
                self.link.counts.corrupted += 1;
            }
        }
        self.link.counts.duplicated += u64::from(verdict.twice);
    }
}

fn number(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn place(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % TABLE_ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_learned_moved_and_forgotten() {
        let mut switch = Switch::new();
        let mac = |last| [2, 0, 0, 0, 0, last];
        switch.learn(mac(1), 3, false);
        assert_eq!(switch.find(number(mac(1))), Some(3));
        switch.learn(mac(1), 4, false);
        assert_eq!(switch.find(number(mac(1))), Some(4), "it moved");
        switch.learn(mac(2), 5, true);
        switch.learn(mac(2), 4, false);
        assert_eq!(switch.find(number(mac(2))), Some(5), "it is fixed");
        switch.learn([0xff; 6], 4, false);
        assert_eq!(switch.find(number([0xff; 6])), None, "a group is nowhere");
        switch.forget(4);
        assert_eq!(switch.find(number(mac(1))), None);
        assert_eq!(switch.find(0), None, "an empty entry is no address");
    }

    #[test]
    fn the_table_holds_many_addresses() {
        let mut switch = Switch::new();
        let macs: Vec<[u8; 6]> = (0..500u16)
            .map(|n| [2, 0, 0, 0, (n >> 8) as u8, n as u8])
            .collect();
        for (port, mac) in (0..).zip(&macs) {
            switch.learn(*mac, port, false);
        }
        let known = macs
            .iter()
            .filter(|mac| switch.find(number(**mac)).is_some());
        assert!(
            known.count() > 450,
            "half full, most addresses must be known"
        );
    }
}
