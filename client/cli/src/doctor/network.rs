//! Connection to the server, and the server's description.

use std::net::SocketAddr;
use std::time::Instant;

use omni_client::{Client, ClientError, Code, Serving, check_tls};
use serde_json::json;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::check::Check;
use crate::args::Doctor;
use crate::deadline::Deadline;
use crate::diagnosis::{Found, found};
use crate::failure::{Failure, tls_advice};
use crate::summary::milliseconds;
use crate::ui::Ui;

/// Service without which there is no speech.
const NEEDED: &str = "omni.v1.SpeechService";
/// Services without which something is missing.
const WANTED: [&str; 2] = ["omni.v1.CatalogService", "omni.v1.ChatService"];

/// Finding for a model that speaks with the voices of recordings and has none yet.
pub(super) const NO_VOICE: &str = "there are none yet";
const ADD_VOICE: &str = "add one: omni-client voices add NAME --recording FILE --transcript TEXT --i-have-consent (a Base checkpoint has no voices of its own)";

/// The address, the connection and its encryption.
pub(super) async fn checks(args: &Doctor, ui: &Ui) -> Vec<Check> {
    let endpoint = &args.server.endpoint;
    ui.progress(|| format!("looking up {}", endpoint.host()));
    let looked_up = timeout(args.timeout, lookup_host((endpoint.host(), endpoint.port()))).await;
    let addresses: Vec<SocketAddr> = match looked_up {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return unresolved(args, &error.to_string()),
        Err(_) => return unresolved(args, "no answer in time"),
    };
    if addresses.is_empty() {
        return unresolved(args, "the name has no address");
    }
    let known: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let address = Check::good("address", format!("{endpoint} is {}", known.join(", "))).with(json!(known));
    ui.progress(|| format!("connecting to {endpoint}"));
    let (connection, reached) = connection(args, &addresses).await;
    ui.progress(|| format!("looking at the encryption of {endpoint}"));
    let found = match reached {
        Some(address) if !endpoint.is_encrypted() => found(address).await,
        _ => None,
    };
    match found.filter(|found| *found != Found::Tls) {
        Some(other) => vec![
            address,
            Check::wrong(
                "connection",
                format!("{endpoint} {}", other.problem()),
                other.advice(),
            ),
            Check::skipped("encryption", "no calls are taken there"),
        ],
        None => vec![address, connection, encryption(args, reached, found).await],
    }
}

fn unresolved(args: &Doctor, why: &str) -> Vec<Check> {
    let host = args.server.endpoint.host();
    let advice = "is the name right? --endpoint or OMNI_ENDPOINT names the server";
    vec![
        Check::wrong("address", format!("{host} cannot be looked up: {why}"), advice),
        Check::skipped("connection", "there is no address"),
        Check::skipped("encryption", "there is no connection"),
    ]
}

/// Tries the addresses in turn; returns the one that was reached.
async fn connection(args: &Doctor, addresses: &[SocketAddr]) -> (Check, Option<SocketAddr>) {
    let mut failures = Vec::new();
    for address in addresses {
        let begun = Instant::now();
        match timeout(args.timeout, TcpStream::connect(address)).await {
            Ok(Ok(_)) => {
                let took = begun.elapsed();
                let check = Check::good(
                    "connection",
                    format!("{address} answers after {}", milliseconds(took)),
                )
                .with(json!({ "seconds": took.as_secs_f64() }));
                return (check, Some(*address));
            }
            Ok(Err(error)) => failures.push(format!("{address}: {error}")),
            Err(_) => failures.push(format!("{address}: no answer in time")),
        }
    }
    let advice = "is `omni-server` running there, with --listen on an address that can be reached from here?";
    (Check::wrong("connection", failures.join("; "), advice), None)
}

async fn encryption(args: &Doctor, reached: Option<SocketAddr>, found: Option<Found>) -> Check {
    match reached {
        None => Check::skipped("encryption", "there is no connection"),
        Some(address) if args.server.endpoint.is_encrypted() => tls(args, address).await,
        Some(_) if found == Some(Found::Tls) => Check::wrong(
            "encryption",
            format!("the server {}", Found::Tls.problem()),
            Found::Tls.advice(),
        ),
        Some(address) if address.ip().is_loopback() => {
            Check::good("encryption", "none, and nothing leaves this machine")
        }
        Some(_) => Check::doubtful(
            "encryption",
            "none: texts and audio can be read on their way",
            "give the server a certificate (--tls-cert, --tls-key) where the network is not your own",
        ),
    }
}

async fn tls(args: &Doctor, address: SocketAddr) -> Check {
    match check_tls(&args.server.endpoint, address, args.timeout).await {
        Ok(facts) => Check::good(
            "encryption",
            format!("{}, with a certificate that is trusted", facts.version),
        )
        .with(json!({ "version": facts.version })),
        Err(ClientError::Tls { problem, cause, .. }) => {
            Check::wrong("encryption", format!("{problem} ({cause})"), tls_advice(problem))
        }
        Err(error) => Check::wrong(
            "encryption",
            text(&error.into()),
            "does the server speak TLS there?",
        ),
    }
}

pub(super) async fn health(args: &Doctor, ui: &Ui, client: &Client) -> Check {
    ui.progress(|| "asking for health".to_owned());
    match within(args, client.health("")).await {
        Ok(Serving::Serving) => Check::good("health", "SERVING"),
        Ok(state) => Check::wrong(
            "health",
            state.to_string(),
            "the model may still be loading: `omni-client health --wait` waits for it; or a stage has no replica that takes work: \
             `omni-client stats` asks the server's --admin-listen address for that",
        ),
        Err(failure) => unhealthy(&failure),
    }
}

