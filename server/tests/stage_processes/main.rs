//! Stages in processes of their own, with the program as it is run and the voice inside it.
#![cfg(target_os = "linux")]

#[path = "../common/cloning.rs"]
mod cloning;
mod metrics;
mod voices;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_proto::v1::synthesize_response::Event;
use tonic::Streaming;
use tonic::transport::Channel;

const IN_PROCESSES: [&str; 4] = [
    "--set",
    "stages.talker.placement=process",
    "--set",
    "stages.code2wav.placement=process",
];
/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that has said that it serves.
struct Server {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
    metrics: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_omni-server"));
        // The environment that the tests are run in must not change what is tested.
        command.env_clear();
        command.env("OMNI_METRICS_LISTEN", "127.0.0.1:0");
        command.args(["--listen", "127.0.0.1:0"]).args(args);
        let mut process = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut address = String::new();
        let mut metrics = String::new();
        let mut line = String::new();
        while !line.contains("ready in") {
            line.clear();
            assert!(
                log.read_line(&mut line).expect("the log is text") > 0,
                "it ended early"
            );
            if let Some((before, rest)) = line.split_once("address=") {
                let which = if before.contains("metrics") {
                    &mut metrics
                } else {
                    &mut address
                };
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                rest[..end].clone_into(which);
            }
        }
        Self {
            process,
            log,
            address,
            metrics,
        }
    }

    async fn client(&self) -> SpeechServiceClient<Channel> {
        SpeechServiceClient::connect(format!("http://{}", self.address))
            .await
            .expect("it listens")
    }

    /// The processes that it has started, oldest first.
    fn children(&self) -> Vec<u32> {
        let mut children: Vec<_> = std::fs::read_dir("/proc")
            .expect("there is /proc")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| parent(*pid) == Some(self.process.id()))
            .collect();
        children.sort_unstable();
        children
    }

    /// Stops it well; the rest of the log, which is whole only when the last process that writes to it has ended.
    fn stop(mut self) -> String {
        signal("-TERM", self.process.id());
        let status = self.process.wait().expect("it ends");
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("the log is text");
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}

/// Of a test that fails.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

/// The parent of a process that runs.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

fn signal(signal: &str, pid: u32) {
    let command = format!("kill {signal} {pid}");
    let sent = Command::new("sh")
        .args(["-c", &command])
        .status()
        .expect("sh runs");
    assert!(sent.success());
}

/// Waits for what no event tells of.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn speak(server: &Server, seed: u64, text: &str) -> Speech {
    ask(server, seeded(seed), text).await
}

fn seeded(seed: u64) -> v1::SpeechConfig {
    let sampling = v1::SamplingParams {
        seed: Some(seed),
        ..Default::default()
    };
    v1::SpeechConfig {
        sampling: Some(sampling),
        ..Default::default()
    }
}

async fn ask(server: &Server, config: v1::SpeechConfig, text: &str) -> Speech {
    try_ask(server, config, text).await.expect("it is taken")
}

async fn try_ask(server: &Server, config: v1::SpeechConfig, text: &str) -> Result<Speech, tonic::Status> {
    let request = v1::SynthesizeRequest {
        config: Some(config),
        text: text.to_owned(),
    };
    let responses = server.client().await.synthesize(request).await?;
    Ok(Speech {
        responses: responses.into_inner(),
        audio: Vec::new(),
    })
}

/// An utterance that is being spoken.
struct Speech {
    responses: Streaming<v1::SynthesizeResponse>,
    audio: Vec<u8>,
}

impl Speech {
    /// Reads until there is some audio.
    async fn begun(&mut self) {
        while self.audio.is_empty() {
            assert!(self.read().await.expect("it speaks"), "it ends without a sound");
        }
    }

    /// All of its audio.
    async fn rest(mut self) -> Result<Vec<u8>, tonic::Status> {
        while self.read().await? {}
        Ok(self.audio)
    }

    async fn read(&mut self) -> Result<bool, tonic::Status> {
        let response = tokio::time::timeout(PATIENCE, self.responses.message())
            .await
            .expect("an answer")?;
        let Some(response) = response else {
            return Ok(false);
        };
        if let Some(Event::Audio(chunk)) = response.event {
            self.audio.extend_from_slice(&chunk.data);
        }
        Ok(true)
    }
}

const SENTENCES: [&str; 3] = [
    "The quick brown fox jumps over the lazy dog.",
    "At 3 pm it was 5 degrees.",
    "Yes! This is said in three parts. And this is the last one of them.",
];

#[tokio::test]
async fn stages_in_processes_of_their_own_make_the_same_audio() {
    let here = Server::start(&[]);
    let there = Server::start(&IN_PROCESSES);
    assert_eq!((here.children().len(), there.children().len()), (0, 2));
    for (seed, text) in (1..).zip(SENTENCES) {
        let expected = speak(&here, seed, text).await.rest().await.unwrap();
        assert!(expected.len() > 10_000);
        // In company, too.
        let mut first = speak(&there, seed, text).await;
        let second = speak(&there, seed, text).await;
        first.begun().await;
        assert!(second.rest().await.unwrap() == expected, "{text}");
        assert!(first.rest().await.unwrap() == expected, "{text}");
    }
    here.stop();
    let children = there.children();
    let log = there.stop();
    assert_eq!(
        log.matches("the process ended with exit code 0").count(),
        2,
        "{log}"
    );
    assert!(children.iter().all(|child| parent(*child).is_none()), "{log}");
}

