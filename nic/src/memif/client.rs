//! The client's half of the handshake: announce a region and its rings to a server.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use warpwire_ring::memif::{RegionPlan, RingKind};

use crate::error::Error;
use crate::memif::channel::{Channel, Deadline};
use crate::memif::config::Config;
use crate::memif::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, VERSION};
use crate::memif::system::{self, Socket};

/// What a handshake leaves, as client.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) channel: Channel,
    /// The server's name and that of its end of the interface.
    pub(super) peer: String,
    /// Interrupts of the rings client → server, in order. Those of the others we never wait for.
    pub(super) to_server: Vec<File>,
}

/// How a server took our introduction.
pub(super) enum Introduction {
    /// It wants our region and rings.
    Welcome(Hello),
    /// It sent us away.
    Refused(Error),
}

/// Connects to the server and announces `region`, laid out by `plan`, and its rings.
///
/// Waits for the socket to appear until the deadline. A server that has just started may refuse for
/// a moment (DPDK's listens before its port is up), so a refusal is final only after [`GRACE`].
pub(super) fn join(
    config: &Config,
    plan: &RegionPlan,
    region: BorrowedFd<'_>,
    deadline: Deadline<'_>,
) -> Result<Joined, Error> {
    let mut refused: Option<(Deadline<'_>, Error)> = None;
    loop {
        let channel = match dial(config, deadline) {
            Ok(channel) => channel,
            Err(error) => return Err(last_word(refused, error)),
        };
        let refusal = match introduce(&channel, config, deadline) {
            Ok(Introduction::Welcome(hello)) => {
                return announce(channel, config, &hello, plan, region, deadline);
            }
            Ok(Introduction::Refused(error)) => error,
            Err(error) => return Err(last_word(refused, error)),
        };
        let grace = || Deadline::after(GRACE, deadline.patience);
        let grace = refused.map_or_else(grace, |(grace, _)| grace);
        if grace.passed() || deadline.passed() {
            return Err(refusal);
        }
        refused = Some((grace, refusal));
        std::thread::sleep(RETRY);
    }
}

/// A refusal says more than a deadline that passed after it.
fn last_word(refused: Option<(Deadline<'_>, Error)>, error: Error) -> Error {
    match (refused, error) {
        (Some((_, refusal)), Error::Deadline { .. }) => refusal,
        (_, error) => error,
    }
}

/// Connects to the server's socket, waiting for it to appear.
fn dial(config: &Config, deadline: Deadline<'_>) -> Result<Channel, Error> {
    loop {
        let error = match Socket::connect(&config.address) {
            Ok(socket) => return Ok(Channel::new(socket, &config.nic)),
            Err(error) => error,
        };
        let not_yet = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock
        );
        if !not_yet {
            return Err(Error::System {
                nic: config.nic.clone(),
                action: "connecting to the socket".to_owned(),
                source: error,
                cure: "see that the path is a socket that you may use".to_owned(),
            });
        }
        let action = || format!("connecting to the socket ({error})");
        deadline.patience.check(&config.nic, action)?;
        if deadline.passed() {
            let action = action();
            return Err(deadline.error(
                &config.nic,
                action,
                "start the server first, or write role=server",
            ));
        }
        let left = deadline.at.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(RETRY));
    }
}

/// Says who we are and which interface we want.
pub(super) fn introduce(
    channel: &Channel,
    config: &Config,
    deadline: Deadline<'_>,
) -> Result<Introduction, Error> {
    let hello = match channel.receive(deadline, "hello")? {
        (Message::Hello(hello), _) => hello,
        (other, _) => return Err(channel.unexpected(&other, "hello")),
    };
    agree(channel, config, &hello)?;
    let init = Message::Init(Init {
        version: VERSION,
        id: config.id,
        mode: MODE_ETHERNET,
        secret: config.secret.0.0,
        name: config.name,
    });
    channel.send(&init, None)?;
    let awaited = "the acknowledgement of init";
    match channel.receive_any(deadline, awaited)? {
        (Message::Ack, _) => Ok(Introduction::Welcome(hello)),
        (Message::Disconnect { code, reason }, _) => {
            let error = channel.dismissed(code, &reason, awaited);
            Ok(Introduction::Refused(error))
        }
        (other, _) => Err(channel.unexpected(&other, awaited)),
    }
}

