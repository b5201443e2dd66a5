//! `doctor`: checks everything between this program and spoken audio, and reports problems with their remedies.

mod check;
mod local;
mod network;
mod speech;

use omni_client::{Client, ClientError};
use serde_json::json;

use super::args::Doctor;
use super::failure::Failure;
use super::print;
use super::ui::Ui;
use check::{Check, Verdict};
use local::Clocks;
use speech::Heard;

/// The checks that need a connection, in their order.
const REMOTE: [&str; 6] = ["health", "key", "services", "models", "voices", "speech"];

/// Reason why checks are skipped without a connection.
const UNCONNECTED: &str = "there is no connection";

pub(crate) async fn run(args: &Doctor, ui: &Ui) -> Result<(), Failure> {
    let clocks = Clocks::start();
    let mut checks = network::checks(args, ui).await;
    let mut heard = None;
    match connected(args, &checks).await {
        Some(Ok(client)) => checks.extend(remote(args, ui, &client, &mut heard).await),
        Some(Err(error)) => {
            checks.push(network::unhealthy(&error.into()));
            checks.extend(skipped(&REMOTE[1..], UNCONNECTED));
        }
        None => checks.extend(skipped(&REMOTE, UNCONNECTED)),
    }
    checks.push(clocks.check(heard.as_ref()));
    checks.push(local::output(&args.output));
    ui.clear();
    print(report(args, &checks).as_bytes())?;
    verdict(&checks)
}

/// Checks that cannot run, with the reason.
fn skipped(names: &[&'static str], why: &'static str) -> impl Iterator<Item = Check> {
    names.iter().map(move |&name| Check::skipped(name, why))
}

/// A client, if the earlier checks allow a connection.
async fn connected(args: &Doctor, checks: &[Check]) -> Option<Result<Client, ClientError>> {
    if checks.iter().any(|check| check.verdict == Verdict::Wrong) {
        return None;
    }
    Some(Client::connect(&args.server.endpoint).await)
}

/// Checks that need a connection. A server that is not ready is asked nothing more.
async fn remote(args: &Doctor, ui: &Ui, client: &Client, heard: &mut Option<Heard>) -> Vec<Check> {
    let mut checks = vec![network::health(args, ui, client).await];
    if checks[0].verdict == Verdict::Wrong {
        checks.extend(skipped(&REMOTE[1..], "the server is not ready"));
        return checks;
    }
    checks.push(network::key(args, ui, client).await);
    if checks[1].verdict == Verdict::Wrong {
        checks.extend(skipped(
            &REMOTE[2..],
            "the server takes no calls without a key that it knows",
        ));
        return checks;
    }
    checks.push(network::services(args, ui, client).await);
    checks.push(network::models(args, ui, client).await);
    checks.push(network::voices(args, ui, client).await);
    if checks
        .last()
        .is_some_and(|voices| voices.finding == network::NO_VOICE)
    {
        checks.push(Check::skipped("speech", "there is no voice to speak with"));
        return checks;
    }
    ui.progress(|| "speaking a sentence".to_owned());
    let (check, figures) = speech::check(args, client).await;
    *heard = figures;
    checks.push(check);
    checks
}

fn report(args: &Doctor, checks: &[Check]) -> String {
    if !args.json {
        return checks.iter().map(Check::lines).collect();
    }
    let json = json!({
        "endpoint": args.server.endpoint.to_string(),
        "client_version": env!("CARGO_PKG_VERSION"),
        "healthy": wrong(checks) == 0,
        "checks": checks.iter().map(Check::json).collect::<Vec<_>>(),
    });
    format!("{json:#}\n")
}

fn wrong(checks: &[Check]) -> usize {
    checks
        .iter()
        .filter(|check| check.verdict == Verdict::Wrong)
        .count()
}

fn verdict(checks: &[Check]) -> Result<(), Failure> {
    match wrong(checks) {
        0 => Ok(()),
        wrong => Err(Failure::CheckFailed(format!(
            "{wrong} of {} checks failed",
            checks.len()
        ))),
    }
}
