//! The `warpwire` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    warpwire::cli::main()
}
