//! What can be typed, and the help that explains it.

mod bench;
mod chat;
mod doctor;
mod operator;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};
use omni_audio::SampleRate;
use omni_client::{Buffering, Endpoint, SpeechSettings, TlsSettings};

use super::failure::Failure;
use super::format::Format;
pub(crate) use bench::{Bench, BenchCommand, Readers};
pub(crate) use chat::Chat;
pub(crate) use doctor::Doctor;
pub(crate) use operator::{Admin, AdminCommand, AdminServer, Stats as StatsArgs, Top as TopArgs, Which};

/// The variable that may hold the API key.
const API_KEY: &str = "OMNI_API_KEY";

const EXIT_CODES: &str = "\
Exit codes:
  0       done
  1       health: not serving; doctor: something is wrong
  2       wrong usage: bad arguments, no text, audio to a terminal
  3       bench: some requests failed
  4       a file, standard input or standard output could not be used
  64 + N  the server or the way to it failed with gRPC code N
          (67 bad request, 68 out of time, 72 overloaded, 78 no server)
  130     interrupted with Ctrl-C";

const EXAMPLES: &str = "\
Examples:
  omni-client speak \"Hello there.\" -o hello.wav
  omni-client speak -o - \"Hello there.\" | aplay -q
  tail -f story.txt | omni-client speak - -o - | mpv -
  omni-client chat --audio-out - | mpv -
  omni-client voices";

const SPEAK_EXAMPLES: &str = "\
Examples:
  Speak into a file (speech.wav unless -o names another):
    omni-client speak \"The quick brown fox jumps over the lazy dog.\"
  Speak another program's words while it is still writing them:
    some-llm | omni-client speak - -o - | mpv -
  For a telephone (G.711 at 8000 Hz), slower and louder:
    omni-client speak --speed 0.9 --gain 6 \"Your call is important to us.\" -o hold.ul
  Raw samples (16-bit little-endian, one channel) for a sound card:
    omni-client speak -o - --format pcm \"Hello.\" | aplay -q -f S16_LE -r 16000
  With subtitles, for a video:
    omni-client speak \"The quick brown fox.\" -o fox.wav --subtitles fox.srt
  The same audio again:
    omni-client speak --seed 7 \"Hello.\" -o again.wav

Ctrl-C stops speaking and leaves a valid file; pressed twice, it stops at once.";

/// Talk to an Omni speech server.
#[derive(Debug, Parser)]
#[command(name = "omni-client", version, after_help = EXAMPLES, after_long_help = long_end(EXAMPLES))]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn long_end(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}\n\nSet OMNI_ENDPOINT to name the server once and for all.")
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Turn text into speech
    #[command(after_help = SPEAK_EXAMPLES, after_long_help = format!("{SPEAK_EXAMPLES}\n\n{EXIT_CODES}"))]
    Speak(Speak),
    /// Talk with a model that answers in text and speech
    #[command(after_help = chat::EXAMPLES, after_long_help = format!("{}\n\n{EXIT_CODES}", chat::EXAMPLES))]
    Chat(Chat),
    /// List the voices
    Voices(List),
    /// List the models
    Models(List),
    /// Ask whether the server is ready
    Health(Health),
    /// Measure latency, speed and gaps under load
    Bench(Box<Bench>),
    /// Check everything between here and spoken audio, and say what to do about what is wrong
    #[command(after_help = doctor::EXAMPLES, after_long_help = format!("{}\n\n{EXIT_CODES}", doctor::EXAMPLES))]
    Doctor(Doctor),
    /// Show what a server is doing: stages, queue, latencies, sessions
    #[command(after_help = operator::EXAMPLES, after_long_help = format!("{}\n\n{EXIT_CODES}", operator::EXAMPLES))]
    Stats(StatsArgs),
    /// Watch a server at work, and steer it
    #[command(after_help = operator::EXAMPLES, after_long_help = format!("{}\n\n{EXIT_CODES}", operator::EXAMPLES))]
    Top(TopArgs),
    /// Steer a server: its replicas, its sessions, its end
    #[command(after_help = operator::EXAMPLES, after_long_help = format!("{}\n\n{EXIT_CODES}", operator::EXAMPLES))]
    Admin(Admin),
    /// Print a completion script for a shell
    Completions {
        /// For which shell
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
    /// Reads what is named for the way to the server: the API key, certificates.
    pub(crate) fn authorise(&mut self) -> Result<(), Failure> {
        let operators = match self {
            Self::Stats(stats) => Some(&mut stats.server),
            Self::Top(top) => Some(&mut top.server),
            Self::Admin(admin) => Some(admin.command.server()),
            _ => None,
        };
        if let Some(server) = operators {
            return authorise(&mut server.endpoint, server.api_key_file.as_deref(), &server.tls);
        }
        let server = match self {
            Self::Speak(speak) => &mut speak.server,
            Self::Chat(chat) => &mut chat.server,
            Self::Voices(list) | Self::Models(list) => &mut list.server,
            Self::Health(health) => &mut health.server,
            Self::Bench(bench) => &mut bench.server,
            Self::Doctor(doctor) => &mut doctor.server,
            Self::Stats(_) | Self::Top(_) | Self::Admin(_) | Self::Completions { .. } | Self::Man { .. } => {
                return Ok(());
            }
        };
        authorise(&mut server.endpoint, server.api_key_file.as_deref(), &server.tls)
    }

    pub(crate) fn quiet(&self) -> bool {
        match self {
            Self::Speak(speak) => speak.quiet,
            Self::Chat(chat) => chat.quiet,
            Self::Bench(bench) => bench.quiet,
            Self::Voices(_)
            | Self::Models(_)
            | Self::Health(_)
            | Self::Doctor(_)
            | Self::Stats(_)
            | Self::Top(_)
            | Self::Admin(_)
            | Self::Completions { .. }
            | Self::Man { .. } => false,
        }
    }
}

