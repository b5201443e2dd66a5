//! A server whose stages are elsewhere: `--role frontend`; and one that has all of them: `--role all`.

use anyhow::Context as _;
use dynamo_runtime::DistributedRuntime;
use dynamo_runtime::metrics::MetricsHierarchy as _;
use dynamo_runtime::metrics::request_plane::ensure_request_plane_metrics_registered_prometheus;
use dynamo_runtime::metrics::transport_metrics::ensure_transport_metrics_registered_prometheus;
use omni_config::Config;
use omni_family::model_identity;
use omni_server::app::{App, Sinks, load_model};

use crate::card::Identity;
use crate::members::Members;
use crate::runtime::{Presence, connect};
use crate::settings::Network;
use crate::signals::Signals;

/// Serves callers until a signal, or until something fails.
///
/// # Errors
/// What failed.
pub async fn run(mut config: Config, network: Option<&Network>) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    if network.is_some() {
        config.deploy.place_elsewhere();
    }
    let source = config.model.clone();
    let deploy = config.deploy.clone();
    let speech_only = config.speech_only;
    let mut app = App::start(&config, Sinks::log(), move || {
        load_model(&source, &deploy, speech_only)
    })
    .await?;
    let drain = app.drain();
    let outcome = tokio::select! {
        outcome = work(&mut app, &config, network) => outcome,
        () = signals.next() => Ok(()),
        () = drain.asked() => Ok(()),
    };
    app.shut_down(signals.next()).await;
    outcome
}

async fn work(app: &mut App, config: &Config, network: Option<&Network>) -> anyhow::Result<()> {
    let Some(network) = network else {
        app.ready().await?;
        return app.failed().await;
    };
    let model = config.model.clone();
    let asked = tokio::task::spawn_blocking(move || model_identity(&model));
    let identity = Identity::new(asked.await?.context("the model cannot be read")?);
    let runtime = connect(network, Presence::Looking).await?;
    show_metrics(app, &runtime);
    app.loaded().await?;
    let parts = (app.orchestrator().clone(), app.clock());
    let members = Members::new(runtime, parts, (identity, network.name.clone()), config).await?;
    let served = async {
        app.ready().await?;
        app.failed().await
    };
    tokio::select! {
        served = served => served,
        () = members.follow() => Ok(()),
    }
}

/// Shows the figures of Dynamo's runtime on the page of the front end: of the runtime, of requests to stages, and of
/// their connections.
fn show_metrics(app: &App, runtime: &DistributedRuntime) {
    let registry = runtime.get_metrics_registry().clone();
    let registered = {
        let registry = registry.get_prometheus_registry();
        ensure_request_plane_metrics_registered_prometheus(&registry)
            .and_then(|()| ensure_transport_metrics_registered_prometheus(&registry))
    };
    if let Err(error) = registered {
        tracing::warn!(%error, "metrics of stage connections unavailable");
    }
    app.show_metrics(move || {
        registry.prometheus_expfmt_combined().unwrap_or_else(|error| {
            tracing::warn!(%error, "metrics of Dynamo's runtime unavailable");
            String::new()
        })
    });
}
