//! Text and audio of callers, and credentials for the push gateway, appear in no log line, at any level and in any
//! encoding. The servers here log everything, including their libraries, while they speak, converse and push.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::stream;
use omni_proto::v1;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::content_part::Part;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use tonic::transport::Channel;

use super::{field, omni_server};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(120);
/// Name and password at the gateway, and both as they are sent.
const CREDENTIALS: &str = "ann:s3cret-plum";
const PASSWORD: &str = "s3cret-plum";
const BASIC: &str = "YW5uOnMzY3JldC1wbHVt";
/// Spoken text, unlike any word of the server's own lines.
const SPOKEN: &str = "Rhubarb crumbles beside the marmalade.";
const TYPED: [&str; 3] = ["Elephants jug", "gle tangerines. Pel", "icans yodel."];
const MARKUP: &str = "<speak>Walnuts</speak>";
const QUESTION: &str = "What is the capital of Portugal?";
const INSTRUCTIONS: &str = "Answer like a buccaneer.";
const RECORDING: &[u8] = b"gooseberry";
const WORDS: [&str; 15] = [
    "rhubarb",
    "crumbles",
    "marmalade",
    "elephants",
    "juggle",
    "gle tangerines",
    "tangerines",
    "pelicans",
    "yodel",
    "walnuts",
    "portugal",
    "lisbon",
    "buccaneer",
    "gooseberry",
    "icans yodel",
];

/// A gateway that repeats whatever it was sent, which is the worst that one can do.
struct Gateway {
    address: String,
    seen: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Gateway {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let seen = Arc::<AtomicBool>::default();
        let over = Arc::<AtomicBool>::default();
        let noted = Arc::clone(&seen);
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let head = answer(&stream.expect("a connection"));
                noted.fetch_or(head.contains(BASIC), Ordering::SeqCst);
            }
        });
        Self {
            address,
            seen,
            over,
            thread,
        }
    }

    /// Returns true if the credentials were received.
    fn end(self) -> bool {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(&self.address));
        self.thread.join().expect("it does not panic");
        self.seen.load(Ordering::SeqCst)
    }
}

/// Refuses a request with its own head; that head.
fn answer(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
    let repeated = head.replace("\r\n", " ");
    let length = repeated.len();
    // A test that does not read it has heard enough.
    let _ = write!(
        &*stream,
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{repeated}"
    );
    head
}

/// A server whose log is a file, which need not be read while it works.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(log: &Path, args: &[&str]) -> Self {
        let mut process = omni_server()
            .args(["--listen", "127.0.0.1:0", "--log-level", "trace"])
            .args(args)
            .stderr(Stdio::from(File::create(log).expect("a file")))
            .spawn()
            .expect("the program starts");
        let begun = Instant::now();
        loop {
            assert!(
                process.try_wait().expect("it is ours").is_none(),
                "it ended early: {}",
                read(log)
            );
            let text = read(log);
            let line = |word: &str| {
                text.lines()
                    .find(|line| line.contains("omni_server") && line.contains(word))
            };
            if line("ready in").is_some() {
                let address = field(line("listening").expect("it says where"), "address");
                return Self { process, address };
            }
            assert!(begun.elapsed() < PATIENCE, "it never served: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(mut self) {
        let command = format!("kill -TERM {}", self.process.id());
        let sent = std::process::Command::new("sh").args(["-c", &command]).status();
        assert!(sent.expect("sh runs").success());
        assert_eq!(self.process.wait().expect("it ends").code(), Some(0));
    }
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).expect("a file")).into_owned()
}

fn text(text: &str) -> v1::SpeakRequest {
    let text = v1::TextChunk {
        text: text.to_owned(),
        ..Default::default()
    };
    v1::SpeakRequest {
        event: Some(v1::speak_request::Event::Text(text)),
    }
}

/// Speaks a text at once, another one in pieces, and is refused a third; the audio.
async fn speak(channel: Channel) -> Vec<u8> {
    let mut client = SpeechServiceClient::new(channel);
    let whole = |text: &str| v1::SynthesizeRequest {
        config: Some(v1::SpeechConfig::default()),
        text: text.to_owned(),
    };
    let mut audio = Vec::new();
    let mut spoken = client
        .synthesize(whole(SPOKEN))
        .await
        .expect("it is taken")
        .into_inner();
    while let Some(response) = spoken.message().await.expect("it ends well") {
        if let Some(v1::synthesize_response::Event::Audio(chunk)) = response.event {
            audio.extend_from_slice(&chunk.data);
        }
    }
    let mut refused = client
        .synthesize(whole(MARKUP))
        .await
        .expect("it is taken")
        .into_inner();
    while let Ok(Some(_)) = refused.message().await {}
    let config = v1::speak_request::Event::Config(v1::SpeechConfig::default());
    let mut requests = vec![v1::SpeakRequest { event: Some(config) }];
    requests.extend(TYPED.map(text));
    let mut typed = client
        .speak(stream::iter(requests))
        .await
        .expect("it is taken")
        .into_inner();
    while let Some(response) = typed.message().await.expect("it ends well") {
        if let Some(v1::speak_response::Event::Audio(chunk)) = response.event {
            audio.extend_from_slice(&chunk.data);
        }
    }
    audio
}

