//! The program as it is run: its output, its exit codes, its signals, its log.

#[path = "../common/cloning.rs"]
mod cloning;
mod encrypted;
mod flags;
mod log;
mod secrets;
mod voices;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use omni_proto::v1;
use omni_proto::v1::admin_service_client::AdminServiceClient;
use omni_proto::v1::speech_service_client::SpeechServiceClient;

fn omni_server() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omni-server"));
    // The environment that the tests are run in must not change what is tested.
    command.env_clear();
    // Many of them run at once.
    command.env("OMNI_METRICS_LISTEN", "127.0.0.1:0");
    command
}

fn run(args: &[&str]) -> Output {
    omni_server().args(args).output().expect("the program starts")
}

/// A server that has said that it serves.
struct Server {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
    /// Address of the admin port.
    operators: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = omni_server();
        command.args(args);
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        command.args(["--listen", "127.0.0.1:0"]);
        let mut process = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
        let operators = if command.get_args().any(|arg| arg == "--admin-listen") {
            field(&line_with(&mut log, "admin API listening"), "address")
        } else {
            String::new()
        };
        let address = field(&line_with(&mut log, "listening"), "address");
        let ready = line_with(&mut log, "ready in");
        assert!(
            ready.contains(&format!("://{address}/")),
            "it says where its page is: {ready}"
        );
        Self {
            process,
            log,
            address,
            operators,
        }
    }

    fn signal(&self, signal: &str) {
        // The shell's own kill: a bare system has no other.
        let command = format!("kill {signal} {}", self.process.id());
        let sent = Command::new("sh")
            .args(["-c", &command])
            .status()
            .expect("sh runs");
        assert!(sent.success());
    }

    /// Exit code, and the rest of the log.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.process.wait().expect("it ends");
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("the log is text");
        (status.code(), rest)
    }
}

fn line_with(log: &mut impl std::io::BufRead, word: &str) -> String {
    let mut seen = String::new();
    for line in log.lines() {
        let line = line.expect("the log is text");
        if line.contains(word) {
            return line;
        }
        seen.push_str(&line);
    }
    panic!("the program ended without saying {word:?}: {seen}");
}

/// The value behind `name` in a log line, of either form.
fn field(line: &str, name: &str) -> String {
    let rest = line.split(name).nth(1).expect("the field is there");
    rest.trim_start_matches(['=', '"', ':'])
        .split(['"', ' ', ','])
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn wrong_arguments_exit_with_2_and_name_what_is_wrong() {
    let output = run(&["--listen", "0.0.0.0:0", "--max-sessions", "0"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("--insecure-plaintext") && message.contains("--max-sessions"),
        "{message}"
    );
    assert_eq!(run(&["--no-such-flag"]).status.code(), Some(2));
}

#[test]
fn help_names_every_flag_and_its_variable() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = String::from_utf8_lossy(&output.stdout);
    for word in [
        "--model",
        "--listen",
        "--drain-timeout",
        "OMNI_LISTEN",
        "127.0.0.1:50051",
    ] {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
}

#[test]
fn shells_and_manuals_get_every_flag() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert!(script.status.success());
        let script = String::from_utf8_lossy(&script.stdout).into_owned();
        assert!(
            script.contains("omni-server") && script.contains("metrics-listen"),
            "{script}"
        );
    }
    let page = run(&["man"]);
    assert!(
        page.status.success() && page.stdout.starts_with(b".ie"),
        "{page:?}"
    );
    let folder = tempfile::tempdir().expect("a directory");
    let place = folder.path().join("man1");
    let written = run(&["man", place.to_str().expect("a path")]);
    assert!(written.status.success(), "{written:?}");
    for name in ["omni-server.1", "omni-server-new-key.1"] {
        assert!(place.join(name).exists(), "{name}");
    }
}

