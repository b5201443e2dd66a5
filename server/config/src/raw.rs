//! Configuration as typed.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use super::deploy::WEIGHTS;
use super::device::Wanted;
use super::flags::{self, Flag};
use super::keys::Scope;
use super::limits::CallLimits;
use super::listen::address;
use super::log_level::LogLevel;
use super::metrics::RawMetrics;
use super::quotas::Quotas;
use super::traces::RawTraces;
use super::transport::RawTransport;
use super::wyoming::RawWyoming;

/// Headings of the help.
const MODEL: &str = "Model";
const STAGES: &str = "Stages";
pub(super) const PORTS: &str = "Ports and access";
pub(super) const LIMITS: &str = "Limits";
pub(super) const CONNECTIONS: &str = "Connections";
pub(super) const METRICS: &str = "Metrics";
pub(super) const LOG: &str = "Log";

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Serving of Studio, the page for browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StudioMode {
    /// Served if callers are served at a loopback address
    Auto,
    /// Served
    On,
    /// Not served
    Off,
}

impl StudioMode {
    /// Returns true if it is served to callers of this address.
    pub(super) fn serves(self, listen: SocketAddr) -> bool {
        match self {
            Self::Auto => listen.ip().is_loopback(),
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// A command other than serving.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum ServerCommand {
    /// Check the flags and the deploy file, and print every setting with where its value comes from, as YAML
    ///
    /// Takes the flags of omni-server, before or behind its name. What it prints can be used as a deploy file; the
    /// flags are comments in it. Exit codes: 0 if the configuration can be used, 1 if not (stderr says everything that
    /// is wrong).
    CheckConfig {
        /// Print only what is not as it is by default
        #[arg(long)]
        changed: bool,
    },

    /// Print which metrics a server with these flags serves
    #[command(subcommand)]
    Metrics(MetricsCommand),

    /// Make an API key: the line for the file of --api-keys on stdout, the key itself on stderr and nowhere else
    NewKey {
        /// Name of its holder
        #[arg(value_parser = parse_name)]
        name: String,
        /// Scopes of the key
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Scope::Speech, Scope::Chat])]
        scopes: Vec<Scope>,
        /// Quotas of the key
        #[command(flatten)]
        quotas: Quotas,
    },

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

    /// Serve, as without a command: vLLM's word
    #[command(hide = true)]
    Serve {
        /// As --model
        model: Option<String>,
    },

    /// Run one replica of a stage for the process that started this one
    #[command(hide = true)]
    StageWorker,
}

/// Form of a listing of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum MetricsCommand {
    /// One line per family: name, type, unit, labels
    List,
    /// All that is known of every family, and what is absent on purpose and why, as JSON
    Catalogue,
}

/// A speech server: text to streaming speech, and spoken conversations, over OpenAI's APIs, WebSocket and gRPC.
///
/// Speaks out of the box with an embedded model: start it, and open the address that it prints. Every option can also
/// be set by the environment variable shown with it. Durations are written like 500ms, 30s, 5m or 1h.
#[derive(Debug, Clone, Parser)]
#[command(name = "omni-server", version)]
pub struct RawConfig {
    /// A command other than serving
    #[command(subcommand)]
    pub command: Option<ServerCommand>,

