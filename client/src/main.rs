//! `omni-client`: speak, look around and measure, from the command line.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
