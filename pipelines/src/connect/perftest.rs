//! The language of perftest: `ib_send_bw` and its kin (4.5, which calls itself 6.06).
//!
//! In every step the client speaks first and the server answers in as many bytes. They say their
//! versions, how their buffers are laid out, and their path MTUs; then, in rounds, where their
//! queue pairs are. After the first round the queue pairs can be made ready, later ones only keep
//! step. Which rounds a tool has is a table, [`Tool::rounds`], read from captures.
//!
//! With `-R` there is no TCP: the first connection by RDMA-CM carries the same steps as messages,
//! destinations in another form ([`Rounds::over_cm`]), with an empty one ([`Session::blank`])
//! before and after the second connection is made, which is the one with the traffic. For datagrams
//! the client asks for the server's queue pair instead; where the server sends, too, it learns of
//! the client's by a first datagram of four bytes whose immediate is its number.

use super::pingpong::{DONE, Fields, text};
use super::{Channel, Error};
use warpwire_protocols::wire::{Gid, Psn, Qpn};

/// The port that the tools use unless told otherwise.
pub const PORT: u16 = 18515;

/// A tool of perftest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tool {
    /// `ib_send_bw`
    SendBandwidth,
    /// `ib_write_bw`
    WriteBandwidth,
    /// `ib_read_bw`
    ReadBandwidth,
    /// `ib_atomic_bw`
    AtomicBandwidth,
    /// `ib_send_lat`
    SendLatency,
    /// `ib_write_lat`
    WriteLatency,
    /// `ib_read_lat`
    ReadLatency,
    /// `ib_atomic_lat`
    AtomicLatency,
}

/// A round of destinations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// Every queue pair is told, one after the other.
    All,
    /// The first one is, to keep step.
    First,
}

/// What a tool says before and after traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// Before traffic; the first is that of [`Session::exchange`].
    pub before: &'static [Round],
    /// Between two sizes of a run over all sizes.
    pub between: &'static [Round],
    /// After the traffic of a run over all sizes, besides what follows.
    pub after_sizes: &'static [Round],
    /// After all traffic.
    pub after: &'static [Round],
    /// Results are exchanged then, and one round more.
    pub results: Exchange,
    /// Both say that they are done.
    pub has_farewell: bool,
    /// How destinations are told.
    pub form: Form,
}

/// How destinations are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As text.
    Text,
    /// As the tools keep them in memory, with numbers big-endian.
    Binary,
}

impl Rounds {
    /// The same over a connection by RDMA-CM (`-R`).
    #[must_use]
    pub const fn over_cm(self) -> Self {
        Self {
            has_farewell: false,
            form: Form::Binary,
            ..self
        }
    }
}

/// Whose results are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// Nobody's.
    None,
    /// The client's; the server answers with garbage.
    Client,
    /// Both ends'.
    Both,
}

/// Which way messages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the client to the server; for latencies, to and fro.
    One,
    /// Both ways at once (`-b`); bandwidth only.
    Both,
}

impl Tool {
    /// What it says, and when.
    #[must_use]
    pub const fn rounds(self, direction: Direction) -> Rounds {
        use Round::{All, First};
        let plain = Rounds {
            before: &[All, First, All, First],
            between: &[],
            after_sizes: &[],
            after: &[First],
            results: Exchange::None,
            has_farewell: true,
            form: Form::Text,
        };
        match (self, direction) {
            (Self::SendBandwidth, Direction::One) => Rounds {
                between: &[First, First],
                after_sizes: &[First],
                ..plain
            },
            (Self::SendBandwidth, Direction::Both) => Rounds {
                after: &[],
                results: Exchange::Both,
                ..plain
            },
            (
                Self::WriteBandwidth | Self::ReadBandwidth | Self::AtomicBandwidth,
                Direction::One,
            ) => Rounds {
                before: &[All, All, First],
                results: Exchange::Client,
                ..plain
            },
            (
                Self::WriteBandwidth | Self::ReadBandwidth | Self::AtomicBandwidth,
                Direction::Both,
            ) => Rounds {
                before: &[All, All, First, First],
                after: &[],
                results: Exchange::Both,
                ..plain
            },
            (Self::SendLatency, _) => Rounds {
                between: &[First],
                ..plain
            },
            (Self::ReadLatency | Self::AtomicLatency, _) => plain,
            (Self::WriteLatency, _) => Rounds {
                after: &[],
                has_farewell: false,
                ..plain
            },
        }
    }
}