/// Which server.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Server {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "OMNI_ENDPOINT", hide_env_values = true)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub(crate) endpoint: Endpoint,
    /// File with the API key, where the server asks for one; OMNI_API_KEY may hold the key itself
    #[arg(long, value_name = "FILE", env = "OMNI_API_KEY_FILE", hide_env_values = true)]
    pub(crate) api_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: Tls,
}

/// How an https:// endpoint is talked to.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Tls {
    /// Trust the authorities in this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE", env = "OMNI_TLS_CA", hide_env_values = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Certificate (PEM) for a server that asks for one
    #[arg(
        long,
        value_name = "FILE",
        env = "OMNI_CLIENT_TLS_CERT",
        hide_env_values = true
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of --tls-cert (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "OMNI_CLIENT_TLS_KEY",
        hide_env_values = true
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Name that the server's certificate must have, if it is not that in the address
    #[arg(
        long,
        value_name = "NAME",
        env = "OMNI_TLS_SERVER_NAME",
        hide_env_values = true
    )]
    pub(crate) tls_server_name: Option<String>,
}

impl Tls {
    /// None if nothing was said.
    fn settings(&self) -> Result<Option<TlsSettings>, Failure> {
        let wrong = |flag: &str, error: &dyn std::fmt::Display| Failure::Usage(format!("{flag}: {error}"));
        let mut settings = TlsSettings::default();
        if let Some(file) = &self.tls_ca {
            settings = settings
                .trusting(read(file)?)
                .map_err(|error| wrong("--tls-ca", &error))?;
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                settings = settings
                    .identified_by(read(certificate)?, read(key)?)
                    .map_err(|error| wrong("--tls-cert, --tls-key", &error))?;
            }
            (None, None) => {}
            (Some(_), None) => return Err(wrong("--tls-cert", &"expected --tls-key beside it")),
            (None, Some(_)) => return Err(wrong("--tls-key", &"expected --tls-cert beside it")),
        }
        if let Some(name) = &self.tls_server_name {
            settings = settings.expecting(name);
        }
        Ok((settings != TlsSettings::default()).then_some(settings))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::io(format!("cannot read {}", file.display()), error))
}

/// Gives an endpoint what was named for it: the key, the certificates. A key is never an argument: those are seen by every user of
/// the machine.
fn authorise(endpoint: &mut Endpoint, file: Option<&Path>, tls: &Tls) -> Result<(), Failure> {
    if let Some(settings) = tls.settings()? {
        let encrypted = endpoint.clone().with_tls(settings);
        *endpoint = encrypted.map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let key = match file {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::io(format!("cannot read {}", file.display()), error))?,
        None => std::env::var(API_KEY).unwrap_or_default(),
    };
    if key.is_empty() && file.is_none() {
        return Ok(());
    }
    let authorised = endpoint.clone().with_api_key(&key);
    *endpoint = authorised.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(())
}

/// How fast and how loud.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Rendering {
    /// How fast to speak, at the same pitch: 0.5 to 2, 1 is the model's own speed
    #[arg(long, value_name = "FACTOR", value_parser = speed, help_heading = "Audio")]
    pub(crate) speed: Option<f32>,
    /// How much louder than the model speaks, in dB: -96 to 16
    #[arg(long, value_name = "DB", value_parser = gain, allow_negative_numbers = true, help_heading = "Audio")]
    pub(crate) gain: Option<f32>,
}

