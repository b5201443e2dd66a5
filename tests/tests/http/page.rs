//! Runs the examples of `docs/clients.md`.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use omni_config::{ModelSource, deploy::resolve};
use omni_server::app::load_model;
use omni_tests::{TestServer, python};

const PAGE: &str = include_str!("../../../docs/clients.md");
/// Address of the page's server.
const ADDRESS: &str = "127.0.0.1:50051";
/// The port where it speaks Wyoming.
const WYOMING: &str = "10300";
/// The package that is not installed.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/python/src");

/// A snippet, and what runs it: the name of a client's environment, or nothing for a shell.
struct Snippet {
    client: Option<&'static str>,
    code: String,
}

fn snippets() -> Vec<Snippet> {
    let blocks = PAGE.split("\n```").skip(1).step_by(2);
    let marked = blocks.filter_map(|block| {
        let (head, code) = block.split_once('\n')?;
        let (_, how) = head.split_once(' ')?;
        let client = how.strip_prefix("run=");
        assert!(client.is_some() || how == "run", "{head}");
        let code = code.to_owned();
        Some(Snippet { client, code })
    });
    marked.collect()
}

/// Files that the snippets write, but for those of clients that are not installed.
fn heard(folder: &Path, name: &str) -> usize {
    let file = fs::read(folder.join(name));
    file.unwrap_or_else(|error| panic!("{name}: {error}")).len()
}

/// Files that the snippets of a client write.
const HEARD: [(&str, &[&str]); 7] = [
    ("sh", &["hello.mp3"]),
    ("openai", &["speech.mp3", "hello.wav", "answer.pcm"]),
    ("riva", &["riva.wav"]),
    ("omni", &["three-lines.wav", "words.pcm"]),
    ("wyoming", &["wyoming.wav"]),
    ("websockets", &["websocket.pcm"]),
    ("realtime", &["realtime.pcm"]),
];

/// Runs a snippet in `folder`; whether its client is installed.
async fn run(snippet: &Snippet, folder: &Path, (address, wyoming): (SocketAddr, SocketAddr)) -> bool {
    let code = snippet.code.replace(ADDRESS, &address.to_string());
    let code = code.replace(WYOMING, &wyoming.port().to_string());
    assert_ne!(code, snippet.code, "it names the server");
    let Some(client) = snippet.client else {
        if Command::new("curl").arg("--version").output().is_err() {
            return false;
        }
        let mut call = Command::new("sh");
        call.args(["-euc", &code]).current_dir(folder);
        let status = tokio::task::spawn_blocking(move || call.status()).await;
        assert!(status.expect("a thread").expect("a shell").success());
        return true;
    };
    let code = format!("import os, sys\nos.chdir(sys.argv[1])\nsys.path.insert(0, sys.argv[2])\n{code}");
    let arguments = [folder.to_str().expect("a plain name"), PACKAGE];
    python(client, client, &code, &arguments).await.is_some()
}

#[tokio::test]
async fn what_the_page_says_can_be_run_speaks() {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Embedded, &deploy, false);
    let mut server = TestServer::launch(&["--wyoming", "127.0.0.1:0"], load).await;
    server.app.ready().await.expect("the embedded model loads");
    let wyoming = server.app.wyoming_address().expect("--wyoming");
    let addresses = (server.app.address(), wyoming);
    let folder = tempfile::tempdir().expect("a folder");
    let mut ran = BTreeSet::new();
    for snippet in snippets() {
        if run(&snippet, folder.path(), addresses).await {
            ran.insert(snippet.client.unwrap_or("sh"));
        }
    }
    // Each is longer than a header, and than silence would be.
    for (_, names) in HEARD.iter().filter(|(client, _)| ran.contains(client)) {
        for name in *names {
            assert!(heard(folder.path(), name) > 4_000, "{name}");
        }
    }
    server.stop().await;
}

#[test]
fn the_page_has_snippets_of_every_kind_that_can_be_run() {
    let there: BTreeSet<_> = snippets()
        .iter()
        .map(|snippet| snippet.client.unwrap_or("sh"))
        .collect();
    let expected: BTreeSet<_> = HEARD.iter().map(|(client, _)| *client).collect();
    assert_eq!(there, expected);
}
