//! Nothing is half stored: disks that are full, and a program that ends while it stores a voice.

use std::fs;
use std::path::Path;
use std::process::Command;

use omni_proto::v1;
use tempfile::TempDir;
use tonic::Code;

use super::cloning::{checkpoint, keep, voices};
use super::{Server, omni_server};

/// A server that may write no byte into any file: `trapped`, it is told so as by a full disk; else the first write ends it, as a
/// kill in the middle of one does.
fn without_room(args: &[&str], trapped: bool) -> Server {
    let program = omni_server();
    let mut shell = Command::new("sh");
    shell.env_clear();
    shell.envs(
        program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let trap = if trapped { "trap '' XFSZ; " } else { "" };
    shell.args(["-c", &format!("{trap}ulimit -f 0; exec \"$0\" \"$@\"")]);
    shell.arg(program.get_program()).args(args);
    Server::run(shell)
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .expect("the folder")
        .map(|entry| entry.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().into_string().expect("text"));
    let mut names: Vec<_> = names.filter(|name| name != ".lock").collect();
    names.sort();
    names
}

async fn names(server: &Server) -> Vec<String> {
    let request = v1::ListKeptVoicesRequest::default();
    let kept = voices(&server.address).await.list_kept_voices(request).await;
    let kept = kept.expect("a list").into_inner().voices;
    kept.into_iter().map(|voice| voice.name).collect()
}

fn path(dir: &TempDir) -> String {
    dir.path().to_str().expect("text").to_owned()
}

#[tokio::test]
async fn a_voice_that_finds_no_room_on_the_disk_leaves_nothing_and_the_server_goes_on() {
    let model = checkpoint();
    let dir = tempfile::tempdir().expect("a directory");
    let model_path = path(&model);
    let voices_path = path(&dir);
    let args = ["--model", &model_path, "--voices", &voices_path];
    let server = without_room(&args, true);
    let refused = keep(&server.address, "anna", "")
        .await
        .expect_err("there is no room");
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(refused.message().contains("could not be stored"), "{refused:?}");
    assert!(names(&server).await.is_empty());
    assert_eq!(files(dir.path()), [""; 0]);
    server.signal("-TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

#[tokio::test]
async fn a_server_that_ends_while_it_stores_a_voice_starts_again_without_it() {
    let model = checkpoint();
    let dir = tempfile::tempdir().expect("a directory");
    let model_path = path(&model);
    let voices_path = path(&dir);
    let args = ["--model", &model_path, "--voices", &voices_path];
    let whole = Server::start(&args);
    keep(&whole.address, "otto", "").await.expect("a voice");
    whole.signal("-KILL");
    assert_eq!(whole.end().0, None);
    let kept = files(dir.path());
    assert_eq!(kept.len(), 1);

    let server = without_room(&args, false);
    keep(&server.address, "anna", "").await.expect_err("it ends");
    assert_eq!(server.end().0, None, "a signal");
    let left = files(dir.path());
    assert!(
        left.len() == 2 && left.iter().any(|name| name.ends_with(".partial")),
        "{left:?}"
    );

    let server = Server::start(&args);
    assert_eq!(names(&server).await, ["otto"]);
    assert_eq!(files(dir.path()), kept, "what was half written is gone");
    keep(&server.address, "anna", "").await.expect("a voice");
    assert_eq!(names(&server).await, ["anna", "otto"]);
    server.signal("-TERM");
    server.end();
}
