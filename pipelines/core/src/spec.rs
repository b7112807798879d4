//! What a stage says about itself: its name, its fields in a pipeline file, its counters.
//!
//! A stage's file holds its [`Spec`] beside its code. The host reads pipeline files by it, packs
//! the arguments, names what is wrong with its words, and prints its counters; so a new stage needs
//! no line of host code.

/// A stage as a pipeline file and a report see it.
#[derive(Debug)]
pub struct Spec {
    /// The word after `do =`.
    pub name: &'static str,
    /// What the stage does, in one sentence.
    pub about: &'static str,
    /// Its fields, in the order of the bits of [`Given`]; at most 32.
    pub fields: &'static [Field],
    /// Names of fields of which at least one must be there; empty if none needs to be.
    pub one_of: &'static [&'static str],
    /// Its counters, besides the frames and bytes that every stage counts.
    pub counters: &'static [CounterSpec],
    /// Bytes of its arguments.
    pub args_bytes: usize,
    /// What may become of a frame.
    pub outcome: Outcome,
}

/// What may become of the frames that a stage works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All go on to the next stage.
    Continues,
    /// Some go on, some are dropped, sent back or forwarded.
    Splits,
    /// None goes on.
    Ends,
}

/// One field of a stage in a pipeline file.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// What it means, for the text of errors and of `warpwire stages`.
    pub about: &'static str,
    /// What may stand there and how it is packed.
    pub kind: FieldKind,
    /// Where it is packed, in bytes from the start of the arguments; 0 for kinds that pack nothing.
    pub at: usize,
    /// Whether it must be there.
    pub required: bool,
}

impl Field {
    /// A field that may be left out.
    pub const fn optional(
        name: &'static str,
        kind: FieldKind,
        at: usize,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            kind,
            at,
            required: false,
        }
    }

    /// A field that must be there.
    pub const fn required(
        name: &'static str,
        kind: FieldKind,
        at: usize,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            kind,
            at,
            required: true,
        }
    }
}

/// What may stand in a field, and what the arguments hold of it.
///
/// The first four bytes of all arguments are [`Given`]: bit `i` says that field `i` was there (for
/// [`FieldKind::Flag`]: that it was true).
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// `true` or `false`; packs nothing but its bit.
    Flag,
    /// A list of words, each standing for bits; packs their union as `u32`.
    Words(&'static [(&'static str, u32)]),
    /// A number from `low` to `high`; packs `bytes` bytes (1, 2, 4 or 8).
    Number {
        /// Size of the packed number.
        bytes: usize,
        /// Least value.
        low: u64,
        /// Largest value.
        high: u64,
    },
    /// An Ethernet address; packs 6 bytes in wire order.
    Mac,
    /// An IPv4 or IPv6 address; packs a [`PackedAddress`].
    Address,
    /// A list of port numbers; packs [`PackedPorts`].
    Ports,
    /// A list of matchers; packs a [`Span`] of the program's rules.
    Rules,
    /// A list of IP addresses; packs a [`Span`] of the program's addresses. If left out, the
    /// addresses of the NIC that the pipeline receives from.
    OwnAddresses,
    /// The name of a NIC; packs its output number as `u32`.
    Nic,
    /// Hexadecimal bytes, exactly so many.
    Hex(usize),
    /// The name of a file that the host writes; packs nothing.
    File,
    /// The name of a file that the host writes the rows of a gatherer to; packs nothing. A stage
    /// with such a field has the arguments of [`crate::stages::gather`].
    Rows,
    /// The name of a file that the host writes the headers of a gatherer's records to; packs
    /// nothing.
    Headers,
}

/// Bits of the fields that were there, by their place in [`Spec::fields`].
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(transparent)]
pub struct Given(pub u32);

impl Given {
    /// Whether field `index` was there.
    #[inline(always)]
    pub const fn has(self, index: u32) -> bool {
        self.0 >> index & 1 != 0
    }
}

/// Some consecutive entries of one of the program's tables.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
pub struct Span {
    /// The first entry.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// An IP address of either family.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
pub struct PackedAddress {
    /// The address as big-endian numbers; IPv4 in the first.
    pub words: [u32; 4],
    /// 4 or 6.
    pub version: u32,
}

/// Up to [`PackedPorts::MAX`] port numbers.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
pub struct PackedPorts {
    /// How many are in use.
    pub count: u16,
    /// The numbers; the rest is zero.
    pub ports: [u16; Self::MAX],
}

impl PackedPorts {
    /// How many ports a field can list.
    pub const MAX: usize = 7;

    /// Whether `port` is listed.
    #[inline(always)]
    pub fn has(&self, port: u16) -> bool {
        self.ports
            .iter()
            .zip(0..self.count)
            .any(|(listed, _)| *listed == port)
    }
}

/// A counter, or an array of counters, of a stage.
#[derive(Debug)]
pub struct CounterSpec {
    /// The name in reports.
    pub name: &'static str,
    /// Counters in the array; 1 for a single one.
    pub entries: u32,
    /// Names of the entries; entries without a name are shown as numbers.
    pub labels: &'static [&'static str],
    /// Whether unnamed entries are shown in hexadecimal.
    pub hexadecimal: bool,
}

impl CounterSpec {
    /// A single counter.
    pub const fn one(name: &'static str) -> Self {
        Self::table(name, 1)
    }

    /// An array of counters with numbers for names.
    pub const fn table(name: &'static str, entries: u32) -> Self {
        Self {
            name,
            entries,
            labels: &[],
            hexadecimal: false,
        }
    }

    /// An array of counters with hexadecimal numbers for names.
    pub const fn hexadecimal(name: &'static str, entries: u32) -> Self {
        Self {
            hexadecimal: true,
            ..Self::table(name, entries)
        }
    }

    /// An array of counters with names.
    pub const fn labelled(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self {
            name,
            entries: labels.len() as u32,
            labels,
            hexadecimal: false,
        }
    }
}

impl Spec {
    /// Counters in all, the two that every stage has included.
    pub const fn counter_entries(&self) -> u32 {
        let mut total = COMMON_COUNTERS;
        let mut rest = self.counters;
        while let [first, tail @ ..] = rest {
            total += first.entries;
            rest = tail;
        }
        total
    }
}

/// The counters that every stage has, before its own: frames and bytes that it worked on.
pub const COMMON_COUNTERS: u32 = 2;
