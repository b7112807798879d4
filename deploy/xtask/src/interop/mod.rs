//! Our answers against those of outside judges.

pub mod cases;