#[test]
fn check_config_prints_what_would_run_with_the_origin_of_every_value() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("deploy.yaml");
    std::fs::write(&path, "stages:\n  talker:\n    max_prefill_tokens: 64\n").expect("it can be written");
    let path = path.to_str().expect("a plain path");
    let output = run(&[
        "check-config",
        "--deploy",
        path,
        "--set",
        "stages.code2wav.ramp=[2, 4]",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8_lossy(&output.stdout);
    for (value, origin) in [
        ("max_prefill_tokens: 64", "deploy.yaml:3"),
        ("ramp: [2, 4]", "--set stages.code2wav.ramp=[2, 4]"),
        ("block_size: 16", "# default"),
    ] {
        let found = shown
            .lines()
            .any(|line| line.contains(value) && line.contains(origin));
        assert!(found, "{value} from {origin} is missing in:\n{shown}");
    }
}

#[test]
fn a_deploy_file_that_cannot_be_used_says_everything_that_is_wrong_and_where() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("deploy.yaml");
    std::fs::write(&path, "stages:\n  talkr: {}\n  code2wav: {devices: [cuda:0]}\n")
        .expect("it can be written");
    let path = path.to_str().expect("a plain path");
    let args = [
        "--deploy",
        path,
        "--set",
        "handover.attempts=no",
        "--max-sessions",
        "0",
    ];
    let check = run(&[&["check-config"], &args[..4]].concat());
    assert_eq!(check.status.code(), Some(1));
    let serve = run(&args);
    assert_eq!(serve.status.code(), Some(2));
    for (output, flag) in [(check, false), (serve, true)] {
        let message = String::from_utf8_lossy(&output.stderr);
        for expected in [
            "deploy.yaml:2:3: stages.talkr",
            "mean talker?",
            "deploy.yaml:3:23: stages.code2wav.devices",
            "--set handover.attempts=no",
        ] {
            assert!(message.contains(expected), "{expected} is missing in {message}");
        }
        assert_eq!(message.contains("--max-sessions 0"), flag, "{message}");
    }
}

#[test]
fn a_model_that_does_not_exist_exits_with_1() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(empty.path().join("config.json"), "{}").expect("it can be written");
    let path = empty.path().to_str().expect("a plain path");
    let output = run(&["--listen", "127.0.0.1:0", "--model", path]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("error: cannot load the model"), "{message}");
}

