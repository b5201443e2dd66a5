//! `man` and `completions`: what the arguments say, for manuals and for shells.

mod page;
mod voices;

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use super::args::Args;
use super::failure::Failure;
use super::print;
use page::Page;

const NAME: &str = "omni-client";

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), NAME, &mut script);
    print(voices::completed(shell, String::from_utf8_lossy(&script).into_owned()).as_bytes())
}

/// The page of the program to standard output, or a page of every command into a folder.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let date = page::date();
    let Some(folder) = folder else {
        let page = Page::of(command, &date);
        return print(
            &page
                .written()
                .map_err(|error| Failure::io("cannot make the page", error))?,
        );
    };
    fs::create_dir_all(folder)
        .and_then(|()| write(command, &date, folder))
        .map_err(|error| Failure::write(&folder.display().to_string(), error))
}

fn write(command: Command, date: &str, folder: &Path) -> std::io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(command.clone(), date, folder)?;
    }
    let page = Page::of(command, date);
    fs::write(folder.join(page.file_name()), page.written()?)
}
