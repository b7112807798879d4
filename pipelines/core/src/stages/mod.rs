//! The built-in stages, a file each.

pub mod classify;
pub mod count;
pub mod dns;
pub mod drop;
pub mod filter;
pub mod forward;
pub mod http;
pub mod reply;
pub mod respond;
pub mod rewrite;
pub mod sample;
pub mod spread;
pub mod verify;

use crate::spec::Spec;

/// What each built-in stage says about itself, in the order of the kernel's table.
pub const SPECS: &[&Spec] = &[
    &classify::SPEC,
    &count::SPEC,
    &dns::SPEC,
    &drop::SPEC,
    &filter::SPEC,
    &forward::SPEC,
    &http::SPEC,
    &reply::SPEC,
    &respond::SPEC,
    &rewrite::SPEC,
    &sample::SPEC,
    &spread::SPEC,
    &verify::SPEC,
];
