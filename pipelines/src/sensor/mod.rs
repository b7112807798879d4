//! Records of a sensor from the host: memory for what device code gathers, the files that it is
//! drained to, and what is told of it. How records are gathered says [`warpwire_core::sensor`].
//!
//! # What is written
//! Two arrays of two dimensions, a row a record, in the order of the records' numbers:
//! - samples: `[rows][samples]` of `float32`, each sample as the conversion of [`Records`] says;
//! - headers: `[rows][header bytes]` of `uint8`, as they came.
//!
//! A file whose name ends in `.npy` is one of NumPy's, and whole up to its last flush whatever
//! becomes of the process; any other has the bare rows. Row 0 is the record that came first, or the
//! one that [`Records::first`] says. A record that did not come has its row too: NaN for every
//! sample ([`MISSING_SAMPLE`]), zeros for the header ([`MISSING_HEADER`]); which rows that are is
//! told as [`Gap`]s.
//!
//! # Ways in
//! - A stage `gather` in a pipeline file ([`crate::runtime`]): a UDP datagram a record.
//!   [`datagrams`] makes the file of a pipeline that does nothing else.
//! - [`Intake`]: the kernel `gather_streams`, beside an endpoint of streams.

mod datagrams;
mod error;
mod files;
mod gathering;
mod intake;
mod npy;
mod records;
mod tensors;
#[cfg(test)]
pub(crate) mod tests;

pub use datagrams::{Site, datagrams};
pub use error::Error;
pub use files::Files;
pub use gathering::{Figures, Gap, Gathering};
pub use intake::Intake;
pub use records::Records;
pub use tensors::Tensors;
pub use warpwire_core::sensor::IntakeCounters;
pub use warpwire_protocols::stream::ByteOrder;
pub use warpwire_protocols::stream::framing::Framing;
pub use warpwire_protocols::stream::samples::{Conversion, Format};

/// What every sample of a row is whose record did not come.
pub const MISSING_SAMPLE: f32 = f32::NAN;
/// What every byte of a header is whose record did not come.
pub const MISSING_HEADER: u8 = 0;
