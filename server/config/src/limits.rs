//! Limits of calls and utterances, and the bounds of every number and duration.

use std::time::Duration;

use clap::Args;

use super::RawConfig;
use super::raw::LIMITS;
use super::time::{parse_duration, written};

/// Limits of calls and utterances.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = LIMITS)]
pub struct CallLimits {
    /// Calls served at once; more are refused with RESOURCE_EXHAUSTED
    #[arg(long, env = "OMNI_MAX_SESSIONS", default_value_t = 256, value_name = "N")]
    pub max_sessions: usize,

    /// Utterances that may wait; more fail with RESOURCE_EXHAUSTED
    #[arg(long, env = "OMNI_MAX_WAITING", default_value_t = 128, value_name = "N")]
    pub max_waiting: usize,

    /// Longest wait of an utterance for its place
    #[arg(long, env = "OMNI_MAX_WAIT", default_value = "20s", value_parser = parse_duration, value_name = "TIME")]
    pub max_wait: Duration,

    /// Longest wait that is begun under overload: while the queue has not been empty for half a second, or within ten
    /// seconds of a request refused for that. Requests that would wait longer are refused at once, so that admitted
    /// ones begin in time
    #[arg(long, env = "OMNI_OVERLOAD_WAIT", default_value = "500ms", value_parser = parse_duration, value_name = "TIME")]
    pub overload_wait: Duration,

    /// Longest text of one utterance
    #[arg(
        long,
        env = "OMNI_MAX_TEXT_BYTES",
        default_value_t = 20_000,
        value_name = "BYTES"
    )]
    pub max_text_bytes: usize,

    /// Most text that may wait in one call
    #[arg(
        long,
        env = "OMNI_MAX_BUFFERED_TEXT_BYTES",
        default_value_t = 100_000,
        value_name = "BYTES"
    )]
    pub max_buffered_text_bytes: usize,

    /// Longest audio of one utterance
    #[arg(long, env = "OMNI_MAX_AUDIO", default_value = "30m", value_parser = parse_duration, value_name = "TIME")]
    pub max_audio: Duration,

    /// Audio that may wait for a slow reader before its production pauses
    #[arg(long, env = "OMNI_MAX_BUFFERED_AUDIO", default_value = "5s", value_parser = parse_duration,
          value_name = "TIME")]
    pub max_buffered_audio: Duration,

    /// End a call in which nothing happens for this long
    #[arg(long, env = "OMNI_IDLE_TIMEOUT", default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    pub idle_timeout: Duration,

    /// With word-by-word buffering: end what is being spoken at its last word when no text has come for this long; what
    /// comes later is spoken as a new part
    #[arg(long, env = "OMNI_MAX_TEXT_PAUSE", default_value = "2s", value_parser = parse_duration, value_name = "TIME")]
    pub max_text_pause: Duration,

    /// A call of this age takes no more utterances
    #[arg(long, env = "OMNI_MAX_SESSION_AGE", default_value = "4h", value_parser = parse_duration,
          value_name = "TIME")]
    pub max_session_age: Duration,

    /// End a call whose reader falls so far behind the playing time of what is sent, or takes nothing for this long
    #[arg(long, env = "OMNI_STALL_TIMEOUT", default_value = "60s", value_parser = parse_duration,
          value_name = "TIME")]
    pub stall_timeout: Duration,

    /// Longest time for open utterances to finish after SIGTERM or SIGINT; a second signal ends at once
    #[arg(long, env = "OMNI_DRAIN_TIMEOUT", default_value = "30s", value_parser = parse_duration,
          value_name = "TIME")]
    pub drain_timeout: Duration,

    /// Go on serving for this long after SIGTERM or SIGINT while readiness says no, so that those who send calls notice
    /// before one is refused
    #[arg(long, env = "OMNI_DRAIN_DELAY", default_value = "0s", value_parser = parse_duration,
          value_name = "TIME")]
    pub drain_delay: Duration,

    /// Accept no connections while open utterances finish, instead of refusing calls one by one: callers without a
    /// health check go elsewhere at once
    #[arg(long, env = "OMNI_DRAIN_CLOSES_PORT")]
    pub drain_closes_port: bool,
}

impl RawConfig {
    /// Every number: flag, value, least, most. The bounds are far beyond what makes sense, and keep memory and sums in
    /// bounds.
    pub(super) fn counts(&self, max_active: usize) -> [(&'static str, usize, usize, usize); 9] {
        let transport = &self.transport;
        let streams = usize::try_from(transport.max_streams_per_connection).unwrap_or(usize::MAX);
        [
            ("--max-sessions", self.limits.max_sessions, 1, 100_000),
            ("--max-active", max_active, 1, 100_000),
            ("--max-waiting", self.limits.max_waiting, 0, 100_000),
            ("--max-text-bytes", self.limits.max_text_bytes, 1, 16 << 20),
            (
                "--max-buffered-text-bytes",
                self.limits.max_buffered_text_bytes,
                1,
                64 << 20,
            ),
            ("--max-connections", transport.max_connections, 1, 100_000),
            (
                "--max-connections-per-peer",
                transport.max_connections_per_peer,
                1,
                100_000,
            ),
            ("--max-streams-per-connection", streams, 1, 10_000),
            (
                "--max-message-bytes",
                transport.max_message_bytes,
                1 << 10,
                64 << 20,
            ),
        ]
    }

    /// Every duration: flag, value, least, most. The longest end with the process or the patience of an operator.
    pub(super) fn times(&self) -> [(&'static str, Duration, Duration, Duration); 12] {
        const ZERO: Duration = Duration::ZERO;
        const LEAST: Duration = Duration::from_millis(10);
        const HOUR: Duration = Duration::from_secs(3_600);
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        let handshake = self.transport.handshake_timeout;
        let keep_alive = self.transport.keep_alive_timeout;
        [
            ("--max-wait", self.limits.max_wait, ZERO, HOUR),
            ("--overload-wait", self.limits.overload_wait, ZERO, HOUR),
            ("--max-audio", self.limits.max_audio, LEAST, DAY),
            (
                "--max-buffered-audio",
                self.limits.max_buffered_audio,
                LEAST,
                HOUR / 6,
            ),
            ("--idle-timeout", self.limits.idle_timeout, LEAST, DAY),
            ("--max-text-pause", self.limits.max_text_pause, LEAST, HOUR),
            ("--max-session-age", self.limits.max_session_age, LEAST, DAY * 30),
            ("--stall-timeout", self.limits.stall_timeout, LEAST, HOUR),
            ("--drain-timeout", self.limits.drain_timeout, ZERO, DAY),
            ("--drain-delay", self.limits.drain_delay, ZERO, HOUR),
            ("--keep-alive-timeout", keep_alive, LEAST * 10, DAY),
            ("--handshake-timeout", handshake, LEAST * 10, HOUR / 12),
        ]
    }
}

pub(super) fn out_of_range((flag, count, least, most): (&str, usize, usize, usize)) -> Option<String> {
    let fits = (least..=most).contains(&count);
    (!fits).then(|| format!("{flag} {count}: expected {least} to {most}"))
}

pub(super) fn out_of_time((flag, time, least, most): (&str, Duration, Duration, Duration)) -> Option<String> {
    let fits = (least..=most).contains(&time);
    let [time, least, most] = [time, least, most].map(written);
    (!fits).then(|| format!("{flag} {time}: expected {least} to {most}"))
}
