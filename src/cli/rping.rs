//! `warpwire rping`: the dialogue of Linux's rping, with it or another warpwire at the other end.
//!
//! The client says where its text lies; the server reads it and says so. Then the client says where
//! it wants it, and the server writes it there and says so.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpwire_pipelines::connect::Error as ConnectError;
use warpwire_pipelines::connect::cm::{Connection, Listener, Manager, Offer};
use warpwire_pipelines::messaging::{
    self, Completed, Device, DeviceConfig, EndpointConfig, Pair, PairConfig, Work,
};
use warpwire_protocols::cm::Cause;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::chance::chance;
use super::perftest::LONGEST_PATIENCE;
use super::signals::Heed;
use super::{Failure, capture, say};

/// Read and write a text to and fro over a connection by RDMA-CM, as rping does
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("side").required(true))]
pub(super) struct Arguments {
    /// Wait for a client
    #[arg(short, long, group = "side")]
    server: bool,
    /// Go to a server
    #[arg(short, long, group = "side", requires = "address")]
    client: bool,
    /// The server's address; the server itself takes its only one if absent
    #[arg(short, long)]
    address: Option<String>,
    /// Port of RDMA-CM
    #[arg(
        short, long, default_value_t = 7174, value_parser = clap::value_parser!(u16).range(1..)
    )]
    port: u16,
    /// Texts to send; for ever if absent
    #[arg(short = 'C', long, value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Bytes of a text
    #[arg(
        short = 'S', long, default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(LEAST..=MOST)
    )]
    size: u32,
    /// Print each text
    #[arg(short, long)]
    verbose: bool,
    /// Compare what comes back
    #[arg(short = 'V', long)]
    validate: bool,
    /// Print each step
    #[arg(short, long)]
    debug: bool,
    /// The server goes on after its client has left
    #[arg(short = 'P', long)]
    persistent: bool,
    /// The NIC, such as xdp:eth0; without it, AF_XDP on the interface of the address
    #[arg(long = "nic", value_name = "NIC")]
    nic: Option<String>,
    /// Write all that is sent to this pcapng file, each packet with its operation in words
    #[arg(long, value_name = "FILE")]
    capture: Option<std::path::PathBuf>,
    /// Longest time without progress, in seconds
    #[arg(
        long, default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_PATIENCE)
    )]
    patience: u64,
}

const LEAST: i64 = 23;
const MOST: i64 = 65535;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let heed = Heed::begin()?;
    let stop = heed.flag();
    messaging::check(arguments.nic.as_deref())?;
    capture::check(arguments.capture.as_deref())?;
    let config = DeviceConfig {
        fused: false,
        capture: arguments.capture.clone(),
        nic: arguments.nic.clone(),
        bytes: (TEXT + 2 * PART) as usize,
        memory: Vec::new(),
        endpoint: EndpointConfig {
            pairs: 2,
            management: true,
            log_send: 5,
            log_receive: 5,
            // A peer may remember numbers of who was here before.
            first_number: 0x0800 | chance() as u32 & 0x00ff_f000,
            ..EndpointConfig::default()
        },
        patience: Duration::from_secs(arguments.patience),
        chance: chance(),
    };
    let address = arguments.address.as_deref();
    if arguments.client {
        // Nothing is there yet that would have to end well.
        heed.end();
        let server = resolve(address.unwrap_or_default(), arguments.port)?;
        let mut device = Device::open(server.ip(), &config)?;
        let outcome = ask(arguments, &device, server, &heed);
        return capture::end(&mut device, outcome);
    }
    let own = address.map(|address| resolve(address, arguments.port));
    let own: Option<IpAddr> = own.transpose()?.map(|own| own.ip());
    let mut device = Device::at(own, &config)?;
    let outcome = serve(arguments, &device, &stop);
    capture::end(&mut device, outcome)
}

/// An address by its name.
fn resolve(name: &str, port: u16) -> Result<SocketAddr, Failure> {
    let unknown = |problem: String| Failure::Rping(format!("-a {name}: {problem}"));
    let addresses = (name, port).to_socket_addrs();
    let mut addresses = addresses.map_err(|error| unknown(error.to_string()))?;
    let address = addresses.next();
    address.ok_or_else(|| unknown("has no address".to_owned()))
}

/// Client and server alike ask for one read at a time.
fn offer() -> Offer {
    Offer {
        reads: 1,
        reads_served: 1,
        ..Offer::default()
    }
}

