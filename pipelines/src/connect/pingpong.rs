//! The language of `ibv_rc_pingpong`, `ibv_uc_pingpong`, `ibv_ud_pingpong` and `ibv_srq_pingpong`
//! (rdma-core 44).
//!
//! The client says who it is, the server answers so, each in 52 bytes: local identifier, queue
//! pair, sequence number and GID in hexadecimal, a zero behind. The server's queue pair is ready
//! when it answers, and the client says `done` when its own is. `ibv_srq_pingpong` says as many as
//! it has queue pairs.

use super::{Channel, Conversation, Error};
use std::fmt;
use warpwire_protocols::wire::{Gid, Psn, Qpn};

/// The port that the programs use unless told otherwise.
pub const PORT: u16 = 18515;

/// A queue pair, as the programs say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Local identifier: 0 on RoCE.
    pub lid: u16,
    /// The queue pair.
    pub qp: Qpn,
    /// The sequence number of its first packet.
    pub psn: Psn,
    /// Its address.
    pub gid: Gid,
}

/// Bytes of a destination.
const LENGTH: usize = 52;

impl Destination {
    /// The bytes on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let text = format!(
            "{:04x}:{:06x}:{:06x}:{:032x}",
            self.lid,
            self.qp.value(),
            self.psn.value(),
            u128::from_be_bytes(self.gid.0)
        );
        bytes
            .iter_mut()
            .zip(text.bytes())
            .for_each(|(to, from)| *to = from);
        bytes
    }

    fn parse(conversation: &Conversation, bytes: &[u8; LENGTH]) -> Result<Self, Error> {
        let text = text(conversation, bytes)?;
        let mut fields = Fields::new(conversation, &text);
        let destination = Self {
            lid: fields.next("LID", 4)? as u16,
            qp: Qpn::new(fields.next("QPN", 6)? as u32),
            psn: Psn::new(fields.next("PSN", 6)? as u32),
            gid: Gid(fields.next("GID", 32)?.to_be_bytes()),
        };
        fields.end()?;
        Ok(destination)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LID {:#06x}, QPN {:#08x}, PSN {:#08x}, GID {}",
            self.lid,
            self.qp.value(),
            self.psn.value(),
            self.gid
        )
    }
}

/// The client's end: says who it is, and hears who the server is. When the queue pairs are ready,
/// [`ready`] says so.
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
pub fn ask(
    conversation: &mut Conversation,
    own: &[Destination],
) -> Result<Vec<Destination>, Error> {
    for destination in own {
        conversation.send(ADDRESS, &destination.to_bytes())?;
    }
    hear(conversation, own.len())
}

/// The client's queue pairs are ready.
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`].
pub fn ready(conversation: &mut Conversation) -> Result<(), Error> {
    conversation.send("readiness", DONE)
}

/// The server's end, first half: hears who the client is. The queue pairs are to be made ready, and
/// receives posted, before [`answer`].
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
pub fn hear(conversation: &mut Conversation, count: usize) -> Result<Vec<Destination>, Error> {
    (0..count)
        .map(|_| {
            let bytes = conversation.receive_array(ADDRESS)?;
            Destination::parse(conversation, &bytes)
        })
        .collect()
}

/// The server's end, second half: says who it is, and hears that the client is ready.
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
pub fn answer(conversation: &mut Conversation, own: &[Destination]) -> Result<(), Error> {
    for destination in own {
        conversation.send(ADDRESS, &destination.to_bytes())?;
    }
    let bytes: [u8; DONE.len()] = conversation.receive_array("readiness")?;
    if bytes == *DONE {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&bytes).into_owned();
        Err(conversation.wrong("readiness", format!("said {said:?} where `done` was due")))
    }
}

/// The text before the zero that ends it, all else of which must be zero as well.
pub(super) fn text(conversation: &impl Channel, bytes: &[u8]) -> Result<String, Error> {
    let length = bytes.iter().position(|byte| *byte == 0);
    let (text, rest) = bytes.split_at(length.unwrap_or(bytes.len()));
    let is_text = text.is_ascii() && !rest.is_empty() && rest.iter().all(|byte| *byte == 0);
    if !is_text {
        let said = String::from_utf8_lossy(bytes).into_owned();
        return Err(conversation.wrong(ADDRESS, format!("{said:?} is no text with a zero behind")));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Hexadecimal fields between colons.
pub(super) struct Fields<'a, C> {
    conversation: &'a C,
    rest: Option<&'a str>,
}

impl<'a, C: Channel> Fields<'a, C> {
    pub(super) fn new(conversation: &'a C, text: &'a str) -> Self {
        Self {
            conversation,
            rest: Some(text),
        }
    }

    /// The next field: a number of just so many digits.
    pub(super) fn next(&mut self, field: &'static str, digits: usize) -> Result<u128, Error> {
        let Some(text) = self.rest else {
            return Err(self.conversation.wrong(field, "missing"));
        };
        let (own, rest) = match text.split_once(':') {
            Some((own, rest)) => (own, Some(rest)),
            None => (text, None),
        };
        self.rest = rest;
        let is_number = own.len() == digits && own.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u128::from_str_radix(own, 16).ok().filter(|_| is_number);
        let problem = || format!("{own:?} are not {digits} hexadecimal digits");
        value.ok_or_else(|| self.conversation.wrong(field, problem()))
    }

    /// There are no more.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.rest {
            None | Some("") => Ok(()),
            Some(rest) => {
                let problem = format!("{rest:?} follows the last field");
                Err(self.conversation.wrong(ADDRESS, problem))
            }
        }
    }
}

const ADDRESS: &str = "address";
pub(super) const DONE: &[u8; 5] = b"done\0";
