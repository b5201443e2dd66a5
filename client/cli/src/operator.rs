//! `stats`, `top` and `admin`: an operator's view of a server, and control of it.

mod rows;
mod top;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use omni_client::{ClientError, Code, Endpoint, Operator, Replica, ReplicaState, ServerInfo, Stats};
use serde_json::{Value, json};

use super::args::{AdminCommand, AdminServer, StatsArgs, TopArgs, Which, Withdraw};
use super::catalog::table;
use super::deadline::{Deadline, exceeded};
use super::failure::Failure;
use super::print;
use super::ui::Ui;

/// Limit for answers of the admin service, where no argument sets one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Adds advice if operators are not served, which is the default of servers.
pub(crate) fn explain(failure: Failure, ui: &Ui) -> Failure {
    let Failure::Rpc(error) = &failure else {
        return failure;
    };
    let advice = match error {
        ClientError::Unreachable { .. } => {
            "`omni-server --admin-listen ADDRESS` serves operators; name the address with --admin-endpoint or OMNI_ADMIN_ENDPOINT"
        }
        ClientError::Rpc(rpc) if rpc.code == Code::Unimplemented => {
            "is that the port for callers? operators are served where `omni-server --admin-listen` says; name that with \
             --admin-endpoint or OMNI_ADMIN_ENDPOINT"
        }
        _ => return failure,
    };
    ui.error(&format!("{error}\n  {advice}"));
    Failure::Told(Box::new(failure))
}

pub(crate) async fn top(args: &TopArgs, ui: &Ui) -> Result<(), Failure> {
    top::run(args, ui).await
}

pub(crate) async fn stats(args: &StatsArgs, ui: &Ui) -> Result<(), Failure> {
    let endpoint = &args.server.endpoint;
    let ask = async {
        let operator = Operator::connect(endpoint).await?;
        Ok::<_, ClientError>((operator.info().await?, operator.stats().await?))
    };
    let ask = Deadline::after(Some(args.timeout)).within(ask);
    let (info, stats) = ui.patiently(|| format!("waiting for {endpoint}"), ask).await?;
    if args.json {
        print(format!("{:#}\n", figures(&info, &stats)).as_bytes())
    } else {
        print(page(&info, &stats).as_bytes())
    }
}

/// Everything at once, for people.
fn page(info: &ServerInfo, stats: &Stats) -> String {
    let mut page = rows::head(info, stats).join("\n");
    page.push_str("\n\n");
    page.push_str(&table(&rows::REPLICAS, rows::replicas(stats, None)));
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
            "from": session.peer,
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
        "ready": !info.models.is_empty() && rows::not_ready(stats).is_none(),
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
        AdminCommand::Cordon(replica) => withdraw(replica, ReplicaState::Cordoned, ui).await,
        AdminCommand::Uncordon(which) => set(which, ReplicaState::Ready, ui).await,
        AdminCommand::Remove(replica) => withdraw(replica, ReplicaState::Removed, ui).await,
        AdminCommand::Add { stage, server } => {
            let add = async { connect(server).await?.add_replica(stage).await };
            let replica = soon(&server.endpoint, ui, add).await?;
            ui.note(&format!("{stage} {} is {}", replica.id, replica.state));
            Ok(())
        }
        AdminCommand::Cancel {
            session,
            reason,
            server,
        } => {
            let cancel = async { connect(server).await?.cancel(session, reason).await };
            soon(&server.endpoint, ui, cancel).await?;
            ui.note(&format!("session {session} is ended"));
            Ok(())
        }
        AdminCommand::Drain { timeout, server } => drain(*timeout, server, ui).await,
    }
}

/// Takes a replica out of service. If it is the last of its stage, a person is asked, and a program has to pass
/// `--yes`.
async fn withdraw(args: &Withdraw, state: ReplicaState, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    if !args.yes {
        let stages = async { connect(&which.server).await?.stages().await };
        let stages = soon(&which.server.endpoint, ui, stages).await?;
        if let Some(consequence) = rows::last_of(&stages, &which.stage, &which.replica) {
            confirm(&consequence, ui)?;
        }
    }
    set(which, state, ui).await
}

/// Goes on after a "y" of a person at a terminal.
fn confirm(consequence: &str, ui: &Ui) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !ui.is_terminal() {
        return Err(Failure::Usage(format!(
            "{consequence}\n  --yes does it all the same"
        )));
    }
    ui.ask(&format!("{consequence}. Go on? [y/N] "));
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::io("cannot read standard input", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Usage("nothing is done".to_owned())),
    }
}

async fn set(which: &Which, state: ReplicaState, ui: &Ui) -> Result<(), Failure> {
    let stage = &which.stage;
    let id = &which.replica;
    let set = async { connect(&which.server).await?.set_replica(stage, id, state).await };
    let replica = soon(&which.server.endpoint, ui, set).await?;
    ui.note(&rows::now(stage, &replica));
    Ok(())
}

async fn drain(timeout: Option<Duration>, server: &AdminServer, ui: &Ui) -> Result<(), Failure> {
    let begin = async {
        let mut progress = connect(server).await?.drain(timeout).await?;
        let first = progress.next().await?;
        Ok((progress, first))
    };
    let (mut progress, mut seen) = soon(&server.endpoint, ui, begin).await?;
    while let Some(now) = seen {
        ui.progress(|| rows::drain(&now));
        if !ui.is_terminal() {
            ui.note(&rows::drain(&now));
        }
        seen = progress.next().await?;
    }
    ui.clear();
    ui.note("nothing is left, the server ends");
    Ok(())
}

async fn connect(server: &AdminServer) -> Result<Operator, ClientError> {
    Operator::connect(&server.endpoint).await
}

/// Waits for a request that a healthy server answers at once, and says so when it does not.
async fn soon<T>(
    endpoint: &Endpoint,
    ui: &Ui,
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, Failure> {
    let answer = tokio::time::timeout(PATIENCE, answer);
    match ui.patiently(|| format!("waiting for {endpoint}"), answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            let patience = PATIENCE.as_secs();
            ui.error(&format!(
                "{endpoint} gave no answer within {patience} s\n  see the server's log"
            ));
            Err(Failure::Told(Box::new(exceeded(PATIENCE).into())))
        }
    }
}
