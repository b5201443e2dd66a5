//! Servers whose model or listener fails.

use omni_config::RawConfig;
use omni_family::Family;

use super::*;

#[tokio::test]
async fn a_model_that_is_never_read_is_told_and_keeps_nobody_from_ending() {
    let config = RawConfig::arguments_only([
        "omni-server",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "off",
        "--set",
        "load_timeout=50ms",
    ])
    .unwrap()
    .validate()
    .unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let load = move || -> anyhow::Result<Family> {
        // Until the test is over.
        let _ = held.recv();
        anyhow::bail!("too late")
    };
    let mut app = App::start(&config, Sinks::log(), load).await.unwrap();
    let error = app.ready().await.unwrap_err().to_string();
    assert!(error.contains("no progress for 50ms (load_timeout)"), "{error}");
    app.shut_down(std::future::ready(())).await;
    drop(release);
}

#[tokio::test]
async fn a_listener_that_failed_is_no_obstacle_to_shutting_down() {
    let config = RawConfig::arguments_only([
        "omni-server",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "off",
    ])
    .unwrap()
    .validate()
    .unwrap();
    let load = || -> anyhow::Result<Family> { anyhow::bail!("none") };
    let mut app = App::start(&config, Sinks::log(), load).await.unwrap();
    let failing = tokio::spawn(async { anyhow::bail!("the socket is gone") });
    std::mem::replace(&mut app.listener, failing).abort();
    let error = app.failed().await.unwrap_err();
    assert!(error.to_string().contains("the socket is gone"), "{error}");
    app.shut_down(std::future::ready(())).await;
}
