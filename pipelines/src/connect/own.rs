//! Our own language, in which two ends negotiate.
//!
//! Each end makes an offer: lines of text, a field and its value each. The client speaks first.
//!
//! ```text
//! warpwire 1
//! service=rc                    rc, uc or ud; the same at both ends
//! gid=00000000000000000000ffff0a000001
//! mtu=4096                      the smaller is agreed on
//! traffic_class=any             a number, or any; two numbers must be the same
//! hop_limit=64                  likewise
//! pkey=ffff                     of one partition, one of them a full member
//! reads=16                      reads and atomics under way, bounded by ...
//! reads_served=16               ... those that the other end answers at once
//! max_message=1073741824        the smaller is agreed on
//! features=selective,rate       those of both are agreed on; `-` for none
//! qp=000011 psn=5c01a7 rkey=0b3d1f08 address=00007f0000000000 length=65536
//! end
//! ```
//! There is a line `qp` for each queue pair, as many at both ends. Fields that an end does not know
//! it passes over. Both ends compute the same agreement from both offers, and say `agree`, or
//! `refuse FIELD PROBLEM`; then nothing is agreed on. Queue pairs are made ready, and both say
//! `ready`; when they part, `bye`.

use super::perftest::Role;
use super::{Channel, Conversation, Error};
use std::fmt;
use warpwire_protocols::wire::{Gid, PKey, Psn, Qpn};

/// A service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// What only ends of ours can do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Feature {
    /// Only what was lost is sent again.
    Selective,
    /// Congestion is told and heeded.
    Rate,
}

/// A value, or none in particular.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wish {
    /// Whatever the other end says.
    Any,
    /// This one.
    Just(u8),
}

/// A queue pair and its memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Destination {
    /// The queue pair.
    pub qp: Qpn,
    /// The sequence number of its first packet.
    pub psn: Psn,
    /// The key of its memory.
    pub rkey: u32,
    /// Where its memory begins.
    pub address: u64,
    /// Bytes of its memory.
    pub length: u64,
}

/// What one end offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The service.
    pub service: Service,
    /// The address of all its queue pairs.
    pub gid: Gid,
    /// The largest path MTU, in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u16,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: Wish,
    /// Hop limit.
    pub hop_limit: Wish,
    /// Partition.
    pub pkey: PKey,
    /// Reads and atomics that it has under way, on each queue pair.
    pub reads: u8,
    /// Reads and atomics that it answers at once, on each queue pair.
    pub reads_served: u8,
    /// The longest message that it takes, in bytes.
    pub max_message: u32,
    /// What it can do.
    pub features: Vec<Feature>,
    /// Its queue pairs: 1 to [`Offer::MAX_QUEUE_PAIRS`].
    pub queue_pairs: Vec<Destination>,
}

/// What both agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// What we offered.
    pub own: Offer,
    /// What the peer offered.
    pub theirs: Offer,
    /// What holds for us: the smaller MTU, traffic class and hop limit as numbers, reads bounded by
    /// what the peer answers, features of both; our address and our queue pairs.
    pub agreed: Offer,
}

impl Offer {
    /// Queue pairs of one negotiation.
    pub const MAX_QUEUE_PAIRS: usize = 4096;

    /// The lines on the wire.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let mut text = format!("{GREETING}\n");
        for (field, value) in self.fields() {
            text.push_str(&format!("{field}={value}\n"));
        }
        for pair in &self.queue_pairs {
            text.push_str(&format!("{pair}\n"));
        }
        text.push_str("end\n");
        text
    }

    fn fields(&self) -> [(&'static str, String); 10] {
        let names: Vec<&str> = self.features.iter().map(|feature| feature.name()).collect();
        let features = match names.is_empty() {
            true => "-".to_owned(),
            false => names.join(","),
        };
        [
            ("service", self.service.name().to_owned()),
            ("gid", format!("{:032x}", u128::from_be_bytes(self.gid.0))),
            ("mtu", self.mtu.to_string()),
            ("traffic_class", self.traffic_class.to_string()),
            ("hop_limit", self.hop_limit.to_string()),
            ("pkey", format!("{:04x}", self.pkey.0)),
            ("reads", self.reads.to_string()),
            ("reads_served", self.reads_served.to_string()),
            ("max_message", self.max_message.to_string()),
            ("features", features),
        ]
    }
}

