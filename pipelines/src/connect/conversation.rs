//! A TCP connection with a deadline.

use super::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What carries the words of two ends, both ways, in order: a [`Conversation`] by TCP, or a queue
/// pair's messages.
pub trait Channel {
    /// Who is at the other end.
    fn peer(&self) -> &str;

    /// Sends bytes; `step` says what for.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`].
    fn send(&mut self, step: &'static str, bytes: &[u8]) -> Result<(), Error>;

    /// Receives as many bytes as there is room for.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`].
    fn receive(&mut self, step: &'static str, room: &mut [u8]) -> Result<(), Error>;

    /// What follows has this much time, from now on.
    fn extend(&mut self, limit: Duration);

    /// Receives an array.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`].
    fn receive_array<const N: usize>(&mut self, step: &'static str) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.receive(step, &mut bytes)?;
        Ok(bytes)
    }

    /// An error about a field of the peer.
    fn wrong(&self, field: &'static str, problem: impl Into<String>) -> Error {
        Error::Field {
            peer: self.peer().to_owned(),
            field,
            problem: problem.into(),
        }
    }
}

/// A port where a client may dial.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes a port of this host, `address` as in `[::]:18515`. Port 0 is any.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn bind(address: &str) -> Result<Self, Error> {
        let failed = |source| Error::Address {
            address: address.to_owned(),
            source,
        };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Where clients dial.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a client; the conversation has `limit` for each span, see [`Conversation`].
    ///
    /// # Errors
    /// [`Error::NoClient`] when none comes within `wait`, [`Error::Address`].
    pub fn accept(&self, wait: Duration, limit: Duration) -> Result<Conversation, Error> {
        let deadline = Instant::now() + wait;
        loop {
            match self.socket.accept() {
                Ok((stream, peer)) => {
                    let accepted = stream.set_nonblocking(false);
                    let failed = |source| Error::Address {
                        address: peer.to_string(),
                        source,
                    };
                    accepted.map_err(failed)?;
                    return Conversation::new(stream, peer.to_string(), limit);
                }
                Err(error) if is_passing(&error) && Instant::now() < deadline => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) if is_passing(&error) => {
                    return Err(Error::NoClient {
                        address: self.address,
                        waited: wait,
                    });
                }
                Err(source) => {
                    return Err(Error::Address {
                        address: self.address.to_string(),
                        source,
                    });
                }
            }
        }
    }
}

/// A TCP connection whose steps together have a span of time; [`Channel::extend`] begins the
/// next span.
pub struct Conversation {
    stream: TcpStream,
    peer: String,
    limit: Duration,
    deadline: Instant,
    meanwhile: Option<Meanwhile>,
}

