//! Client of `Speak`: records everything it receives, and has it checked on drop.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speak_request::Event as Request;
use omni_proto::v1::speak_response::Event;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::{RpcStatusExt, StatusExt as _};

use crate::history::{History, Whole, check};
use crate::wire::{Ending, Wire};

/// An open `Speak` call.
#[derive(Debug)]
pub struct Call(Wire<v1::SpeakRequest, v1::SpeakResponse>);

/// Received messages of one utterance.
#[derive(Debug, Clone)]
pub struct Utterance {
    /// Its id.
    pub id: String,
    /// All its audio bytes.
    pub audio: Vec<u8>,
    /// Its warnings.
    pub warnings: Vec<v1::Warning>,
    /// Its end.
    pub outcome: v1::Outcome,
}

impl Utterance {
    /// Samples per channel.
    pub fn samples(&self) -> usize {
        self.audio.len() / 2
    }

    /// Reason of its end.
    pub fn finish(&self) -> v1::FinishReason {
        self.outcome.finish_reason()
    }

    /// The reason of its error; empty without one.
    pub fn error_reason(&self) -> String {
        error_reason(&self.outcome)
    }
}

impl Call {
    /// Opens a call; nothing is sent yet.
    pub async fn open(client: &mut SpeechServiceClient<Channel>) -> Self {
        Self::try_open(client, None).await.expect("the call is taken")
    }

    /// Opens a call that may be refused, with a deadline if one is given.
    ///
    /// # Errors
    /// The status of the refusal.
    pub async fn try_open(
        client: &mut SpeechServiceClient<Channel>,
        deadline: Option<Duration>,
    ) -> Result<Self, Status> {
        let wire = Wire::open(deadline, |request| client.speak(request)).await?;
        Ok(Self(wire))
    }

    /// Sends.
    pub async fn send(&self, request: Request) {
        if let Request::Text(chunk) = &request {
            self.0.names(&chunk.utterance_id);
        }
        self.0.send(v1::SpeakRequest { event: Some(request) }).await;
    }

    /// Closes the sending side.
    pub fn hang_up(&mut self) {
        self.0.hang_up();
    }

    /// Next event; `None` at the end, with any status.
    pub async fn next(&mut self) -> Option<(String, Event)> {
        let response = self.0.next().await.ok()??;
        Some((response.utterance_id, response.event.expect("an event")))
    }

    /// Skips to the end of the call.
    ///
    /// # Errors
    /// The status, if it is not OK.
    pub async fn end(mut self) -> Result<History, Status> {
        self.0.end().await
    }

    /// Waits for `ready`.
    pub async fn ready(&mut self) -> v1::SpeechSessionReady {
        match self.next().await {
            Some((_, Event::Ready(ready))) => ready,
            other => panic!("expected ready, found {other:?}, {:?}", self.history().ending),
        }
    }

    /// The call, with these settings in force.
    pub async fn configured(mut self, settings: v1::SpeechConfig) -> Self {
        self.send(config(settings)).await;
        self.ready().await;
        self
    }

    /// Waits for the first audio of the current utterance.
    pub async fn first_audio(&mut self) -> v1::AudioChunk {
        loop {
            match self.next().await {
                Some((_, Event::Audio(audio))) => return audio,
                Some((_, Event::Done(done))) => panic!("done without audio: {done:?}"),
                Some(_) => {}
                None => panic!("the call ended without audio: {:?}", self.history().ending),
            }
        }
    }

    /// Waits for the next `done`; returns the whole utterance, including earlier events.
    pub async fn utterance(&mut self) -> Utterance {
        loop {
            match self.next().await {
                Some((id, Event::Done(done))) => {
                    let outcome = done.outcome.expect("an outcome");
                    return gather(self.history(), id, outcome);
                }
                Some(_) => {}
                None => panic!("the call ended without done: {:?}", self.history().ending),
            }
        }
    }

    /// Reads until the connection breaks. The status means nothing then: an end without a status looks like success
    /// to the client.
    pub async fn broken(&mut self) {
        while self.next().await.is_some() {}
        self.0.received.ending = Ending::Open;
    }

