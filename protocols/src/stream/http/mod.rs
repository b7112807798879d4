//! HTTP/1.1 for a server of files: RFC 9110 and RFC 9112, without allocation.
//!
//! A [`Parser`] is fed with the bytes of a stream as they come, and takes exactly one request, body
//! included. What it keeps of it is the method, the path, and whether the connection goes on. Then
//! the server answers, by a [`Head`] and the file, and begins with the next one.
//!
//! What may be read in two ways is refused, because somebody on the way may have read it in the
//! other: line ends that are not CR LF, folded lines, white space before a colon, lengths that are
//! not plain numbers, more than one length, a length together with chunks.
//!
//! Invariant: how the bytes are cut into pieces changes nothing.
//! Invariant: a path begins with `/`, was decoded once, and has no dot segment, no control
//! character, no backslash, and no slash that was escaped.
//! Invariant: what a client makes the parser keep, or skip without an answer, is bounded by
//! [`Limits`].

mod body;
mod date;
mod fields;
mod grammar;
mod host;
mod list;
mod request;
mod response;
mod status;
mod target;

pub use date::{DATE_BYTES, date};
pub use request::{Limits, Method, Parser, Progress, Request, Taken, Version};
pub use response::{CONTINUE, FieldValue, Head};
pub use status::Status;
pub use target::PATH_BYTES;

#[cfg(test)]
mod tests;