/// An end of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Who dials, and speaks first.
    Client,
    /// Who listens.
    Server,
}

/// What one end says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The tool's version, as in `6.06`: at most 15 characters.
    pub version: &'static str,
    /// Bytes that buffers are spread over.
    pub cycle_buffer: u32,
    /// Bytes of a cache line.
    pub cache_line: u32,
    /// Path MTU, coded: 1 to 5 for 256 to 4096 bytes.
    pub mtu: u8,
}

impl Hello {
    /// What perftest 4.5 says on a machine like most, at a path MTU.
    #[must_use]
    pub const fn new(mtu: u8) -> Self {
        Self {
            version: "6.06",
            cycle_buffer: 4096,
            cache_line: 64,
            mtu,
        }
    }
}

/// A queue pair and its memory, as the tools say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Local identifier: 0 on RoCE.
    pub lid: u16,
    /// Reads and atomics under way: 1 where there are none.
    pub reads: u16,
    /// The queue pair.
    pub qp: Qpn,
    /// The sequence number of its first packet.
    pub psn: Psn,
    /// The key of its memory.
    pub rkey: u32,
    /// Where its memory begins.
    pub address: u64,
    /// Its address.
    pub gid: Gid,
    /// The number of its shared receive queue: 0 for none.
    pub srq: u32,
    /// The index of its address at its port; not told as text.
    pub gid_index: u32,
}

/// Bytes of a destination as text.
const LENGTH: usize = 108;
/// Bytes of a destination in binary.
const BINARY: usize = 56;

impl Destination {
    /// The bytes on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let mut text = format!(
            "{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:",
            self.lid,
            self.reads,
            self.qp.value(),
            self.psn.value(),
            self.rkey,
            self.address
        );
        for byte in self.gid.0 {
            text.push_str(&format!("{byte:02x}:"));
        }
        text.push_str(&format!("{:08x}:", self.srq));
        let mut bytes = [0; LENGTH];
        bytes
            .iter_mut()
            .zip(text.bytes())
            .for_each(|(to, from)| *to = from);
        bytes
    }

    /// The bytes on the wire over a connection by RDMA-CM.
    #[must_use]
    pub fn to_binary(&self) -> [u8; BINARY] {
        let words = [
            u32::from(self.lid),
            u32::from(self.reads),
            self.qp.value(),
            self.psn.value(),
            self.rkey,
            // Where the tools' compiler leaves a gap.
            0,
        ];
        let mut all = Vec::with_capacity(BINARY);
        for word in words {
            all.extend(word.to_be_bytes());
        }
        all.extend(self.address.to_be_bytes());
        all.extend(self.gid.0);
        all.extend(self.srq.to_be_bytes());
        all.extend(self.gid_index.to_be_bytes());
        let mut bytes = [0; BINARY];
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    fn parse_binary(channel: &impl Channel, bytes: &[u8; BINARY]) -> Result<Self, Error> {
        let word = |at: usize| {
            let word = bytes.iter().skip(at).take(4);
            word.fold(0, |word, byte| word << 8 | u32::from(*byte))
        };
        let small = |field, at| {
            let value = word(at);
            u16::try_from(value)
                .map_err(|_| channel.wrong(field, format!("{value:#x} is too large")))
        };
        let number = |field, at| match word(at) {
            value if value >> 24 == 0 => Ok(value),
            value => Err(channel.wrong(field, format!("{value:#x} is too large"))),
        };
        let gid = [word(32), word(36), word(40), word(44)];
        let gid = gid
            .into_iter()
            .fold(0, |gid, word| gid << 32 | u128::from(word));
        Ok(Self {
            lid: small("LID", 0)?,
            reads: small("outstanding reads", 4)?,
            qp: Qpn::new(number("QPN", 8)?),
            psn: Psn::new(number("PSN", 12)?),
            rkey: word(16),
            address: u64::from(word(24)) << 32 | u64::from(word(28)),
            gid: Gid(gid.to_be_bytes()),
            srq: word(48),
            gid_index: word(52),
        })
    }

    fn parse(conversation: &impl Channel, bytes: &[u8; LENGTH]) -> Result<Self, Error> {
        let text = text(conversation, bytes)?;
        let mut fields = Fields::new(conversation, &text);
        let lid = fields.next("LID", 4)? as u16;
        let reads = fields.next("outstanding reads", 4)? as u16;
        let qp = Qpn::new(fields.next("QPN", 6)? as u32);
        let psn = Psn::new(fields.next("PSN", 6)? as u32);
        let rkey = fields.next("RKey", 8)? as u32;
        let address = fields.next("VAddr", 16)? as u64;
        let mut gid = Gid::default();
        for byte in &mut gid.0 {
            *byte = fields.next("GID", 2)? as u8;
        }
        let srq = fields.next("SRQN", 8)? as u32;
        fields.end()?;
        Ok(Self {
            lid,
            reads,
            qp,
            psn,
            rkey,
            address,
            gid,
            srq,
            gid_index: 0,
        })
    }
}

