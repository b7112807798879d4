//! Classifies TCP segments to web servers by HTTP method, and those from them by status class.

use warpwire_device::{Piece, Simt};
use warpwire_protocols::parse::Kind;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedPorts, Spec};
use crate::stage::{Stage, Verdict};

/// Counts; changes nothing. Looks at the first bytes of each segment only.
#[derive(Clone, Copy, Debug)]
pub struct Http;

/// Where HTTP is spoken.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    ports: PackedPorts,
}

impl Stage for Http {
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
        let spoken = |port: u16| match args.given.has(0) {
            true => args.ports.has(port),
            false => port == 80 || port == 8080,
        };
        let to_server = spoken(headers.destination_port());
        if headers.kind != Kind::Tcp || !(to_server || spoken(headers.source_port())) {
            return Verdict::Next;
        }
        let start = start_of(&packet.bytes(), headers.payload, headers.payload_length);
        context.count(match start {
            None => NO_PAYLOAD,
            Some(start) if to_server => request(start).map_or(OTHER_PAYLOAD, |one| METHOD + one),
            Some(start) => response(start, &packet.bytes(), headers.payload)
                .map_or(OTHER_PAYLOAD, |class| STATUS + class),
        });
        Verdict::Next
    }
}

/// The first eight bytes of the payload as a big-endian number, missing ones zero; `None` if there
/// are none at all.
#[inline]
fn start_of(bytes: &Piece<'_>, payload: u16, length: u32) -> Option<u64> {
    let start = u32::from(payload);
    let count = length.min(8).min(bytes.length().saturating_sub(start));
    if count == 0 {
        return None;
    }
    if count == 8 {
        let (high, low) = (bytes.be32(start)?, bytes.be32(start + 4)?);
        return Some(u64::from(high) << 32 | u64::from(low));
    }
    let mut number = 0;
    let mut at = 0;
    while at < count {
        number |= u64::from(bytes.byte(start + at)?) << (56 - 8 * at);
        at += 1;
    }
    Some(number)
}

/// The place of the method that a request starts with.
#[inline]
fn request(start: u64) -> Option<u32> {
    let starts_with = |(text, letters): &(u64, u32)| {
        let mask = u64::MAX << (64 - 8 * letters);
        (start ^ text) & mask == 0
    };
    STARTS
        .iter()
        .position(starts_with)
        .map(|place| place as u32)
}

/// The class of the status that a response starts with, from 0 for 1xx.
#[inline]
fn response(start: u64, bytes: &Piece<'_>, payload: u16) -> Option<u32> {
    if start >> 24 != HTTP_SLASH {
        return None;
    }
    // "HTTP/1.1 200": the first digit of the status is the tenth byte.
    let digit = bytes.byte(u32::from(payload) + 9)?;
    let class = u32::from(digit).checked_sub(u32::from(b'1'))?;
    (class < 5).then_some(class)
}

/// "HTTP/" as a big-endian number.
const HTTP_SLASH: u64 = 0x48_5454_502f;

/// How requests start, in the order of [`METHODS`]: the method and a space, and how many bytes of
/// them are compared.
const STARTS: [(u64, u32); 9] = [
    (u64::from_be_bytes(*b"GET     "), 4),
    (u64::from_be_bytes(*b"HEAD    "), 5),
    (u64::from_be_bytes(*b"POST    "), 5),
    (u64::from_be_bytes(*b"PUT     "), 4),
    (u64::from_be_bytes(*b"DELETE  "), 7),
    (u64::from_be_bytes(*b"CONNECT "), 8),
    (u64::from_be_bytes(*b"OPTIONS "), 8),
    (u64::from_be_bytes(*b"TRACE   "), 6),
    (u64::from_be_bytes(*b"PATCH   "), 6),
];

/// Where each counter starts.
const METHOD: u32 = 0;
const STATUS: u32 = METHOD + 9;
const NO_PAYLOAD: u32 = STATUS + 5;
const OTHER_PAYLOAD: u32 = NO_PAYLOAD + 1;

const SPEC: Spec = Spec {
    name: "http",
    about: "counts HTTP requests by method and responses by status class",
    fields: &[Field::optional(
        "ports",
        FieldKind::Ports,
        core::mem::offset_of!(Args, ports),
        "TCP ports of servers; 80 and 8080 if left out",
    )],
    one_of: &[],
    counters: &[
        CounterSpec::labelled("method", &METHODS),
        CounterSpec::labelled("status", &["1xx", "2xx", "3xx", "4xx", "5xx"]),
        CounterSpec::one("no_payload"),
        CounterSpec::one("other_payload"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};

/// The methods of RFC 9110 section 9 and RFC 5789.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn segments_are_counted_by_how_they_start() {
        let args = Args {
            given: Given(0),
            ports: PackedPorts::default(),
        };
        let cases: &[(&str, &[(&str, u64)])] = &[
            ("http_get", &[("method.GET", 1)]),
            ("http_options", &[("method.OPTIONS", 1)]),
            ("http_getter", &[("other_payload", 1)]),
            ("http_short", &[("method.PUT", 1)]),
            ("http_empty", &[("no_payload", 1)]),
            ("http_response", &[("status.4xx", 1)]),
            ("http_elsewhere", &[]),
            ("dns_query", &[]),
        ];
        for (name, counts) in cases {
            Scene::default().check::<Http>(&args, (name, name), Verdict::Next, counts);
        }
    }

    #[test]
    fn every_method_has_its_place() {
        for (place, (method, (text, letters))) in METHODS.iter().zip(STARTS).enumerate() {
            let bytes = text.to_be_bytes();
            assert!(bytes.starts_with(method.as_bytes()), "{method}");
            assert_eq!(letters as usize, (method.len() + 1).min(8), "{method}");
            assert_eq!(request(text), Some(place as u32), "{method}");
        }
    }
}
