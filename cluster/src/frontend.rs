//! A server whose stages are elsewhere: `--role frontend`; and one that has all of them: `--role all`.

use anyhow::Context as _;
use omni_family::model_identity;
use omni_server::app::{App, Sinks, load_model};
use omni_server::config::Config;

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
    let (source, deploy, speech_only) = (config.model.clone(), config.deploy.clone(), config.speech_only);
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
