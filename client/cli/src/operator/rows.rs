//! Figures as cells and lines, for tables, for the screen and for plain output alike.

use std::time::Duration;

use omni_client::{DrainProgress, Percentiles, Replica, ReplicaState, ServerInfo, Session, Stage, Stats};

/// Heads of the columns of [`replicas`].
pub(super) const REPLICAS: [&str; 11] = [
    "STAGE",
    "ID",
    "STATE",
    "FLIGHT",
    "RUN",
    "WAIT",
    "KV",
    "STEPS",
    "BUSY",
    "DEVICE",
    "LAST ERROR",
];

/// Columns whose cells are numbers.
pub(super) const FIGURES: [&str; 9] = [
    "FLIGHT", "RUN", "WAIT", "KV", "STEPS", "BUSY", "AGE", "REQUESTS", "AUDIO",
];

/// Heads of the columns of [`sessions`].
pub(super) const SESSIONS: [&str; 8] = [
    "SESSION", "METHOD", "KEY", "FROM", "AGE", "REQUESTS", "AUDIO", "LEAD",
];

/// State of the whole server, in three lines; behind them its problems.
pub(super) fn head(info: &ServerInfo, stats: &Stats) -> Vec<String> {
    let models = if info.models.is_empty() {
        "no model yet".to_owned()
    } else {
        info.models.join(", ")
    };
    let up = info
        .started
        .and_then(|started| started.elapsed().ok())
        .map_or_else(String::new, |up| format!(", up {}", age(up)));
    let draining = if stats.draining { ", DRAINING" } else { "" };
    let wait = match stats.expected_wait {
        None => "unknown".to_owned(),
        Some(Duration::ZERO) => "none".to_owned(),
        Some(wait) => millis(wait),
    };
    let mut lines = vec![
        format!(
            "omni-server {} on {}: {models}{up}{draining}",
            info.version, info.listens
        ),
        format!(
            "sessions {} of {}   running {} of {}   waiting {} of {}   next wait {wait}   refused {}",
            stats.sessions,
            info.max_sessions,
            stats.running,
            info.max_active,
            stats.waiting,
            info.max_waiting,
            stats.refused
        ),
        minute(stats),
    ];
    lines.extend(not_ready(stats));
    lines.extend(left_behind(&stats.stages));
    lines
}

/// Reason why a server that has loaded its model is not ready: every stage needs a replica that takes work.
pub(super) fn not_ready(stats: &Stats) -> Option<String> {
    if stats.draining {
        return Some("NOT READY: it shuts down and takes no new work".to_owned());
    }
    let ready = |stage: &&Stage| {
        stage
            .replicas
            .iter()
            .any(|replica| replica.state == ReplicaState::Ready)
    };
    let idle: Vec<_> = stats
        .stages
        .iter()
        .filter(|stage| !ready(stage))
        .map(why_idle)
        .collect();
    (!idle.is_empty()).then(|| format!("NOT READY: {}", idle.join("; ")))
}

/// Names a stage without a replica that takes work, with the states of its replicas.
fn why_idle(stage: &Stage) -> String {
    let there = stage.replicas.iter().filter(|replica| !is_gone(replica));
    let states: Vec<_> = there
        .map(|replica| format!("{} is {}", replica.id, replica.state))
        .collect();
    if states.is_empty() {
        format!("no replica of {} is left", stage.name)
    } else {
        format!("no replica of {} takes work ({})", stage.name, states.join(", "))
    }
}

/// Warning for the last replica of a stage that takes work; none if the stage has another.
pub(super) fn last_of(stages: &[Stage], stage: &str, replica: &str) -> Option<String> {
    let stage = stages.iter().find(|of| of.name == stage)?;
    let mut ready = stage
        .replicas
        .iter()
        .filter(|replica| replica.state == ReplicaState::Ready);
    let last = ready.next()?;
    let others = ready.next();
    (last.id == replica && others.is_none()).then(|| {
        format!(
            "{} {replica} is the last replica of its stage that takes work: without it the server is not ready and refuses all speech",
            stage.name
        )
    })
}

/// Warning about threads that do not return from a step: each takes a core, and when there are too many a replica
/// stays down.
fn left_behind(stages: &[Stage]) -> Option<String> {
    let left = stages.iter().filter(|stage| stage.threads_left_behind > 0);
    let left: Vec<_> = left
        .map(|stage| format!("{} {}", stage.name, stage.threads_left_behind))
        .collect();
    (!left.is_empty()).then(|| format!("threads left behind in a step: {}", left.join(", ")))
}

/// Requests that ended in the last minute, in a line.
pub(super) fn minute(stats: &Stats) -> String {
    let gapless = stats.continuity.map_or_else(
        || "nothing was streamed".to_owned(),
        |share| format!("{:.1} % without a gap", share * 100.0),
    );
    format!(
        "last minute: {:.1} requests/s ended, {:.1} s of audio/s, first audio {}, {gapless}",
        stats.requests_per_second,
        stats.audio_per_second,
        percentiles(&stats.first_packet)
    )
}

/// Everything in one line, for where there is no screen.
pub(super) fn line(stats: &Stats) -> String {
    let stages = stats.stages.iter().map(|stage| {
        let there = stage.replicas.iter().filter(|replica| !is_gone(replica));
        let (ready, all) = there.fold((0, 0), |(ready, all), replica| {
            (ready + u32::from(replica.state == ReplicaState::Ready), all + 1)
        });
        let kv = stage
            .replicas
            .iter()
            .map(|replica| replica.kv_usage)
            .fold(0.0, f64::max);
        let running: u32 = stage.replicas.iter().map(|replica| replica.running).sum();
        let waiting: u32 = stage.replicas.iter().map(|replica| replica.waiting).sum();
        format!(
            "{} {ready}/{all} ready {running}+{waiting} kv {:.0}%",
            stage.name,
            kv * 100.0
        )
    });
    let stages: Vec<_> = stages.collect();
    format!(
        "sessions {} running {} waiting {} refused {} | {:.1} req/s first audio {} | {}{}",
        stats.sessions,
        stats.running,
        stats.waiting,
        stats.refused,
        stats.requests_per_second,
        percentiles(&stats.first_packet),
        stages.join(" | "),
        match (stats.draining, not_ready(stats)) {
            (true, _) => " | draining",
            (false, Some(_)) => " | NOT READY",
            (false, None) => "",
        }
    )
}

