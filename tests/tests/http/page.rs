//! `docs/clients.md`: what it says can be run does run, and speaks.

use std::fs;
use std::path::Path;
use std::process::Command;

use omni_server::app::load_model;
use omni_server::config::{ModelSource, deploy::resolve};
use omni_tests::{TestServer, python};

const PAGE: &str = include_str!("../../../docs/clients.md");
/// Where the page's server listens.
const ADDRESS: &str = "127.0.0.1:50051";

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

#[tokio::test]
async fn what_the_page_says_can_be_run_speaks() {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Embedded, &deploy, false);
    let mut server = TestServer::launch(&[], load).await;
    server.app.ready().await.expect("the embedded model loads");
    let address = server.app.address().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let (mut shells, mut openais, mut rivas) = (0, 0, 0);
    for snippet in snippets() {
        assert!(snippet.code.contains(ADDRESS), "{}", snippet.code);
        let code = snippet.code.replace(ADDRESS, &address);
        let place = folder.path().to_str().expect("a plain name");
        match snippet.client {
            Some(client) => {
                let code = format!("import os, sys\nos.chdir(sys.argv[1])\n{code}");
                if python(client, client, &code, &[place]).await.is_some() {
                    *if client == "riva" {
                        &mut rivas
                    } else {
                        &mut openais
                    } += 1;
                }
            }
            None if Command::new("curl").arg("--version").output().is_ok() => {
                let mut call = Command::new("sh");
                call.args(["-euc", &code]).current_dir(folder.path());
                let status = tokio::task::spawn_blocking(move || call.status()).await;
                assert!(status.expect("a thread").expect("a shell").success());
                shells += 1;
            }
            None => {}
        }
    }
    // Each is longer than a header, and than silence would be.
    let least = [
        (shells, "hello.mp3"),
        (openais, "speech.mp3"),
        (openais, "hello.wav"),
        (openais, "answer.pcm"),
        (rivas, "riva.wav"),
    ];
    for (ran, name) in least {
        assert!(ran == 0 || heard(folder.path(), name) > 4_000, "{name}");
    }
    server.stop().await;
}

#[test]
fn the_page_has_snippets_of_every_kind_that_can_be_run() {
    let snippets = snippets();
    for client in [None, Some("openai"), Some("riva")] {
        assert!(
            snippets.iter().any(|snippet| snippet.client == client),
            "{client:?}"
        );
    }
}
