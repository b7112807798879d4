//! What lies between two ends: delay, a rate, and by a seed loss, doubling, reordering, damage and
//! marks.

use super::Packet;
pub(crate) use crate::dice::Dice;

/// How bad a fabric is; chances in 10,000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) doubling: u64,
    /// A bit is turned over.
    pub(crate) damage: u64,
    /// Packets that are late, by up to so many ns.
    pub(crate) delay: u64,
    pub(crate) late_ns: u64,
    /// Packets that meet congestion: marked if they can be, dropped otherwise.
    pub(crate) marks: u64,
    /// From one end to the other.
    pub(crate) way_ns: u64,
    /// Time that a byte takes on the link; 0: none.
    pub(crate) byte_ns: u64,
    /// Packets that arrive within so many ns arrive together.
    pub(crate) gather_ns: u64,
    /// Nothing passes from a time on, for so long.
    pub(crate) dark: Option<(u64, u64)>,
    /// From a time on links are no wider than so many bytes, and say so.
    pub(crate) narrow: Option<(u64, u16)>,
}

impl Weather {
    pub(crate) const FINE: Self = Self {
        loss: 0,
        doubling: 0,
        damage: 0,
        delay: 0,
        late_ns: 0,
        marks: 0,
        way_ns: 5_000_000,
        byte_ns: 0,
        gather_ns: 0,
        dark: None,
        narrow: None,
    };
}

struct Flight {
    at_ns: u64,
    number: u64,
    to: usize,
    packet: Packet,
}

pub(crate) struct Fabric {
    pub(crate) now_ns: u64,
    weather: Weather,
    dice: Dice,
    flights: Vec<Flight>,
    number: u64,
    /// When the link to each end is free again.
    free_ns: [u64; 2],
    /// Packets that were sent to each end.
    pub(crate) sent: [u64; 2],
}

impl Flight {
    const fn order(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl Fabric {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            now_ns: 1_000_000_000,
            weather,
            dice: Dice::new(seed),
            flights: Vec::new(),
            number: 0,
            free_ns: [0; 2],
            sent: [0; 2],
        }
    }

    /// Takes a packet. Of one that is too big for the way, its number and what the way takes.
    pub(crate) fn send(&mut self, to: usize, packet: Packet) -> Option<(u32, u16)> {
        let weather = self.weather;
        self.sent[to] += 1;
        if let Some((from_ns, mtu)) = weather.narrow
            && self.now_ns >= from_ns
            && packet.bytes.len() + 20 > usize::from(mtu)
        {
            let number = packet.bytes[4..8].try_into().expect("four bytes");
            return Some((u32::from_be_bytes(number), mtu));
        }
        let leaves_ns = self.now_ns.max(self.free_ns[to]);
        let bytes = packet.bytes.len() as u64 + 20;
        self.free_ns[to] = leaves_ns + bytes * weather.byte_ns;
        let is_dark = weather
            .dark
            .is_some_and(|(from, time)| (from..from + time).contains(&self.now_ns));
        let meets = self.dice.happens(weather.marks);
        let copies = match () {
            () if is_dark || self.dice.happens(weather.loss) => 0,
            () if meets && !packet.is_capable => 0,
            () if self.dice.happens(weather.doubling) => 2,
            () => 1,
        };
        for _ in 0..copies {
            let late_ns = match self.dice.happens(weather.delay) {
                true => self.dice.below(weather.late_ns),
                false => 0,
            };
            let mut packet = packet.clone();
            packet.is_marked = meets && packet.is_capable;
            if self.dice.happens(weather.damage) {
                let bit = self.dice.below(packet.bytes.len() as u64 * 8);
                packet.bytes[bit as usize / 8] ^= 1 << (bit % 8);
            }
            self.number += 1;
            self.flights.push(Flight {
                at_ns: self.free_ns[to] + weather.way_ns + late_ns,
                number: self.number,
                to,
                packet,
            });
        }
        None
    }

    /// When the next packet arrives.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.flights.iter().map(|flight| flight.at_ns).min()
    }

    /// The next packet, and to whom; it is that time now. With all that arrive there at that time,
    /// or soon after if arrivals are gathered.
    pub(crate) fn arrive(&mut self) -> Option<(usize, Vec<Packet>)> {
        let first = self.flights.iter().map(Flight::order).min()?;
        let (mut to, mut packets) = (None, Vec::new());
        while let Some(order) = self.flights.iter().map(Flight::order).min()
            && order.0 <= first.0 + self.weather.gather_ns
        {
            let next = self.flights.iter().position(|one| one.order() == order);
            let next = next.expect("is there");
            if to.is_some_and(|to| to != self.flights[next].to) {
                break;
            }
            let flight = self.flights.swap_remove(next);
            self.now_ns = self.now_ns.max(flight.at_ns);
            to = Some(flight.to);
            packets.push(flight.packet);
        }
        Some((to?, packets))
    }
}
