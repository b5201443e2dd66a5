//! `man` and `completions`: manuals and shell scripts from the arguments.

mod voices;

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::Args;
use super::failure::Failure;
use super::print;

pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let script = omni_manual::completions(Args::command(), shell);
    print(voices::completed(shell, script).as_bytes())
}

/// The page of the program to standard output, or a page of every command into a folder.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        let page = omni_manual::page(Args::command());
        return print(&page.map_err(|error| Failure::io("cannot make the page", error))?);
    };
    omni_manual::write_pages(Args::command(), folder)
        .map_err(|error| Failure::write(&folder.display().to_string(), error))
}
