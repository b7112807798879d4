//! The control messages of memif 2.0: 128 bytes each, a type and a packed body in host order.
//!
//! ```text
//!  hello       name[32] min, max u16  max region u16  max rings C→S, S→C u16  log2 slots u8
//!  init        version u16  id u32  mode u8  secret[24]  name[32]
//!  add region  index u16  size u64                                        + a memory file
//!  add ring    flags u16  index u16  region u16  offset u32  log2 slots u8  private header u16
//!                                                                         + an eventfd
//!  connect     name[32]
//!  connected   name[32]
//!  disconnect  code u32  reason[96]
//! ```

use std::fmt;

/// Bytes of every message.
pub(super) const MESSAGE_BYTES: usize = 128;

/// Version 2.0, the only one that we speak.
pub(super) const VERSION: u16 = 0x0200;

/// The mode of an interface that carries Ethernet frames.
pub(super) const MODE_ETHERNET: u8 = 0;

/// Flag of an `AddRing`: its frames go from client to server.
const CLIENT_TO_SERVER: u16 = 1;

/// Text in a fixed field, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Text<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Text<N> {
    /// As much of `text` as the field holds.
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self(bytes)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    /// Only what is safe to print: the peer chose the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take_while(|byte| **byte != 0) {
            let shown = byte.is_ascii_graphic() || byte == b' ';
            write!(f, "{}", if shown { char::from(byte) } else { '?' })?;
        }
        Ok(())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// What a server offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    pub(super) name: Text<32>,
    pub(super) min_version: u16,
    pub(super) max_version: u16,
    pub(super) max_region: u16,
    pub(super) max_ring_to_server: u16,
    pub(super) max_ring_to_client: u16,
    pub(super) max_log2_depth: u8,
}

/// Who a client is, and which interface of the server it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Init {
    pub(super) version: u16,
    pub(super) id: u32,
    pub(super) mode: u8,
    pub(super) secret: [u8; 24],
    pub(super) name: Text<32>,
}

/// Where a ring lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddRing {
    pub(super) to_server: bool,
    pub(super) index: u16,
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2_depth: u8,
    pub(super) private_header: u16,
}

/// One control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    AddRegion { index: u16, size: u64 },
    AddRing(AddRing),
    Connect { name: Text<32> },
    Connected { name: Text<32> },
    Disconnect { code: u32, reason: Text<96> },
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("a control message of {have} bytes where type {kind} needs at least {need}")]
    Short { kind: u16, need: usize, have: usize },
    #[error("a control message of unknown type {0}")]
    UnknownType(u16),
    #[error("a control message without a type")]
    Empty,
}

impl Message {
    /// Reads a message.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let (kind, body) = bytes.split_first_chunk().ok_or(MessageError::Empty)?;
        let kind = u16::from_le_bytes(*kind);
        let mut reader = Reader {
            rest: body,
            taken: 2,
        };
        Self::read(kind, &mut reader)?.ok_or(MessageError::Short {
            kind,
            need: reader.taken,
            have: bytes.len(),
        })
    }

    fn read(kind: u16, reader: &mut Reader<'_>) -> Result<Option<Self>, MessageError> {
        Ok(match kind {
            1 => Some(Self::Ack),
            2 => reader.hello().map(Self::Hello),
            3 => reader.init().map(Self::Init),
            4 => reader.add_region(),
            5 => reader.add_ring().map(Self::AddRing),
            6 => reader.text().map(|name| Self::Connect { name }),
            7 => reader.text().map(|name| Self::Connected { name }),
            8 => reader.disconnect(),
            _ => return Err(MessageError::UnknownType(kind)),
        })
    }

    /// Writes the message; every byte that has no meaning is zero.
    pub(super) fn emit(&self) -> [u8; MESSAGE_BYTES] {
        let mut writer = Writer {
            bytes: [0; MESSAGE_BYTES],
            at: 0,
        };
        match self {
            Self::Ack => writer.put(&1_u16.to_le_bytes()),
            Self::Hello(hello) => writer.hello(hello),
            Self::Init(init) => writer.init(init),
            Self::AddRegion { index, size } => {
                writer.put(&4_u16.to_le_bytes());
                writer.put(&index.to_le_bytes());
                writer.put(&size.to_le_bytes());
            }
            Self::AddRing(ring) => writer.add_ring(ring),
            Self::Connect { name } => {
                writer.put(&6_u16.to_le_bytes());
                writer.put(&name.0);
            }
            Self::Connected { name } => {
                writer.put(&7_u16.to_le_bytes());
                writer.put(&name.0);
            }
            Self::Disconnect { code, reason } => {
                writer.put(&8_u16.to_le_bytes());
                writer.put(&code.to_le_bytes());
                writer.put(&reason.0);
            }
        }
        writer.bytes
    }

    /// The message's name, for errors.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Hello(_) => "hello",
            Self::Init(_) => "init",
            Self::AddRegion { .. } => "add-region",
            Self::AddRing(_) => "add-ring",
            Self::Connect { .. } => "connect",
            Self::Connected { .. } => "connected",
            Self::Disconnect { .. } => "disconnect",
        }
    }
}

