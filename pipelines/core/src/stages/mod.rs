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

crate::stage_set! {
    /// The built-in stages, in the order of the kernel's table.
    pub struct BuiltIn:
    classify::Classify,
    count::Count,
    dns::Dns,
    drop::Drop,
    filter::Filter,
    forward::Forward,
    http::Http,
    reply::Reply,
    respond::Respond,
    rewrite::Rewrite,
    sample::Sample,
    spread::Spread,
    verify::Verify,
}
