//! Our answers against those of outside judges.

pub mod captures;
pub mod cases;
pub mod counts;
pub mod differences;
pub mod namespaces;
pub mod tshark;
