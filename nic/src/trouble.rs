//! What goes wrong with a NIC after it was opened.

use crate::error::Error;

/// How much a trouble takes away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// It may pass by itself; what was asked for may still be done.
    Warning,
    /// Something that was asked for was not done, such as a file that could not be written; the
    /// rest goes on.
    Failure,
    /// Nothing will pass the NIC any more.
    Fatal,
}

/// Something that went wrong with an open NIC. It is told as often as is asked, in the same words.
#[derive(Debug)]
pub struct Trouble {
    /// How much it takes away.
    pub severity: Severity,
    /// What it is, and the cure.
    pub error: Error,
}
