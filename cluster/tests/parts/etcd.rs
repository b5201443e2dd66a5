//! Discovery by etcd, where there is one (Debian's etcd-server).

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::part::{Part, SENTENCE, long_text, until};

/// A server of etcd, killed with its test.
struct Etcd {
    folder: TempDir,
    process: Child,
    ports: [u16; 2],
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Etcd {
    /// None where there is no etcd.
    async fn start() -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            eprintln!("there is no etcd: this test says nothing");
            return None;
        }
        let ports = [0; 2].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a port"));
        let ports = ports.map(|listener| listener.local_addr().expect("it is bound").port());
        let folder = tempfile::tempdir().expect("a folder");
        let process = Self::run(&folder, ports);
        let etcd = Self {
            folder,
            process,
            ports,
        };
        etcd.listens().await;
        Some(etcd)
    }

    fn run(folder: &TempDir, [clients, peers]: [u16; 2]) -> Child {
        let (clients, peers) = (
            format!("http://127.0.0.1:{clients}"),
            format!("http://127.0.0.1:{peers}"),
        );
        let cluster = format!("default={peers}");
        Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path())
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
        let url = format!("http://127.0.0.1:{}", self.ports[0]);
        ["--cluster-discovery", "etcd", "--cluster-etcd", &url]
            .map(str::to_owned)
            .to_vec()
    }
}

#[tokio::test]
async fn parts_find_each_other_by_etcd_and_what_runs_goes_on_without_it() {
    let Some(mut etcd) = Etcd::start().await else {
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
    // What runs, and what is new.
    assert!(speech.rest().await.expect("it goes on") == expected);
    assert!(front.spoken(2, SENTENCE).await.len() > 10_000);
    // It is back, and stages that come are found.
    etcd.process = Etcd::run(&etcd.folder, etcd.ports);
    etcd.listens().await;
    let _another = Part::stage("talker", &found, &["--replica", "5"]);
    front.says_times("a replica takes work", 3);
    assert!(front.spoken(1, &long_text()).await == expected);
}
