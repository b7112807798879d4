//! Next hops: asked for, heard, asked for again before they expire, and forgotten.
//!
//! Only who was asked for is remembered, so a stranger cannot fill the table; and only an answer to
//! us changes what is known.

use std::net::IpAddr;

use warpwire_protocols::parse::{Headers, Kind};
use warpwire_protocols::wire::{MacAddress, arp, ndp_neighbor};

use super::addresses::{Addresses, NoWay};
use super::device::Port;
use super::frames;

/// What is known of a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// Its Ethernet address.
    Known([u8; 6]),
    /// It is being asked for: look again a little later.
    Asked,
}

/// The next hops that are known or asked for.
#[derive(Debug)]
pub(super) struct Neighbors {
    mac: [u8; 6],
    entries: Vec<Entry>,
    /// Those that moved, until somebody takes it up: one of each.
    moved: Vec<Moved>,
}

/// A next hop has another Ethernet address than was said before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Its address.
    pub address: IpAddr,
    /// The Ethernet address before.
    pub from: [u8; 6],
    /// And now.
    pub to: [u8; 6],
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: IpAddr,
    known: Option<Known>,
    /// What was known last.
    last: Option<[u8; 6]>,
    /// Questions since the last answer, and when the next one is due.
    asked: u32,
    next_ns: u64,
    used_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    mac: [u8; 6],
    since_ns: u64,
}

impl Neighbors {
    pub(super) const fn new(mac: [u8; 6]) -> Self {
        Self {
            mac,
            entries: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// The Ethernet address of who takes packets on, or the question for it.
    pub(super) fn find(
        &mut self,
        now_ns: u64,
        via: IpAddr,
        addresses: &Addresses,
        port: &mut Port,
    ) -> Result<Hop, NoWay> {
        self.on_timer(now_ns, addresses, port);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.address == via) {
            entry.used_ns = now_ns;
            return match entry.known {
                Some(known) => Ok(Hop::Known(known.mac)),
                None if entry.asked > QUESTIONS => Err(NoWay::Silent { via }),
                None => Ok(Hop::Asked),
            };
        }
        self.make_room()?;
        let mut entry = Entry {
            address: via,
            known: None,
            last: None,
            asked: 0,
            next_ns: now_ns,
            used_ns: now_ns,
        };
        ask(self.mac, &mut entry, now_ns, addresses, port);
        self.entries.push(entry);
        Ok(Hop::Asked)
    }

    /// Takes what a frame says about a neighbour that was asked for. Whether it said anything.
    pub(super) fn hear(
        &mut self,
        now_ns: u64,
        frame: &[u8],
        headers: &Headers,
        addresses: &Addresses,
    ) -> bool {
        let Some(told) = told(frame, headers, addresses) else {
            return false;
        };
        let same = |entry: &&mut Entry| entry.address == told.address;
        let Some(entry) = self.entries.iter_mut().find(same) else {
            return false;
        };
        let is_another = entry.known.is_some_and(|known| known.mac != told.mac);
        if is_another && !told.overrides {
            return false;
        }
        entry.known = Some(Known {
            mac: told.mac,
            since_ns: now_ns,
        });
        if let Some(from) = entry
            .last
            .replace(told.mac)
            .filter(|last| *last != told.mac)
        {
            self.moved
                .retain(|moved| moved.address != told.address || moved.to != from);
            self.moved.push(Moved {
                address: told.address,
                from,
                to: told.mac,
            });
        }
        entry.asked = 0;
        entry.next_ns = now_ns.saturating_add(FRESH_NS);
        true
    }

    /// Asks again where it is time, and forgets who is silent, old, or not used.
    pub(super) fn on_timer(&mut self, now_ns: u64, addresses: &Addresses, port: &mut Port) {
        let mac = self.mac;
        self.entries.retain_mut(|entry| {
            if now_ns < entry.next_ns {
                return true;
            }
            let is_used = now_ns.saturating_sub(entry.used_ns) < FRESH_NS;
            // Connections may be open that go by it.
            let is_kept = entry.last.is_some() && addresses.is_gateway(entry.address);
            match entry.known {
                // Nobody sent anything there lately: it need not be known.
                Some(_) if !is_used && !is_kept => return false,
                Some(known) if now_ns.saturating_sub(known.since_ns) >= OLD_NS => {
                    entry.known = None;
                    entry.asked = 0;
                }
                // It was silent, and that was said for long enough.
                None if entry.asked > QUESTIONS && !is_kept => return false,
                None if entry.asked > QUESTIONS => entry.asked = 0,
                _ => {}
            }
            match entry.known.is_none() && entry.asked == QUESTIONS {
                true => {
                    entry.asked += 1;
                    entry.next_ns = now_ns.saturating_add(SILENT_NS);
                }
                false => ask(mac, entry, now_ns, addresses, port),
            }
            true
        });
    }

    /// The next hop that moved first.
    pub(super) fn take_moved(&mut self) -> Option<Moved> {
        (!self.moved.is_empty()).then(|| self.moved.remove(0))
    }

    pub(super) fn timeout_ns(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.next_ns).min()
    }

