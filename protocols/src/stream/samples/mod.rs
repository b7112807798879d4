//! Records of a sensor: numbered, with a header before the payload, and samples in the payload.
//!
//! - [`Format`]: where the number of a record stands, and where its header ends.
//! - [`Window`]: which records came, which did not, and which came twice or too late.
//! - [`Conversion`]: samples of 16 bits to floating point.
//!
//! Payload is placed by its number as it comes; the window says which rows are final: those that
//! are there, and those that are missing, each once and in order.

mod conversion;
mod format;
mod window;

pub use conversion::Conversion;
pub use format::{Format, Illegal, Split};
pub use window::{Counts, Offered, Run, SpanTooLong, Window};
