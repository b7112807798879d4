//! The soft NIC as others see it.

use warpwire_gpu::Service;
use warpwire_ring::{Format, Trigger};

use super::adapter::Adapter;
use super::clock::Clock;
use super::config::{AdapterConfig, FabricConfig, Impairments, SoftOptions};
use super::fabric::{Fabric, PortId};
use super::fault::Faults;
use super::rings::QueueMemory;
use super::spread::{DEFAULT_KEY, Spread};
use super::switch::Owner;
use crate::caps::{Caps, Features};
use crate::counters::Counters;
use crate::error::Error;
use crate::patience::Patience;
use crate::spec::NicSpec;
use crate::steering::Steering;
use crate::trouble::Trouble;
use crate::{Nic, QueuePair};

/// An adapter of a [`Fabric`], open.
pub struct SoftNic {
    spec: NicSpec,
    caps: Caps,
    steering: Option<Steering>,
    mac: [u8; 6],
    pairs: Vec<QueuePair>,
    fabric: Fabric,
    port: PortId,
    /// Where its own uplink is; it goes with the NIC.
    uplink: Option<PortId>,
    choices: Vec<String>,
}

/// Opens a soft NIC with a fabric of its own: `soft[:NAME][,option=value]*`.
///
/// `peer=loop` plugs it into itself; `uplink=tap:INTERFACE`, `uplink=xdp:IFACE`,
/// `uplink=memif:SOCKET` or `uplink=pcap:FILE` into that (options of its own are joined by `+`).
/// The link's options (`loss_ppm`, `delay_us`, …) hold for what the NIC receives, and with an
/// uplink for what it sends as well. The seed of all chance is the option `seed`.
///
/// # Errors
/// [`Error::Spec`] for options that are unknown or out of range, [`Error::Memory`], and those of
/// the uplink.
pub fn open(spec: &NicSpec) -> Result<SoftNic, Error> {
    let seed = spec.number("seed", 1, 0..=u64::MAX)?;
    let config = FabricConfig {
        seed,
        ..FabricConfig::default()
    };
    Fabric::new(config, Clock::system()).open(spec)
}

/// Checks a soft NIC's options without opening it. Whether `peer` is another NIC, the caller knows.
///
/// # Errors
/// [`Error::Spec`].
pub fn check(spec: &NicSpec) -> Result<(), Error> {
    SoftOptions::read(spec).map(|_| ())
}

impl Fabric {
    /// Opens a NIC on this fabric by its words; a peer that is another NIC of the fabric is cabled
    /// by [`Fabric::cable`].
    ///
    /// # Errors
    /// [`Error::Spec`] for options that are unknown or out of range, [`Error::Memory`], and those
    /// of an uplink.
    pub fn open(&self, spec: &NicSpec) -> Result<SoftNic, Error> {
        self.open_within(spec, Patience::default())
    }

    /// [`Fabric::open`], for as long as `patience` lasts: an uplink may wait for its peer.
    ///
    /// # Errors
    /// Those of [`Fabric::open`], and [`Error::Stopped`].
    pub fn open_within(&self, spec: &NicSpec, patience: Patience<'_>) -> Result<SoftNic, Error> {
        let options = SoftOptions::read(spec)?;
        let mut nic = self.plug(spec.clone(), options.adapter, options.link)?;
        match options.peer.as_deref() {
            None => {}
            Some("loop") => {
                self.cable(nic.port, nic.port);
                nic.choices
                    .push("every frame comes back: peer=loop".to_owned());
            }
            Some(peer) => {
                let problem = format!("`{peer}` is no peer");
                return Err(spec.wrong("peer", problem, "write peer=loop".to_owned()));
            }
        }
        if let Some(words) = options.uplink {
            let uplink = words.open(patience)?;
            nic.choices.push(format!("plugged into {}", uplink.name()));
            nic.mac = uplink.mac().unwrap_or(nic.mac);
            let port = self.attach(uplink, options.link);
            self.cable(nic.port, port);
            nic.uplink = Some(port);
        }
        Ok(nic)
    }

    /// Adds an adapter behind a link.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn plug(
        &self,
        spec: NicSpec,
        config: AdapterConfig,
        link: Impairments,
    ) -> Result<SoftNic, Error> {
        let failed = |source| Error::Memory {
            nic: spec.to_string(),
            source,
        };
        let mut core = self.lock();
        let limit = core.config.max_frame_bytes;
        let config = AdapterConfig {
            max_frame_bytes: config.max_frame_bytes.min(limit),
            ..config
        };
        let mut adapter = Adapter::new(config.clone());
        let mut memory = QueueMemory::new(&config, &mut core.keys).map_err(failed)?;
        adapter.keys = memory.keys();
        let mut pairs = Vec::new();
        for index in 0..config.queues {
            let pair = memory.pair(&config, index).map_err(failed)?;
            adapter.receive.push(pair.receive);
            adapter.send.push(pair.send);
            pairs.push(QueuePair {
                index,
                receive: pair.receive_block,
                transmit: pair.transmit_block,
                memory: vec![memory.rings.clone(), memory.buffers.clone()],
            });
        }
        let index = core.adapters.len();
        core.adapters.push(adapter);
        let port = core.switch.add(Owner::Adapter(index), link);
        let mac = address(port);
        core.switch.learn(mac, port, true);
        drop(core);
        let choices = vec![format!(
            "device model with ConnectX queues in host memory that stands for device memory; {} \
             queue pairs of {} slots",
            config.queues, config.depth
        )];
        Ok(SoftNic {
            caps: caps(&config),
            steering: steering(&config),
            spec,
            mac,
            pairs,
            fabric: self.clone(),
            port: PortId(port),
            uplink: None,
            choices,
        })
    }
}

