//! A process that is a part of a cluster, and callers of one.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_proto::v1::synthesize_response::Event;
use tempfile::TempDir;
use tonic::Streaming;
use tonic::transport::Channel;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_omni-server-cluster");
/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Poll interval for states without an event.
const LOOK: Duration = Duration::from_millis(5);

/// A stage serves its probes, at a port that the system gives.
pub(crate) const PROBES: [&str; 2] = ["--cluster-probes", "127.0.0.1:0"];

/// A test lacks something of its machine. It passes without that, unless `OMNI_REQUIRE_ALL` is 1.
pub(crate) fn lacks(what: &str) {
    let required = std::env::var_os("OMNI_REQUIRE_ALL").is_some_and(|set| set == "1");
    assert!(!required, "there is no {what}");
    eprintln!("there is no {what}: this test did nothing");
}

/// A folder by which the parts of one test find each other.
pub(crate) struct Cluster(TempDir);

impl Cluster {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The flags by which parts are found.
    pub(crate) fn found(&self) -> Vec<String> {
        let folder = self.0.path().join("found").display().to_string();
        ["--cluster-discovery", "file", "--cluster-dir", &folder]
            .map(str::to_owned)
            .to_vec()
    }

    /// A stage that is registered.
    pub(crate) fn stage(&self, name: &str, args: &[&str]) -> Part {
        Part::stage(name, &self.found(), args)
    }

    /// A front end, which may not have its stages yet.
    pub(crate) fn frontend(&self, args: &[&str]) -> Part {
        Part::frontend(&self.found(), args)
    }

    /// A front end that serves, and a replica of each stage that speech passes.
    pub(crate) fn speaking(&self, args: &[&str]) -> [Part; 3] {
        let parts = [self.stage("talker", &[]), self.stage("code2wav", &[])];
        let front = self.frontend(args);
        front.serves();
        let [talker, vocoder] = parts;
        [front, talker, vocoder]
    }
}

/// A process. It is killed with its test.
pub(crate) struct Part {
    process: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- the log of process {}:\n{}", self.process.id(), self.log());
        }
    }
}

impl Part {
    /// Starts the program with these arguments, without the tests' environment.
    pub(crate) fn start(args: &[impl AsRef<str>]) -> Self {
        Self::start_in(&[], args)
    }

    /// Starts it with this environment alone.
    pub(crate) fn start_in(environment: &[(&str, &str)], args: &[impl AsRef<str>]) -> Self {
        Self::start_by(Command::new(PROGRAM), environment, args)
    }