/// The client.
fn ask(
    arguments: &Arguments,
    device: &Device,
    server: SocketAddr,
    heed: &Heed,
) -> Result<(), Failure> {
    let stop = &heed.flag();
    let patience = Duration::from_secs(arguments.patience);
    let manager = Manager::start(device)?;
    let mut dialogue = Dialogue::new(arguments, device, stop)?;
    let connection = manager.connect(device, &mut dialogue.pair, server, &offer(), patience)?;
    heed.go_on();
    dialogue.debug("connected");
    dialogue.connection = Some(connection);
    let mut number = 0;
    while arguments.count.is_none_or(|count| number < count) && !stop.load(Ordering::Relaxed) {
        if !dialogue.ping(number)? {
            break;
        }
        number = number.wrapping_add(1);
    }
    dialogue.leave()?;
    match arguments.count {
        Some(count) if number < count => Err(Failure::Rping(format!(
            "interrupted after {number} of {count} texts"
        ))),
        _ => Ok(()),
    }
}

/// The server: one client after the other.
fn serve(arguments: &Arguments, device: &Device, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let manager = Manager::start(device)?;
    let listener = manager.listen(arguments.port)?;
    let (address, port) = (device.address(), arguments.port);
    eprintln!("waiting for a client at {address}, port {port}");
    let mut dialogue = Dialogue::new(arguments, device, stop)?;
    loop {
        let is_there = match dialogue.welcome(&listener) {
            // Who asked is gone; others may come.
            Err(failure) if arguments.persistent && is_of_client(&failure) => {
                super::complain(&failure);
                dialogue.pair.reset()?;
                dialogue.fill()?;
                continue;
            }
            outcome => outcome?,
        };
        if !is_there {
            // Who serves one client after the other is ended by a signal.
            return match arguments.persistent {
                true => Ok(()),
                false => Err(Failure::Interrupted),
            };
        }
        let outcome = dialogue.echo();
        dialogue.connection = None;
        if !arguments.persistent {
            return outcome;
        }
        if let Err(failure) = outcome {
            super::complain(&failure);
        }
        dialogue.pair.reset()?;
        dialogue.fill()?;
    }
}

/// Whether it is a client that failed, and not what all clients need.
const fn is_of_client(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Connect(
            ConnectError::Ended { .. } | ConnectError::Late { .. } | ConnectError::Field { .. }
        )
    )
}

/// A connection, and what goes over it.
struct Dialogue<'a> {
    arguments: &'a Arguments,
    device: &'a Device,
    stop: &'a AtomicBool,
    pair: Pair,
    connection: Option<Connection>,
    /// Where each receive lies, by the lower bits of its number.
    slots: [u64; RECEIVES as usize],
    /// What the peer told and nobody asked for yet.
    adverts: VecDeque<Advert>,
    /// Requests that are done.
    sent: u32,
    cause: Option<Cause>,
}

/// Where a text lies, or is wanted.
#[derive(Clone, Copy)]
struct Advert {
    address: u64,
    key: u32,
    length: u32,
}