/// Takes fields off the front; `taken` also counts those that were not there.
struct Reader<'a> {
    rest: &'a [u8],
    taken: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.taken += N;
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn text<const N: usize>(&mut self) -> Option<Text<N>> {
        self.take().map(Text)
    }

    fn hello(&mut self) -> Option<Hello> {
        Some(Hello {
            name: self.text()?,
            min_version: self.u16()?,
            max_version: self.u16()?,
            max_region: self.u16()?,
            max_ring_to_server: self.u16()?,
            max_ring_to_client: self.u16()?,
            max_log2_depth: self.u8()?,
        })
    }

    fn init(&mut self) -> Option<Init> {
        Some(Init {
            version: self.u16()?,
            id: self.u32()?,
            mode: self.u8()?,
            secret: self.take()?,
            name: self.text()?,
        })
    }

    fn add_region(&mut self) -> Option<Message> {
        Some(Message::AddRegion {
            index: self.u16()?,
            size: self.take().map(u64::from_le_bytes)?,
        })
    }

    fn add_ring(&mut self) -> Option<AddRing> {
        Some(AddRing {
            to_server: self.u16()? & CLIENT_TO_SERVER != 0,
            index: self.u16()?,
            region: self.u16()?,
            offset: self.u32()?,
            log2_depth: self.u8()?,
            private_header: self.u16()?,
        })
    }

    fn disconnect(&mut self) -> Option<Message> {
        Some(Message::Disconnect {
            code: self.u32()?,
            reason: self.text()?,
        })
    }
}

