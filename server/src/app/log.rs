//! Log lines on stderr. Texts, audio and secrets never appear in them.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::{Config, LogFormat};

/// Starts logging for the whole process. `quiet` are directives that hold unless `--log-level` has one for the same target.
///
/// # Errors
/// If the level cannot be read, or logging was started before.
pub fn init_logging(config: &Config, quiet: &[&str]) -> anyhow::Result<()> {
    let level = &config.log_level;
    let filter = EnvFilter::try_new(level).with_context(|| {
        format!("--log-level {level:?}: expected error, warn, info, debug, trace or directives")
    })?;
    let filter = match filter.max_level_hint() {
        Some(LevelFilter::OFF) => filter,
        _ => EnvFilter::new([quiet, &[level.as_str()]].concat().join(",")),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match config.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