    /// "embedded", the directory of a Qwen3-TTS or Qwen3-Omni checkpoint in Hugging Face layout, or random:NAME, known
    /// shapes with random weights, to measure without a checkpoint: qwen3-tts-0.6b, qwen3-tts-1.7b,
    /// qwen3-tts-0.6b-base, qwen3-omni-30b-a3b, qwen3-omni-30b-a3b-speech or embedded; with another seed than 0 as
    /// random:NAME@SEED
    #[arg(
        long,
        env = "OMNI_MODEL",
        default_value = "embedded",
        value_name = "embedded|DIR|random:NAME"
    )]
    #[arg(help_heading = MODEL)]
    pub model: String,

    /// Device to compute on: cpu, cuda (the first NVIDIA device) or cuda:N; auto is the first NVIDIA device if it can
    /// be used, or else the processor. A deploy file can say something else for every stage and replica
    #[arg(long, env = "OMNI_DEVICE", default_value = "auto", value_parser = Wanted::parse, value_name = "auto|cpu|cuda:N")]
    #[arg(help_heading = MODEL)]
    pub device: Wanted,

    /// Number format that the processor keeps the language models' matrices in: int8 and int4 are quantised when the
    /// model is loaded and are read faster; auto is what the checkpoint stores. Same as --set stages.talker.weights=...
    /// and
    /// --set stages.thinker.weights=..., with int8 and int4 also --set stages.code2wav.products=fewest
    #[arg(long, env = "OMNI_WEIGHTS", value_parser = PossibleValuesParser::new(WEIGHTS))]
    #[arg(help_heading = MODEL)]
    pub weights: Option<String>,

    /// Leave the thinker out: no conversations, and far less memory with a published checkpoint
    #[arg(long, env = "OMNI_SPEECH_ONLY")]
    #[arg(help_heading = MODEL)]
    pub speech_only: bool,

    /// Settings of the stages: a YAML file, see docs/config.md
    #[arg(long, env = "OMNI_DEPLOY", value_name = "FILE")]
    #[arg(help_heading = STAGES)]
    pub deploy: Option<PathBuf>,

    /// Override one value of the deploy file, like stages.talker.replicas=2; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    #[arg(help_heading = STAGES)]
    pub set: Vec<String>,

    /// Address to listen on, like 0.0.0.0:50051 or localhost:50051, or a port of this machine alone; port 0 takes
    /// a free one and logs it
    #[arg(
        long,
        env = "OMNI_LISTEN",
        default_value = "127.0.0.1:50051",
        value_parser = address,
        value_name = "ADDRESS"
    )]
    #[arg(help_heading = PORTS)]
    pub listen: SocketAddr,

    /// The host of --listen: vLLM's word
    #[arg(long, hide = true, value_name = "HOST")]
    pub host: Option<String>,

    /// The port of --listen: vLLM's word
    #[arg(long, hide = true, value_name = "PORT")]
    pub port: Option<u16>,

    /// Serve Studio, a page for browsers, at /studio/ of the same port: hear texts, talk, keep voices, and watch the
    /// server at work. auto serves it where --listen is a loopback address. Other machines are shown the server at work
    /// only with --api-keys, to keys of the scope admin
    #[arg(
        long,
        env = "OMNI_STUDIO",
        value_enum,
        default_value = "auto",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_name = "MODE"
    )]
    #[arg(help_heading = PORTS)]
    pub studio: StudioMode,

    /// Also serve operators (omni.v1.AdminService) at this address: they see the state of the server, drain it and end
    /// sessions. Where API keys are required, the scope admin is needed; non-loopback clients need an admin key in any
    /// case
    #[arg(long, env = "OMNI_ADMIN_LISTEN", value_parser = address, value_name = "ADDRESS")]
    #[arg(help_heading = PORTS)]
    pub admin_listen: Option<SocketAddr>,

    /// Settings of Wyoming
    #[command(flatten)]
    pub wyoming: RawWyoming,

    /// Require API keys; FILE holds their hashes, `omni-server new-key` makes keys. Read again when it changes
    #[arg(long, env = "OMNI_API_KEYS", value_name = "FILE")]
    #[arg(help_heading = PORTS)]
    pub api_keys: Option<PathBuf>,

    /// Let web pages of this origin call, like `https://example.org`, or "*" for every origin; may be repeated
    #[arg(long, env = "OMNI_CORS_ORIGIN", value_delimiter = ',', value_name = "ORIGIN")]
    #[arg(help_heading = PORTS)]
    pub cors_origin: Vec<String>,

    /// Utterances worked on at once; more wait. Unless given, 64 where --device is a GPU, and otherwise eight for every
    /// processor, at most 64
    #[arg(long, alias = "max-num-seqs", env = "OMNI_MAX_ACTIVE", value_name = "N")]
    #[arg(help_heading = LIMITS)]
    pub max_active: Option<usize>,

    /// Limits of calls and utterances
    #[command(flatten)]
    pub limits: CallLimits,

    /// Encryption of the port, and bounds of connections
    #[command(flatten)]
    pub transport: RawTransport,

    /// Settings of the metrics
    #[command(flatten)]
    pub metrics: RawMetrics,

    /// Keep the voices that callers make in this folder, as one file each; unless given they end with the server. Same
    /// as voices.dir of the deploy file
    #[arg(long, env = "OMNI_VOICES", value_name = "DIR")]
    #[arg(help_heading = MODEL)]
    pub voices: Option<PathBuf>,

    /// Refuse hints that the model cannot follow, like instructions how to speak; unless given they are ignored, and
    /// the answer says so
    #[arg(long, env = "OMNI_STRICT")]
    #[arg(help_heading = MODEL)]
    pub strict: bool,

    /// Settings of traces
    #[command(flatten)]
    pub traces: RawTraces,

    /// Form of log lines (on stderr)
    #[arg(long, env = "OMNI_LOG_FORMAT", default_value = "text", value_enum)]
    #[arg(help_heading = LOG)]
    pub log_format: LogFormat,

    /// Log lines to write: error, warn, info, debug, trace, off, or directives like info,omni_server=debug
    #[arg(
        long,
        alias = "uvicorn-log-level",
        env = "OMNI_LOG_LEVEL",
        default_value = "info",
        value_name = "LEVEL",
        value_parser = LogLevel::parse
    )]
    #[arg(help_heading = LOG)]
    pub log_level: LogLevel,

    /// Variables of the environment do not count.
    #[arg(skip)]
    pub(super) without_environment: bool,

    /// Every flag, and where its value comes from.
    #[arg(skip)]
    pub(super) flags: Vec<Flag>,
}