/// How to speak.
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
    /// Liveliness: 0 is even and repeatable, 1 is lively [default: the model's]
    #[arg(long, value_name = "T", value_parser = temperature, help_heading = "Voice")]
    pub(crate) temperature: Option<f32>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Speak {
    /// What to say; `-` speaks standard input while it is still being written
    ///
    /// Several words need no quotes. Without any text, piped input is spoken as if `-` was given. Texts longer than the
    /// server takes at once are spoken in several parts, into the same file.
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Where to write the audio: .wav, .opus, .flac, .ul, .al, .pcm or .f32; `-` is standard output
    #[arg(
        long,
        short,
        value_name = "FILE",
        default_value = "speech.wav",
        help_heading = "Audio"
    )]
    pub(crate) output: PathBuf,
    /// Format, whatever the file is called
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Audio")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) voice: Voice,
    /// Sample rate of the audio in Hz [default: the model's own]
    #[arg(long, value_name = "HZ", value_parser = sample_rate, help_heading = "Audio")]
    pub(crate) rate: Option<SampleRate>,
    #[command(flatten)]
    pub(crate) rendering: Rendering,
    /// Text gathered before it is spoken: more sounds better, less is heard sooner
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = Gather::Sentence, help_heading = "Voice")]
    pub(crate) buffering: Gather,
    /// Write subtitles too: .srt, .vtt, or .jsonl with every word; `-` is WebVTT on standard output
    #[arg(long, value_name = "FILE", help_heading = "Audio")]
    pub(crate) subtitles: Option<PathBuf>,
    /// How far the server may run ahead of the sound, 100ms to 1h; an interruption throws away no more [default: any]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Audio")]
    pub(crate) max_lead: Option<Duration>,
    /// Playing time of every message of audio, for example 20ms [default: as it is made]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Audio")]
    pub(crate) frame_duration: Option<Duration>,
    /// Play it through the sound device too, if the program was built with `--features playback`
    #[arg(long, help_heading = "Audio")]
    pub(crate) play: bool,
    /// Speak the text this many times over, into the same file
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Audio")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Give up after this long, for example 30, 30s, 500ms or 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
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

impl Speak {
    pub(crate) fn settings(&self) -> SpeechSettings {
        let buffering = match self.buffering {
            Gather::Sentence => Buffering::Sentence,
            Gather::Clause => Buffering::Clause,
            Gather::Eager => Buffering::Eager,
        };
        SpeechSettings {
            sample_rate: self.rate,
            speed: self.rendering.speed,
            gain_db: self.rendering.gain,
            buffering,
            max_lead: self.max_lead,
            frame_duration: self.frame_duration,
            alignment: self.subtitles.is_some() || self.play,
            ..self.voice.settings()
        }
    }
}

/// A length of time: a number with `ms`, `s`, `m` or `h`; seconds without.
fn duration(given: &str) -> Result<Duration, String> {
    let expected = || "expected a time above zero such as 30, 30s, 500ms or 2m".to_owned();
    let at = given
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(given.len());
    let (number, unit) = given.split_at(at);
    let number: f64 = number.parse().map_err(|_| expected())?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(expected()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| expected())?;
    // More than a year is a slip, and would overflow clocks.
    if time.is_zero() || time > Duration::from_secs(366 * 24 * 3_600) {
        Err(expected())
    } else {
        Ok(time)
    }
}

fn sample_rate(given: &str) -> Result<SampleRate, String> {
    let hz = given
        .parse()
        .map_err(|_| "expected a number of Hz such as 24000".to_owned())?;
    SampleRate::new(hz).map_err(|error| error.to_string())
}

fn speed(given: &str) -> Result<f32, String> {
    let expected = || "expected a number from 0.5 to 2".to_owned();
    let speed = given.parse().map_err(|_| expected())?;
    omni_audio::Speed::new(speed)
        .map(omni_audio::Speed::factor)
        .map_err(|_| expected())
}

fn gain(given: &str) -> Result<f32, String> {
    let expected = || "expected a number of dB from -96 to 16".to_owned();
    let db = given.parse().map_err(|_| expected())?;
    omni_audio::Gain::new(db)
        .map(omni_audio::Gain::db)
        .map_err(|_| expected())
}

fn temperature(given: &str) -> Result<f32, String> {
    match given.parse::<f32>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a number from 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_read_as_people_write_them() {
        for (given, millis) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5", 1_500),
        ] {
            assert_eq!(duration(given), Ok(Duration::from_millis(millis)), "{given}");
        }
        for given in ["", "0", "s", "-1", "3 weeks", "1e9", "9999999h"] {
            assert!(duration(given).is_err(), "{given}");
        }
    }
}