/// What a thread does while it waits for a peer's words.
pub type Meanwhile = Arc<dyn Fn() + Send + Sync>;

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("peer", &self.peer)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Conversation {
    /// Dials a server, `address` as in `node2:18515`, again and again until it listens or `limit`
    /// is over.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::Unreachable`].
    pub fn dial(address: &str, limit: Duration) -> Result<Self, Error> {
        let deadline = Instant::now() + limit;
        let resolved = address.to_socket_addrs().map_err(|source| Error::Address {
            address: address.to_owned(),
            source,
        })?;
        let targets: Vec<SocketAddr> = resolved.collect();
        let mut last = std::io::Error::from(ErrorKind::AddrNotAvailable);
        loop {
            for target in &targets {
                let left = deadline.saturating_duration_since(Instant::now());
                match TcpStream::connect_timeout(target, left.max(PAUSE)) {
                    Ok(stream) => return Self::new(stream, address.to_owned(), limit),
                    Err(error) => last = error,
                }
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(Error::Unreachable {
                    address: address.to_owned(),
                    waited: limit,
                    source: last,
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Dials a server once.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub fn dial_once(address: SocketAddr, limit: Duration) -> Result<Self, Error> {
        match TcpStream::connect_timeout(&address, limit.max(PAUSE)) {
            Ok(stream) => Self::new(stream, address.to_string(), limit),
            Err(source) => Err(Error::Unreachable {
                address: address.to_string(),
                waited: limit,
                source,
            }),
        }
    }

    fn new(stream: TcpStream, peer: String, limit: Duration) -> Result<Self, Error> {
        stream.set_nodelay(true).map_err(|source| Error::Address {
            address: peer.clone(),
            source,
        })?;
        Ok(Self {
            stream,
            peer,
            limit,
            deadline: Instant::now() + limit,
            meanwhile: None,
        })
    }

    /// Does this again and again, instead of sleeping, while it waits for the peer's words.
    pub fn meanwhile(&mut self, work: Meanwhile) {
        self.meanwhile = Some(work);
    }

    /// Reads what is there, and waits for it no longer than `left`.
    fn read(&mut self, rest: &mut [u8], left: Duration) -> std::io::Result<usize> {
        let Some(work) = &self.meanwhile else {
            self.stream.set_read_timeout(Some(left))?;
            return self.stream.read(rest);
        };
        self.stream.set_nonblocking(true)?;
        let read = self.stream.read(rest);
        self.stream.set_nonblocking(false)?;
        if read.as_ref().is_err_and(is_passing) {
            (0..ROUNDS).for_each(|_| work());
        }
        read
    }

    /// Both ends: ours, then the peer's.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn ends(&self) -> Result<[SocketAddr; 2], Error> {
        let ends = (self.stream.local_addr(), self.stream.peer_addr());
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        match ends {
            (Ok(own), Ok(peer)) => Ok([own, peer].map(canonical)),
            (Err(source), _) | (_, Err(source)) => Err(self.broken("both ends", source)),
        }
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_address(&self) -> std::net::IpAddr {
        let address = self.stream.peer_addr();
        let unspecified = std::net::Ipv4Addr::UNSPECIFIED.into();
        address.map_or(unspecified, |address| address.ip().to_canonical())
    }

    /// Receives a line, without its end; of at most `most` bytes.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`] for one that is longer, or no text.
    pub fn receive_line(&mut self, step: &'static str, most: usize) -> Result<String, Error> {
        let mut line = Vec::new();
        loop {
            let [byte] = self.receive_array(step)?;
            if byte == b'\n' {
                break;
            }
            if line.len() == most {
                return Err(self.wrong(step, format!("a line of more than {most} bytes")));
            }
            line.push(byte);
        }
        String::from_utf8(line)
            .map_err(|error| self.wrong(step, format!("no text: {}", error.utf8_error())))
    }

    fn left(&self, step: &'static str) -> Result<Duration, Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Late {
                peer: self.peer.clone(),
                step,
                waited: self.limit,
            });
        }
        Ok(left)
    }

    fn broken(&self, step: &'static str, source: std::io::Error) -> Error {
        Error::Broken {
            peer: self.peer.clone(),
            step,
            source,
        }
    }
}

impl Channel for Conversation {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn extend(&mut self, limit: Duration) {
        self.limit = limit;
        self.deadline = Instant::now() + limit;
    }

    fn send(&mut self, step: &'static str, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let left = self.left(step)?;
            let written = self
                .stream
                .set_write_timeout(Some(left))
                .and_then(|()| self.stream.write(rest));
            match written {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {}
                Err(source) => return Err(self.broken(step, source)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, step: &'static str, room: &mut [u8]) -> Result<(), Error> {
        let mut filled = 0;
        while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let left = self.left(step)?;
            match self.read(rest, left) {
                Ok(0) => {
                    let source = std::io::Error::from(ErrorKind::UnexpectedEof);
                    return Err(self.broken(step, source));
                }
                Ok(count) => filled += count,
                Err(error) if is_passing(&error) => {}
                Err(source) => return Err(self.broken(step, source)),
            }
        }
        Ok(())
    }
}

/// Whether to try again.
fn is_passing(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// How often something is done between two looks at the socket: those take some microseconds.
const ROUNDS: u32 = 256;

const PAUSE: Duration = Duration::from_millis(20);
