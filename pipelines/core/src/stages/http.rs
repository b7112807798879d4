//! Classifies TCP segments to web servers by HTTP method, and those from them by status class.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedPorts, Spec};

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

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
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