    /// Room for one more: of those that are not being asked for, the one forgotten longest goes.
    fn make_room(&mut self) -> Result<(), NoWay> {
        if self.entries.len() < MOST {
            return Ok(());
        }
        let idle = |entry: &Entry| entry.known.is_some() || entry.asked > QUESTIONS;
        let old = (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| idle(entry))
            .min_by_key(|(_, entry)| entry.used_ns);
        let (old, _) = old.ok_or(NoWay::Busy { most: MOST })?;
        self.entries.swap_remove(old);
        Ok(())
    }
}

/// Who has which address, as a frame says.
struct Told {
    address: IpAddr,
    mac: [u8; 6],
    /// It replaces what was known.
    overrides: bool,
}

fn told(frame: &[u8], headers: &Headers, addresses: &Addresses) -> Option<Told> {
    let told = match headers.kind {
        Kind::Arp => {
            let packet = frames::read_arp(frame, headers)?;
            let is_to_us = addresses.is_own(packet.target.into());
            Told {
                address: is_to_us.then_some(packet.sender.into())?,
                mac: packet.sender_hardware.0,
                overrides: packet.operation == arp::Operation::Reply,
            }
        }
        Kind::Icmpv6 => {
            let packet = frames::read_discovery(frame, headers)?;
            let (source, _) = headers.ipv6_addresses(frame)?;
            match packet.message {
                ndp_neighbor::Message::Advertisement { overrides, .. } => Told {
                    address: packet.target.into(),
                    mac: packet.link?.0,
                    overrides,
                },
                // Who asks for us says where he is himself.
                ndp_neighbor::Message::Solicitation => Told {
                    address: addresses
                        .is_own(packet.target.into())
                        .then_some(source.into())?,
                    mac: packet.link?.0,
                    overrides: false,
                },
            }
        }
        _ => return None,
    };
    let is_station = !MacAddress(told.mac).is_multicast() && told.mac != [0; 6];
    is_station.then_some(told)
}

fn ask(mac: [u8; 6], entry: &mut Entry, now_ns: u64, addresses: &Addresses, port: &mut Port) {
    entry.asked += 1;
    let again_ns = match entry.known {
        Some(_) => REFRESH_NS,
        None => ASK_NS,
    };
    entry.next_ns = now_ns.saturating_add(again_ns);
    let source = addresses.source(entry.address).ok();
    if let Some(frame) = source.and_then(|own| frames::question(mac, own, entry.address)) {
        port.send(frame);
    }
}

/// Next hops that are remembered.
const MOST: usize = 256;
/// Questions before a next hop counts as silent.
const QUESTIONS: u32 = 3;
/// Time between questions. RFC 4861 section 10: RETRANS_TIMER.
const ASK_NS: u64 = 1_000_000_000;
/// So old, an answer is asked for again if it is still used. RFC 4861 section 10: REACHABLE_TIME.
const FRESH_NS: u64 = 30_000_000_000;
/// Time between questions for one that is still known.
const REFRESH_NS: u64 = 5_000_000_000;
/// So old, an answer is not used any more.
const OLD_NS: u64 = 60_000_000_000;
/// How long one is said to be silent before he is asked again.
const SILENT_NS: u64 = 3_000_000_000;
