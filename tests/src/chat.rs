//! Client of `Converse`: records everything it receives, and has it checked on drop.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::content_part::Part;
use omni_proto::v1::converse_request::Event as Request;
use omni_proto::v1::converse_response::Event;
use tonic::Status;
use tonic::transport::Channel;

use crate::chat_history::{ChatHistory, check_chat};
use crate::wire::{Ending, Wire};

/// An open `Converse` call.
#[derive(Debug)]
pub struct ChatCall(Wire<v1::ConverseRequest, v1::ConverseResponse>);

/// Received messages of one answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// All its audio bytes.
    pub audio: Vec<u8>,
    /// Its warnings.
    pub warnings: Vec<v1::Warning>,
    /// Its end.
    pub outcome: v1::Outcome,
    /// Text of it that the conversation keeps.
    pub kept: String,
}

impl Answer {
    /// Reason of its end.
    pub fn finish(&self) -> v1::FinishReason {
        self.outcome.finish_reason()
    }

    /// Samples per channel.
    pub fn samples(&self) -> usize {
        self.audio.len() / 2
    }

    /// The reason of its error; empty without one.
    pub fn error_reason(&self) -> String {
        crate::call::error_reason(&self.outcome)
    }
}

impl ChatCall {
    /// Opens a call; nothing is sent yet.
    pub async fn open(client: &mut ChatServiceClient<Channel>) -> Self {
        Self::try_open(client, None).await.expect("the call is taken")
    }

    /// Opens a call that may be refused, with a deadline if one is given.
    ///
    /// # Errors
    /// The status of the refusal.
    pub async fn try_open(
        client: &mut ChatServiceClient<Channel>,
        deadline: Option<Duration>,
    ) -> Result<Self, Status> {
        let wire = Wire::open(deadline, |request| client.converse(request)).await?;
        Ok(Self(wire))
    }

    /// Sends.
    pub async fn send(&self, request: Request) {
        self.0.send(v1::ConverseRequest { event: Some(request) }).await;
    }

    /// Sends settings and waits until they are in force.
    pub async fn configure(&mut self, config: v1::ChatConfig) -> v1::ChatSessionReady {
        self.send(Request::Config(config)).await;
        match self.next().await {
            Some((_, Event::Ready(ready))) => ready,
            other => panic!("expected ready, found {other:?}, {:?}", self.history().ending),
        }
    }

    /// Adds user text, and asks for an answer.
    pub async fn ask(&self, text: &str) {
        self.send(said(v1::Role::User, text)).await;
        self.send(respond()).await;
    }

    /// Adds user text, and waits for the whole answer.
    pub async fn turn(&mut self, text: &str) -> Answer {
        self.ask(text).await;
        self.answer().await
    }

    /// Closes the sending side.
    pub fn hang_up(&mut self) {
        self.0.hang_up();
    }

    /// Next event; `None` at the end, with any status.
    pub async fn next(&mut self) -> Option<(String, Event)> {
        let response = self.0.next().await.ok()??;
        Some((response.response_id, response.event.expect("an event")))
    }

    /// The first event that `wanted` takes, after skipping others.
    pub async fn until<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            match self.next().await {
                Some((_, event)) => {
                    if let Some(found) = wanted(&event) {
                        return found;
                    }
                }
                None => panic!("the call ended early: {:?}", self.history().ending),
            }
        }
    }

    /// Waits for the next end of an answer; returns all of it, including earlier events.
    pub async fn answer(&mut self) -> Answer {
        loop {
            match self.next().await {
                Some((id, Event::ResponseDone(done))) => return gather(self.history(), id, done),
                Some(_) => {}
                None => panic!(
                    "the call ended without response_done: {:?}",
                    self.history().ending
                ),
            }
        }
    }

    /// Skips to the end of the call.
    ///
    /// # Errors
    /// The status, if it is not OK.
    pub async fn end(mut self) -> Result<ChatHistory, Status> {
        self.0.end().await
    }

    /// Reads until the connection breaks. The status means nothing then: an end without a status looks like success
    /// to the client.
    pub async fn broken(&mut self) {
        while self.next().await.is_some() {}
        self.0.received.ending = Ending::Open;
    }

    /// Messages received so far.
    pub fn history(&self) -> &ChatHistory {
        &self.0.received
    }
}

