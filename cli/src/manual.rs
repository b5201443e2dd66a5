//! `man` and `completions`: what the arguments say, for manuals and for shells.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use super::args::Args;
use super::failure::Failure;
use super::print;

const NAME: &str = "omni-client";

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), NAME, &mut script);
    print(&script)
}

/// The page of the program to standard output, or a page of every command into a folder.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let written = clap_mangen::Man::new(Args::command()).render(&mut page);
        written.map_err(|error| Failure::io("cannot make the page", error))?;
        return print(&page);
    };
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Args::command(), folder))
        .map_err(|error| Failure::write(&folder.display().to_string(), error))
}