/// Hands region and rings over.
pub(super) fn announce(
    channel: Channel,
    config: &Config,
    hello: &Hello,
    plan: &RegionPlan,
    region: BorrowedFd<'_>,
    deadline: Deadline<'_>,
) -> Result<Joined, Error> {
    let region_message = Message::AddRegion {
        index: 0,
        size: plan.bytes(),
    };
    tell(&channel, &region_message, Some(region), deadline)?;
    let to_server = add_rings(&channel, plan, RingKind::ClientToServer, deadline)?;
    add_rings(&channel, plan, RingKind::ServerToClient, deadline)?;
    channel.send(&Message::Connect { name: config.name }, None)?;
    match channel.receive(deadline, "connected")? {
        (Message::Connected { name }, _) => Ok(Joined {
            channel,
            peer: format!("{} ({name})", hello.name),
            to_server,
        }),
        (other, _) => Err(channel.unexpected(&other, "connected")),
    }
}

/// Refuses by name what the server does not offer.
fn agree(channel: &Channel, config: &Config, hello: &Hello) -> Result<(), Error> {
    if !(hello.min_version..=hello.max_version).contains(&VERSION) {
        return Err(channel.peer(format!(
            "speaks memif {:#06x} to {:#06x}, we speak {VERSION:#06x}",
            hello.min_version, hello.max_version
        )));
    }
    let most = hello.max_ring_to_server.min(hello.max_ring_to_client);
    if config.queues > u32::from(most) + 1 {
        return Err(channel.peer(format!(
            "takes {} queues at most; write queues={}",
            u32::from(most) + 1,
            u32::from(most) + 1
        )));
    }
    let log2_depth = config.depth.trailing_zeros();
    if log2_depth > u32::from(hello.max_log2_depth) {
        return Err(channel.peer(format!(
            "takes rings of 2^{} slots at most; write a smaller depth",
            hello.max_log2_depth
        )));
    }
    Ok(())
}

fn add_rings(
    channel: &Channel,
    plan: &RegionPlan,
    kind: RingKind,
    deadline: Deadline<'_>,
) -> Result<Vec<File>, Error> {
    let count = match kind {
        RingKind::ClientToServer => plan.to_server,
        RingKind::ServerToClient => plan.to_client,
    };
    (0..count)
        .map(|index| {
            let event = system::eventfd().map_err(|source| Error::System {
                nic: channel.nic().to_owned(),
                action: "making an eventfd".to_owned(),
                source,
                cure: "raise the limit of open files (ulimit -n)".to_owned(),
            })?;
            let ring = Message::AddRing(AddRing {
                to_server: kind == RingKind::ClientToServer,
                index: index as u16,
                region: 0,
                offset: plan.ring_offset(kind, index) as u32,
                log2_depth: plan.depth.trailing_zeros() as u8,
                private_header: 0,
            });
            tell(channel, &ring, Some(event.as_fd()), deadline)?;
            Ok(event)
        })
        .collect()
}

/// Sends a message and waits for its acknowledgement.
fn tell(
    channel: &Channel,
    message: &Message,
    file: Option<BorrowedFd<'_>>,
    deadline: Deadline<'_>,
) -> Result<(), Error> {
    channel.send(message, file)?;
    let awaited = format!("the acknowledgement of {}", message.name());
    match channel.receive(deadline, &awaited)? {
        (Message::Ack, _) => Ok(()),
        (other, _) => Err(channel.unexpected(&other, &awaited)),
    }
}

/// Between two tries.
const RETRY: Duration = Duration::from_millis(10);

/// How long a server may take to come up behind its socket.
const GRACE: Duration = Duration::from_secs(3);