/// Makes an offer, hears the peer's, and agrees with it or not.
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`], [`Error::Field`]; [`Error::Refused`] with the field on which
/// the two differ.
pub fn negotiate(
    conversation: &mut Conversation,
    role: Role,
    own: &Offer,
) -> Result<Agreement, Error> {
    let lines = own.to_lines();
    if role == Role::Client {
        conversation.send("offer", lines.as_bytes())?;
    }
    let theirs = receive_offer(conversation);
    if role == Role::Server {
        // Also to one that said nonsense: it is told what, below.
        conversation.send("offer", lines.as_bytes())?;
    }
    let theirs = match theirs {
        Ok(theirs) => theirs,
        Err(error) => {
            if let Error::Field { field, problem, .. } = &error {
                let _ = conversation.send("verdict", refusal(field, problem).as_bytes());
            }
            return Err(error);
        }
    };
    let agreed = agree(own, &theirs);
    let verdict = match &agreed {
        Ok(_) => "agree\n".to_owned(),
        Err((field, problem)) => refusal(field, problem),
    };
    conversation.send("verdict", verdict.as_bytes())?;
    let refused = |conversation: &Conversation, by, field: &str, problem: String| Error::Refused {
        peer: conversation.peer().to_owned(),
        by,
        field: field.to_owned(),
        problem,
    };
    let agreed = agreed.map_err(|(field, problem)| refused(conversation, "we", field, problem))?;
    let said = conversation.receive_line("verdict", MAX_LINE)?;
    let mut words = said.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("agree"), None, None) => Ok(Agreement {
            own: own.clone(),
            theirs,
            agreed,
        }),
        (Some("refuse"), Some(field), problem) => {
            let problem = problem.unwrap_or("for no reason told").to_owned();
            Err(refused(conversation, "the peer", field, problem))
        }
        _ => Err(conversation.wrong("verdict", format!("{said:?} is neither yes nor no"))),
    }
}

/// Both queue pairs are ready: says so, and hears the same.
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
pub fn ready(conversation: &mut Conversation) -> Result<(), Error> {
    say_and_hear(conversation, "ready")
}

/// Both are through: says so, and hears the same.
///
/// # Errors
/// [`Error::Late`], [`Error::Broken`], [`Error::Field`].
pub fn part(conversation: &mut Conversation) -> Result<(), Error> {
    say_and_hear(conversation, "bye")
}

fn say_and_hear(conversation: &mut Conversation, word: &'static str) -> Result<(), Error> {
    conversation.send(word, format!("{word}\n").as_bytes())?;
    let said = conversation.receive_line(word, MAX_LINE)?;
    if said == word {
        return Ok(());
    }
    Err(conversation.wrong(word, format!("said {said:?} instead")))
}

fn refusal(field: &str, problem: &str) -> String {
    // One line, whatever was quoted.
    let problem: String = problem.chars().take(MAX_LINE / 8).collect();
    format!("refuse {field} {}\n", problem.escape_debug())
}

/// What two offers have in common, as the one who makes `own` sees it; or on which field they
/// differ, and how.
fn agree(own: &Offer, theirs: &Offer) -> Result<Offer, (&'static str, String)> {
    let differ = |field, ours: &dyn fmt::Display, other: &dyn fmt::Display| {
        Err((field, format!("one end has {ours}, the other {other}")))
    };
    if own.service != theirs.service {
        return differ("service", &own.service.name(), &theirs.service.name());
    }
    if own.gid.address().is_ipv4() != theirs.gid.address().is_ipv4() {
        return differ("gid", &own.gid, &theirs.gid);
    }
    if !own.pkey.matches(theirs.pkey) {
        return differ("pkey", &own.pkey, &theirs.pkey);
    }
    if own.queue_pairs.len() != theirs.queue_pairs.len() {
        return differ("qp", &own.queue_pairs.len(), &theirs.queue_pairs.len());
    }
    let wishes = [
        ("traffic_class", own.traffic_class, theirs.traffic_class, 0),
        ("hop_limit", own.hop_limit, theirs.hop_limit, 64),
    ];
    let mut settled = [0; 2];
    for ((field, ours, other, fallback), value) in wishes.into_iter().zip(&mut settled) {
        *value = match (ours, other) {
            (Wish::Any, Wish::Any) => fallback,
            (Wish::Any, Wish::Just(value)) | (Wish::Just(value), Wish::Any) => value,
            (Wish::Just(value), Wish::Just(same)) if value == same => value,
            (Wish::Just(one), Wish::Just(two)) => return differ(field, &one, &two),
        };
    }
    let [traffic_class, hop_limit] = settled;
    if hop_limit == 0 {
        return Err(("hop_limit", "0 reaches nobody".to_owned()));
    }
    let is_common = |feature: &&Feature| theirs.features.contains(feature);
    Ok(Offer {
        mtu: own.mtu.min(theirs.mtu),
        traffic_class: Wish::Just(traffic_class),
        hop_limit: Wish::Just(hop_limit),
        reads: own.reads.min(theirs.reads_served),
        reads_served: own.reads_served.min(theirs.reads),
        max_message: own.max_message.min(theirs.max_message),
        features: own.features.iter().filter(is_common).copied().collect(),
        ..own.clone()
    })
}

/// Reads an offer to its end.
fn receive_offer(conversation: &mut Conversation) -> Result<Offer, Error> {
    let first = conversation.receive_line("greeting", MAX_LINE)?;
    if first != GREETING {
        let problem = format!("{first:?} where `{GREETING}` was due");
        return Err(conversation.wrong("greeting", problem));
    }
    let mut draft = Draft::default();
    // The bound is generous to fields that are not invented yet.
    for _ in 0..Offer::MAX_QUEUE_PAIRS + MAX_FIELDS {
        let line = conversation.receive_line("offer", MAX_LINE)?;
        if line == "end" {
            let offer = draft.finish();
            return offer.map_err(|(field, problem)| conversation.wrong(field, problem));
        }
        let taken = draft.take(&line);
        if let Err((field, problem)) = taken {
            // To the end, so that the peer can hear our verdict.
            drain(conversation);
            return Err(conversation.wrong(field, problem));
        }
    }
    Err(conversation.wrong("offer", "has no end"))
}

fn drain(conversation: &mut Conversation) {
    for _ in 0..Offer::MAX_QUEUE_PAIRS + MAX_FIELDS {
        match conversation.receive_line("offer", MAX_LINE) {
            Ok(line) if line != "end" => {}
            _ => return,
        }
    }
}

/// An offer of which some lines are read.
#[derive(Default)]
struct Draft {
    service: Option<Service>,
    gid: Option<Gid>,
    mtu: Option<u16>,
    traffic_class: Option<Wish>,
    hop_limit: Option<Wish>,
    pkey: Option<PKey>,
    reads: Option<u8>,
    reads_served: Option<u8>,
    max_message: Option<u32>,
    features: Option<Vec<Feature>>,
    queue_pairs: Vec<Destination>,
}

type Fault = (&'static str, String);

impl Draft {
    fn take(&mut self, line: &str) -> Result<(), Fault> {
        let Some((field, value)) = line.split_once('=') else {
            return Err(("offer", format!("{line:?} is no field with a value")));
        };
        match field {
            "service" => put(&mut self.service, "service", Service::of(value), value),
            "gid" => put(&mut self.gid, "gid", gid_of(value), value),
            "mtu" => put(&mut self.mtu, "mtu", mtu_of(value), value),
            "traffic_class" => {
                let wish = Wish::of(value);
                put(&mut self.traffic_class, "traffic_class", wish, value)
            }
            "hop_limit" => put(&mut self.hop_limit, "hop_limit", Wish::of(value), value),
            "pkey" => put(
                &mut self.pkey,
                "pkey",
                hex(value, 4).map(|it| PKey(it as u16)),
                value,
            ),
            "reads" => put(&mut self.reads, "reads", value.parse().ok(), value),
            "reads_served" => {
                let count = value.parse().ok();
                put(&mut self.reads_served, "reads_served", count, value)
            }
            "max_message" => {
                let bytes = value.parse().ok();
                put(&mut self.max_message, "max_message", bytes, value)
            }
            "features" => {
                // Features that we do not know we do not have.
                let known = value.split(',').filter_map(Feature::of).collect();
                put(&mut self.features, "features", Some(known), value)
            }
            "qp" => {
                let pair = Destination::of(line);
                let pair = pair.ok_or_else(|| ("qp", format!("{line:?} is no queue pair")))?;
                if self.queue_pairs.len() == Offer::MAX_QUEUE_PAIRS {
                    let problem = format!("more than {}", Offer::MAX_QUEUE_PAIRS);
                    return Err(("qp", problem));
                }
                self.queue_pairs.push(pair);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Offer, Fault> {
        if self.queue_pairs.is_empty() {
            return Err(("qp", MISSING.to_owned()));
        }
        Ok(Offer {
            service: self.service.ok_or_else(|| missing("service"))?,
            gid: self.gid.ok_or_else(|| missing("gid"))?,
            mtu: self.mtu.ok_or_else(|| missing("mtu"))?,
            traffic_class: self.traffic_class.ok_or_else(|| missing("traffic_class"))?,
            hop_limit: self.hop_limit.ok_or_else(|| missing("hop_limit"))?,
            pkey: self.pkey.ok_or_else(|| missing("pkey"))?,
            reads: self.reads.ok_or_else(|| missing("reads"))?,
            reads_served: self.reads_served.ok_or_else(|| missing("reads_served"))?,
            max_message: self.max_message.ok_or_else(|| missing("max_message"))?,
            features: self.features.ok_or_else(|| missing("features"))?,
            queue_pairs: self.queue_pairs,
        })
    }
}

fn missing(field: &'static str) -> Fault {
    (field, MISSING.to_owned())
}

/// Keeps the value of a field, which must be legal and come once.
fn put<T>(
    place: &mut Option<T>,
    field: &'static str,
    value: Option<T>,
    text: &str,
) -> Result<(), Fault> {
    match value {
        Some(_) if place.is_some() => Err((field, "comes twice".to_owned())),
        Some(value) => {
            *place = Some(value);
            Ok(())
        }
        None => Err((field, format!("{text:?} is no legal value"))),
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

fn gid_of(text: &str) -> Option<Gid> {
    let gid = Gid(hex(text, 32)?.to_be_bytes());
    gid.is_unicast().then_some(gid)
}

fn mtu_of(text: &str) -> Option<u16> {
    let bytes = text.parse().ok()?;
    [256, 512, 1024, 2048, 4096]
        .contains(&bytes)
        .then_some(bytes)
}

impl Service {
    /// Its name in an offer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Rc, Self::Uc, Self::Ud]
            .into_iter()
            .find(|service| service.name() == name)
    }
}

impl Feature {
    /// Its name in an offer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Selective => "selective",
            Self::Rate => "rate",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Selective, Self::Rate]
            .into_iter()
            .find(|feature| feature.name() == name)
    }
}

impl Wish {
    fn of(text: &str) -> Option<Self> {
        match text {
            "any" => Some(Self::Any),
            number => number.parse().ok().map(Self::Just),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Just(value) => write!(f, "{value}"),
        }
    }
}

impl Destination {
    /// Reads the line of [`Display`](fmt::Display).
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let pair = Self {
            qp: Qpn::new(hex(value("qp")?, 6)? as u32),
            psn: Psn::new(hex(value("psn")?, 6)? as u32),
            rkey: hex(value("rkey")?, 8)? as u32,
            address: hex(value("address")?, 16)? as u64,
            length: value("length")?.parse().ok()?,
        };
        words.next().is_none().then_some(pair)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "qp={:06x} psn={:06x} rkey={:08x} address={:016x} length={}",
            self.qp.value(),
            self.psn.value(),
            self.rkey,
            self.address,
            self.length
        )
    }
}

impl fmt::Display for Agreement {
    /// A table: each field, our offer, the peer's, and what holds for us.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14} {:<40} {:<40} agreed",
            "field", "ours", "the peer's"
        )?;
        let agreed = self.agreed.fields();
        let rows = self.own.fields().into_iter().zip(self.theirs.fields());
        for (((field, ours), (_, theirs)), (_, agreed)) in rows.zip(agreed) {
            // Each end has its own of these.
            let agreed = match field {
                "gid" | "pkey" => String::new(),
                _ => agreed,
            };
            let row = format!("{field:<14} {ours:<40} {theirs:<40} {agreed}");
            writeln!(f, "{}", row.trim_end())?;
        }
        for (ours, theirs) in self.own.queue_pairs.iter().zip(&self.theirs.queue_pairs) {
            let show = |pair: &Destination| {
                format!("{:06x} psn {:06x}", pair.qp.value(), pair.psn.value())
            };
            let row = format!("{:<14} {:<40} {}", "qp", show(ours), show(theirs));
            writeln!(f, "{row}")?;
        }
        Ok(())
    }
}

const GREETING: &str = "warpwire 1";
const MISSING: &str = "missing";
/// Bytes of a line at most.
const MAX_LINE: usize = 1024;
/// Lines of an offer besides queue pairs.
const MAX_FIELDS: usize = 256;