/// Asks and is answered, in writing and aloud; then says something that this model does not hear. The answer.
async fn converse(channel: Channel) -> String {
    let mut client = ChatServiceClient::new(channel);
    let asking = |part: Part| v1::GenerateRequest {
        config: Some(v1::ChatConfig {
            instructions: INSTRUCTIONS.to_owned(),
            ..Default::default()
        }),
        messages: vec![v1::ChatMessage {
            role: v1::Role::User.into(),
            parts: vec![v1::ContentPart { part: Some(part) }],
            ..Default::default()
        }],
    };
    let mut answer = String::new();
    let question = asking(Part::Text(QUESTION.to_owned()));
    let mut responses = client.generate(question).await.expect("it is taken").into_inner();
    while let Some(response) = responses.message().await.expect("it ends well") {
        if let Some(v1::generate_response::Event::Text(delta)) = response.event {
            answer.push_str(&delta.text);
        }
    }
    let clip = v1::AudioClip {
        format: Some(v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: 16_000,
            channels: 1,
        }),
        data: RECORDING.repeat(3_200).into(),
    };
    if let Ok(responses) = client.generate(asking(Part::Audio(clip))).await {
        let mut responses = responses.into_inner();
        while let Ok(Some(_)) = responses.message().await {}
    }
    answer
}

/// Representations of bytes in a log: as numbers, as escaped text, in hexadecimal.
fn forms(bytes: &[u8]) -> [String; 4] {
    let list = format!("{bytes:?}");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        list.trim_matches(['[', ']']).to_owned(),
        bytes.escape_ascii().to_string(),
        format!("{:?}", String::from_utf8_lossy(bytes)),
        hex,
    ]
}

/// Pieces of audio that are no silence, in every form.
fn heard(audio: &[u8]) -> Vec<String> {
    let pieces = audio.chunks(12).filter(|piece| {
        let loud = piece.iter().filter(|byte| ![0, 255].contains(*byte));
        piece.len() == 12 && loud.count() == 12
    });
    let pieces: Vec<_> = pieces.step_by(50).take(40).collect();
    assert!(pieces.len() > 10, "there is something to hear");
    pieces.into_iter().flat_map(forms).collect()
}

#[tokio::test]
async fn no_line_of_the_log_says_what_callers_say_or_hear_or_how_the_gateway_knows_the_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let placed = ["--set", "stages.talker.placement=process"];
    for (format, more) in [("text", &[][..]), ("json", &placed)] {
        let log = directory.path().join(format);
        let gateway = Gateway::start();
        let url = format!("http://{CREDENTIALS}@{}", gateway.address);
        let args = ["--log-format", format, "--push-gateway", &url];
        let server = Server::start(&log, &[&args, more].concat());
        let endpoint = Channel::from_shared(format!("http://{}", server.address)).expect("an address");
        let channel = endpoint.connect().await.expect("it listens");
        let audio = speak(channel.clone()).await;
        let answer = converse(channel).await;
        server.stop();
        assert!(gateway.end(), "the credentials were sent");
        let log = read(&log);
        // It is a log of everything, and of these requests.
        for expected in [
            "TRACE",
            "DEBUG",
            "h2::",
            "pushing metrics failed",
            "first_audio_ms",
        ] {
            assert!(
                log.contains(expected),
                "{expected} is missing in the {format} log"
            );
        }
        let answered = answer.split(|c: char| !c.is_alphanumeric());
        let answered = answered.filter(|word| word.len() > 5).map(str::to_lowercase);
        let words: Vec<_> = WORDS
            .iter()
            .map(|word| (*word).to_owned())
            .chain(answered)
            .collect();
        let lower = log.to_lowercase();
        for word in words
            .iter()
            .map(String::as_str)
            .chain([PASSWORD, &BASIC.to_lowercase()])
        {
            let line = lower.lines().find(|line| line.contains(word));
            assert_eq!(line, None, "{word:?} is in the {format} log");
        }
        for piece in heard(&audio).into_iter().chain(forms(RECORDING)) {
            let line = log.lines().find(|line| line.contains(&piece));
            assert_eq!(line, None, "audio is in the {format} log");
        }
    }
}
