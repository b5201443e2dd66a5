//! Reading the metrics of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use omni_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::call::{audio_of, config, text};
use crate::fake::FakeScript;
use crate::server::TestServer;

/// Two sentences.
pub const TEXT: &str = "This is a sentence. And here is one more, a longer one, to be spoken after it.";

/// The body of an answer of the metrics' own server.
pub async fn get(server: &TestServer, path: &str) -> String {
    get_from(server.app.metrics_address().expect("metrics are served"), path).await
}

async fn get_from(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// One line.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its name, with the suffix that it has in a histogram.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Value of the sample.
    pub value: f64,
}

/// One reading.
#[derive(Debug)]
pub struct Reading {
    /// As received.
    pub text: String,
    /// Every line.
    pub samples: Vec<Sample>,
    /// Families and their types.
    pub types: BTreeMap<String, String>,
}

impl Reading {
    /// Reads `server`. No series may be there twice.
    pub async fn of(server: &TestServer) -> Self {
        Self::at(server.app.metrics_address().expect("metrics are served")).await
    }

    /// Reads the metrics served at `address`.
    pub async fn at(address: SocketAddr) -> Self {
        let text = get_from(address, "/metrics").await;
        let mut samples = Vec::new();
        let mut types = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').expect("a type");
                assert!(
                    types.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{name} is there twice"
                );
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                assert!(seen.insert(series.to_owned()), "{series} is there twice");
                samples.push(sample(series, value.parse().expect("a number")));
            }
        }
        Self { text, samples, types }
    }

    /// The samples of `name` that have all of `labels`.
    pub fn of_name<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(*label).is_some_and(|known| known == value))
        })
    }

    /// The sum of those samples, of which there is at least one.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let values: Vec<_> = self.of_name(name, labels).map(|sample| sample.value).collect();
        assert!(!values.is_empty(), "no {name} {labels:?} in\n{}", self.text);
        values.iter().sum()
    }

    /// The id of a stage.
    pub fn stage(&self, name: &str) -> String {
        let mut infos = self.of_name("vllm:omni_stage_info", &[]);
        let info = infos.find(|info| info.labels["stage_name"] == name);
        info.unwrap_or_else(|| panic!("no stage {name} in\n{}", self.text))
            .labels["stage"]
            .clone()
    }
}

fn sample(series: &str, value: f64) -> Sample {
    let (name, rest) = series.split_once('{').unwrap_or((series, "}"));
    let mut labels = BTreeMap::new();
    // Values here have no quotes and no commas.
    for label in rest
        .trim_end_matches('}')
        .split(',')
        .filter(|label| !label.is_empty())
    {
        let (label, value) = label.split_once('=').expect("a label");
        labels.insert(label.to_owned(), value.trim_matches('"').to_owned());
    }
    Sample {
        name: name.to_owned(),
        labels,
        value,
    }
}

/// Speaks [`TEXT`] so often, one after the other. Gives the samples of the audio.
pub async fn speak(server: &TestServer, utterances: usize) -> usize {
    let mut samples = 0;
    for _ in 0..utterances {
        let (audio, _) = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT)
            .await
            .expect("audio");
        samples += audio.len() / 2;
    }
    server.idle(utterances).await;
    samples
}

/// A caller that disconnects during the talker's step. The session has ended by the time that the step is released,
/// so the sequence ends by its cancellation.
pub async fn vanish(server: &TestServer, script: &FakeScript) {
    let before = script.talker.passed();
    script.talker.close();
    script.talker.allow(1);
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    call.send(text(TEXT)).await;
    server
        .until("the sequence is in the talker", || {
            script.talker.passed() > before
        })
        .await;
    // Between two steps the sequence could end at once.
    script.talker.reached().await;
    drop(call);
    server
        .until("the session has ended", || server.app.sessions() == 0)
        .await;
}
