//! Arguments of `explain`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use omni_client::SpeechSettings;

use super::speak::Gather;
use super::{Server, Voice, duration};

pub(super) const EXAMPLES: &str = "\
Examples:
  omni-client explain \"Dr. Smith paid $3.50 on 5/6.\"
  omni-client explain --json \"Call 555-0100.\" | jq -r .segments[].text

Shows what the model is given, and which part of the text each word of it stands for. What reads wrong
here was misread by the server; what reads right here and sounds wrong was mispronounced by the model.";

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// Text to explain; `-` reads standard input, as does piped input without any text
    #[arg(value_name = "TEXT", allow_negative_numbers = true)]
    pub(crate) text: Vec<String>,
    /// File with the text to explain
    #[arg(long, short, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) voice: Voice,
    /// Unit of text to buffer before speaking, which decides where it is cut
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = Gather::Sentence, help_heading = "Voice")]
    pub(crate) buffering: Gather,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

impl Explain {
    pub(crate) fn settings(&self) -> SpeechSettings {
        SpeechSettings {
            buffering: self.buffering.units(),
            ..self.voice.settings()
        }
    }
}