/// What an end measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Results {
    /// Bytes of a message.
    pub size: u64,
    /// Messages.
    pub iterations: u64,
    /// In the unit of the end's table.
    pub peak: f64,
    /// In the unit of the end's table.
    pub average: f64,
    /// Millions of messages a second.
    pub message_rate: f64,
}

/// A session after its greeting.
#[derive(Debug)]
pub struct Session<C> {
    channel: C,
    role: Role,
    rounds: Rounds,
    /// The peer's version.
    version: String,
    mtu: u8,
    cycle_buffer: u32,
    cache_line: u32,
    own: Vec<Destination>,
    theirs: Vec<Destination>,
}

impl<C: Channel> Session<C> {
    /// Greets the peer.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn greet(channel: C, role: Role, rounds: Rounds, hello: &Hello) -> Result<Self, Error> {
        let mut session = Self {
            channel,
            role,
            rounds,
            version: String::new(),
            mtu: hello.mtu,
            cycle_buffer: 0,
            cache_line: 0,
            own: Vec::new(),
            theirs: Vec::new(),
        };
        let mut version = [0; 16];
        let room = version.iter_mut().take(15);
        room.zip(hello.version.bytes())
            .for_each(|(to, from)| *to = from);
        let theirs = session.swap("version", version)?;
        session.version = session.version_of(&theirs)?;
        let theirs = session.swap("cycle buffer", hello.cycle_buffer.to_be_bytes())?;
        session.cycle_buffer = u32::from_be_bytes(theirs).max(hello.cycle_buffer);
        let theirs = session.swap("cache line", hello.cache_line.to_be_bytes())?;
        session.cache_line = u32::from_be_bytes(theirs).max(hello.cache_line);
        let theirs = session.swap("MTU", [b'0' + hello.mtu, 0])?;
        session.mtu = match theirs {
            [code @ b'1'..=b'5', 0] => hello.mtu.min(code - b'0'),
            other => {
                let problem = format!("{:?} is no code of 1 to 5", String::from_utf8_lossy(&other));
                return Err(session.channel.wrong("MTU", problem));
            }
        };
        Ok(session)
    }

    fn version_of(&self, bytes: &[u8; 16]) -> Result<String, Error> {
        let length = bytes.iter().position(|byte| *byte == 0);
        let text = bytes.split_at(length.unwrap_or(bytes.len())).0;
        let is_version = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        if text.is_empty() || !text.iter().all(is_version) {
            let said = String::from_utf8_lossy(bytes).into_owned();
            let problem = format!("{said:?} is none of perftest's");
            return Err(self.channel.wrong("version", problem));
        }
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// The peer's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Path MTU of both, coded: the smaller of the two.
    #[must_use]
    pub fn mtu(&self) -> u8 {
        self.mtu
    }

    /// Bytes that buffers are spread over, and those of a cache line: the larger of both ends'.
    #[must_use]
    pub fn layout(&self) -> (u32, u32) {
        (self.cycle_buffer, self.cache_line)
    }

    /// The first round: where the queue pairs are. They can be made ready now; before
    /// [`Session::begin`] they must be, with receives posted.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn exchange(&mut self, own: &[Destination]) -> Result<&[Destination], Error> {
        self.own = own.to_vec();
        self.theirs.clear();
        for destination in own {
            let theirs = self.swap_destination(destination)?;
            self.theirs.push(theirs);
        }
        Ok(&self.theirs)
    }

    /// The rounds before traffic.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn begin(&mut self) -> Result<(), Error> {
        let later = self.rounds.before.split_first().map(|(_, later)| later);
        self.keep_step(later.unwrap_or_default())
    }

    /// The rounds between two sizes of a run over all sizes.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn between(&mut self) -> Result<(), Error> {
        self.keep_step(self.rounds.between)
    }

    /// The rounds after the last size of a run over all sizes, before [`Session::end`].
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn after_sizes(&mut self) -> Result<(), Error> {
        self.keep_step(self.rounds.after_sizes)
    }

    /// The rounds after traffic, and the farewell. With the tools that have that, results are
    /// exchanged: what the peer measured, if it measures at all.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn end(&mut self, results: &Results) -> Result<Option<Results>, Error> {
        self.keep_step(self.rounds.after)?;
        let mut heard = None;
        if self.rounds.results != Exchange::None {
            let theirs = Results {
                size: self.number("size", results.size)?,
                iterations: self.number("iterations", results.iterations)?,
                peak: f64::from_bits(self.number("peak", results.peak.to_bits())?),
                average: f64::from_bits(self.number("average", results.average.to_bits())?),
                message_rate: f64::from_bits(
                    self.number("message rate", results.message_rate.to_bits())?,
                ),
            };
            let measures = self.role == Role::Server || self.rounds.results == Exchange::Both;
            heard = measures.then_some(theirs);
            self.keep_step(&[Round::First])?;
        }
        if self.rounds.has_farewell {
            // Both speak at once.
            self.channel.send("farewell", DONE)?;
            let said: [u8; DONE.len()] = self.channel.receive_array("farewell")?;
            if said != *DONE {
                let said = String::from_utf8_lossy(&said).into_owned();
                let problem = format!("said {said:?} where `done` was due");
                return Err(self.channel.wrong("farewell", problem));
            }
        }
        Ok(heard)
    }

    /// An empty destination, by which both keep step while there is none yet.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
    pub fn blank(&mut self) -> Result<(), Error> {
        let theirs = self.swap(ADDRESS, [0; BINARY])?;
        if theirs == [0; BINARY] {
            return Ok(());
        }
        Err(self
            .channel
            .wrong(ADDRESS, "a destination where none was due"))
    }

    /// The channel below, to give it more time.
    pub fn channel(&mut self) -> &mut C {
        &mut self.channel
    }

    /// Says again where our queue pairs are, and hears the same of the peer's.
    fn keep_step(&mut self, rounds: &[Round]) -> Result<(), Error> {
        for round in rounds {
            let count = match round {
                Round::All => self.own.len(),
                Round::First => 1,
            };
            for index in 0..count {
                let pair = (
                    self.own.get(index).copied(),
                    self.theirs.get(index).copied(),
                );
                let (Some(own), Some(known)) = pair else {
                    continue;
                };
                if self.swap_destination(&own)? != known {
                    let problem = "the queue pair has moved since the first round";
                    return Err(self.channel.wrong(ADDRESS, problem));
                }
            }
        }
        Ok(())
    }

    fn swap_destination(&mut self, own: &Destination) -> Result<Destination, Error> {
        match self.rounds.form {
            Form::Text => {
                let bytes = self.swap(ADDRESS, own.to_bytes())?;
                Destination::parse(&self.channel, &bytes)
            }
            Form::Binary => {
                let bytes = self.swap(ADDRESS, own.to_binary())?;
                Destination::parse_binary(&self.channel, &bytes)
            }
        }
    }

    fn number(&mut self, step: &'static str, own: u64) -> Result<u64, Error> {
        self.swap(step, own.to_be_bytes()).map(u64::from_be_bytes)
    }

    /// A step: the client speaks first.
    fn swap<const N: usize>(&mut self, step: &'static str, own: [u8; N]) -> Result<[u8; N], Error> {
        if self.role == Role::Client {
            self.channel.send(step, &own)?;
        }
        let theirs = self.channel.receive_array(step)?;
        if self.role == Role::Server {
            self.channel.send(step, &own)?;
        }
        Ok(theirs)
    }
}

const ADDRESS: &str = "address";
