//! Arguments of `voices`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use super::List;
use super::server::Server;
use super::values::duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  omni-client voices
  omni-client voices add anna --recording anna.wav --transcript \"What Anna says in it.\" --i-have-consent
  omni-client speak --voice anna \"Hello there.\" -o hello.wav
  omni-client voices export anna -o anna.safetensors
  omni-client voices remove anna";

/// Lists voices, or keeps one.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Voices {
    #[command(subcommand)]
    pub(crate) command: Option<VoicesCommand>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VoicesCommand {
    /// Make a voice of a recording, and keep it on the server
    Add(Add),
    /// Make a voice of a description, and keep it on the server (VoiceDesign models)
    Design(Design),
    /// Show what is kept of a voice
    Show(Show),
    /// Delete a voice
    Remove(Remove),
    /// Write a voice to a file
    Export(Export),
    /// Keep the voice of a file on the server
    Import(Import),
}

impl VoicesCommand {
    pub(super) fn server(&mut self) -> &mut Server {
        match self {
            Self::Add(add) => &mut add.server,
            Self::Design(design) => &mut design.server,
            Self::Show(show) => &mut show.server,
            Self::Remove(remove) => &mut remove.server,
            Self::Export(export) => &mut export.server,
            Self::Import(import) => &mut import.server,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Add {
    /// Name of the voice: letters, digits, spaces and any of - _ . '
    pub(crate) name: String,
    /// The recording: WAV, FLAC or Ogg Opus, 1 to 60 s of speech by one person
    #[arg(long, value_name = "FILE")]
    pub(crate) recording: PathBuf,
    /// Exact words of the recording: speech then continues from it
    #[arg(long, value_name = "TEXT", required_unless_present = "x_vector_only")]
    pub(crate) transcript: Option<String>,
    /// Keep only the speaker's vector, and not the recording itself: needs no transcript, sounds less alike
    #[arg(long)]
    pub(crate) x_vector_only: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
    /// For people, shown in lists
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// One of the two.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct Consent {
    /// State that the speaker agreed to this voice
    #[arg(long)]
    pub(crate) i_have_consent: bool,
    /// State how the speaker agreed; kept with the voice
    #[arg(long, value_name = "TEXT")]
    pub(crate) consent: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Design {
    /// Name of the voice: letters, digits, spaces and any of - _ . '
    pub(crate) name: String,
    /// Description of its sound, in words: sent to the model with every request
    pub(crate) words: String,
    /// For people, shown in lists
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// Name of the voice
    pub(crate) name: String,
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
pub(crate) struct Remove {
    /// Name of the voice
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    /// Name of the voice
    pub(crate) name: String,
    /// The file; it must not exist [default: NAME.safetensors]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// A file that `export` wrote
    pub(crate) file: PathBuf,
    /// Another name for the voice
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}
