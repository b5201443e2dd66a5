//! Log lines on stderr. Texts, audio and secrets never appear in them.

mod json;
mod panics;

use omni_config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::JsonFields;

/// Libraries that write a line for every damaged file of a caller, which its request's own line tells already.
const QUIET: &[&str] = &[
    "symphonia_bundle_flac=error",
    "symphonia_core=error",
    "symphonia_metadata=error",
];

/// Starts logging for the whole process, panics included. `quiet` are directives for targets that `--log-level` does
/// not name.
///
/// # Errors
/// If the level is invalid, or logging was started before.
pub fn init_logging(config: &Config, quiet: &[&str]) -> anyhow::Result<()> {
    let level = &config.log_level;
    let directives = level.filter();
    let filter = EnvFilter::try_new(&directives)?;
    let filter = match filter.max_level_hint() {
        Some(LevelFilter::OFF) => filter,
        _ => EnvFilter::new([QUIET, quiet, &[directives.as_str()]].concat().join(",")),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match config.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder
            .fmt_fields(JsonFields::new())
            .event_format(json::JsonLines)
            .try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    panics::log();
    for target in level.foreign_targets() {
        tracing::warn!(
            "--log-level: no part of Omni is called {target:?}, so its directive is for libraries only"
        );
    }
    Ok(())
}
