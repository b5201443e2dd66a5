//! `omni-client`: speak, talk, look around and measure, from the command line.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
