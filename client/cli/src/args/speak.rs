//! Arguments of `speak`, and those of the voice, which other commands take, too.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use omni_audio::SampleRate;
use omni_client::{Buffering, SpeechSettings};

use super::Server;
use super::values::{duration, gain, sample_rate, speed, temperature};
use crate::format::Format;

pub(super) const EXAMPLES: &str = "\
Examples:
  Speak into a file (speech.wav unless -o names another):
    omni-client speak \"The quick brown fox jumps over the lazy dog.\"
  Speak another program's words while it is still writing them:
    some-llm | omni-client speak - -o - | mpv -
  For a telephone (G.711 at 8000 Hz), slower and louder:
    omni-client speak --speed 0.9 --gain 6 \"Your call is important to us.\" -o hold.ul
  Raw samples (16-bit little-endian, one channel) for a sound card:
    omni-client speak -o - --format pcm \"Hello.\" | aplay -q -f S16_LE -r 16000
  A file of text, as speech in another file:
    omni-client speak --file story.txt -o story.flac
  With subtitles, for a video:
    omni-client speak \"The quick brown fox.\" -o fox.wav --subtitles fox.srt
  The same audio again:
    omni-client speak --seed 7 \"Hello.\" -o again.wav

Ctrl-C stops speaking and leaves a valid file; pressed twice, it stops at once.";

/// Speaking rate and gain.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Rendering {
    /// Speaking rate at the same pitch: 0.25 to 4, 1 is the model's own rate
    #[arg(long, value_name = "FACTOR", value_parser = speed, help_heading = "Audio")]
    pub(crate) speed: Option<f32>,
    /// Gain over the model's own level in dB: -96 to 16
    #[arg(long, value_name = "DB", value_parser = gain, allow_negative_numbers = true, help_heading = "Audio")]
    pub(crate) gain: Option<f32>,
}

/// Voice, model, language and sampling.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Voice {
    /// Voice to speak with; `omni-client voices` lists them
    #[arg(
        long,
        short,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Voice"
    )]
    pub(crate) voice: String,
    /// Model to use; `omni-client models` lists them
    #[arg(
        long,
        short,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Voice"
    )]
    pub(crate) model: String,
    /// Language of the text, for example en or en-GB
    #[arg(
        long,
        short,
        value_name = "TAG",
        default_value = "",
        hide_default_value = true,
        help_heading = "Voice"
    )]
    pub(crate) language: String,
    /// The same seed, text and voice give the same audio
    #[arg(long, value_name = "N", help_heading = "Voice")]
    pub(crate) seed: Option<u64>,
    /// Sampling temperature: 0 is even and repeatable, 1 is lively [default: the model's]
    #[arg(long, value_name = "T", value_parser = temperature, help_heading = "Voice")]
    pub(crate) temperature: Option<f32>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Speak {
    /// Text to speak; `-` reads standard input and speaks it as it arrives
    ///
    /// `[pause:500ms]` in it is a pause. Several words need no quotes; a text that begins with `-` and a letter needs
    /// `--` before it. Without any text, piped input is spoken as if `-` was given. Texts longer than the server takes
    /// at once are spoken in several parts, into the same file.
    #[arg(value_name = "TEXT", allow_negative_numbers = true)]
    pub(crate) text: Vec<String>,
    /// File with the text to speak
    #[arg(long, short, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// File for the audio: .wav, .opus, .flac, .ul, .al, .pcm or .f32; `-` is standard output
    #[arg(
        long,
        short,
        value_name = "FILE",
        default_value = "speech.wav",
        help_heading = "Audio"
    )]
    pub(crate) output: PathBuf,
    /// Audio format, in place of the one that the file name implies
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Audio")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) voice: Voice,
    /// Style of speaking, or the voice to design, in words; models that take no such words warn
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Voice"
    )]
    pub(crate) instructions: String,
    /// Sample rate of the audio in Hz [default: the model's own]
    #[arg(long, value_name = "HZ", value_parser = sample_rate, help_heading = "Audio")]
    pub(crate) rate: Option<SampleRate>,
    #[command(flatten)]
    pub(crate) rendering: Rendering,
    /// Unit of text to buffer before speaking: larger units sound better, smaller ones start sooner
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = Gather::Sentence, help_heading = "Voice")]
    pub(crate) buffering: Gather,
    /// Also write subtitles: .srt, .vtt, or .jsonl with every word; `-` is WebVTT on standard output
    #[arg(long, value_name = "FILE", help_heading = "Audio")]
    pub(crate) subtitles: Option<PathBuf>,
    /// Largest lead of the server over playback, 100ms to 1h; an interruption discards at most this [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Audio")]
    pub(crate) max_lead: Option<Duration>,
    /// Playing time of each audio message, for example 20ms [default: as generated]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Audio")]
    pub(crate) frame_duration: Option<Duration>,
    /// Speak the text N times into the same file
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Audio")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long, for example 30, 30s, 500ms or 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print the summary on standard error as JSON
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
    /// Write the summary as JSON to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
}

/// Names of [`Buffering`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Gather {
    /// Whole sentences
    Sentence,
    /// Clauses: also cut at commas
    Clause,
    /// Every word as soon as it is complete
    Eager,
}

impl Voice {
    pub(crate) fn settings(&self) -> SpeechSettings {
        SpeechSettings {
            model: self.model.clone(),
            voice: self.voice.clone(),
            language: self.language.clone(),
            seed: self.seed,
            temperature: self.temperature,
            ..SpeechSettings::default()
        }
    }
}

impl Gather {
    pub(crate) fn units(self) -> Buffering {
        match self {
            Self::Sentence => Buffering::Sentence,
            Self::Clause => Buffering::Clause,
            Self::Eager => Buffering::Eager,
        }
    }
}

impl Speak {
    pub(crate) fn settings(&self) -> SpeechSettings {
        SpeechSettings {
            instructions: self.instructions.clone(),
            sample_rate: self.rate,
            speed: self.rendering.speed,
            gain_db: self.rendering.gain,
            buffering: self.buffering.units(),
            max_lead: self.max_lead,
            frame_duration: self.frame_duration,
            alignment: self.subtitles.is_some(),
            ..self.voice.settings()
        }
    }
}
