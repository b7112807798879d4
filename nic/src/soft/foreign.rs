//! Another NIC as a way out of a fabric: its queues are driven by the host.
#![expect(unsafe_code, reason = "drives the queues of a NIC that it owns")]

use warpwire_gpu::Service;
use warpwire_ring::Cause;

use super::packet::locate;
use super::uplink::Uplink;
use crate::Nic;
use crate::caps::Features;
use crate::error::Error;
use crate::host_port::{HostPort, SendOptions};
use crate::trouble::Trouble;

/// A NIC behind a port of a fabric. What it receives enters the fabric, and the other way round.
pub struct NicUplink {
    name: String,
    hosts: Vec<HostPort>,
    services: Vec<Box<dyn Service>>,
    /// The queue to look at next.
    turn: usize,
    /// A local peer may leave checksums to be completed.
    completes: bool,
    counts: Counts,
    /// Dropped last: the hosts drive its queues.
    nic: Option<Box<dyn Nic>>,
}

#[derive(Default)]
struct Counts {
    full: u64,
    too_long: u64,
    failed: u64,
    completed: u64,
    broken: u64,
}

/// Units of work that each of the NIC's services does a round.
const SERVICE_BUDGET: u32 = 64;

impl NicUplink {
    /// Takes a NIC over, all queues and services.
    ///
    /// # Errors
    /// [`Error::Peer`] if its queues cannot be attached to.
    pub fn new(mut nic: Box<dyn Nic>) -> Result<Self, Error> {
        let name = nic.spec().to_string();
        let attach = |pair| {
            // SAFETY: the NIC is ours, so that no kernel drives its queues, and it is dropped last.
            unsafe { HostPort::attach(pair) }
        };
        let hosts: Result<Vec<_>, Cause> = nic.queues().iter().map(attach).collect();
        let hosts = hosts.map_err(|cause| Error::Peer {
            nic: name.clone(),
            problem: format!("its queues cannot be driven: {cause}"),
        })?;
        let completes = nic.caps().features.contains(Features::RX_PARTIAL_CHECKSUM);
        Ok(Self {
            name,
            hosts,
            services: nic.take_services(),
            turn: 0,
            completes,
            counts: Counts::default(),
            nic: Some(nic),
        })
    }
}

impl Uplink for NicUplink {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> Option<[u8; 6]> {
        let mac = self.nic.as_ref()?.mac();
        (mac != [0; 6]).then_some(mac)
    }

    /// Everything goes out on the first queue: order matters more than spread.
    fn send(&mut self, frame: &[u8]) -> bool {
        let Some(host) = self.hosts.first_mut() else {
            return false;
        };
        let mut sent = host.send(frame, SendOptions::default());
        if sent == Err(Cause::NoResource) {
            // What was sent may not be on its way yet.
            let _ = host.kick();
            sent = host.send(frame, SendOptions::default());
        }
        match sent {
            Ok(()) => return true,
            Err(Cause::NoResource) => self.counts.full += 1,
            Err(Cause::FrameTooLong) => self.counts.too_long += 1,
            Err(_) => self.counts.failed += 1,
        }
        false
    }

    fn receive(&mut self, into: &mut [u8], _now_ns: u64) -> Option<usize> {
        for _ in 0..self.hosts.len() {
            let queue = self.turn % self.hosts.len();
            self.turn = self.turn.wrapping_add(1);
            let host = self.hosts.get_mut(queue)?;
            match host.receive(into) {
                Ok(None) => {}
                Ok(Some((length, _))) if length > into.len() => self.counts.too_long += 1,
                Ok(Some((length, _))) => {
                    if self.completes {
                        let frame = into.get_mut(..length)?;
                        self.counts.completed += u64::from(complete(frame));
                    }
                    return Some(length);
                }
                Err(_) => self.counts.broken += 1,
            }
        }
        None
    }

    fn round(&mut self, _now_ns: u64) -> bool {
        let mut done = 0;
        for host in &mut self.hosts {
            self.counts.failed += u64::from(host.kick().is_err());
        }
        for service in &mut self.services {
            done += service.run(SERVICE_BUDGET);
        }
        done > 0
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = vec![
            ("transmit queue full", self.counts.full),
            ("too long for the NIC", self.counts.too_long),
            ("sends failed", self.counts.failed),
            ("checksums completed", self.counts.completed),
            ("receive queues broken", self.counts.broken),
        ];
        if let Some(nic) = &self.nic {
            let theirs = nic.counters();
            counters.extend([
                ("NIC received", theirs.rx_frames),
                ("NIC sent", theirs.tx_frames),
            ]);
            counters.push(("NIC dropped", theirs.dropped()));
        }
        counters
    }

    fn troubles(&self) -> Vec<Trouble> {
        self.nic
            .as_ref()
            .map_or_else(Vec::new, |nic| nic.troubles())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.hosts.clear();
        self.services.clear();
        self.nic.take().map_or(Ok(()), Nic::close)
    }
}

/// Completes a TCP or UDP checksum that holds the pseudo-header's sum alone, as a local sender
/// leaves it to hardware. Returns whether it did.
pub(super) fn complete(frame: &mut [u8]) -> bool {
    let Some(layers) = locate(frame) else {
        return false;
    };
    let partial = layers.is_partial(frame);
    if partial {
        layers.fill_transport(frame);
    }
    partial
}
