//! Counts DNS messages over UDP: queries, responses, response codes, question types.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedPorts, Spec};

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

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
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
