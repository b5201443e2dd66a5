//! Manual pages and completion scripts of a program, made of its clap command.

mod page;

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use page::{Footer, Page};

/// The script that completes the arguments of `command` in `shell`.
pub fn completions(mut command: Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, &name, &mut script);
    // clap_complete cuts the program's name at its hyphen in the labels of commands only, so that bash meets none of them.
    String::from_utf8_lossy(&script).replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}

/// The page of the program `command`, as roff.
///
/// # Errors
/// If it cannot be formatted.
pub fn page(command: Command) -> io::Result<Vec<u8>> {
    let command = built(command);
    let footer = Footer::of(&command);
    Page::of(command, &footer).written()
}

/// Writes a page for `command` and for each of its commands that is not hidden into `folder`, which is created if need be.
///
/// # Errors
/// If the folder cannot be created, or a page cannot be written.
pub fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let command = built(command);
    let footer = Footer::of(&command);
    write(command, &footer, folder)
}

fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

fn write(command: Command, footer: &Footer, folder: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(command.clone(), footer, folder)?;
    }
    let page = Page::of(command, footer);
    fs::write(folder.join(page.file_name()), page.written()?)
}
