//! The server's half of the handshake: take a client's regions and rings, and trust nothing.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use warpwire_gpu::Arena;
use warpwire_ring::memif::{COOKIE, ring_bytes};
use warpwire_ring::{DeviceAddress, Location};

use crate::error::Error;
use crate::memif::channel::{Channel, Deadline};
use crate::memif::config::{Config, MAX_LOG2_DEPTH};
use crate::memif::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, VERSION};
use crate::memif::system::Listener;

/// What a handshake leaves, as server.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) channel: Channel,
    /// The client's name and that of its end of the interface.
    pub(super) peer: String,
    /// The client's regions by number.
    pub(super) regions: Vec<ClientRegion>,
    /// Rings client → server, by number.
    pub(super) to_server: Vec<ClientRing>,
    /// Rings server → client, by number.
    pub(super) to_client: Vec<ClientRing>,
}

/// A region of the client's as it is mapped here. The file cannot shrink under us.
#[derive(Clone, Debug)]
pub(super) struct ClientRegion {
    pub(super) arena: Arc<Arena>,
    /// Bytes that the client announced; the file has at least these.
    pub(super) bytes: u64,
}

/// A ring of the client's, within one of its regions.
#[derive(Debug)]
pub(super) struct ClientRing {
    pub(super) address: DeviceAddress,
    pub(super) depth: u32,
    pub(super) interrupt: File,
}

/// Waits for a client that passes the handshake; others are told why not.
pub(super) fn admit_one(
    listener: &Listener,
    config: &Config,
    deadline: Deadline<'_>,
) -> Result<Admitted, Error> {
    let mut last = None;
    loop {
        let socket = listener.accept().map_err(|source| Error::System {
            nic: config.nic.clone(),
            action: "accepting a client".to_owned(),
            source,
            cure: "raise the limit of open files (ulimit -n)".to_owned(),
        })?;
        if let Some(socket) = socket {
            let one = Deadline::after(HANDSHAKE, deadline.patience);
            let at = one.at.min(deadline.at);
            match admit(
                Channel::new(socket, &config.nic),
                config,
                Deadline { at, ..one },
            ) {
                Ok(admitted) => return Ok(admitted),
                Err(error) => last = Some(error),
            }
            continue;
        }
        let patience = deadline.patience;
        patience.check(&config.nic, || "waiting for a client".to_owned())?;
        let step = patience.step(deadline.at);
        let ready = listener.wait(step).map_err(|source| Error::System {
            nic: config.nic.clone(),
            action: "waiting for a client".to_owned(),
            source,
            cure: "see the system's message".to_owned(),
        })?;
        if !ready && deadline.passed() {
            let refused = last.map_or(String::new(), |last| format!(" (refused one: {last})"));
            return Err(deadline.error(
                &config.nic,
                format!("waiting for a client{refused}"),
                "start the client, or write a longer wait_ms",
            ));
        }
    }
}

/// The handshake with one client; on an error the client is told the reason.
pub(super) fn admit(
    channel: Channel,
    config: &Config,
    deadline: Deadline<'_>,
) -> Result<Admitted, Error> {
    let mut offer = Offer::default();
    match offer.negotiate(&channel, config, deadline) {
        Ok(peer) => Ok(Admitted {
            channel,
            peer,
            regions: offer.regions,
            to_server: offer.to_server,
            to_client: offer.to_client,
        }),
        Err(error) => {
            let reason = match &error {
                Error::Peer { problem, .. } => problem.clone(),
                Error::Memory { source, .. } => source.to_string(),
                _ => "handshake took too long".to_owned(),
            };
            channel.disconnect(&reason);
            Err(error)
        }
    }
}

/// What a client announced so far.
#[derive(Default)]
struct Offer {
    regions: Vec<ClientRegion>,
    to_server: Vec<ClientRing>,
    to_client: Vec<ClientRing>,
}

impl Offer {
    fn negotiate(
        &mut self,
        channel: &Channel,
        config: &Config,
        deadline: Deadline<'_>,
    ) -> Result<String, Error> {
        let highest = (config.queues - 1) as u16;
        let hello = Hello {
            name: config.name,
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS - 1,
            max_ring_to_server: highest,
            max_ring_to_client: highest,
            max_log2_depth: MAX_LOG2_DEPTH as u8,
        };
        channel.send(&Message::Hello(hello), None)?;
        let init = match channel.receive(deadline, "init")? {
            (Message::Init(init), _) => init,
            (other, _) => return Err(channel.unexpected(&other, "init")),
        };
        check_init(channel, config, &init)?;
        channel.send(&Message::Ack, None)?;
        loop {
            let awaited = "a region, a ring or connect";
            match channel.receive(deadline, awaited)? {
                (Message::AddRegion { index, size }, file) => {
                    self.add_region(channel, index, size, file)?;
                }
                (Message::AddRing(ring), file) => self.add_ring(channel, config, &ring, file)?,
                (Message::Connect { name }, _) => {
                    self.check_rings(channel, config)?;
                    channel.send(&Message::Connected { name: config.name }, None)?;
                    return Ok(format!("{} ({name})", init.name));
                }
                (other, _) => return Err(channel.unexpected(&other, awaited)),
            }
            channel.send(&Message::Ack, None)?;
        }
    }

