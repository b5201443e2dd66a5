//! Open WebUI in a browser: its user calls the embedded model by voice and hears the answers. This takes minutes, so
//! only `make test-all` runs it. Open WebUI's recognition loads a model from the Internet, so the page is told what
//! was said; all else is what users run.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use omni_audio::{SampleRate, Samples, WavHeader};
use omni_config::{ModelSource, deploy::resolve};
use omni_server::app::load_model;
use omni_session::Outcome;
use omni_tests::{TestServer, browse};
use rustix::process::{Pid, Signal, kill_process};

/// If set, a test fails where Open WebUI is missing.
const REQUIRED: &str = "OMNI_REQUIRE_OPEN_WEBUI";
/// Longest start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Questions, each with a word of the answer.
const TURNS: [(&str, &str); 3] = [
    ("What is the capital of France?", "Paris"),
    ("What is 12 plus 7?", "19"),
    ("What comes after Tuesday?", "Wednesday"),
];

/// Open WebUI with the server as its OpenAI connection and its speech engine, and default settings otherwise.
struct OpenWebUi {
    program: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for OpenWebUi {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.program), Signal::KILL);
        let _ = self.program.wait();
    }
}

impl OpenWebUi {
    /// Starts it in a folder of its own, with nothing of the tester's.
    fn start(program: &Path, server: &TestServer) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let url = format!("http://{}/v1", server.app.address());
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let program = Command::new(program)
            .args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs([("HOME", folder.path()), ("DATA_DIR", folder.path())])
            // No sign-in, no downloads, no other models.
            .envs([("WEBUI_AUTH", "False"), ("WEBUI_SECRET_KEY", "secret")])
            .envs([("OFFLINE_MODE", "True"), ("HF_HUB_OFFLINE", "1")])
            .envs([("RAG_EMBEDDING_ENGINE", "openai"), ("ENABLE_OLLAMA_API", "False")])
            .envs([
                ("AUDIO_TTS_ENGINE", "openai"),
                ("AUDIO_TTS_OPENAI_API_BASE_URL", &url),
            ])
            .envs([("OPENAI_API_BASE_URL", &url)])
            .envs(["OPENAI_API_KEY", "AUDIO_TTS_OPENAI_API_KEY"].map(|key| (key, "none")))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("Open WebUI starts");
        Self {
            program,
            port,
            folder,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until it serves its page.
    async fn ready(&mut self) {
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port))
            .await
            .is_err()
        {
            let ended = self.program.try_wait().expect("ours");
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{}", self.log());
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// The program that `scripts/setup open-webui` fetched.
fn installed() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/open-webui/bin/open-webui");
    if program.exists() {
        return Some(program);
    }
    let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    assert!(
        !required,
        "Open WebUI is not installed: {} is not there",
        program.display()
    );
    eprintln!("skipped: Open WebUI is not here, `scripts/setup open-webui` fetches it");
    None
}

/// A tone of a second in every ten, for four minutes: Open WebUI takes it for a user who speaks and pauses.
fn microphone() -> tempfile::NamedTempFile {
    const RATE: usize = 16_000;
    const SECONDS: usize = 240;
    let samples = (0..SECONDS * RATE).map(|sample| {
        let loudness = if sample % (10 * RATE) < RATE {
            12_000.0
        } else {
            0.0
        };
        (loudness * (sample as f32 / 10.0).sin()) as i16
    });
    let rate = SampleRate::new(RATE as u32).expect("a rate");
    let header = WavHeader::mono(rate).finished(Samples((SECONDS * RATE) as u64));
    let mut file = header.to_vec();
    file.extend(samples.flat_map(i16::to_le_bytes));
    let recording = tempfile::Builder::new().suffix(".wav").tempfile();
    let recording = recording.expect("a file");
    fs::write(recording.path(), file).expect("written");
    recording
}

#[tokio::test]
#[ignore = "takes minutes: make test-all"]
async fn a_call_by_voice_is_answered_aloud_turn_by_turn() {
    let Some(program) = installed() else {
        return;
    };
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Embedded, &deploy, false);
    let mut server = TestServer::launch(&[], load).await;
    server.app.ready().await.expect("the embedded model loads");
    let mut open_webui = OpenWebUi::start(&program, &server);
    open_webui.ready().await;
    let recording = microphone();
    let values = serde_json::json!({"recording": recording.path(), "turns": TURNS}).to_string();
    let url = format!("http://127.0.0.1:{}/", open_webui.port);
    if !browse("call", &url, &values).await {
        return;
    }
    // The answers, and a title, tags and follow-ups, whose instructions are longer than the model's context.
    server
        .until("Open WebUI has what it asks by itself", || {
            server.records.turns().len() >= TURNS.len() + 3
        })
        .await;
    let turns = server.records.turns();
    let failed = turns.iter().find(|turn| turn.error.is_some());
    assert!(failed.is_none(), "{failed:?}");
    // What is read aloud again Open WebUI has kept.
    let spoken = server.records.all();
    assert_eq!(spoken.len(), TURNS.len(), "each answer once: {spoken:?}");
    assert!(
        spoken.iter().all(|one| one.outcome == Outcome::Stop),
        "{spoken:?}"
    );
    let log = open_webui.log();
    let complaints = log.lines().filter(|line| {
        line.contains("ERROR")
            && ["routers.openai", "process_chat", "speech"]
                .iter()
                .any(|part| line.contains(part))
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<&str>::new());
    drop(open_webui);
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    server.stop().await;
}