    /// Messages received so far.
    pub fn history(&self) -> &History {
        &self.0.received
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            check(self.history());
        }
    }
}

fn gather(history: &History, id: String, outcome: v1::Outcome) -> Utterance {
    let mut utterance = Utterance {
        id,
        audio: Vec::new(),
        warnings: Vec::new(),
        outcome,
    };
    for response in history
        .responses
        .iter()
        .filter(|response| response.utterance_id == utterance.id)
    {
        match &response.event {
            Some(Event::Audio(audio)) => utterance.audio.extend_from_slice(&audio.data),
            Some(Event::Warning(warning)) => utterance.warnings.push(warning.clone()),
            _ => {}
        }
    }
    utterance
}

/// All audio of one `Synthesize` call, and its `done`.
///
/// # Errors
/// The status of a call that failed.
pub async fn audio_of(
    client: &mut SpeechServiceClient<Channel>,
    config: v1::SpeechConfig,
    text: &str,
) -> Result<(Vec<u8>, v1::Outcome), Status> {
    let request = v1::SynthesizeRequest {
        config: Some(config),
        text: text.to_owned(),
    };
    audio_of_request(client, tonic::Request::new(request)).await
}

/// As above, with metadata.
///
/// # Errors
/// The status of a failed call.
pub async fn audio_of_request(
    client: &mut SpeechServiceClient<Channel>,
    request: tonic::Request<v1::SynthesizeRequest>,
) -> Result<(Vec<u8>, v1::Outcome), Status> {
    use v1::synthesize_response::Event as E;
    let mut responses = client.synthesize(request).await?.into_inner();
    let mut audio = Vec::new();
    let mut outcome = None;
    let mut rules = Whole::default();
    while let Some(response) = responses.message().await? {
        rules.response(&response);
        match response.event.expect("an event") {
            E::Audio(chunk) => audio.extend_from_slice(&chunk.data),
            E::Done(done) => outcome = done.outcome,
            E::Ready(_) | E::Warning(_) | E::Alignment(_) => {}
        }
    }
    rules.closed();
    Ok((audio, outcome.expect("a call that ends well has a done")))
}

/// Settings whose seed is this, and every default.
pub fn seeded(seed: u64) -> v1::SpeechConfig {
    let sampling = v1::SamplingParams {
        seed: Some(seed),
        ..v1::SamplingParams::default()
    };
    v1::SpeechConfig {
        sampling: Some(sampling),
        ..v1::SpeechConfig::default()
    }
}

/// `config`.
pub fn config(config: v1::SpeechConfig) -> Request {
    Request::Config(config)
}

/// `text` of an unnamed utterance.
pub fn text(text: &str) -> Request {
    named("", text)
}

/// `text` of a named utterance.
pub fn named(utterance: &str, text: &str) -> Request {
    Request::Text(v1::TextChunk {
        text: text.to_owned(),
        utterance_id: utterance.to_owned(),
    })
}

/// `flush`.
pub fn flush() -> Request {
    Request::Flush(v1::FlushText {})
}

/// `finish`.
pub fn finish() -> Request {
    Request::Finish(v1::FinishUtterance {})
}

/// `cancel`; an empty name means everything.
pub fn cancel(utterance: &str) -> Request {
    Request::Cancel(v1::CancelUtterance {
        utterance_id: utterance.to_owned(),
        played_samples: None,
    })
}

/// Text whose audio far exceeds a connection's buffers: unread, it keeps the server from finishing.
pub fn endless() -> String {
    "This goes on and on, and on, and on. ".repeat(500)
}

/// The reason of an outcome's error; empty without one.
pub fn error_reason(outcome: &v1::Outcome) -> String {
    let error = outcome.error.as_ref();
    let info = error.and_then(RpcStatusExt::get_details_error_info);
    info.map(|info| info.reason).unwrap_or_default()
}

/// The stable reason of a status.
pub fn reason(status: &Status) -> String {
    status
        .get_details_error_info()
        .map(|info| info.reason)
        .unwrap_or_default()
}
