//! The whole server under callers: `omni-client bench` against a server in this process.

use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use omni_bench::{Asking, Load, Manner, Offered, Plan, Style, Work};
use omni_client::{Endpoint, SpeechSettings};
use omni_config::RawConfig;
use omni_server::app::{App, Sinks, load_model};
use omni_tests::Reading;

use super::Run;
use crate::gpu::models::Place;
use crate::service::SENTENCES;

/// An utterance that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// The metric that counts steps without their graph.
const FALLBACKS: &str = "vllm:omni_gpu_graph_fallbacks_total";

/// Measures, and writes it down.
pub(super) fn measure(run: &mut Run<'_>, name: &str) -> anyhow::Result<()> {
    let asked = run.asked;
    let args = arguments(
        &asked.server_model(name),
        run.place,
        asked.batches.iter().copied().max().unwrap_or(1),
    );
    let title = format!("the server with {name}");
    run.report.heading(2, &format!("The server with {name}"))?;
    run.report.paragraph(format!(
        "`omni-server {}`, callers in the same process.",
        args.join(" ")
    ))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    run.longest = Duration::ZERO;
    let Some(app) = run.part(&title, || runtime.block_on(start(&args))) else {
        return Ok(run.report.paragraph("Not measured.")?);
    };
    let endpoint = Endpoint::parse(&format!("http://{}", app.address()))?;
    run.longest = Duration::ZERO;
    for &batch in &asked.batches {
        let title = format!("{title}, {batch} streams");
        let plan = plan(&endpoint, batch, asked.requests);
        let measured = run.part(&title, || Ok(runtime.block_on(plan.measure(|_| ()))?));
        let Some(measured) = measured else { continue };
        run.report.paragraph(measured.tables(Style::Markdown))?;
        if let Some(failures) = measured.failures() {
            run.fails(format!("{title}: {failures}"));
        }
    }
    let fallbacks = runtime.block_on(fallbacks(&app));
    let counted = fallbacks.map_or_else(|| "no GPU has counted any".to_owned(), |count| count.to_string());
    run.report
        .line(format!("\nSteps that could not be graphs: {counted}."))?;
    // On a device that no GPU has counted any means that none has computed.
    if matches!(run.place, Place::Device(_)) && fallbacks != Some(0.0) {
        run.fails(format!("{title}: steps that could not be graphs: {counted}"));
    }
    runtime.block_on(app.shut_down(std::future::ready(())));
    Ok(())
}

/// Arguments of the server, whose other defaults follow the device.
fn arguments(model: &str, place: Place, streams: u32) -> [String; 4] {
    let device = match place {
        Place::Device(number) => format!("cuda:{number}"),
        // A server would be too slow there; the processor's own kernels do.
        #[cfg(feature = "emulator")]
        Place::Emulated => "cpu".to_owned(),
    };
    [
        format!("--model={model}"),
        "--speech-only".to_owned(),
        format!("--device={device}"),
        format!("--max-active={}", streams.max(8)),
    ]
}

/// As many callers as `streams`, each with its next request when the last is answered.
fn plan(endpoint: &Endpoint, streams: u32, each: u32) -> Plan {
    Plan {
        load: Load {
            endpoint: endpoint.clone(),
            asking: Asking {
                work: Work::Speak(SpeechSettings::default()),
                texts: SENTENCES.iter().map(|&text| text.to_owned()).collect(),
                manner: Manner::default(),
                cancel: None,
                timeout: PATIENCE,
            },
            warmup: 1,
            seed: 0,
        },
        levels: vec![Offered::Streams(streams)],
        requests: streams * each,
        search: None,
        slo: None,
        command: Vec::new(),
    }
}

/// A server in this process that is ready.
async fn start(args: &[String]) -> anyhow::Result<App> {
    let own = [
        "omni-server",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
    ];
    let args = own.iter().copied().chain(args.iter().map(String::as_str));
    let config = RawConfig::try_parse_from(args)?.validate()?;
    let source = config.model.clone();
    let deploy = config.deploy.clone();
    let load = move || load_model(&source, &deploy, true);
    let mut app = App::start(&config, Sinks::log(), load).await?;
    app.ready().await.context("the server does not come up")?;
    Ok(app)
}

/// Steps that were launched without their graph; none if no GPU computes.
async fn fallbacks(app: &App) -> Option<f64> {
    let reading = Reading::at(app.metrics_address()?).await;
    let ours = reading.samples.iter().filter(|sample| sample.name == FALLBACKS);
    ours.map(|sample| sample.value).reduce(|sum, more| sum + more)
}