impl Advert {
    fn to_bytes(self) -> [u8; ADVERT as usize] {
        let mut bytes = [0; ADVERT as usize];
        let all = self.address.to_be_bytes().into_iter();
        let all = all
            .chain(self.key.to_be_bytes())
            .chain(self.length.to_be_bytes());
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    fn of_bytes(bytes: [u8; ADVERT as usize]) -> Self {
        let number = |at: usize, count: usize| {
            let bytes = bytes.iter().skip(at).take(count);
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        Self {
            address: number(0, 8),
            key: number(8, 4) as u32,
            length: number(12, 4) as u32,
        }
    }
}

impl<'a> Dialogue<'a> {
    fn new(
        arguments: &'a Arguments,
        device: &'a Device,
        stop: &'a Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let mut dialogue = Self {
            arguments,
            device,
            stop,
            pair: device.endpoint().pair(PairConfig::default())?,
            connection: None,
            slots: [0; RECEIVES as usize],
            adverts: VecDeque::new(),
            sent: 0,
            cause: None,
        };
        dialogue.fill()?;
        Ok(dialogue)
    }

    fn debug(&self, words: &str) {
        if self.arguments.debug {
            eprintln!("{words}");
        }
    }

    /// Posts all receives.
    fn fill(&mut self) -> Result<(), Failure> {
        self.adverts.clear();
        self.sent = 0;
        self.cause = None;
        for slot in 0..RECEIVES {
            self.post(slot)?;
        }
        Ok(())
    }

    fn post(&mut self, slot: u64) -> Result<(), Failure> {
        let piece = self.piece(slot * ADVERT, ADVERT as u32);
        // Numbers go on over one connection after the other.
        let index = self.pair.receive(&[piece])?;
        if let Some(place) = self.slots.get_mut((index % RECEIVES) as usize) {
            *place = slot;
        }
        Ok(())
    }

    fn piece(&self, at: u64, length: u32) -> Gather {
        self.device.region().gather(at, length)
    }

    /// Takes the next client. False if we are told to end.
    fn welcome(&mut self, listener: &Listener) -> Result<bool, Failure> {
        let patience = Duration::from_secs(self.arguments.patience);
        while !self.stop.load(Ordering::Relaxed) {
            match listener.accept(LOOK) {
                Ok(call) => {
                    self.debug("a client asks");
                    let connection =
                        call.accept(self.device, &mut self.pair, &offer(), patience)?;
                    self.debug(&format!("connected to {}", connection.peer()));
                    self.connection = Some(connection);
                    return Ok(true);
                }
                Err(ConnectError::NoCall { .. }) => self.device.look()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Takes completions until `is_enough` says so. False if the peer left before.
    fn until(&mut self, what: &str, is_enough: impl Fn(&Self) -> bool) -> Result<bool, Failure> {
        let deadline = Instant::now() + Duration::from_secs(self.arguments.patience);
        while !is_enough(self) {
            match self.pair.poll() {
                Some(Completed::Sent { .. }) => self.sent += 1,
                Some(Completed::Received(message)) => self.hear(message.index, message.length)?,
                Some(
                    Completed::SendFailed { cause, .. } | Completed::ReceiveFailed { cause, .. },
                ) => {
                    return Err(Failure::Rping(format!(
                        "{what}: {cause}; does the peer still run?"
                    )));
                }
                None if self.has_left() => return Ok(false),
                None if Instant::now() >= deadline => {
                    let seconds = self.arguments.patience;
                    return Err(Failure::Rping(format!(
                        "{what}: nothing within {seconds} s; does the peer run, and is it rping?"
                    )));
                }
                None => std::thread::yield_now(),
            }
        }
        Ok(true)
    }

    /// Whether the connection is over, or is to be.
    fn has_left(&mut self) -> bool {
        self.cause = self.connection.as_mut().and_then(Connection::ended);
        self.cause.is_some() || self.stop.load(Ordering::Relaxed)
    }

    fn hear(&mut self, index: u64, length: u32) -> Result<(), Failure> {
        if u64::from(length) != ADVERT {
            let problem = format!("the peer said {length} bytes, not {ADVERT}; is it rping?");
            return Err(Failure::Rping(problem));
        }
        let slot = self.slots.get((index % RECEIVES) as usize);
        let slot = slot.copied().unwrap_or_default();
        let mut bytes = [0; ADVERT as usize];
        self.device.read(slot * ADVERT, &mut bytes)?;
        self.adverts.push_back(Advert::of_bytes(bytes));
        self.post(slot)
    }

    /// What the peer tells next; nothing if it left instead.
    fn advert(&mut self, what: &str) -> Result<Option<Advert>, Failure> {
        self.until(what, |dialogue| !dialogue.adverts.is_empty())?;
        Ok(self.adverts.pop_front())
    }

    /// Posts a request and waits for it. False if the peer left before.
    fn carry_out(&mut self, what: &str, work: &Work<'_>) -> Result<bool, Failure> {
        self.debug(what);
        let wanted = self.sent + 1;
        self.pair.post(std::slice::from_ref(work))?;
        self.until(what, |dialogue| dialogue.sent == wanted)
    }

    /// Tells the peer where a part of our memory lies.
    fn tell(&mut self, what: &str, at: u64, length: u32) -> Result<bool, Failure> {
        let piece = self.piece(at, length);
        let advert = Advert {
            address: piece.address,
            key: piece.key,
            length,
        };
        let bytes = advert.to_bytes();
        let work = Work {
            order: Order::new(Opcode::SEND),
            payload: Payload::Inline(&bytes),
        };
        self.carry_out(what, &work)
    }

    /// The client's part: a text goes there and back. False if we are told to end before.
    fn ping(&mut self, number: u32) -> Result<bool, Failure> {
        let size = self.arguments.size;
        let text = text(number, size);
        self.device.write(TEXT, &text)?;
        self.device.write(TEXT + PART, &vec![0; size as usize])?;
        for (what, at) in [
            ("where the text lies", TEXT),
            ("where it is wanted", TEXT + PART),
        ] {
            self.tell(what, at, size)?;
            if self.advert("the server's answer")?.is_none() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let cause = self.cause.map_or(String::new(), |cause| cause.to_string());
                return Err(Failure::Rping(format!(
                    "text {number}: {cause}; does the server still run?"
                )));
            }
        }
        let mut back = vec![0; size as usize];
        self.device.read(TEXT + PART, &mut back)?;
        if self.arguments.validate && back != text {
            let at = back.iter().zip(&text).position(|(back, sent)| back != sent);
            let at = at.unwrap_or_default();
            return Err(Failure::Rping(format!(
                "data mismatch! text {number}, byte {at}"
            )));
        }
        if self.arguments.verbose {
            say(format_args!("ping data: {}", printable(&back)))?;
        }
        Ok(true)
    }

    /// The server's part, until the client leaves.
    fn echo(&mut self) -> Result<(), Failure> {
        while let Some(source) = self.advert("the client's next text")? {
            if u64::from(source.length) > PART {
                let problem = format!("a text of {} bytes is longer than {PART}", source.length);
                return Err(Failure::Rping(problem));
            }
            if !self.fetch(&source)? || !self.tell("read", TEXT, source.length)? {
                break;
            }
            let Some(target) = self.advert("where the client wants it")? else {
                break;
            };
            if !self.give(&target)? || !self.tell("written", TEXT, target.length)? {
                break;
            }
        }
        if self.cause.is_some() {
            eprintln!("server DISCONNECT EVENT...");
        }
        Ok(())
    }

    /// Reads the client's text.
    fn fetch(&mut self, source: &Advert) -> Result<bool, Failure> {
        let piece = [self.piece(TEXT, source.length)];
        let work = Work {
            order: Order {
                address: source.address,
                key: source.key,
                ..Order::new(Opcode::READ)
            },
            payload: Payload::Pieces(if source.length == 0 { &[] } else { &piece }),
        };
        let is_read = self.carry_out("read the text", &work)?;
        if is_read && self.arguments.verbose {
            let mut bytes = vec![0; source.length as usize];
            self.device.read(TEXT, &mut bytes)?;
            say(format_args!("server ping data: {}", printable(&bytes)))?;
        }
        Ok(is_read)
    }

    /// Writes it back: as rping does, up to the zero that ends it.
    fn give(&mut self, target: &Advert) -> Result<bool, Failure> {
        let mut bytes = vec![0; target.length.min(PART as u32) as usize];
        self.device.read(TEXT, &mut bytes)?;
        let length = bytes.iter().position(|byte| *byte == 0);
        let length = length.map_or(bytes.len(), |end| end + 1) as u32;
        let piece = [self.piece(TEXT, length)];
        let work = Work {
            order: Order {
                address: target.address,
                key: target.key,
                ..Order::new(Opcode::WRITE)
            },
            payload: Payload::Pieces(if length == 0 { &[] } else { &piece }),
        };
        self.carry_out("write it back", &work)
    }

    fn leave(&mut self) -> Result<(), Failure> {
        if let Some(connection) = self.connection.take() {
            connection.disconnect(Duration::from_secs(self.arguments.patience))?;
            eprintln!("client DISCONNECT EVENT...");
        }
        Ok(())
    }
}

/// The text of a ping, as rping makes it: its number, then letters, then a zero.
fn text(number: u32, size: u32) -> Vec<u8> {
    let first = 65 + (number % 58) as u8;
    let letters = (65..=122u8).cycle().skip(usize::from(first - 65));
    let mut bytes = format!("rdma-ping-{number}: ").into_bytes();
    bytes.extend(letters.take(size as usize));
    bytes.truncate(size as usize);
    if let Some(last) = bytes.last_mut() {
        *last = 0;
    }
    bytes
}

/// Text up to the zero that ends it.
fn printable(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
    String::from_utf8_lossy(text).into_owned()
}

/// Bytes by which an end tells where a text lies.
const ADVERT: u64 = 16;
/// Receives that are posted.
const RECEIVES: u64 = 4;
/// Where texts lie in the device's memory, and how much room each has.
const TEXT: u64 = 4096;
const PART: u64 = 65536;
/// How often a waiting server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_rping() {
        let first = text(0, 64);
        assert!(first.starts_with(b"rdma-ping-0: ABCDEFGHIJ"));
        assert_eq!((first.len(), first.last()), (64, Some(&0)));
        assert!(text(1, 64).starts_with(b"rdma-ping-1: BCDEFGHIJK"));
        // From z on it begins again at A.
        assert!(text(57, 64).starts_with(b"rdma-ping-57: zABC"));
        assert!(text(58, 64).starts_with(b"rdma-ping-58: ABC"));
        assert_eq!(printable(&text(3, 30)), "rdma-ping-3: DEFGHIJKLMNOPQRS");
        assert_eq!(printable(b"no end"), "no end");
        assert_eq!(text(u32::MAX, LEAST as u32).len(), LEAST as usize);
    }

    #[test]
    fn adverts_come_back() {
        let advert = Advert {
            address: 0x0123_4567_89ab_cdef,
            key: 0x1eea,
            length: 64,
        };
        let bytes = advert.to_bytes();
        assert_eq!(bytes[8..], [0, 0, 0x1e, 0xea, 0, 0, 0, 64]);
        let back = Advert::of_bytes(bytes);
        assert_eq!(
            (back.address, back.key, back.length),
            (advert.address, 0x1eea, 64)
        );
    }
}
