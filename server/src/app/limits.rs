//! Limits of sizes and times: from the configuration to the parts that keep to them.

use std::sync::Arc;

use anyhow::Context as _;
use omni_audio::Loudness;
use omni_config::Config;
use omni_core::orchestrator::Orchestrator;
use omni_pipeline::orchestrator::AdmissionLimits;
use omni_services::voices::{StoreLimits, VoiceStore};
use omni_services::{CallGate, Voices};
use omni_session::SessionLimits;
use omni_telemetry::VoiceInstruments;

/// Limits of requests that wait for a place.
pub(super) fn admission(config: &Config) -> AdmissionLimits {
    AdmissionLimits {
        max_active: config.max_active,
        max_waiting: config.limits.max_waiting,
        max_wait: config.limits.max_wait,
        overload_wait: config.limits.overload_wait,
    }
}

/// Limits of a session.
pub(super) fn sessions(config: &Config) -> SessionLimits {
    SessionLimits {
        max_text_bytes: config.limits.max_text_bytes,
        max_buffered_text_bytes: config.limits.max_buffered_text_bytes,
        max_audio: config.limits.max_audio,
        idle_timeout: config.limits.idle_timeout,
        max_age: config.limits.max_session_age,
        stall_timeout: config.limits.stall_timeout,
        max_text_pause: config.limits.max_text_pause,
        ..SessionLimits::default()
    }
}

/// The voices that are kept, in a directory if there is one.
pub(super) fn voices(
    config: &Config,
    orchestrator: &Orchestrator,
    gate: CallGate,
    instruments: Arc<VoiceInstruments>,
) -> anyhow::Result<Voices> {
    let loudness = config.deploy.voices.loudness.map(Loudness::new);
    let loudness = loudness.transpose().context("voices.loudness")?;
    let limits = StoreLimits {
        voices: config.deploy.voices.max_voices,
        voices_per_key: config.deploy.voices.max_voices_per_key,
        bytes: config.deploy.voices.max_memory,
    };
    let store = match &config.voices {
        None => VoiceStore::in_memory(limits),
        Some(dir) => {
            let opened = VoiceStore::open(dir, limits);
            opened.with_context(|| format!("--voices {}", dir.display()))?
        }
    };
    let voices = Voices::new(store, orchestrator.clone(), gate, loudness, instruments);
    Ok(voices)
}
