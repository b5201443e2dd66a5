//! `health`: is the server ready?

use omni_client::{Client, Serving, wait_until_serving};
use serde_json::json;

use super::args::Health;
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;

pub(crate) async fn run(args: &Health, ui: &Ui) -> Result<(), Failure> {
    let serving = ui
        .patiently(|| format!("waiting for {}", args.server.endpoint), ask(args))
        .await?;
    let answer = if args.json {
        json!({ "endpoint": args.server.endpoint.to_string(), "service": args.service, "status": serving.to_string() })
            .to_string()
    } else {
        serving.to_string()
    };
    // The exit code says it, too.
    if args.json || !ui.is_quiet() {
        print(format!("{answer}\n").as_bytes())?;
    }
    verdict(args, serving)
}

async fn ask(args: &Health) -> Result<Serving, Failure> {
    let endpoint = &args.server.endpoint;
    if args.wait {
        return Ok(wait_until_serving(endpoint, &args.service, args.timeout).await?);
    }
    let ask = async { Client::connect(endpoint).await?.health(&args.service).await };
    Deadline::after(Some(args.timeout)).within(ask).await
}

fn verdict(args: &Health, serving: Serving) -> Result<(), Failure> {
    let endpoint = &args.server.endpoint;
    match serving {
        Serving::Serving => Ok(()),
        Serving::NotServing if args.wait => {
            let waited = args.timeout.as_secs_f64();
            Err(Failure::NotServing(format!(
                "the server at {endpoint} was not ready within {waited} s"
            )))
        }
        Serving::NotServing => Err(Failure::NotServing(format!(
            "the server at {endpoint} is not ready\n  --wait waits until it is"
        ))),
        Serving::Unknown => Err(Failure::NotServing(format!(
            "the server at {endpoint} has no service \"{}\"",
            args.service
        ))),
    }
}