/// Finding for a server whose health cannot be queried.
pub(super) fn unhealthy(failure: &Failure) -> Check {
    let advice = match failure {
        Failure::Rpc(ClientError::Tls { problem, .. }) => tls_advice(*problem),
        Failure::Rpc(ClientError::Rpc(error)) if !error.reason.is_empty() => advice(failure),
        _ => "something listens there that does not answer as a gRPC server does; is it the right port?",
    };
    Check::wrong("health", text(failure), advice)
}

/// Checks that the server accepts the API key, or calls without one. Later checks report other problems.
pub(super) async fn key(args: &Doctor, ui: &Ui, client: &Client) -> Check {
    ui.progress(|| "showing the API key".to_owned());
    let source = args.server.access.key_source();
    let refused = match within(args, client.models()).await {
        Err(Failure::Rpc(ClientError::Rpc(error))) if error.code == Code::Unauthenticated => error,
        _ => {
            let sent = source.map_or_else(
                || "none is sent, and the server asks for none".to_owned(),
                |source| format!("the server takes calls with the one from {source}"),
            );
            return Check::good("key", sent);
        }
    };
    match source {
        None => Check::wrong(
            "key",
            "the server asks for an API key, and none is sent",
            "--api-key-file names a file with the key, or OMNI_API_KEY holds the key itself; `omni-server new-key` makes one",
        ),
        Some(source) => Check::wrong(
            "key",
            format!(
                "the server does not know the one from {source}: {}",
                refused.message
            ),
            "is it a key of this server, and still in its --api-keys file? `omni-server new-key` makes one",
        ),
    }
}

/// Checks that both sides speak the same protocol.
pub(super) async fn services(args: &Doctor, ui: &Ui, client: &Client) -> Check {
    ui.progress(|| "asking for services".to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let services = match within(args, client.services()).await {
        Ok(services) => services,
        Err(Failure::Rpc(ClientError::Rpc(error))) if error.code == Code::Unimplemented => {
            return Check::doubtful(
                "services",
                "the server does not list them",
                "it answers no reflection; the checks below tell whether it is the right one",
            );
        }
        Err(failure) => return Check::wrong("services", text(&failure), advice(&failure)),
    };
    let missing = |name: &&str| !services.iter().any(|service| service == name);
    if missing(&NEEDED) {
        let advice = format!("is it an Omni server, and of this client's version ({version})?");
        return Check::wrong("services", format!("{NEEDED} is missing"), advice);
    }
    let missing: Vec<&str> = WANTED.into_iter().filter(missing).collect();
    let check = match missing.as_slice() {
        [] => Check::good("services", format!("omni.v1, all that client {version} calls")),
        missing => Check::doubtful(
            "services",
            format!("{} is missing", missing.join(", ")),
            "some commands will not work with this server",
        ),
    };
    check.with(json!(services))
}

pub(super) async fn models(args: &Doctor, ui: &Ui, client: &Client) -> Check {
    ui.progress(|| "asking for models".to_owned());
    let models = match within(args, client.models()).await {
        Ok(models) => models,
        Err(failure) => return Check::wrong("models", text(&failure), advice(&failure)),
    };
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    let waiting: Vec<&str> = models
        .iter()
        .filter(|model| !model.ready)
        .map(|model| model.id.as_str())
        .collect();
    let check = if ids.is_empty() {
        Check::wrong("models", "there are none", "start the server with --model")
    } else if waiting.is_empty() {
        Check::good("models", ids.join(", "))
    } else {
        Check::doubtful(
            "models",
            format!("{} not ready", waiting.join(", ")),
            "it may still be loading",
        )
    };
    check.with(json!(ids))
}

pub(super) async fn voices(args: &Doctor, ui: &Ui, client: &Client) -> Check {
    ui.progress(|| "asking for voices".to_owned());
    let voices = match within(args, client.voices("", "")).await {
        Ok(voices) => voices,
        Err(failure) => return Check::wrong("voices", text(&failure), advice(&failure)),
    };
    let ids: Vec<&str> = voices.iter().map(|voice| voice.id.as_str()).collect();
    let asked = args.voice.voice.as_str();
    let has =
        |voice: &omni_client::Voice| voice.id == asked || voice.aliases.iter().any(|alias| alias == asked);
    let check = if !asked.is_empty() && !voices.iter().any(has) {
        let advice = if ids.is_empty() {
            ADD_VOICE.to_owned()
        } else {
            format!("use one of {}", ids.join(", "))
        };
        Check::wrong("voices", format!("there is no voice {asked}"), advice)
    } else if ids.is_empty() {
        Check::doubtful("voices", NO_VOICE, ADD_VOICE)
    } else {
        Check::good("voices", ids.join(", "))
    };
    check.with(json!(ids))
}

async fn within<T>(args: &Doctor, ask: impl Future<Output = Result<T, ClientError>>) -> Result<T, Failure> {
    Deadline::after(Some(args.timeout)).within(ask).await
}

/// The remedy.
pub(super) fn advice(failure: &Failure) -> &'static str {
    failure.advice().unwrap_or("see the server's log")
}

/// The error in one line.
pub(super) fn text(failure: &Failure) -> String {
    let text = failure.text().unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
