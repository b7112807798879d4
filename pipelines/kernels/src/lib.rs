//! The GPU entry points, linked into one PTX file.