impl SoftNic {
    /// The fabric that it belongs to.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Its port there.
    pub fn port(&self) -> PortId {
        self.port
    }

    /// Changes what goes wrong in its hardware.
    pub fn disturb(&self, faults: Faults) {
        self.fabric.disturb(self.port, faults);
    }
}

impl Nic for SoftNic {
    fn spec(&self) -> &NicSpec {
        &self.spec
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn queues(&self) -> &[QueuePair] {
        &self.pairs
    }

    fn steering(&self) -> Option<Steering> {
        self.steering.clone()
    }

    /// The fabric's service, for the first of its NICs that asks.
    fn take_services(&mut self) -> Vec<Box<dyn Service>> {
        let service = self.fabric.serve_once();
        service
            .map(|service| Box::new(service) as Box<dyn Service>)
            .into_iter()
            .collect()
    }

    fn counters(&self) -> Counters {
        let port = self.fabric.port_counts(self.port);
        let uplink = self.uplink.map(|port| self.fabric.port_counts(port));
        let uplink = uplink.unwrap_or_default();
        let mut core = self.fabric.lock();
        let Some(adapter) = core.adapter_at(self.port) else {
            return Counters::default();
        };
        let counts = &adapter.counts;
        let mut drops = adapter.drops.named();
        drops.extend(port.drops);
        drops.extend(uplink.drops);
        let link = port.link + uplink.link;
        let mut other = vec![
            ("doorbells", counts.doorbells),
            ("doorbells lost", counts.doorbells_lost),
            ("doorbells refused", counts.doorbells_refused),
            ("stalls", counts.stalls),
            ("payloads late", counts.payloads_late),
            ("error completions", counts.error_completions),
            ("queues broken", counts.queues_broken),
            (
                "payload bytes copied by the model",
                counts.payload_bytes_copied,
            ),
            ("duplicated on the link", link.duplicated),
            ("reordered on the link", link.reordered),
            ("corrupted on the link", link.corrupted),
            ("marked on the link", link.marked),
        ];
        other.extend(uplink.uplink);
        Counters {
            rx_frames: counts.rx_frames,
            rx_bytes: counts.rx_bytes,
            tx_frames: counts.tx_frames,
            tx_bytes: counts.tx_bytes,
            kicks: 0,
            drops: merged(drops),
            other,
        }
    }

    fn choices(&self) -> Vec<String> {
        self.choices.clone()
    }

    /// Those of its uplink.
    fn troubles(&self) -> Vec<Trouble> {
        let uplink = self.uplink.map(|port| self.fabric.troubles(port));
        uplink.unwrap_or_default()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        let uplink = self.uplink.map(|port| self.fabric.detach(port));
        self.fabric.detach(self.port)?;
        uplink.unwrap_or(Ok(()))
    }
}

impl std::ops::Drop for SoftNic {
    fn drop(&mut self) {
        // After `close` there is nothing left to detach; else nobody is there to hear of failures.
        if let Some(port) = self.uplink {
            let _ = self.fabric.detach(port);
        }
        let _ = self.fabric.detach(self.port);
    }
}

/// Where packets come to, unless rules take some elsewhere.
fn steering(config: &AdapterConfig) -> Option<Steering> {
    let spread = Spread::new(&DEFAULT_KEY, config.queues);
    let is_plain = config.rules.iter().all(|rule| rule.queue.is_none());
    is_plain.then(|| Steering::new(move |from, to| spread.queue_of(from, to)))
}

fn caps(config: &AdapterConfig) -> Caps {
    let mut features = Features::TX_SEGMENTS
        | Features::TX_L3_CHECKSUM
        | Features::TX_L4_CHECKSUM
        | Features::RX_TIMESTAMP;
    let offloads = config.offloads;
    features.set(Features::RX_SEGMENTS, config.segments > 1);
    features.set(Features::ZERO_COPY_FORWARD, config.segments == 1);
    features.set(Features::RX_CHECKSUM, offloads.checksum);
    features.set(Features::RX_HASH, offloads.hash || config.queues > 1);
    features.set(Features::SPREAD, config.queues > 1);
    features.set(Features::RX_VLAN_STRIP, offloads.vlan_strip);
    features.set(Features::RX_FLOW_TAG, !config.rules.is_empty());
    Caps {
        format: Format::Mlx5,
        queues: config.queues,
        rx_depth: config.depth,
        tx_depth: config.depth,
        slot_bytes: config.slot_bytes,
        max_frame_bytes: config.max_frame_bytes,
        trigger: Trigger::Mmio,
        features,
    }
}

/// Counts of one name added up, in the order of first appearance.
fn merged(counts: Vec<(&'static str, u64)>) -> Vec<(&'static str, u64)> {
    let mut merged: Vec<(&'static str, u64)> = Vec::new();
    for (name, count) in counts {
        match merged.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += count,
            None => merged.push((name, count)),
        }
    }
    merged
}

/// A locally administered address, one a port.
fn address(port: u32) -> [u8; 6] {
    let [a, b, c, d] = port.to_be_bytes();
    [0x02, 0x57, a, b, c, d]
}