impl RawConfig {
    /// Parses this process's arguments. Ends the process on invalid arguments or a request for help.
    pub fn from_command_line() -> Self {
        let parsed = Self::parsed(Self::command(), std::env::args_os().collect());
        parsed.unwrap_or_else(|error| error.exit())
    }

    /// Parses `args`, the first of which is the program's name. Ignores environment variables, so that tests are
    /// reproducible.
    ///
    /// # Errors
    /// If they are invalid.
    pub fn arguments_only(
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let command = Self::command().mut_args(|arg| arg.env(None::<&'static str>));
        let raw = Self::parsed(command, args.into_iter().map(Into::into).collect())?;
        Ok(Self {
            without_environment: true,
            ..raw
        })
    }

    fn parsed(mut command: Command, args: Vec<OsString>) -> Result<Self, clap::Error> {
        let args = flags::in_order(&command, args);
        let matches = command.try_get_matches_from_mut(args)?;
        let raw = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok(Self {
            flags: flags::of(&command, &matches),
            ..raw
        })
    }

    /// Translates vLLM's flags.
    ///
    /// # Errors
    /// If the host has no address.
    pub(super) fn translate(&mut self) -> Result<(), String> {
        if let Some(ServerCommand::Serve { model: Some(model) }) = &self.command {
            self.model.clone_from(model);
        }
        let port = self.port.unwrap_or(self.listen.port());
        self.listen = match &self.host {
            Some(host) => at(host, port).map_err(|problem| format!("--host {host}: {problem}"))?,
            None => SocketAddr::new(self.listen.ip(), port),
        };
        Ok(())
    }
}

/// The address of a host, as other servers take it apart from the port.
fn at(host: &str, port: u16) -> Result<SocketAddr, String> {
    match host.trim_matches(['[', ']']).parse() {
        Ok(ip) => Ok(SocketAddr::new(ip, port)),
        Err(_) => address(&format!("{host}:{port}")),
    }
}

/// A name that is one word of a line.
fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
        Err("expected a name without spaces and #".to_owned())
    } else {
        Ok(text.to_owned())
    }
}
