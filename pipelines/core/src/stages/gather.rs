//! Gathers the records of a sensor into tensors, a datagram a record.

use warpwire_device::{Piece, Simt};
use warpwire_protocols::parse::{Fragment, Kind};
use warpwire_protocols::stream::ByteOrder;
use warpwire_protocols::stream::samples::{Conversion, Format, Illegal};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::sensor::{Became, Gatherer, MOST_PARTS, Parts, SPAN, Why};
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};

/// Takes UDP datagrams: each holds one record, which goes to its row. See [`crate::sensor`].
#[derive(Clone, Copy, Debug)]
pub struct Gather;

/// What records look like; the host lays out tensors by it.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    samples: u32,
    window: u32,
    rows: u32,
    header_bytes: u32,
    number_at: u32,
    number_bytes: u32,
    fraction_bits: u32,
    patience_us: u64,
    first: u64,
}

impl Args {
    /// The arguments of a stage.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Self::read_from_prefix(bytes).ok().map(|(args, _)| args)
    }

    fn or(&self, field: u32, value: u32, usual: u32) -> u32 {
        if self.given.has(field) { value } else { usual }
    }

    /// Samples of a record.
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// Records that may be under way out of order.
    pub fn window(&self) -> u32 {
        self.or(WINDOW, self.window, 256)
    }

    /// Rows of the tensors, a power of two and no less than the window.
    pub fn rows(&self) -> u32 {
        let usual = self.window().saturating_mul(4);
        let rows = self.or(ROWS, self.rows, usual).max(self.window());
        rows.checked_next_power_of_two().unwrap_or(1 << 31)
    }

    /// Bytes of a header.
    pub fn header_bytes(&self) -> u32 {
        self.or(HEADER, self.header_bytes, 16)
    }

    /// Where the number stands, and the bits of it.
    ///
    /// # Errors
    /// A number that does not lie within the header.
    pub fn format(&self) -> Result<Format, Illegal> {
        let at = self.or(NUMBER_AT, self.number_at, 0);
        let bytes = self.or(NUMBER_BYTES, self.number_bytes, 8);
        Format::new(self.header_bytes(), at, bytes, self.order())
    }

    /// What samples stand for.
    pub fn conversion(&self) -> Conversion {
        let bits = self.or(FRACTION_BITS, self.fraction_bits, 0).min(126);
        Conversion {
            // A power of two.
            scale: f32::from_bits((127 - bits) << 23),
            offset: 0.0,
            order: match self.given.has(LITTLE_SAMPLES) {
                true => ByteOrder::Little,
                false => self.order(),
            },
        }
    }

    /// How long a record may be overtaken.
    pub fn patience_ns(&self) -> u64 {
        let given = self.given.has(PATIENCE);
        let patience_us = if given { self.patience_us } else { 50_000 };
        patience_us.saturating_mul(1000)
    }

    /// The number that the window begins with, if one was given.
    pub fn first(&self) -> Option<u64> {
        self.given.has(FIRST).then_some(self.first)
    }

    fn order(&self) -> ByteOrder {
        match self.given.has(LITTLE) {
            true => ByteOrder::Little,
            false => ByteOrder::Big,
        }
    }
}

impl Stage for Gather {
    const SPEC: Spec = SPEC;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        _args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        match context.gatherer() {
            Some(gatherer) => gather(context, &gatherer, packet.as_deref()),
            None => Verdict::Next,
        }
    }
}

/// *Collective.* One frame after the other, each by the whole warp.
#[inline(never)]
fn gather<S: Simt>(
    context: &Context<'_, S>,
    gatherer: &Gatherer<'_>,
    packet: Option<&Packet<'_>>,
) -> Verdict {
    let simt = context.simt;
    let (mut verdict, mut parts, mut is_whole) = (Verdict::Next, [Piece::EMPTY; MOST_PARTS], true);
    let packet = packet.filter(|packet| is_record(packet));
    if let Some(packet) = packet {
        is_whole = find(packet, &mut parts);
        verdict = Verdict::Drop(Reason::GATHERED);
    }
    let mut waiting = simt.ballot(packet.is_some());
    while waiting != 0 {
        let lane = waiting.trailing_zeros();
        waiting &= waiting - 1;
        let record = Parts::new(parts.map(|part| part.of_lane(simt, lane)));
        let became = match simt.shuffle(u32::from(is_whole), lane) {
            0 => gatherer.drop(simt, Why::Scattered),
            _ => gatherer.offer(simt, &record),
        };
        let entry = match became {
            Became::Placed => PLACED,
            Became::Dropped(why) => DROPPED + why as u32,
            Became::Full => {
                gatherer.drop(simt, Why::Full);
                DROPPED + Why::Full as u32
            }
        };
        if simt.is_leader() {
            context.count(entry);
        }
    }
    gatherer.turn(simt);
    verdict
}

