//! Spreads flows over the queues of a NIC by the Toeplitz hash.

use warpwire_device::Simt;
use warpwire_protocols::parse::Fragment;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};

/// Ends a frame's way at the transmit queue that its flow's hash picks.
#[derive(Clone, Copy, Debug)]
pub struct Spread;

/// Where to, and by which key.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    to: u32,
    key: [u8; KEY_BYTES],
}

/// Bytes of a Toeplitz key: enough for the addresses and ports of IPv6.
pub const KEY_BYTES: usize = 40;

impl Stage for Spread {
    const SPEC: Spec = SPEC;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        let Some(packet) = packet else {
            return Verdict::Next;
        };
        let key = if args.given.has(KEY) {
            &args.key
        } else {
            &DEFAULT_KEY
        };
        let queues = context.queues(args.to);
        let hash = flow_hash(key, packet);
        // As a NIC does it: the low bits pick an entry of a table that goes round the queues.
        let choice = hash % TABLE_ENTRIES;
        match context.port(args.to, choice) {
            Some(port) => {
                context.count(choice % queues.max(1));
                Verdict::Send(port)
            }
            None => Verdict::Drop(Reason::NO_PORT),
        }
    }
}

/// The Toeplitz hash over addresses and, of whole TCP and UDP packets, ports; 0 for what is not IP.
#[inline]
fn flow_hash(key: &[u8; KEY_BYTES], packet: &Packet<'_>) -> u32 {
    let headers = packet.headers();
    let (source, destination) = packet.ip_addresses();
    let words = match headers.ip_version {
        4 => 1,
        6 => 4,
        _ => return 0,
    };
    let mut hash = Toeplitz::new(key);
    source
        .into_iter()
        .take(words)
        .for_each(|word| hash.add(word));
    destination
        .into_iter()
        .take(words)
        .for_each(|word| hash.add(word));
    if headers.has_ports() && headers.fragment == Fragment::None {
        hash.add(headers.l4_start);
    }
    hash.value
}

/// The hash over the words added so far.
struct Toeplitz<'a> {
    key: &'a [u8; KEY_BYTES],
    at: usize,
    value: u32,
}

impl<'a> Toeplitz<'a> {
    fn new(key: &'a [u8; KEY_BYTES]) -> Self {
        Self {
            key,
            at: 0,
            value: 0,
        }
    }

    /// Adds the next four bytes of the input, as a big-endian number: bit `i` of the input selects
    /// the 32 bits of the key that start at its bit `i`.
    #[inline]
    fn add(&mut self, word: u32) {
        let window =
            u64::from(self.key_word(self.at)) << 32 | u64::from(self.key_word(self.at + 4));
        let mut rest = word;
        while rest != 0 {
            let bit = rest.leading_zeros();
            self.value ^= (window >> (32 - bit)) as u32;
            rest &= !(1 << (31 - bit));
        }
        self.at += 4;
    }

    #[inline]
    fn key_word(&self, at: usize) -> u32 {
        let bytes = self
            .key
            .get(at..at + 4)
            .and_then(|bytes| bytes.first_chunk());
        bytes.copied().map_or(0, u32::from_be_bytes)
    }
}

/// The place of `key` in the fields.
const KEY: u32 = 1;

/// Entries of the table that hash values pick from.
const TABLE_ENTRIES: u32 = 128;

/// The key of the RSS specification's verification suite.
const DEFAULT_KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

const SPEC: Spec = Spec {
    name: "spread",
    about: "spreads flows over the queues of a NIC by the Toeplitz hash",
    fields: &[
        Field::required(
            "to",
            FieldKind::Nic,
            core::mem::offset_of!(Args, to),
            "the NIC to send from",
        ),
        Field::optional(
            "key",
            FieldKind::Hex(KEY_BYTES),
            core::mem::offset_of!(Args, key),
            "the key; the one of the RSS specification if left out",
        ),
    ],
    one_of: &[],
    counters: &[CounterSpec::table("queue", 8)],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Ends,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Span;
    use crate::testing::Scene;

    /// The vectors of the RSS specification's verification suite.
    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        let cases = [
            (&[0x4209_95bb, 0xa18e_6450][..], 0x323e_8fc2),
            (&[0x4209_95bb, 0xa18e_6450, 0x0aea_06e6], 0x51cc_c178),
        ];
        for (words, want) in cases {
            let mut hash = Toeplitz::new(&DEFAULT_KEY);
            words.iter().for_each(|word| hash.add(*word));
            assert_eq!(hash.value, want);
        }
    }

    #[test]
    fn flows_stay_on_the_queue_that_their_hash_picks() {
        let mut scene = Scene::default();
        scene.outputs[1] = Span { first: 4, count: 4 };
        let args = Args {
            given: Given(1),
            to: 1,
            key: [0; KEY_BYTES],
        };
        // 0x51ccc178 and 0x40207d3d modulo 128, then modulo 4 queues.
        for (name, queue) in [("rss4", 0x78 % 4), ("rss6", 0x3d % 4)] {
            let counter = std::format!("queue.{queue}");
            let sent = Verdict::Send(4 + queue);
            scene.check::<Spread>(&args, (name, name), sent, &[(&counter, 1)]);
        }
        let nowhere = Args { to: 2, ..args };
        let name = ("rss4", "rss4");
        scene.check::<Spread>(&nowhere, name, Verdict::Drop(Reason::NO_PORT), &[]);
    }
}
