//! The `warpwire` command.

fn main() {}
