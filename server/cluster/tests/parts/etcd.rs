//! Discovery by etcd, where there is one (Debian's etcd-server).

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::certificates::Authority;
use crate::part::{PATIENCE, PROBES, Part, SENTENCE, http, lacks, long_text, until};

/// A server of etcd, killed with its test.
struct Etcd {
    folder: TempDir,
    process: Child,
    ports: [u16; 2],
    /// Callers have to show certificates of it.
    authority: Option<Authority>,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Etcd {
    /// None where there is no etcd.
    async fn start(authority: Option<Authority>) -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            lacks("etcd");
            return None;
        }
        let ports = [0; 2].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a port"));
        let ports = ports.map(|listener| listener.local_addr().expect("it is bound").port());
        let folder = tempfile::tempdir().expect("a folder");
        let process = Self::run(&folder, ports, authority.as_ref());
        let etcd = Self {
            folder,
            process,
            ports,
            authority,
        };
        etcd.listens().await;
        Some(etcd)
    }

    fn run(folder: &TempDir, [clients, peers]: [u16; 2], authority: Option<&Authority>) -> Child {
        let (scheme, trust) = match authority.map(|authority| authority.signed("127.0.0.1", folder.path())) {
            None => ("http", Vec::new()),
            Some([cert, key, ca]) => {
                let flags = [
                    ("--cert-file", cert),
                    ("--key-file", key),
                    ("--trusted-ca-file", ca),
                ];
                let flags = flags.map(|(flag, path)| format!("{flag}={}", path.display()));
                ("https", [&flags[..], &["--client-cert-auth".to_owned()]].concat())
            }
        };
        let clients = format!("{scheme}://127.0.0.1:{clients}");
        let peers = format!("http://127.0.0.1:{peers}");
        let cluster = format!("default={peers}");
        Command::new("etcd")
            .args(trust)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args([
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
            ])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args(["--initial-cluster", &cluster])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts")
    }

    async fn listens(&self) {
        let port = self.ports[0];
        until("etcd listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
    }

    fn found(&self) -> Vec<String> {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}", self.ports[0]);
        ["--cluster-discovery", "etcd", "--cluster-etcd", &url]
            .map(str::to_owned)
            .to_vec()
    }
}

#[tokio::test]
async fn parts_find_each_other_by_etcd_and_what_runs_goes_on_without_it() {
    let Some(mut etcd) = Etcd::start(None).await else {
        return;
    };
    let found = etcd.found();
    let _stages = ["talker", "code2wav"].map(|stage| Part::stage(stage, &found, &[]));
    let front = Part::frontend(&found, &["--max-buffered-audio", "200ms"]);
    front.serves();
    let expected = front.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    etcd.process.kill().expect("it runs");
    etcd.process.wait().expect("it was killed");
    // Running and new calls both succeed.
    assert!(speech.rest().await.expect("it goes on") == expected);
    assert!(front.spoken(2, SENTENCE).await.len() > 10_000);
    // It is back, and stages that come are found.
    etcd.process = Etcd::run(&etcd.folder, etcd.ports, None);
    etcd.listens().await;
    let _another = Part::stage("talker", &found, &["--replica", "5"]);
    front.says_times("replica ready", 3);
    assert!(front.spoken(1, &long_text()).await == expected);
}

/// Two ports, one behind the other, that were free just now.
fn two_ports() -> u16 {
    let bound = |port| TcpListener::bind(("127.0.0.1", port));
    loop {
        let first = bound(0).expect("a port");
        let port = first.local_addr().expect("it is bound").port();
        if port.checked_add(1).is_some_and(|next| bound(next).is_ok()) {
            return port;
        }
    }
}

#[tokio::test]
async fn stages_whose_lease_has_ended_live_on_and_register_again_at_the_same_ports() {
    let Some(mut etcd) = Etcd::start(None).await else {
        return;
    };
    let found = etcd.found();
    let stages = ["talker", "code2wav"].map(|stage| {
        let port = two_ports().to_string();
        Part::stage(stage, &found, &[&["--cluster-port", &port][..], &PROBES].concat())
    });
    let address = |line: String| {
        let (_, address) = line.split_once("address=").expect("it is told");
        address.split('/').next().map(str::to_owned)
    };
    let addresses = stages.each_ref().map(|stage| address(stage.says(" registered ")));
    let front = Part::frontend(&found, &[]);
    front.serves();
    let expected = front.spoken(1, SENTENCE).await;
    etcd.process.kill().expect("it runs");
    etcd.process.wait().expect("it was killed");
    for stage in &stages {
        stage.says("registration lost");
        let probes = stage.probes();
        assert!(http(&probes, "/live").starts_with("HTTP/1.1 200"));
        assert!(http(&probes, "/health").starts_with("HTTP/1.1 503"));
        assert!(http(&probes, "/metrics").contains("omni_stage_steps_total{"));
    }
    assert!(front.spoken(1, SENTENCE).await == expected);
    etcd.process = Etcd::run(&etcd.folder, etcd.ports, None);
    etcd.listens().await;
    for (stage, before) in stages.iter().zip(addresses) {
        assert_eq!(address(stage.says_times(" registered ", 2)), before);
        let probes = stage.probes();
        until("it is found again", || {
            http(&probes, "/health").starts_with("HTTP/1.1 200")
        })
        .await;
    }
    front.says_times("replica ready", 4);
    let linked = || {
        let page = http(&stages[0].probes(), "/metrics");
        let begin = "omni_stage_linked_sequences_total{";
        let line = page
            .lines()
            .find(|line| line.starts_with(begin))
            .map(str::to_owned);
        line.expect("it is on the page")
    };
    // Links use the addresses of the second registration, for calls begun under the first.
    let before = linked();
    let begun = Instant::now();
    while linked() == before {
        assert!(begun.elapsed() < PATIENCE, "nothing goes by a link");
        assert!(front.spoken(1, SENTENCE).await == expected);
    }
}

#[tokio::test]
async fn an_etcd_that_asks_for_certificates_is_used_with_one_and_not_without() {
    let Some(etcd) = Etcd::start(Some(Authority::new())).await else {
        return;
    };
    let authority = etcd.authority.as_ref().expect("it has one");
    let folder = tempfile::tempdir().expect("a folder");
    let [cert, key, ca] = authority.signed("omni", folder.path());
    let named = |flag: &str, path: &Path| [flag.to_owned(), path.display().to_string()];
    let trust = [etcd.found(), named("--cluster-etcd-ca", &ca).to_vec()].concat();
    let identity = [
        named("--cluster-etcd-cert", &cert),
        named("--cluster-etcd-key", &key),
    ]
    .concat();
    let found = [trust.clone(), identity].concat();
    let _stages = ["talker", "code2wav"].map(|stage| Part::stage(stage, &found, &[]));
    let front = Part::frontend(&found, &[]);
    front.serves();
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
    let unnamed = ["--role", "stage", "--stage", "talker"]
        .map(str::to_owned)
        .to_vec();
    let unnamed = Part::start(&[unnamed, trust].concat());
    unnamed.says("etcd not reachable yet");
    assert!(!unnamed.log().contains("registered"), "{}", unnamed.log());
}