fn is_record(packet: &Packet<'_>) -> bool {
    let headers = packet.headers();
    headers.kind == Kind::Udp && headers.fragment == Fragment::None
}

/// Finds the payload of a datagram; says no if it is not all there.
fn find<'a>(packet: &Packet<'a>, parts: &mut [Piece<'a>; MOST_PARTS]) -> bool {
    let headers = packet.headers();
    let (mut skip, mut left) = (u32::from(headers.payload), headers.payload_length);
    let mut index = 0;
    for slot in parts {
        // Pieces that hold headers alone, if a peer sends such, are passed over.
        while left > 0
            && let Some(piece) = packet.piece(index)
        {
            index += 1;
            let there = piece.length().saturating_sub(skip);
            let part = piece.part(skip.min(piece.length()), there.min(left));
            skip = skip.saturating_sub(piece.length());
            if let Some(part) = part.filter(|part| !part.is_empty()) {
                left -= part.length();
                *slot = part;
                break;
            }
        }
    }
    left == 0
}

/// Places of fields.
const WINDOW: u32 = 2;
const ROWS: u32 = 3;
const HEADER: u32 = 4;
const NUMBER_AT: u32 = 5;
const NUMBER_BYTES: u32 = 6;
const LITTLE: u32 = 7;
const FRACTION_BITS: u32 = 8;
const PATIENCE: u32 = 9;
const FIRST: u32 = 10;
const LITTLE_SAMPLES: u32 = 12;

const PLACED: u32 = 0;
const DROPPED: u32 = 1;

const fn number(bytes: usize, low: u64, high: u64) -> FieldKind {
    FieldKind::Number { bytes, low, high }
}

const SPEC: Spec = Spec {
    name: "gather",
    about: "gathers the records of a sensor, a UDP datagram each, into a file of floats",
    fields: &[
        Field::required(
            "rows_to",
            FieldKind::Rows,
            0,
            "the file to write: an array of float32, a row a record, in NumPy's format if it ends \
             in .npy",
        ),
        Field::required(
            "samples",
            number(4, 1, 1 << 15),
            core::mem::offset_of!(Args, samples),
            "samples of 16 bits in every record",
        ),
        Field::optional(
            "window",
            number(4, 1, SPAN as u64),
            core::mem::offset_of!(Args, window),
            "records that may be under way out of order; 256 if left out",
        ),
        Field::optional(
            "rows",
            number(4, 1, 1 << 20),
            core::mem::offset_of!(Args, rows),
            "rows in memory, rounded up to a power of two; four windows if left out",
        ),
        Field::optional(
            "header",
            number(4, 1, 1 << 10),
            core::mem::offset_of!(Args, header_bytes),
            "bytes of a record's header; 16 if left out",
        ),
        Field::optional(
            "number_at",
            number(4, 0, 1 << 10),
            core::mem::offset_of!(Args, number_at),
            "where in the header the record's number stands; 0 if left out",
        ),
        Field::optional(
            "number_bytes",
            number(4, 2, 8),
            core::mem::offset_of!(Args, number_bytes),
            "bytes of the number: 2, 4 or 8; 8 if left out",
        ),
        Field::optional(
            "little",
            FieldKind::Flag,
            0,
            "the least significant byte of numbers and samples comes first",
        ),
        Field::optional(
            "fraction_bits",
            number(4, 0, 31),
            core::mem::offset_of!(Args, fraction_bits),
            "bits of a sample behind the point; 0 if left out",
        ),
        Field::optional(
            "patience_us",
            number(8, 1, 3_600_000_000),
            core::mem::offset_of!(Args, patience_us),
            "how long a record may be overtaken until it is given up; 50000 if left out",
        ),
        Field::optional(
            "first",
            number(8, 0, u64::MAX),
            core::mem::offset_of!(Args, first),
            "the number of the first record; what comes first if left out",
        ),
        Field::optional(
            "headers_to",
            FieldKind::Headers,
            0,
            "the file to write headers to: an array of uint8, a row a record, in NumPy's format if \
             it ends in .npy",
        ),
        Field::optional(
            "little_samples",
            FieldKind::Flag,
            0,
            "the least significant byte of samples comes first, whichever does of numbers",
        ),
    ],
    one_of: &[],
    counters: &[
        CounterSpec::one("placed"),
        CounterSpec::labelled("dropped", &Why::NAMES),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};