    fn add_region(
        &mut self,
        channel: &Channel,
        index: u16,
        size: u64,
        file: Option<OwnedFd>,
    ) -> Result<(), Error> {
        if usize::from(index) != self.regions.len() || index >= MAX_REGIONS {
            return Err(channel.peer(format!(
                "announced region {index}, region {} was due and {MAX_REGIONS} is the limit",
                self.regions.len()
            )));
        }
        let Some(file) = file else {
            return Err(channel.peer(format!("sent no memory file with region {index}")));
        };
        let file = File::from(file);
        let bytes = file.metadata().map_or(u64::MAX, |found| found.len());
        let mapped = self
            .regions
            .iter()
            .map(|region| region.arena.whole().length);
        if bytes > MAX_MAPPED_BYTES.saturating_sub(mapped.sum()) {
            return Err(channel.peer(format!(
                "announced regions of more than {MAX_MAPPED_BYTES} bytes in all"
            )));
        }
        let arena =
            Arena::from_file(file, Location::PageableHost).map_err(|source| Error::Memory {
                nic: channel.nic().to_owned(),
                source,
            })?;
        let have = arena.whole().length;
        if size == 0 || size > have {
            return Err(channel.peer(format!(
                "announced {size} bytes for region {index} whose file has {have}"
            )));
        }
        self.regions.push(ClientRegion {
            arena: Arc::new(arena),
            bytes: size,
        });
        Ok(())
    }

    fn add_ring(
        &mut self,
        channel: &Channel,
        config: &Config,
        ring: &AddRing,
        interrupt: Option<OwnedFd>,
    ) -> Result<(), Error> {
        let rings = if ring.to_server {
            &mut self.to_server
        } else {
            &mut self.to_client
        };
        let index = ring.index;
        if usize::from(index) != rings.len() || u32::from(index) >= config.queues {
            return Err(channel.peer(format!(
                "announced ring {index}, ring {} was due; we take {} each way",
                rings.len(),
                config.queues
            )));
        }
        let Some(interrupt) = interrupt else {
            return Err(channel.peer(format!("sent no eventfd with ring {index}")));
        };
        if ring.private_header != 0 {
            return Err(channel.peer("wants private headers in its rings".to_owned()));
        }
        let log2_depth = u32::from(ring.log2_depth);
        if !(1..=MAX_LOG2_DEPTH).contains(&log2_depth) {
            return Err(channel.peer(format!(
                "announced a ring of 2^{log2_depth} slots; 2^1 to 2^{MAX_LOG2_DEPTH} are allowed"
            )));
        }
        let depth = 1 << log2_depth;
        let address = self
            .regions
            .get(usize::from(ring.region))
            .filter(|region| {
                let end = u64::from(ring.offset) + ring_bytes(depth);
                ring.offset.is_multiple_of(16) && end <= region.bytes
            })
            .map(|region| region.arena.whole().address.offset(u64::from(ring.offset)))
            .ok_or_else(|| {
                channel.peer(format!(
                    "placed ring {index} at {} of region {}, which is outside or not aligned to 16",
                    ring.offset, ring.region
                ))
            })?;
        let rings = if ring.to_server {
            &mut self.to_server
        } else {
            &mut self.to_client
        };
        rings.push(ClientRing {
            address,
            depth,
            interrupt: File::from(interrupt),
        });
        Ok(())
    }

    /// Every pair is whole and every ring is one.
    fn check_rings(&self, channel: &Channel, config: &Config) -> Result<(), Error> {
        let queues = config.queues as usize;
        if self.to_server.len() != queues || self.to_client.len() != queues {
            return Err(channel.peer(format!(
                "brought {} rings to us and {} from us where queues={queues} wants {queues} each",
                self.to_server.len(),
                self.to_client.len()
            )));
        }
        for ring in self.to_server.iter().chain(&self.to_client) {
            let arena = self
                .regions
                .iter()
                .map(|region| &region.arena)
                .find(|arena| arena.whole().contains(ring.address, ring_bytes(ring.depth)));
            let cookie = arena
                .and_then(|arena| arena.half_word(ring.address).ok())
                .map(|word| word.load(std::sync::atomic::Ordering::Acquire));
            if cookie != Some(COOKIE) {
                return Err(channel.peer("announced a ring without the memif cookie".to_owned()));
            }
        }
        Ok(())
    }
}

/// Refuses by name a client that wants something else.
fn check_init(channel: &Channel, config: &Config, init: &Init) -> Result<(), Error> {
    let problem = if init.version != VERSION {
        format!(
            "speaks memif {:#06x}, we speak {VERSION:#06x}",
            init.version
        )
    } else if init.id != config.id {
        format!("wants interface {}, this is {}", init.id, config.id)
    } else if init.mode != MODE_ETHERNET {
        format!("wants mode {}, this interface carries Ethernet", init.mode)
    } else if config.secret.is_set() && init.secret != config.secret.0.0 {
        "gave a wrong secret".to_owned()
    } else {
        return Ok(());
    };
    Err(channel.peer(problem))
}

/// How long one client may take for its handshake while others wait.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// What a client may make us map: twice what one region's 32-bit offsets reach.
const MAX_MAPPED_BYTES: u64 = 8 << 30;

/// Regions of a client: as many as the common peers send.
const MAX_REGIONS: u16 = 256;
