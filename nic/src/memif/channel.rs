//! The control channel: messages in turn, each wait with a deadline, each failure with a name.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::memif::message::{Message, Text};
use crate::memif::system::Socket;
use crate::patience::Patience;

/// A connected control channel.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Socket,
    nic: String,
}

/// Until when a step may take, and how long that was in all, for the error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline<'a> {
    pub(super) at: Instant,
    pub(super) limit: Duration,
    /// Of whoever waits: may end before.
    pub(super) patience: Patience<'a>,
}

impl<'a> Deadline<'a> {
    pub(super) fn after(limit: Duration, patience: Patience<'a>) -> Self {
        Self {
            at: Instant::now() + limit,
            limit,
            patience,
        }
    }

    pub(super) fn passed(&self) -> bool {
        Instant::now() >= self.at
    }

    /// The error of a wait that ended here.
    pub(super) fn error(&self, nic: &str, action: String, cure: &str) -> Error {
        Error::Deadline {
            nic: nic.to_owned(),
            action,
            limit_ms: self.limit.as_millis() as u64,
            cure: cure.to_owned(),
        }
    }
}

/// A message and the descriptor that came with it.
pub(super) type Received = (Message, Option<OwnedFd>);

impl Channel {
    pub(super) fn new(socket: Socket, nic: &str) -> Self {
        let nic = nic.to_owned();
        Self { socket, nic }
    }

    /// Sends a message, with a descriptor if it carries one.
    pub(super) fn send(
        &self,
        message: &Message,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<(), Error> {
        // A channel holds a message or two at a time: one that takes no more is no peer.
        match self.socket.send(&message.emit(), file) {
            Ok(()) => Ok(()),
            Err(error) if is_gone(&error) => Err(self.peer(format!(
                "closed the control channel before our {} message",
                message.name()
            ))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(self.peer("does not read its control channel".to_owned()))
            }
            Err(source) => Err(self.system("sending a control message", source)),
        }
    }

    /// Waits for the next message. `awaited` says for what, for the error. A `Disconnect` comes
    /// back as an error.
    pub(super) fn receive(&self, deadline: Deadline<'_>, awaited: &str) -> Result<Received, Error> {
        match self.receive_any(deadline, awaited)? {
            (Message::Disconnect { code, reason }, _) => {
                Err(self.dismissed(code, &reason, awaited))
            }
            received => Ok(received),
        }
    }

    /// Waits for the next message, a `Disconnect` included.
    pub(super) fn receive_any(
        &self,
        deadline: Deadline<'_>,
        awaited: &str,
    ) -> Result<Received, Error> {
        loop {
            if let Some(received) = self.poll(awaited)? {
                return Ok(received);
            }
            let patience = deadline.patience;
            patience.check(&self.nic, || format!("waiting for {awaited}"))?;
            let ready = self
                .socket
                .wait(patience.step(deadline.at))
                .map_err(|source| self.system("waiting for a control message", source))?;
            if !ready && deadline.passed() {
                let cure = "see whether the peer still runs";
                return Err(deadline.error(&self.nic, format!("waiting for {awaited}"), cure));
            }
        }
    }

    /// Takes the next message if one is there. Does not wait.
    pub(super) fn poll(&self, awaited: &str) -> Result<Option<Received>, Error> {
        let packet = match self.socket.receive() {
            Ok(Some(packet)) => packet,
            Ok(None) => return Err(self.closed(awaited)),
            Err(error) if is_gone(&error) => return Err(self.closed(awaited)),
            Err(error) if is_for_later(&error) => return Ok(None),
            Err(source) => return Err(self.system("reading a control message", source)),
        };
        if packet.cut {
            return Err(self.peer("sent a control message that is too long".to_owned()));
        }
        let message =
            Message::parse(&packet.bytes).map_err(|error| self.peer(format!("sent {error}")))?;
        let mut files = packet.files.into_iter();
        let file = files.next();
        if files.next().is_some() {
            return Err(self.peer(format!(
                "sent several descriptors with its {} message",
                message.name()
            )));
        }
        Ok(Some((message, file)))
    }

    /// The error that says with what words the peer sent us away.
    pub(super) fn dismissed(&self, code: u32, reason: &Text<96>, awaited: &str) -> Error {
        self.peer(format!(
            "disconnected while we waited for {awaited}: {reason} (code {code})"
        ))
    }

    /// Tells the peer why we leave. It may be gone already.
    pub(super) fn disconnect(&self, reason: &str) {
        let message = Message::Disconnect {
            code: 0,
            reason: Text::new(reason),
        };
        let _ = self.send(&message, None);
    }

    /// The NIC, for errors.
    pub(super) fn nic(&self) -> &str {
        &self.nic
    }

    /// An error that blames the peer.
    pub(super) fn peer(&self, problem: String) -> Error {
        Error::Peer {
            nic: self.nic.clone(),
            problem,
        }
    }

    /// The error for a message that came out of turn.
    pub(super) fn unexpected(&self, got: &Message, awaited: &str) -> Error {
        self.peer(format!("sent {} where {awaited} was due", got.name()))
    }

    fn closed(&self, awaited: &str) -> Error {
        self.peer(format!(
            "closed the control channel while we waited for {awaited}"
        ))
    }

    fn system(&self, action: &str, source: io::Error) -> Error {
        Error::System {
            nic: self.nic.clone(),
            action: action.to_owned(),
            source,
            cure: "see the system's message".to_owned(),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
