//! Arguments of `chat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use omni_client::{ChatSettings, Outputs, Sampling};

use super::values::{duration, temperature};
use super::{Rendering, Server};
use crate::format::Format;

pub(super) const EXAMPLES: &str = "\
Examples:
  Talk, and hear the answers while they are still being written:
    omni-client chat --audio-out - | mpv -
  Begin with a question that was recorded, and keep every answer in a file of its own:
    omni-client chat --audio-in question.wav --audio-out answers/
  A script: one turn in every line, the answers in order on standard output:
    printf 'What is 17 + 25?\\nAnd twice that?\\n' | omni-client chat

At the prompt:
  /system TEXT   set the instructions for the model; without TEXT: show them
  /voice NAME    speak with another voice; without NAME: show it
  /save FILE     write the conversation: JSON if FILE ends in .json, else text
  /clear         begin a new conversation
  /help          show this
  /quit          leave, as Ctrl-D does
  //...          say something that begins with a slash

Ctrl-C stops the answer and stays; at the prompt it clears the line, and on an empty line,
pressed twice, it leaves. Of an answer that was being spoken the conversation keeps what a
player that began with the first audio had played by then. Lines typed while an
answer comes are said after it. Tab completes a command, and the arrow keys bring back lines,
those of earlier sessions too.";

/// Arguments of `chat`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Chat {
    /// First message
    ///
    /// Then the terminal is asked for more; piped input is read as a script, one turn in every line.
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Speak the answers into a file, a directory with a WAV file for every answer, or `-`
    ///
    /// The ending of the file names its format, as for `speak`. A directory is one that exists or whose name ends with
    /// a slash. `-` is standard output; the text goes to standard error then. Without this option answers are only
    /// written.
    #[arg(long, short = 'o', value_name = "FILE|DIR", help_heading = "Audio")]
    pub(crate) audio_out: Option<PathBuf>,
    /// Recording to send first, ahead of any TEXT: WAV, FLAC (.flac), Ogg Opus (.opus, .ogg) or G.711 (.ul, .al at
    /// 8000 Hz)
    #[arg(long, value_name = "FILE", help_heading = "Audio")]
    pub(crate) audio_in: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rendering: Rendering,
    /// Request no speech; the default without --audio-out
    #[arg(long, conflicts_with = "audio_out", help_heading = "Audio")]
    pub(crate) text_only: bool,
    /// Instructions for the model
    #[arg(
        long,
        short,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) system: String,
    /// Voice to speak with; `omni-client voices` lists them
    #[arg(
        long,
        short,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(requires = "audio_out", help_heading = "Audio")]
    pub(crate) voice: String,
    /// Language of the answers' speech, for example en or en-GB
    #[arg(
        long,
        short,
        value_name = "TAG",
        default_value = "",
        hide_default_value = true
    )]
    #[arg(requires = "audio_out", help_heading = "Audio")]
    pub(crate) language: String,
    /// Model to use; `omni-client models` lists them
    #[arg(
        long,
        short,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) model: String,
    /// The same seed and conversation give the same answers
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Variety of the words: 0 always takes the most likely [default: the model's]
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub(crate) temperature: Option<f32>,
    /// Longest answer in text tokens [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// Do not keep the lines of the prompt for later sessions
    ///
    /// They are kept in ~/.local/state/omni/chat-history, which only its owner can read: the newest thousand.
    /// OMNI_CHAT_HISTORY names another file; where it is empty, nothing is kept.
    #[arg(long)]
    pub(crate) no_history: bool,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up when an answer takes longer, for example 30, 30s, 500ms or 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print the line about every answer's latency also where standard error is no terminal
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

impl Chat {
    pub(crate) fn settings(&self) -> ChatSettings {
        ChatSettings {
            model: self.model.clone(),
            instructions: self.system.clone(),
            outputs: match self.audio_out {
                Some(_) => Outputs::TextAndAudio,
                None => Outputs::Text,
            },
            voice: self.voice.clone(),
            language: self.language.clone(),
            sample_rate: self
                .audio_out
                .as_deref()
                .and_then(Format::of)
                .and_then(|format| format.rate(None).ok().flatten()),
            speed: self.rendering.speed,
            gain_db: self.rendering.gain,
            text_sampling: Sampling {
                seed: self.seed,
                temperature: self.temperature,
                max_tokens: self.max_tokens,
                ..Sampling::default()
            },
            ..ChatSettings::default()
        }
    }
}
