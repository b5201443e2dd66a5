//! Views to messages, and requests of operators to values.

use std::time::Duration;

use omni_proto::v1;

use omni_core::error::ServeError;
use omni_pipeline::stage::{ReplicaState, ReplicaView, StagePool};
use omni_services::settings::invalid;
use omni_session::{RecentFigures, SessionView};

/// Longest drain accepted.
const LONGEST_DRAIN: Duration = Duration::from_secs(24 * 3_600);

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn stage(pool: &StagePool) -> v1::Stage {
    v1::Stage {
        name: pool.stage().to_owned(),
        replicas: pool.replicas().iter().map(replica).collect(),
        threads_left_behind: count(pool.left_behind()),
    }
}

pub(super) fn replica(view: &ReplicaView) -> v1::Replica {
    let stats = &view.stats;
    v1::Replica {
        id: view.id.to_string(),
        device: view.device.clone(),
        state: state(view).into(),
        in_flight: count(view.in_flight),
        running: stats.running,
        waiting: stats.waiting,
        kv_cache_usage_ratio: stats.kv_usage,
        steps: stats.steps,
        busy: stats.busy.try_into().ok(),
        deaths: stats.deaths,
        last_error: view.last_error.clone().unwrap_or_default(),
    }
}

fn state(view: &ReplicaView) -> v1::ReplicaState {
    match &view.state {
        ReplicaState::Removed => v1::ReplicaState::Removed,
        _ if view.leaving => v1::ReplicaState::Leaving,
        ReplicaState::Failed { .. } => v1::ReplicaState::Failed,
        ReplicaState::Restarting { .. } => v1::ReplicaState::Restarting,
        _ if view.cordoned => v1::ReplicaState::Cordoned,
        ReplicaState::Loading => v1::ReplicaState::Loading,
        ReplicaState::Ready => v1::ReplicaState::Ready,
    }
}

pub(super) fn percentiles(figures: &RecentFigures) -> v1::Percentiles {
    let percent = |percent| {
        figures
            .first_packet(percent)
            .and_then(|time| time.try_into().ok())
    };
    v1::Percentiles {
        count: count(figures.first_packets.len()),
        p50: percent(50),
        p95: percent(95),
        p99: percent(99),
    }
}

pub(super) fn session(view: &SessionView) -> v1::SessionStats {
    v1::SessionStats {
        session_id: view.id.to_string(),
        method: view.method.to_owned(),
        principal: view.principal.clone().unwrap_or_default(),
        age: view.age.try_into().ok(),
        active: view.active,
        requests: view.requests,
        audio_sent: view.audio.try_into().ok(),
        playback_lead: view.lead.map(signed),
        peer: view.peer.map(|peer| peer.to_string()).unwrap_or_default(),
    }
}

/// Seconds, which may be below zero.
fn signed(seconds: f64) -> omni_proto::Duration {
    let nanos = (seconds * 1e9).round() as i64;
    omni_proto::Duration {
        seconds: nanos / 1_000_000_000,
        nanos: (nanos % 1_000_000_000) as i32,
    }
}

/// Requested interval.
pub(super) fn interval(
    asked: Option<omni_proto::Duration>,
    absent: Duration,
    (least, most): (Duration, Duration),
) -> Result<Duration, ServeError> {
    let Some(asked) = asked else { return Ok(absent) };
    let interval = Duration::try_from(asked).ok();
    let interval = interval.filter(|interval| (least..=most).contains(interval));
    interval.ok_or_else(|| invalid("interval", format!("is {asked}, expected {least:?} to {most:?}")))
}

/// Timeout of a drain, if one was set.
pub(super) fn timeout(asked: Option<omni_proto::Duration>) -> Result<Option<Duration>, ServeError> {
    let read = |asked: omni_proto::Duration| {
        let timeout = Duration::try_from(asked).ok();
        let timeout = timeout.filter(|timeout| *timeout <= LONGEST_DRAIN);
        timeout.ok_or_else(|| invalid("timeout", format!("is {asked}, expected 0s to {LONGEST_DRAIN:?}")))
    };
    asked.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_within_its_bounds_or_refused() {
        let bounds = (Duration::from_millis(100), Duration::from_secs(60));
        let read = |ms: i64| {
            let asked = omni_proto::Duration {
                seconds: ms / 1_000,
                nanos: (ms % 1_000) as i32 * 1_000_000,
            };
            interval(Some(asked), Duration::ZERO, bounds).ok()
        };
        assert_eq!(read(100), Some(Duration::from_millis(100)));
        assert_eq!(read(60_000), Some(Duration::from_secs(60)));
        for wrong in [99, 60_001, 0, -500] {
            assert_eq!(read(wrong), None, "{wrong} ms");
        }
        let absent = interval(None, Duration::from_secs(1), bounds);
        assert_eq!(absent, Ok(Duration::from_secs(1)));
    }

    #[test]
    fn a_lead_below_zero_has_both_parts_below_zero() {
        let wire = signed(-1.25);
        assert_eq!((wire.seconds, wire.nanos), (-1, -250_000_000));
        assert_eq!((signed(0.5).seconds, signed(0.5).nanos), (0, 500_000_000));
    }
}
