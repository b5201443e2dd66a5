//! Callers of every kind at once, for a short while: no rule is broken, and nothing is left of them. `make soak` is
//! the long version.

use std::time::Duration;

use omni_config::{ModelSource, deploy::resolve};
use omni_server::app::load_model;
use omni_tests::TestServer;
use omni_tools::soak::{Plan, Target, soak};

/// Growth of the process that is accepted, the callers' side included: the allocator's slack.
const ALLOWANCE: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the report is for the test's log")]
async fn callers_of_every_kind_find_no_rule_broken_and_leave_nothing_behind() {
    let sets = ["thinker", "talker"].map(|stage| format!("stages.{stage}.kv.blocks=512"));
    let deploy = resolve(None, &sets, 64).expect("legal settings").deploy;
    let bounds = [
        "--wyoming",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--idle-timeout",
        "6s",
        "--stall-timeout",
        "10s",
        "--max-active",
        "32",
    ];
    let mut server = TestServer::launch(&bounds, move || {
        load_model(&ModelSource::Embedded, &deploy, false)
    })
    .await;
    server.app.ready().await.expect("the embedded model loads");
    let target = Target {
        address: server.app.address(),
        admin: server.app.admin_address(),
        wyoming: server.app.wyoming_address(),
        metrics: server.app.metrics_address().expect("metrics are served"),
        process: std::process::id(),
    };
    let plan = Plan {
        seed: 1,
        streams: 8,
        warmup: Duration::from_secs(4),
        time: Duration::from_secs(12),
        allowance: ALLOWANCE,
    };
    let report = soak(target, plan, |_| {}).await.expect("it can be looked at");
    println!("{report}");
    assert_eq!(report.faults(), Vec::<String>::new());
    assert!(report.calls() > 10, "{} calls", report.calls());
    server.stop().await;
}
