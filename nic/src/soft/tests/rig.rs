//! A fabric in virtual time, with a host at every queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpwire_gpu::Service;
use warpwire_ring::{Cause, Meta};

use crate::host_port::{HostPort, SendOptions};
use crate::pcap::{Format, Writer};
use crate::soft::{
    AdapterConfig, Clock, Fabric, FabricConfig, FabricService, Impairments, SoftNic,
};
use crate::{Counters, Nic};

/// A frame that a host took, and what the NIC said about it.
pub(super) type Taken = (Vec<u8>, Meta);

pub(super) struct Rig {
    pub(super) fabric: Fabric,
    pub(super) nics: Vec<SoftNic>,
    pub(super) hosts: Vec<Vec<HostPort>>,
    service: FabricService,
    time: Arc<AtomicU64>,
    name: String,
    trace: Vec<(u64, Vec<u8>)>,
}

impl Rig {
    /// A fabric with a NIC for each configuration, all at the switch. `name` is the test's.
    pub(super) fn new(name: &str, seed: u64, configs: &[AdapterConfig]) -> Self {
        let (clock, time) = Clock::turned();
        let config = FabricConfig {
            seed,
            frames_under_way: 256,
            ..FabricConfig::default()
        };
        let fabric = Fabric::new(config, clock);
        let mut nics = Vec::new();
        let mut hosts = Vec::new();
        for config in configs {
            let spec = "soft".parse().expect("words");
            let nic = fabric
                .plug(spec, config.clone(), Impairments::default())
                .expect("opens");
            hosts.push(attach(&nic));
            nics.push(nic);
        }
        let name = format!("WARPWIRE_SEED={seed} cargo test -p warpwire-nic soft::tests::{name}");
        let service = fabric.service();
        Self {
            fabric,
            nics,
            hosts,
            service,
            time,
            name,
            trace: Vec::new(),
        }
    }

    /// Two NICs with a cable between them.
    pub(super) fn pair(name: &str, seed: u64, config: &AdapterConfig) -> Self {
        let rig = Self::new(name, seed, &[config.clone(), config.clone()]);
        rig.fabric.cable(rig.nics[0].port(), rig.nics[1].port());
        rig
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.time.load(Ordering::Acquire)
    }

    pub(super) fn turn_to(&self, now_ns: u64) {
        self.time.store(now_ns, Ordering::Release);
    }

    /// Runs the fabric until it is idle, at this time. Returns what it did.
    pub(super) fn run(&mut self) -> u32 {
        let mut total = 0;
        for _ in 0..10_000 {
            match self.service.run(32) {
                0 => return total,
                done => total += done,
            }
        }
        panic!("the fabric is never idle");
    }

    /// Runs until nothing is under way any more, turning the clock from event to event.
    pub(super) fn run_out(&mut self) {
        for _ in 0..1_000_000 {
            self.run();
            match self.fabric.next_event_ns() {
                None => return,
                Some(due_ns) => self.turn_to(due_ns),
            }
        }
        panic!("there is always something under way");
    }

    /// Sends on the first queue of a NIC.
    pub(super) fn send(&mut self, nic: usize, frame: &[u8]) -> Result<(), Cause> {
        self.send_with(nic, frame, SendOptions::default())
    }

    pub(super) fn send_with(
        &mut self,
        nic: usize,
        frame: &[u8],
        options: SendOptions,
    ) -> Result<(), Cause> {
        let host = &mut self.hosts[nic][0];
        host.send(frame, options)?;
        host.kick()
    }

    /// Takes one frame from a queue.
    pub(super) fn take(&mut self, nic: usize, queue: usize) -> Option<Taken> {
        let mut buffer = vec![0; 16384];
        let received = self.hosts[nic][queue]
            .receive(&mut buffer)
            .expect("the ring holds");
        let (length, meta) = received?;
        buffer.truncate(length);
        self.trace.push((self.now_ns(), buffer.clone()));
        Some((buffer, meta))
    }

    /// Takes all frames from all queues of a NIC.
    pub(super) fn take_all(&mut self, nic: usize) -> Vec<Taken> {
        let mut taken = Vec::new();
        for queue in 0..self.hosts[nic].len() {
            while let Some(frame) = self.take(nic, queue) {
                taken.push(frame);
            }
        }
        taken
    }

    pub(super) fn counters(&self, nic: usize) -> Counters {
        self.nics[nic].counters()
    }
}

impl Drop for Rig {
    /// A failure says how to repeat it, and leaves what was received as a capture.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let test = self.name.rsplit(':').next().unwrap_or_default();
        let file_name = format!("warpwire-{test}-{}.pcapng", std::process::id());
        let path = std::env::temp_dir().join(file_name);
        let mut file = Vec::new();
        if let Ok(mut writer) = Writer::new(&mut file, Format::Pcapng) {
            for (time, frame) in &self.trace {
                let _ = writer.write(*time, frame);
            }
        }
        let _ = std::fs::write(&path, file);
        eprintln!(
            "repeat with: {}\nreceived frames: {}",
            self.name,
            path.display()
        );
    }
}

fn attach(nic: &SoftNic) -> Vec<HostPort> {
    crate::soft::tests::attach(nic)
}

/// The seed that the environment demands, or `count` of them.
pub(super) fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("WARPWIRE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

/// What an event counter other than a drop says.
pub(super) fn other(counters: &Counters, name: &str) -> u64 {
    let found = counters.other.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter `{name}`")).1
}

/// How many frames were lost for this reason.
pub(super) fn lost(counters: &Counters, reason: crate::soft::Drop) -> u64 {
    let found = counters
        .drops
        .iter()
        .find(|(known, _)| *known == reason.text());
    found.map_or(0, |(_, count)| *count)
}