pub(super) fn percentiles(of: &Percentiles) -> String {
    match (of.p50, of.p95, of.p99) {
        (Some(p50), Some(p95), Some(p99)) => {
            format!("p50 {} p95 {} p99 {}", millis(p50), millis(p95), millis(p99))
        }
        _ => "-".to_owned(),
    }
}

/// A row for every replica that is not gone. Without a look `before` this one nothing is known of the share of the
/// time in which they computed.
pub(super) fn replicas(stats: &Stats, before: Option<&Stats>) -> Vec<Vec<String>> {
    let rows = present(&stats.stages).map(|(stage, replica)| {
        let share = before.and_then(|before| busy(stats, before, stage, replica));
        vec![
            stage.name.clone(),
            replica.id.clone(),
            replica.state.to_string(),
            replica.in_flight.to_string(),
            replica.running.to_string(),
            replica.waiting.to_string(),
            format!("{:.0}%", replica.kv_usage * 100.0),
            replica.steps.to_string(),
            share.map_or_else(String::new, |share| format!("{:.0}%", share * 100.0)),
            replica.device.clone(),
            last_error(replica),
        ]
    });
    rows.collect()
}

/// Share of the time since the look `before` that a replica spent in steps, 0 to 1. None for one that is new or began
/// again.
fn busy(now: &Stats, before: &Stats, stage: &Stage, replica: &Replica) -> Option<f64> {
    let mut known = before.stages.iter().filter(|other| other.name == stage.name);
    let mut known = known.next()?.replicas.iter();
    let was = known.find(|other| other.id == replica.id)?;
    let time = now.time?.duration_since(before.time?).ok()?;
    let busy = replica.busy.checked_sub(was.busy)?;
    (!time.is_zero()).then(|| busy.div_duration_f64(time).min(1.0))
}

/// The replicas that are not gone, in the order of [`replicas`].
pub(super) fn present(stages: &[Stage]) -> impl Iterator<Item = (&Stage, &Replica)> {
    stages.iter().flat_map(|stage| {
        let there = stage.replicas.iter().filter(|replica| !is_gone(replica));
        there.map(move |replica| (stage, replica))
    })
}

fn is_gone(replica: &Replica) -> bool {
    replica.state == ReplicaState::Removed
}

fn last_error(replica: &Replica) -> String {
    match replica.deaths {
        0 => replica.last_error.clone(),
        1 => format!("{} (died once)", replica.last_error),
        deaths => format!("{} (died {deaths} times)", replica.last_error),
    }
}

/// A row for every session.
pub(super) fn sessions(sessions: &[Session]) -> Vec<Vec<String>> {
    let rows = sessions.iter().map(|session| {
        vec![
            session.id.clone(),
            session.method.clone(),
            session.principal.clone(),
            session.peer.clone(),
            age(session.age),
            session.requests.to_string(),
            format!("{:.1} s", session.audio.as_secs_f64()),
            lead(session),
        ]
    });
    rows.collect()
}

/// Lead of a listener in seconds, or its state where there is none.
pub(super) fn lead(session: &Session) -> String {
    match (session.active, session.lead) {
        (false, _) => "idle".to_owned(),
        (true, None) => "no audio yet".to_owned(),
        (true, Some(lead)) => format!("{lead:+.2} s"),
    }
}

/// State of a replica after a change.
pub(super) fn now(stage: &str, replica: &Replica) -> String {
    let left = match (replica.state, replica.in_flight) {
        (ReplicaState::Cordoned | ReplicaState::Leaving, 1) => ", with one request to finish".to_owned(),
        (ReplicaState::Cordoned | ReplicaState::Leaving, left @ 2..) => {
            format!(", with {left} requests to finish")
        }
        _ => String::new(),
    };
    format!("{stage} {} is {}{left}", replica.id, replica.state)
}

pub(super) fn drain(now: &DrainProgress) -> String {
    let sessions = match now.sessions {
        1 => "one session is open".to_owned(),
        sessions => format!("{sessions} sessions are open"),
    };
    let left = now.time_left.map_or_else(String::new, |left| {
        format!(", {} s are left", left.as_secs_f64().ceil())
    });
    format!("draining: {sessions}{left}")
}

fn millis(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 10.0 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    }
}

/// A time in its two largest units.
fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_at_a_glance() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!(
            [of(0), of(59), of(61), of(3_660), of(90_000)],
            ["0s", "59s", "1m01s", "1h01m", "1d01h"]
        );
        assert_eq!(millis(Duration::from_micros(45_600)), "46 ms");
        assert_eq!(millis(Duration::from_secs(12)), "12.0 s");
    }

    #[test]
    fn what_is_left_of_a_drain_is_said_in_words() {
        let progress = |sessions, left: Option<u64>| {
            drain(&DrainProgress {
                sessions,
                time_left: left.map(Duration::from_millis),
            })
        };
        assert_eq!(
            progress(1, Some(1_200)),
            "draining: one session is open, 2 s are left"
        );
        assert_eq!(progress(0, None), "draining: 0 sessions are open");
    }
}