#[test]
fn a_port_that_is_taken_exits_with_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(&["--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&address));
}

#[test]
fn metrics_can_be_listed_without_a_server() {
    let list = run(&["metrics", "list"]);
    assert_eq!(list.status.code(), Some(0));
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let expected = "vllm:omni_audio_ttfp_s";
    let line = list
        .lines()
        .find(|line| line.starts_with(expected))
        .expect("it is listed");
    assert!(
        line.contains("histogram") && line.ends_with("model_name,stage,replica"),
        "{line}"
    );
    assert!(!list.contains("Requests2XX"));
    let more = run(&["--metrics-enable", "torchserve", "metrics", "list"]);
    assert!(String::from_utf8_lossy(&more.stdout).contains("Requests2XX"));
    let json = run(&["metrics", "catalogue"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    let families = json["families"].as_array().expect("families");
    assert_eq!(families.len(), list.lines().count());
    assert!(!json["absent"].as_array().expect("absent ones").is_empty());
}

#[test]
fn a_metrics_port_that_is_taken_exits_with_1_and_says_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(&["--listen", "127.0.0.1:0", "--metrics-listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains(&address) && message.contains("--metrics-listen"),
        "{message}"
    );
}

#[test]
fn signals_end_it_well() {
    for signal in ["-TERM", "-INT"] {
        let server = Server::start(&[]);
        server.signal(signal);
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{signal}: {log}");
        assert!(log.contains("stopped"), "{log}");
    }
}

#[tokio::test]
async fn an_operator_ends_it_as_well_as_a_signal_does_and_nothing_is_lost() {
    let server = Server::start(&["--admin-listen", "127.0.0.1:0"]);
    let client = SpeechServiceClient::connect(format!("http://{}", server.address))
        .await
        .expect("it listens");
    let mut calls = Vec::new();
    for _ in 0..4 {
        let request = v1::SynthesizeRequest {
            config: None,
            // More than fits on the way: until it is read, the session is open.
            text: "This is said to its end, whatever happens meanwhile. ".repeat(4),
        };
        let mut responses = client
            .clone()
            .synthesize(request)
            .await
            .expect("it is taken")
            .into_inner();
        responses.message().await.expect("it begins");
        calls.push(responses);
    }
    let mut admin = AdminServiceClient::connect(format!("http://{}", server.operators))
        .await
        .expect("it listens for operators");
    let mut progress = admin
        .drain(v1::DrainRequest::default())
        .await
        .expect("it ends")
        .into_inner();
    let first = progress
        .message()
        .await
        .expect("it tells")
        .expect("how far it is");
    assert_eq!(first.sessions, 4);
    for mut responses in calls {
        let mut whole = false;
        while let Some(response) = responses.message().await.expect("it ends well") {
            whole = matches!(response.event, Some(v1::synthesize_response::Event::Done(_)));
        }
        assert!(whole, "it was said to its end");
    }
    while progress.message().await.expect("it tells to the end").is_some() {}
    drop((client, admin));
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped"), "{log}");
}

#[test]
fn a_new_key_has_the_quotas_that_were_asked_for() {
    let made = run(&[
        "new-key",
        "backend",
        "--scopes",
        "speech",
        "--streams",
        "4",
        "--requests-per-second",
        "0.5",
    ]);
    assert_eq!(made.status.code(), Some(0));
    let line = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(
        line.trim_end().ends_with(" streams=4 requests-per-second=0.5"),
        "{line}"
    );
    let wrong = run(&["new-key", "backend", "--streams", "0"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[tokio::test]
async fn the_log_accounts_for_an_utterance_without_its_text() {
    let canary = "Rhubarb";
    let server = Server::start(&["--log-format", "json", "--log-level", "debug"]);
    let mut client = SpeechServiceClient::connect(format!("http://{}", server.address))
        .await
        .expect("it listens");
    let config = v1::SpeechConfig {
        voice: "basil".into(),
        ..Default::default()
    };
    let request = v1::SynthesizeRequest {
        config: Some(config),
        text: format!("{canary}."),
    };
    let mut responses = client
        .synthesize(request)
        .await
        .expect("it is taken")
        .into_inner();
    while responses.message().await.expect("it ends well").is_some() {}
    drop(client);
    server.signal("-TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    let record = log
        .lines()
        .find(|line| line.contains("\"utterance\":\"~1\""))
        .expect("a record");
    assert!(
        record.contains("\"outcome\":\"stop\"") && record.contains("\"first_audio_ms\""),
        "{record}"
    );
    assert!(!log.to_lowercase().contains(&canary.to_lowercase()), "{log}");
}

#[test]
fn bash_completes_the_options_of_a_command() {
    let script = run(&["completions", "bash"]);
    let test = format!(
        "{}\nCOMP_WORDS=(omni-server new-key --sc); COMP_CWORD=2\n_omni__server omni-server --sc new-key\nprintf '%s ' \"${{COMPREPLY[@]}}\"",
        String::from_utf8_lossy(&script.stdout)
    );
    let completed = Command::new("bash")
        .args(["-c", &test])
        .output()
        .expect("bash starts");
    assert_eq!(
        String::from_utf8_lossy(&completed.stdout).trim(),
        "--scopes",
        "{}",
        String::from_utf8_lossy(&completed.stderr)
    );
}

#[test]
fn every_command_has_a_page_that_names_the_program_and_its_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path of text");
    assert!(run(&["man", path]).status.success());
    let pages: Vec<_> = std::fs::read_dir(folder.path())
        .expect("the folder is there")
        .map(|page| page.expect("an entry").path())
        .collect();
    assert!(pages.len() > 4, "{pages:?}");
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        assert!(
            text.contains("Omni Manual") && text.contains(env!("CARGO_PKG_VERSION")),
            "{}",
            page.display()
        );
    }
}

#[tokio::test]
async fn lines_of_torchserves_metrics_carry_the_callers_name_of_the_request() {
    let server = Server::start(&["--metrics-enable", "torchserve", "--metrics-mode", "log"]);
    let mut client = SpeechServiceClient::connect(format!("http://{}", server.address))
        .await
        .expect("it listens");
    let mut request = tonic::Request::new(v1::SynthesizeRequest {
        config: None,
        text: "Hello.".into(),
    });
    let name = "mine-7".parse().expect("a value of metadata");
    request.metadata_mut().insert("x-request-id", name);
    let mut responses = client
        .synthesize(request)
        .await
        .expect("it is taken")
        .into_inner();
    while responses.message().await.expect("it ends well").is_some() {}
    drop(client);
    server.signal("-TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    let named = |line: &&str| line.contains("PredictionTime") && line.contains("requestID:mine-7/~1");
    assert!(log.lines().any(|line| named(&line)), "{log}");
}