impl Drop for ChatCall {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            check_chat(self.history());
        }
    }
}

fn gather(history: &ChatHistory, id: String, done: v1::ResponseDone) -> Answer {
    let mut answer = Answer {
        text: String::new(),
        audio: Vec::new(),
        warnings: Vec::new(),
        outcome: done.outcome.expect("an outcome"),
        kept: done.message.as_ref().map(text_of).unwrap_or_default(),
        id,
    };
    let own = history
        .responses
        .iter()
        .filter(|response| response.response_id == answer.id);
    for response in own {
        match &response.event {
            Some(Event::Text(delta)) => answer.text.push_str(&delta.text),
            Some(Event::Audio(audio)) => answer.audio.extend_from_slice(&audio.data),
            Some(Event::Warning(warning)) => answer.warnings.push(warning.clone()),
            _ => {}
        }
    }
    answer
}

/// The text of a message.
pub fn text_of(message: &v1::ChatMessage) -> String {
    let parts = message.parts.iter().filter_map(|content| match &content.part {
        Some(Part::Text(text)) => Some(text.as_str()),
        _ => None,
    });
    parts.collect()
}

/// A message of text.
pub fn chat_message(role: v1::Role, text: &str) -> v1::ChatMessage {
    v1::ChatMessage {
        id: String::new(),
        role: role.into(),
        parts: vec![v1::ContentPart {
            part: Some(Part::Text(text.to_owned())),
        }],
    }
}

/// `message`.
pub fn said(role: v1::Role, text: &str) -> Request {
    Request::Message(chat_message(role, text))
}

/// `respond`.
pub fn respond() -> Request {
    Request::Respond(v1::CreateResponse::default())
}

/// `interrupt` of the answer in progress.
pub fn interrupt(played_samples: Option<u64>) -> Request {
    Request::Interrupt(v1::Interrupt {
        response_id: String::new(),
        played_samples,
    })
}

/// A configuration whose answers are written, and spoken too if `audio`.
pub fn chat_config(audio: bool) -> v1::ChatConfig {
    let mut modalities = vec![v1::Modality::Text.into()];
    modalities.extend(audio.then(|| i32::from(v1::Modality::Audio)));
    v1::ChatConfig {
        output_modalities: modalities,
        ..v1::ChatConfig::default()
    }
}

/// Everything of one `Generate` call.
///
/// # Errors
/// The status of a call that failed.
pub async fn generate(
    client: &mut ChatServiceClient<Channel>,
    config: v1::ChatConfig,
    messages: Vec<v1::ChatMessage>,
) -> Result<Answer, Status> {
    let request = v1::GenerateRequest {
        config: Some(config),
        messages,
    };
    generate_request(client, tonic::Request::new(request)).await
}

/// As above, with metadata.
///
/// # Errors
/// The status of a failed call.
pub async fn generate_request(
    client: &mut ChatServiceClient<Channel>,
    request: tonic::Request<v1::GenerateRequest>,
) -> Result<Answer, Status> {
    use v1::generate_response::Event as E;
    let mut responses = client.generate(request).await?.into_inner();
    let mut text = String::new();
    let mut audio = Vec::new();
    let mut warnings = Vec::new();
    let mut end = None;
    let mut ready = false;
    while let Some(response) = responses.message().await? {
        assert!(end.is_none(), "nothing follows done");
        match response.event.expect("an event") {
            E::Ready(_) => assert!(!std::mem::replace(&mut ready, true), "ready comes once"),
            E::Text(delta) => text.push_str(&delta.text),
            E::Audio(chunk) => audio.extend_from_slice(&chunk.data),
            E::Warning(warning) => warnings.push(warning),
            E::Done(done) => end = Some(done),
        }
        assert!(ready, "ready comes first");
    }
    let done = end.expect("a call that ends well has a done");
    Ok(Answer {
        id: done
            .message
            .as_ref()
            .map(|message| message.id.clone())
            .unwrap_or_default(),
        text,
        audio,
        warnings,
        kept: done.message.as_ref().map(text_of).unwrap_or_default(),
        outcome: done.outcome.expect("an outcome"),
    })
}
