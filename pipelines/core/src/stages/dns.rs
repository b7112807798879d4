//! Counts DNS messages over UDP: queries, responses, response codes, question types.

use warpwire_device::{Piece, Simt};
use warpwire_protocols::parse::Kind;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedPorts, Spec};
use crate::stage::{Stage, Verdict};

/// Counts; changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Dns;

/// Where DNS is spoken.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    ports: PackedPorts,
}

impl Stage for Dns {
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
        let headers = packet.headers();
        let (source, destination) = (headers.source_port(), headers.destination_port());
        let spoken = match args.given.has(0) {
            true => args.ports.has(source) || args.ports.has(destination),
            false => source == 53 || destination == 53,
        };
        if headers.kind == Kind::Udp && spoken {
            match message(&packet.bytes(), headers.payload, headers.payload_length) {
                Some(found) => count(context, found),
                None => context.count(MALFORMED),
            }
        }
        Verdict::Next
    }
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message {
    is_response: bool,
    code: u8,
    /// Type of the first question, if there is one.
    question: Option<u16>,
}

#[inline]
fn count<S: Simt>(context: &Context<'_, S>, message: Message) {
    if message.is_response {
        context.count(RESPONSES);
        context.count(CODES + u32::from(message.code & 15));
    } else {
        context.count(QUERIES);
    }
    if let Some(question) = message.question {
        context.count(TYPES + type_place(question));
    }
}

/// Reads a message; `None` if it is cut off or its first question cannot be read.
#[inline]
fn message(bytes: &Piece<'_>, payload: u16, length: u32) -> Option<Message> {
    let start = u32::from(payload);
    let bytes = bytes.part(start, length.min(bytes.length().saturating_sub(start)))?;
    let flags = bytes.be16(2)?;
    let questions = bytes.be16(4)?;
    bytes.be16(10)?;
    let question = match questions {
        0 => None,
        _ => Some(question_type(&bytes)?),
    };
    Some(Message {
        is_response: flags >> 15 != 0,
        code: (flags & 15) as u8,
        question,
    })
}

/// Walks over the name of the first question. Names have 255 bytes at most, RFC 1035 section 2.3.4.
#[inline]
fn question_type(bytes: &Piece<'_>) -> Option<u16> {
    let mut at = HEADER_BYTES;
    while at < HEADER_BYTES + 255 {
        match bytes.byte(at)? {
            0 => return bytes.be16(at + 1),
            label @ 1..=63 => at += 1 + u32::from(label),
            _ => return None,
        }
    }
    None
}

/// The place of a question type among [`QUESTION_TYPES`].
const fn type_place(question: u16) -> u32 {
    match question {
        1 => 0,
        2 => 1,
        5 => 2,
        6 => 3,
        12 => 4,
        15 => 5,
        16 => 6,
        28 => 7,
        33 => 8,
        65 => 9,
        255 => 10,
        _ => 11,
    }
}

const HEADER_BYTES: u32 = 12;

/// Where each counter starts.
const QUERIES: u32 = 0;
const RESPONSES: u32 = 1;
const MALFORMED: u32 = 2;
const CODES: u32 = 3;
const TYPES: u32 = CODES + 16;

const SPEC: Spec = Spec {
    name: "dns",
    about: "counts DNS messages over UDP by direction, response code and question type",
    fields: &[Field::optional(
        "ports",
        FieldKind::Ports,
        core::mem::offset_of!(Args, ports),
        "UDP ports of servers; 53 if left out",
    )],
    one_of: &[],
    counters: &[
        CounterSpec::one("queries"),
        CounterSpec::one("responses"),
        CounterSpec::one("malformed"),
        CounterSpec::labelled("response_code", &RESPONSE_CODES),
        CounterSpec::labelled("question_type", &QUESTION_TYPES),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};

/// Names of the response codes, RFC 1035 section 4.1.1 and RFC 2136 section 2.2.
const RESPONSE_CODES: [&str; 16] = [
    "no_error",
    "format_error",
    "server_failure",
    "name_error",
    "not_implemented",
    "refused",
    "name_exists",
    "set_exists",
    "set_missing",
    "not_authoritative",
    "not_in_zone",
    "11",
    "12",
    "13",
    "14",
    "15",
];

/// Names of the question types that are told apart; the last stands for all others.
const QUESTION_TYPES: [&str; 12] = [
    "A", "NS", "CNAME", "SOA", "PTR", "MX", "TXT", "AAAA", "SRV", "HTTPS", "ANY", "other",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn messages_are_counted_by_what_they_say() {
        let args = Args {
            given: Given(0),
            ports: PackedPorts::default(),
        };
        let cases: &[(&str, &[(&str, u64)])] = &[
            ("dns_query", &[("queries", 1), ("question_type.AAAA", 1)]),
            (
                "dns_response",
                &[
                    ("responses", 1),
                    ("response_code.name_error", 1),
                    ("question_type.A", 1),
                ],
            ),
            ("dns_cut", &[("malformed", 1)]),
            ("dns_pointer_loop", &[("malformed", 1)]),
            ("udp4", &[]),
            ("http_get", &[]),
        ];
        for (name, counts) in cases {
            Scene::default().check::<Dns>(&args, (name, name), Verdict::Next, counts);
        }
        let elsewhere = Args {
            given: Given(1),
            ports: PackedPorts {
                count: 1,
                ports: [5353, 53, 0, 0, 0, 0, 0],
            },
        };
        let name = ("dns_query", "dns_query");
        Scene::default().check::<Dns>(&elsewhere, name, Verdict::Next, &[]);
    }
}