#[tokio::test]
async fn a_process_has_the_random_weights_of_the_server() {
    let model = ["--model", "random:embedded@3"];
    let here = Server::start(&model);
    let there = Server::start(&[&model[..], &IN_PROCESSES].concat());
    let expected = speak(&here, 1, SENTENCES[0]).await.rest().await.unwrap();
    assert!(expected.len() > 10_000);
    assert!(speak(&there, 1, SENTENCES[0]).await.rest().await.unwrap() == expected);
    here.stop();
    there.stop();
}

/// Much more than fits into the buffers on its way: a client that does not read it keeps it from being finished.
fn long_text() -> String {
    SENTENCES[0].repeat(40)
}

#[tokio::test]
async fn what_a_killed_talker_spoke_goes_on_with_the_same_samples() {
    killed_in_mid_speech("talker").await;
}

#[tokio::test]
async fn what_a_killed_code2wav_decoded_goes_on_with_the_same_samples() {
    killed_in_mid_speech("code2wav").await;
}

/// Two utterances on two replicas, each in a process; one of the processes is killed when both are heard.
async fn killed_in_mid_speech(stage: &str) {
    let placement = format!("stages.{stage}.placement=process");
    let replicas = format!("stages.{stage}.replicas=2");
    let args = [
        "--set",
        &placement,
        "--set",
        &replicas,
        "--max-buffered-audio",
        "200ms",
    ];
    let server = Server::start(&args);
    let mut first = speak(&server, 1, &long_text()).await;
    let mut second = speak(&server, 1, &long_text()).await;
    first.begun().await;
    second.begun().await;
    let victim = server.children()[0];
    signal("-KILL", victim);
    until("another one has taken its place", || {
        let children = server.children();
        children.len() == 2 && !children.contains(&victim)
    })
    .await;
    let (first, second) = tokio::join!(first.rest(), second.rest());
    let first = first.unwrap();
    let second = second.unwrap();
    assert!(first == second, "{} and {} bytes", first.len(), second.len());
    // Both replicas work, and say what was said.
    for _ in 0..2 {
        let again = speak(&server, 1, &long_text()).await.rest().await.unwrap();
        assert!(again == first);
    }
    let log = server.stop();
    assert!(log.contains("the process ended with signal 9"), "{log}");
    assert!(log.contains("is retried on another replica"), "{log}");
}

#[tokio::test]
async fn a_stopped_process_is_replaced_and_what_it_had_goes_on() {
    let args = [
        "--set",
        "stages.code2wav.placement=process",
        "--max-buffered-audio",
        "200ms",
    ];
    let server = Server::start(&args);
    let expected = speak(&server, 1, SENTENCES[0]).await.rest().await.unwrap();
    let whole = speak(&server, 1, &long_text()).await.rest().await.unwrap();
    let mut heard = speak(&server, 1, &long_text()).await;
    heard.begun().await;
    let victim = server.children()[0];
    signal("-STOP", victim);
    let unheard = speak(&server, 1, SENTENCES[0]).await;
    let (heard, unheard) = tokio::join!(heard.rest(), unheard.rest());
    assert!(heard.unwrap() == whole);
    assert!(unheard.unwrap() == expected);
    let children = server.children();
    assert!(
        children.len() == 1 && children[0] != victim,
        "{children:?}, {victim}"
    );
    let log = server.stop();
    assert!(log.contains("the other process has said nothing for 2s"), "{log}");
    assert!(log.contains("the process was killed"), "{log}");
}

#[tokio::test]
async fn a_stopped_process_without_work_is_replaced_before_anybody_needs_it() {
    let server = Server::start(&["--set", "stages.code2wav.placement=process"]);
    let expected = speak(&server, 1, SENTENCES[0]).await.rest().await.unwrap();
    let victim = server.children()[0];
    signal("-STOP", victim);
    until("another one has taken its place", || {
        let children = server.children();
        children.len() == 1 && children[0] != victim
    })
    .await;
    // It loads its model, and then serves.
    let spoken = async {
        loop {
            if let Ok(speech) = try_ask(&server, seeded(1), SENTENCES[0]).await
                && let Ok(audio) = speech.rest().await
            {
                return audio;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let spoken = tokio::time::timeout(PATIENCE, spoken).await;
    assert!(spoken.expect("it serves") == expected);
    let log = server.stop();
    assert!(log.contains("the other process has said nothing for 2s"), "{log}");
}

#[tokio::test]
async fn processes_do_not_outlive_a_server_that_is_killed() {
    let mut server = Server::start(&IN_PROCESSES);
    let children = server.children();
    assert_eq!(children.len(), 2);
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    until("they have ended", || {
        children.iter().all(|child| parent(*child).is_none())
    })
    .await;
}

#[tokio::test]
async fn a_process_that_does_not_answer_does_not_keep_a_server_from_stopping() {
    let server = Server::start(&["--set", "stages.code2wav.placement=process"]);
    let child = server.children()[0];
    signal("-STOP", child);
    let log = server.stop();
    assert!(log.contains("the process was killed"), "{log}");
    assert!(parent(child).is_none());
}

#[test]
fn a_stage_process_without_a_caller_says_what_it_is_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_omni-server"))
        .arg("stage-worker")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("started by omni-server itself"), "{message}");
}