/// Puts fields one behind the other; no message is longer than the buffer.
struct Writer {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.at).zip(field) {
            *to = *from;
        }
        self.at += field.len();
        debug_assert!(self.at <= MESSAGE_BYTES);
    }

    fn hello(&mut self, hello: &Hello) {
        self.put(&2_u16.to_le_bytes());
        self.put(&hello.name.0);
        self.put(&hello.min_version.to_le_bytes());
        self.put(&hello.max_version.to_le_bytes());
        self.put(&hello.max_region.to_le_bytes());
        self.put(&hello.max_ring_to_server.to_le_bytes());
        self.put(&hello.max_ring_to_client.to_le_bytes());
        self.put(&[hello.max_log2_depth]);
    }

    fn init(&mut self, init: &Init) {
        self.put(&3_u16.to_le_bytes());
        self.put(&init.version.to_le_bytes());
        self.put(&init.id.to_le_bytes());
        self.put(&[init.mode]);
        self.put(&init.secret);
        self.put(&init.name.0);
    }

    fn add_ring(&mut self, ring: &AddRing) {
        let flags = u16::from(ring.to_server) * CLIENT_TO_SERVER;
        self.put(&5_u16.to_le_bytes());
        self.put(&flags.to_le_bytes());
        self.put(&ring.index.to_le_bytes());
        self.put(&ring.region.to_le_bytes());
        self.put(&ring.offset.to_le_bytes());
        self.put(&[ring.log2_depth]);
        self.put(&ring.private_header.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn every_kind() -> Vec<(Message, usize)> {
        let name = Text::new("warp");
        vec![
            (Message::Ack, 2),
            (
                Message::Hello(Hello {
                    name,
                    min_version: 0x0102,
                    max_version: 0x0304,
                    max_region: 0x0506,
                    max_ring_to_server: 0x0708,
                    max_ring_to_client: 0x090A,
                    max_log2_depth: 0x0B,
                }),
                45,
            ),
            (
                Message::Init(Init {
                    version: VERSION,
                    id: 0x0102_0304,
                    mode: 2,
                    secret: *b"0123456789abcdefghijklmn",
                    name,
                }),
                65,
            ),
            (
                Message::AddRegion {
                    index: 3,
                    size: 0x0102_0304_0506_0708,
                },
                12,
            ),
            (
                Message::AddRing(AddRing {
                    to_server: true,
                    index: 2,
                    region: 1,
                    offset: 0x0102_0304,
                    log2_depth: 10,
                    private_header: 7,
                }),
                15,
            ),
            (Message::Connect { name }, 34),
            (Message::Connected { name }, 34),
            (
                Message::Disconnect {
                    code: 9,
                    reason: Text::new("because"),
                },
                102,
            ),
        ]
    }

    #[test]
    fn messages_come_back_and_are_refused_when_short() {
        for (message, bytes) in every_kind() {
            let raw = message.emit();
            assert_eq!(Message::parse(&raw), Ok(message));
            assert_eq!(Message::parse(&raw[..bytes]), Ok(message));
            assert!(raw[bytes..].iter().all(|byte| *byte == 0), "{message:?}");
            if bytes > 2 {
                assert!(
                    matches!(
                        Message::parse(&raw[..bytes - 1]),
                        Err(MessageError::Short { have, .. }) if have == bytes - 1
                    ),
                    "{message:?}"
                );
            }
        }
        assert_eq!(Message::parse(&[1]), Err(MessageError::Empty));
        assert_eq!(
            Message::parse(&[9, 0, 0, 0]),
            Err(MessageError::UnknownType(9))
        );
    }

    #[test]
    fn bytes_stand_where_the_protocol_puts_them() {
        let ring = Message::AddRing(AddRing {
            to_server: true,
            index: 2,
            region: 1,
            offset: 0x0403_0201,
            log2_depth: 10,
            private_header: 0,
        });
        assert_eq!(
            ring.emit()[..15],
            [5, 0, 1, 0, 2, 0, 1, 0, 1, 2, 3, 4, 10, 0, 0]
        );
        let init = Message::Init(Init {
            version: VERSION,
            id: 5,
            mode: 0,
            secret: [0xEE; 24],
            name: Text::new("n"),
        });
        let raw = init.emit();
        assert_eq!(raw[..9], [3, 0, 0, 2, 5, 0, 0, 0, 0]);
        assert_eq!(raw[9..33], [0xEE; 24]);
        assert_eq!(raw[33..35], [b'n', 0]);
    }

    #[test]
    fn a_peers_text_is_printed_safely() {
        let text: Text<8> = Text(*b"a\x1b[\xffz \0q");
        assert_eq!(text.to_string(), "a?[?z ");
        assert_eq!(Text::<4>::new("longer").to_string(), "long");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0_u16..10,
        ) {
            let mut raw = kind.to_le_bytes().to_vec();
            raw.extend(bytes);
            if let Ok(message) = Message::parse(&raw) {
                prop_assert_eq!(Message::parse(&message.emit()), Ok(message));
            }
        }
    }
}
