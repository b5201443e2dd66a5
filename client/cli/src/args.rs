//! Arguments and their help.

mod bench;
mod chat;
mod doctor;
mod explain;
mod operator;
mod server;
mod speak;
mod values;
mod voices;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use omni_client::Endpoint;

use super::failure::Failure;
pub(crate) use bench::{Bench, Readers, Style};
pub(crate) use chat::Chat;
pub(crate) use doctor::Doctor;
pub(crate) use explain::Explain;
pub(crate) use operator::{
    Admin, AdminCommand, AdminServer, Stats as StatsArgs, Top as TopArgs, Which, Withdraw,
};
use server::{Access, Server};
pub(crate) use speak::Speak;
use speak::{Rendering, Voice};
use values::duration;
pub(crate) use voices::{Add, Consent, Design, Export, Import, Show, Voices, VoicesCommand};

/// Exit codes, each with the commands that have it; all have it where none is named.
const EXIT_CODES: [(&str, &str); 8] = [
    ("", "0       done"),
    ("health", "1       not serving"),
    ("doctor", "1       something is wrong"),
    (
        "",
        "2       wrong usage: bad arguments, no text, audio to a terminal",
    ),
    ("bench", "3       some requests failed"),
    (
        "",
        "4       a file, standard input or standard output could not be used",
    ),
    (
        "",
        "64 + N  the server or the way to it failed with gRPC code N\n          \
         (67 bad request, 68 out of time, 72 overloaded, 78 no server)",
    ),
    ("", "130     interrupted with Ctrl-C"),
];

/// The exit codes of a command.
fn exit_codes(command: &str) -> String {
    let own = EXIT_CODES
        .iter()
        .filter(|(only, _)| only.is_empty() || *only == command);
    let lines: Vec<_> = own.map(|(_, line)| format!("\n  {line}")).collect();
    format!("Exit codes:{}", lines.concat())
}

/// The exit codes of all commands.
fn all_exit_codes() -> String {
    let line = |(only, line): &(&str, &str)| match *only {
        "" => format!("\n  {line}"),
        command => {
            let (code, meaning) = line.split_at(8);
            format!("\n  {code}{command}: {meaning}")
        }
    };
    format!("Exit codes:{}", EXIT_CODES.iter().map(line).collect::<String>())
}

/// Text behind the long help of a command.
fn end_of(command: &str, examples: &str) -> String {
    format!("{examples}\n\n{}", exit_codes(command))
}

const EXAMPLES: &str = "\
Examples:
  omni-client speak \"Hello there.\" -o hello.wav
  omni-client speak -o - \"Hello there.\" | aplay -q
  tail -f story.txt | omni-client speak - -o - | mpv -
  omni-client chat --audio-out - | mpv -
  omni-client voices";

/// Talk to an Omni speech server.
#[derive(Debug, Parser)]
#[command(name = "omni-client", version, after_help = EXAMPLES, after_long_help = long_end(EXAMPLES))]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

impl Args {
    /// The parsed arguments with their sources; exits on wrong usage.
    pub(crate) fn typed() -> (Self, ArgMatches) {
        let matches = Self::command().get_matches();
        match Self::from_arg_matches(&matches) {
            Ok(args) => (args, matches),
            Err(error) => error.format(&mut Self::command()).exit(),
        }
    }

    /// Reads the API key and the certificates that the arguments name.
    pub(crate) fn authorise(&mut self, matches: &ArgMatches) -> Result<(), Failure> {
        match self.command.way() {
            Some((endpoints, access)) => access.authorise(endpoints, Access::is_about_tls(matches)),
            None => Ok(()),
        }
    }
}

fn long_end(examples: &str) -> String {
    format!(
        "{examples}\n\n{}\n\nSet OMNI_ENDPOINT to name the server once and for all.",
        all_exit_codes()
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Turn text into speech
    #[command(after_help = speak::EXAMPLES, after_long_help = end_of("speak", speak::EXAMPLES))]
    Speak(Speak),
    /// Show what the model is given for a text, word by word, without speaking it
    #[command(after_help = explain::EXAMPLES, after_long_help = end_of("explain", explain::EXAMPLES))]
    Explain(Explain),
    /// Talk with a model that answers in text and speech
    #[command(after_help = chat::EXAMPLES, after_long_help = end_of("chat", chat::EXAMPLES))]
    Chat(Chat),
    /// List the voices, or keep one of a recording
    #[command(after_help = voices::EXAMPLES, after_long_help = end_of("voices", voices::EXAMPLES))]
    Voices(Voices),
    /// List the models
    Models(List),
    /// Show whether the server is ready
    #[command(after_long_help = exit_codes("health"))]
    Health(Health),
    /// Measure latency, speed and gaps under load
    Bench(Box<Bench>),
    /// Check every step from this machine to spoken audio, and suggest repairs
    #[command(after_help = doctor::EXAMPLES, after_long_help = end_of("doctor", doctor::EXAMPLES))]
    Doctor(Doctor),
    /// Show what a server is doing: stages, queue, latencies, sessions
    #[command(after_help = operator::EXAMPLES, after_long_help = end_of("stats", operator::EXAMPLES))]
    Stats(StatsArgs),
    /// Watch a server live, and control it
    #[command(after_help = operator::EXAMPLES, after_long_help = end_of("stats", operator::EXAMPLES))]
    Top(TopArgs),
    /// Control a server: replicas, sessions, shutdown
    #[command(after_help = operator::EXAMPLES, after_long_help = end_of("stats", operator::EXAMPLES))]
    Admin(Admin),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write a page of every command
    Man {
        /// A folder for the pages of all commands, for example ~/.local/share/man/man1
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

impl Command {
    /// The servers that the command calls, and the credentials for them.
    fn way(&mut self) -> Option<(Vec<&mut Endpoint>, &Access)> {
        let server = match self {
            Self::Speak(speak) => &mut speak.server,
            Self::Explain(explain) => &mut explain.server,
            Self::Chat(chat) => &mut chat.server,
            Self::Voices(voices) => match &mut voices.command {
                Some(command) => command.server(),
                None => &mut voices.list.server,
            },
            Self::Models(list) => &mut list.server,
            Self::Health(health) => &mut health.server,
            Self::Bench(bench) => return Some(bench.way()),
            Self::Doctor(doctor) => &mut doctor.server,
            Self::Stats(stats) => return Some(stats.server.way()),
            Self::Top(top) => return Some(top.server.way()),
            Self::Admin(admin) => return Some(admin.command.server().way()),
            Self::Completions { .. } | Self::Man { .. } => return None,
        };
        Some((vec![&mut server.endpoint], &server.access))
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Health {
    /// One service, for example omni.v1.SpeechService [default: the server as a whole]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) service: String,
    /// Wait until the server is ready
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait or try for this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