    /// Starts it through a command that ends with the program.
    pub(crate) fn start_by(
        mut command: Command,
        environment: &[(&str, &str)],
        args: &[impl AsRef<str>],
    ) -> Self {
        let mut process = command
            .env_clear()
            .envs(environment.iter().copied())
            .args(args.iter().map(AsRef::as_ref))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = process.stderr.take().expect("it is piped");
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                kept.lock().expect("no panic holds it").push(line);
            }
        });
        Self { process, log }
    }

    pub(crate) fn stage(name: &str, found: &[String], args: &[&str]) -> Self {
        let own = ["--role", "stage", "--stage", name].map(str::to_owned);
        let more = args.iter().map(|arg| (*arg).to_owned());
        let part = Self::start(
            &own.into_iter()
                .chain(found.iter().cloned())
                .chain(more)
                .collect::<Vec<_>>(),
        );
        part.says("registered");
        part
    }

    pub(crate) fn frontend(found: &[String], args: &[&str]) -> Self {
        let own = [
            "--role",
            "frontend",
            "--speech-only",
            "--listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ];
        let own = own.map(str::to_owned).into_iter();
        let more = args.iter().map(|arg| (*arg).to_owned());
        let part = Self::start(&own.chain(found.iter().cloned()).chain(more).collect::<Vec<_>>());
        part.says("listening");
        part
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no panic holds it").join("\n")
    }

    /// Waits until its log has that.
    pub(crate) fn says(&self, what: &str) -> String {
        self.says_times(what, 1)
    }

    /// Waits until `times` log lines contain `what`; returns the last of them.
    pub(crate) fn says_times(&self, what: &str, times: usize) -> String {
        let begun = Instant::now();
        loop {
            let log = self.log();
            let mut lines = log.lines().filter(|line| line.contains(what));
            if let Some(line) = lines.nth(times - 1) {
                return line.to_owned();
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "it never said {what:?} {times} times:\n{log}"
            );
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn serves(&self) {
        self.says("ready in");
    }

    /// The value behind that name in a line of its log.
    fn told(&self, line: &str, name: &str) -> String {
        let line = self.says(line);
        let (_, rest) = line.split_once(name).expect("the name is there");
        rest.split(char::is_whitespace)
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Address for callers.
    pub(crate) fn address(&self) -> String {
        self.told(": listening address=", "address=")
    }

    /// Address of a stage's probes.
    pub(crate) fn probes(&self) -> String {
        self.told("serving probes address=", "address=")
    }

    /// Its metrics page.
    pub(crate) fn metrics(&self) -> String {
        self.page("/metrics")
    }

    /// A page of its metrics and probes.
    pub(crate) fn page(&self, path: &str) -> String {
        http(&self.told("metrics and probes address=", "address="), path)
    }

    /// The inodes of the sockets that it holds.
    fn inodes(&self) -> Vec<String> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it runs");
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        let inode = |target: PathBuf| {
            let target = target.to_str()?.strip_prefix("socket:[")?;
            target.strip_suffix(']').map(str::to_owned)
        };
        targets.filter_map(inode).collect()
    }

    /// Sockets that it holds.
    pub(crate) fn sockets(&self) -> usize {
        self.inodes().len()
    }

    /// The addresses at which it takes connections, as the system writes them: the bytes of an IPv4 address from the
    /// last to the first.
    pub(crate) fn listens_at(&self) -> Vec<String> {
        let own = self.inodes();
        let read = |table| std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let listens = |line: &str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, address, _, state, _, _, _, _, _, inode, ..] = fields[..] else {
                return None;
            };
            let (host, _port) = address.split_once(':')?;
            (state == "0A" && own.iter().any(|each| each == inode)).then(|| host.to_owned())
        };
        let tables = [read("tcp"), read("tcp6")];
        tables
            .iter()
            .flat_map(|table| table.lines())
            .filter_map(listens)
            .collect()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let command = format!("kill {signal} {}", self.process.id());
        let sent = Command::new("sh")
            .args(["-c", &command])
            .status()
            .expect("sh runs");
        assert!(sent.success());
    }

    /// Waits for its end; its exit code, if it was not killed.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("it is ours") {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", self.log());
            std::thread::sleep(LOOK);
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was killed");
    }

    pub(crate) async fn client(&self) -> SpeechServiceClient<Channel> {
        let address = format!("http://{}", self.address());
        SpeechServiceClient::connect(address).await.expect("it listens")
    }

    pub(crate) async fn speak(&self, seed: u64, text: &str) -> Speech {
        let sampling = v1::SamplingParams {
            seed: Some(seed),
            ..Default::default()
        };
        let request = v1::SynthesizeRequest {
            config: Some(v1::SpeechConfig {
                sampling: Some(sampling),
                ..Default::default()
            }),
            text: text.to_owned(),
        };
        let responses = self
            .client()
            .await
            .synthesize(request)
            .await
            .expect("it is taken");
        Speech {
            responses: responses.into_inner(),
            audio: Vec::new(),
        }
    }

    /// All that is said.
    pub(crate) async fn spoken(&self, seed: u64, text: &str) -> Vec<u8> {
        self.speak(seed, text).await.rest().await.expect("it speaks")
    }
}

/// A page of a server.
pub(crate) fn http(address: &str, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(address).expect("it listens");
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut page = String::new();
    socket.read_to_string(&mut page).expect("it answers in text");
    page
}

/// An utterance that is being spoken.
pub(crate) struct Speech {
    responses: Streaming<v1::SynthesizeResponse>,
    audio: Vec<u8>,
}

impl Speech {
    /// Reads until there is some audio.
    pub(crate) async fn begun(&mut self) {
        while self.audio.is_empty() {
            assert!(self.read().await.expect("it speaks"), "it ends without a sound");
        }
    }

    /// All of its audio.
    pub(crate) async fn rest(mut self) -> Result<Vec<u8>, tonic::Status> {
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

pub(crate) const SENTENCE: &str = "The quick brown fox jumps over the lazy dog.";

/// Much more than fits into the buffers on its way: a client that does not read it keeps it from being finished.
pub(crate) fn long_text() -> String {
    SENTENCE.repeat(40)
}

/// Polls a state without an event.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        tokio::time::sleep(LOOK).await;
    }
}
