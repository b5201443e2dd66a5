//! `stats`, `top` and `admin`: what an operator sees of a server and does with it.

mod rows;
mod top;

use std::time::Duration;

use omni_client::{ClientError, Operator, Replica, ReplicaState, ServerInfo, Stats};
use serde_json::{Value, json};

use super::args::{AdminCommand, AdminServer, StatsArgs, TopArgs, Which};
use super::catalog::table;
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;

/// The shortest interval: only the first look counts.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How long steering may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Says what to do where operators are not served, which servers do not do unless told to.
pub(crate) fn explain(failure: Failure, ui: &Ui) -> Failure {
    let Failure::Rpc(error @ ClientError::Unreachable { .. }) = &failure else {
        return failure;
    };
    ui.error(&format!(
        "{error}\n  `omni-server --admin-listen ADDRESS` serves operators; name the address with --admin-endpoint or \
         OMNI_ADMIN_ENDPOINT"
    ));
    Failure::Told(Box::new(failure))
}

pub(crate) async fn top(args: &TopArgs) -> Result<(), Failure> {
    top::run(args).await
}

pub(crate) async fn stats(args: &StatsArgs, ui: &Ui) -> Result<(), Failure> {
    let endpoint = &args.server.endpoint;
    let ask = async {
        let operator = Operator::connect(endpoint).await?;
        let info = operator.info().await?;
        let stats = operator.watch(AT_ONCE, true).await?.next().await?;
        Ok::<_, ClientError>((info, stats))
    };
    let ask = Deadline::after(Some(args.timeout)).within(ask);
    let (info, stats) = ui.patiently(|| format!("waiting for {endpoint}"), ask).await?;
    let Some(stats) = stats else {
        return Err(Failure::NotServing(format!("{endpoint} gave no figures")));
    };
    match args.json {
        true => print(format!("{:#}\n", figures(&info, &stats)).as_bytes()),
        false => print(page(&info, &stats).as_bytes()),
    }
}

/// Everything at once, for people.
fn page(info: &ServerInfo, stats: &Stats) -> String {
    let mut page = rows::head(info, stats).join("\n");
    page.push_str("\n\n");
    page.push_str(&table(&rows::REPLICAS, rows::replicas(&stats.stages)));
    if !stats.session_list.is_empty() {
        page.push('\n');
        page.push_str(&table(&rows::SESSIONS, rows::sessions(&stats.session_list)));
    }
    page
}

/// The same for programs.
fn figures(info: &ServerInfo, stats: &Stats) -> Value {
    let millis = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let replica = |replica: &Replica| {
        json!({
            "id": replica.id,
            "device": replica.device,
            "state": replica.state.to_string(),
            "in_flight": replica.in_flight,
            "running": replica.running,
            "waiting": replica.waiting,
            "kv_usage": replica.kv_usage,
            "steps": replica.steps,
            "busy_s": replica.busy.as_secs_f64(),
            "deaths": replica.deaths,
            "last_error": replica.last_error,
        })
    };
    let stages = stats.stages.iter().map(|stage| {
        json!({
            "name": stage.name,
            "replicas": stage.replicas.iter().map(replica).collect::<Vec<_>>(),
            "threads_left_behind": stage.threads_left_behind,
        })
    });
    let sessions = stats.session_list.iter().map(|session| {
        json!({
            "id": session.id,
            "method": session.method,
            "key": session.principal,
            "age_s": session.age.as_secs_f64(),
            "active": session.active,
            "requests": session.requests,
            "audio_s": session.audio.as_secs_f64(),
            "playback_lead_s": session.lead,
        })
    });
    let first_packet = &stats.first_packet;
    json!({
        "version": info.version,
        "models": info.models,
        "draining": stats.draining,
        "max_sessions": info.max_sessions,
        "max_active": info.max_active,
        "max_waiting": info.max_waiting,
        "sessions": stats.sessions,
        "running": stats.running,
        "waiting": stats.waiting,
        "expected_wait_ms": millis(stats.expected_wait),
        "refused": stats.refused,
        "requests_per_second": stats.requests_per_second,
        "audio_seconds_per_second": stats.audio_per_second,
        "continuity": stats.continuity,
        "first_packet": {
            "count": first_packet.count,
            "p50_ms": millis(first_packet.p50),
            "p95_ms": millis(first_packet.p95),
            "p99_ms": millis(first_packet.p99),
        },
        "stages": stages.collect::<Vec<_>>(),
        "session_list": sessions.collect::<Vec<_>>(),
    })
}

pub(crate) async fn admin(command: &AdminCommand, ui: &Ui) -> Result<(), Failure> {
    match command {
        AdminCommand::Cordon(which) => set(which, ReplicaState::Cordoned, ui).await,
        AdminCommand::Uncordon(which) => set(which, ReplicaState::Ready, ui).await,
        AdminCommand::Remove(which) => set(which, ReplicaState::Removed, ui).await,
        AdminCommand::Add { stage, server } => {
            let ask = async { connect(server).await?.add_replica(stage).await };
            let replica = patiently(ask).await?;
            ui.note(&format!("{stage} {} is {}", replica.id, replica.state));
            Ok(())
        }
        AdminCommand::Cancel {
            session,
            reason,
            server,
        } => {
            patiently(async { connect(server).await?.cancel(session, reason).await }).await?;
            ui.note(&format!("session {session} is ended"));
            Ok(())
        }
        AdminCommand::Drain { timeout, server } => drain(*timeout, server, ui).await,
    }
}

async fn set(which: &Which, state: ReplicaState, ui: &Ui) -> Result<(), Failure> {
    let (stage, id) = (&which.stage, &which.replica);
    let ask = async { connect(&which.server).await?.set_replica(stage, id, state).await };
    let replica = patiently(ask).await?;
    ui.note(&rows::now(stage, &replica));
    Ok(())
}

async fn drain(timeout: Option<Duration>, server: &AdminServer, ui: &Ui) -> Result<(), Failure> {
    let mut progress = connect(server).await?.drain(timeout).await?;
    while let Some(now) = progress.next().await? {
        ui.progress(|| rows::drain(&now));
        if !ui.is_terminal() {
            ui.note(&rows::drain(&now));
        }
    }
    ui.clear();
    ui.note("nothing is left, the server ends");
    Ok(())
}

async fn connect(server: &AdminServer) -> Result<Operator, ClientError> {
    Operator::connect(&server.endpoint).await
}

async fn patiently<T>(ask: impl Future<Output = Result<T, ClientError>>) -> Result<T, Failure> {
    Deadline::after(Some(PATIENCE)).within(ask).await
}
