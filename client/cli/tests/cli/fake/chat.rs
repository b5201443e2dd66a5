//! The scripted server's conversations. Unless told otherwise it answers every turn with what was said to it.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::chat_service_server::ChatService;
use omni_proto::v1::content_part::Part;
use omni_proto::v1::converse_request::Event as In;
use omni_proto::v1::converse_response::Event as Out;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::speech::{chunk, rpc_status, stage};
use super::{CHUNK, RATE, Seen, Service};

/// Behaviour of the server for every turn.
#[derive(Debug, Clone)]
pub(crate) struct ChatScript {
    /// Pieces of every answer, instead of what was said.
    pub(crate) answer: Option<Vec<&'static str>>,
    /// Pieces of 80 ms of audio, behind the text, unless only text is asked for.
    pub(crate) chunks: u32,
    /// After text and audio wait for an interruption.
    pub(crate) hold: bool,
    /// Do nothing about an interruption.
    pub(crate) deaf: bool,
    /// End the call with this instead of `ready`.
    pub(crate) refuse: Option<Status>,
    /// End this response, counted from 1, with that after its text and audio.
    pub(crate) fail: Option<(u32, Status)>,
    /// Sent before every text: reason and message.
    pub(crate) warning: Option<(&'static str, &'static str)>,
    /// Finish reason of a response otherwise.
    pub(crate) finish: v1::FinishReason,
    /// Text that an interruption leaves of an answer.
    pub(crate) heard: &'static str,
    /// A held response ends by itself when the interruption comes, and is cut only then.
    pub(crate) late: bool,
    /// Give away one more audio after the end of every response.
    pub(crate) leaky: bool,
    /// End the call with this after so many responses.
    pub(crate) end_after: Option<(u32, Status)>,
}

impl Default for ChatScript {
    fn default() -> Self {
        Self {
            answer: None,
            chunks: 5,
            hold: false,
            deaf: false,
            refuse: None,
            fail: None,
            warning: None,
            finish: v1::FinishReason::Stop,
            heard: "",
            late: false,
            leaky: false,
            end_after: None,
        }
    }
}

/// Sends numbered messages of one call.
struct Reply {
    sender: mpsc::Sender<Result<v1::ConverseResponse, Status>>,
    seq: u64,
}

impl Reply {
    async fn send(&mut self, response: &str, event: Out) {
        self.seq += 1;
        let message = v1::ConverseResponse {
            seq: self.seq,
            response_id: response.into(),
            event: Some(event),
        };
        // A client that left needs no answer.
        let _ = self.sender.send(Ok(message)).await;
    }
}

/// One conversation.
struct Conversation {
    service: Service,
    reply: Reply,
    config: v1::ChatConfig,
    /// Last message of the user.
    said: String,
    /// Bytes of speech since the last commit.
    speech: usize,
    responses: u32,
    /// Waits for an interruption.
    held: bool,
}

impl Service {
    async fn conversation(
        self,
        mut requests: Streaming<v1::ConverseRequest>,
        sender: mpsc::Sender<Result<v1::ConverseResponse, Status>>,
    ) {
        let mut conversation = Conversation {
            service: self,
            reply: Reply { sender, seq: 0 },
            config: v1::ChatConfig::default(),
            said: String::new(),
            speech: 0,
            responses: 0,
            held: false,
        };
        while let Ok(Some(request)) = requests.message().await {
            let event = request.event.expect("the client sends only known events");
            if !conversation.event(event).await {
                return;
            }
        }
        conversation.service.see(Seen::Closed);
    }
}

impl Conversation {
    fn script(&self) -> &ChatScript {
        &self.service.script.chat
    }

    fn see(&self, seen: Seen) {
        self.service.see(seen);
    }

    /// False when the call has ended.
    async fn event(&mut self, event: In) -> bool {
        if self.held && !matches!(event, In::InputAudio(_) | In::Interrupt(_)) {
            let status = Status::failed_precondition("a response is in progress");
            let _ = self.reply.sender.send(Err(status)).await;
            return false;
        }
        match event {
            In::Config(config) => return self.configure(config).await,
            In::Message(message) => self.message(message).await,
            In::InputAudio(audio) => {
                self.speech += audio.data.len();
                self.see(Seen::Speech(audio.data.len()));
            }
            In::Commit(commit) => {
                self.see(Seen::Commit);
                self.said = format!("{} bytes of speech", std::mem::take(&mut self.speech));
                self.added(String::new(), v1::Role::User).await;
                if commit.respond {
                    return self.respond(v1::CreateResponse::default()).await;
                }
            }
            In::Respond(request) => {
                self.see(Seen::Respond(Box::new(request.clone())));
                return self.respond(request).await;
            }
            In::Interrupt(interrupt) => self.interrupt(&interrupt).await,
        }
        true
    }

    async fn configure(&mut self, config: v1::ChatConfig) -> bool {
        self.see(Seen::ChatConfig(Box::new(config.clone())));
        if let Some(status) = self.script().refuse.clone() {
            let _ = self.reply.sender.send(Err(status)).await;
            return false;
        }
        self.config = config.clone();
        self.reply.send("", Out::Ready(ready(config))).await;
        true
    }

    async fn message(&mut self, message: v1::ChatMessage) {
        let text: String = message
            .parts
            .iter()
            .filter_map(|part| match &part.part {
                Some(Part::Text(text)) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        self.see(Seen::Message(message.role(), text.clone()));
        self.said = text;
        self.added(message.id.clone(), message.role()).await;
    }

    async fn added(&mut self, id: String, role: v1::Role) {
        let message = v1::ChatMessage {
            id,
            role: role.into(),
            parts: Vec::new(),
        };
        let added = v1::MessageAdded {
            message: Some(message),
            audio_duration: None,
        };
        self.reply.send("", Out::MessageAdded(added)).await;
    }

    /// False when the call has ended.
    async fn respond(&mut self, request: v1::CreateResponse) -> bool {
        self.responses += 1;
        let id = format!("r{}", self.responses);
        let modalities = if request.output_modalities.is_empty() {
            self.config.output_modalities.clone()
        } else {
            request.output_modalities
        };
        self.reply
            .send(&id, Out::ResponseStarted(v1::ResponseStarted {}))
            .await;
        if let Some((reason, message)) = self.script().warning {
            let warning = v1::Warning {
                reason: reason.into(),
                message: message.into(),
            };
            self.reply.send(&id, Out::Warning(warning)).await;
        }
        for text in self.answer() {
            self.reply.send(&id, Out::Text(v1::TextDelta { text })).await;
        }
        let audio = modalities.contains(&v1::Modality::Audio.into());
        let chunks = if audio { self.script().chunks } else { 0 };
        for i in 0..chunks {
            let piece = chunk(u64::from(i * CHUNK), i + 1 == chunks);
            self.reply.send(&id, Out::Audio(piece)).await;
        }
        if self.script().hold {
            self.held = true;
            self.see(Seen::Holding);
        } else {
            self.end(&id).await;
        }
        match self.script().end_after.clone() {
            Some((responses, status)) if responses == self.responses => {
                let _ = self.reply.sender.send(Err(status)).await;
                self.see(Seen::Left);
                false
            }
            _ => true,
        }
    }

    fn answer(&self) -> Vec<String> {
        match &self.script().answer {
            Some(pieces) => pieces.iter().map(|&piece| piece.to_owned()).collect(),
            None => vec!["You said: ".to_owned(), self.said.clone()],
        }
    }

    async fn end(&mut self, id: &str) {
        let failure = match &self.script().fail {
            Some((response, status)) if *response == self.responses => Some(rpc_status(status)),
            _ => None,
        };
        let (reason, text) = match &failure {
            Some(_) => (v1::FinishReason::Error, String::new()),
            None => (self.script().finish, self.answer().concat()),
        };
        self.done(id, reason, text, failure).await;
        if self.script().leaky {
            self.reply.send(id, Out::Audio(chunk(0, false))).await;
        }
    }

    async fn interrupt(&mut self, interrupt: &v1::Interrupt) {
        self.see(Seen::Interrupt(interrupt.played_samples));
        if self.script().deaf {
            return;
        }
        let id = format!("r{}", self.responses);
        let heard = self.script().heard.to_owned();
        if self.script().late && std::mem::take(&mut self.held) {
            let whole = self.answer().concat();
            self.done(&id, v1::FinishReason::Stop, whole, None).await;
        }
        if std::mem::take(&mut self.held) {
            self.done(&id, v1::FinishReason::Interrupted, heard, None).await;
        } else if interrupt.played_samples.is_some() {
            let message = Some(answered(&id, heard));
            self.reply
                .send(&id, Out::MessageCut(v1::MessageCut { message }))
                .await;
        }
    }

    async fn done(
        &mut self,
        id: &str,
        reason: v1::FinishReason,
        text: String,
        error: Option<omni_proto::RpcStatus>,
    ) {
        let usage = v1::Usage {
            input_text_tokens: 20,
            output_text_tokens: 7,
            output_audio_tokens: self.script().chunks,
            output_audio_duration: (Duration::from_millis(80) * self.script().chunks).try_into().ok(),
            ..Default::default()
        };
        let outcome = v1::Outcome {
            finish_reason: reason.into(),
            usage: Some(usage),
            timings: Some(v1::Timings {
                stages: vec![stage()],
                ..Default::default()
            }),
            error,
            seed: Some(42),
            warnings: Vec::new(),
        };
        let done = v1::ResponseDone {
            outcome: Some(outcome),
            message: Some(answered(id, text)),
        };
        self.reply.send(id, Out::ResponseDone(done)).await;
    }
}

/// A message of the assistant; an empty one has no parts.
fn answered(id: &str, text: String) -> v1::ChatMessage {
    let part = |text| v1::ContentPart {
        part: Some(Part::Text(text)),
    };
    v1::ChatMessage {
        id: id.into(),
        role: v1::Role::Assistant.into(),
        parts: (!text.is_empty()).then(|| part(text)).into_iter().collect(),
    }
}

fn ready(config: v1::ChatConfig) -> v1::ChatSessionReady {
    let format = v1::AudioFormat {
        encoding: v1::AudioEncoding::PcmS16le.into(),
        sample_rate_hz: RATE,
        channels: 1,
    };
    let output = v1::AudioDelivery {
        format: Some(format),
        ..Default::default()
    };
    let voice = match config.voice.as_str() {
        "" => "fake".into(),
        voice => voice.into(),
    };
    let resolved = v1::ChatConfig {
        voice,
        model: "fake-model".into(),
        output_audio: Some(output),
        history: Vec::new(),
        ..config
    };
    v1::ChatSessionReady {
        session_id: "c-1".into(),
        resolved: Some(resolved),
        limits: None,
    }
}

#[tonic::async_trait]
impl ChatService for Service {
    type ConverseStream = ReceiverStream<Result<v1::ConverseResponse, Status>>;
    type GenerateStream = ReceiverStream<Result<v1::GenerateResponse, Status>>;

    async fn converse(
        &self,
        request: Request<Streaming<v1::ConverseRequest>>,
    ) -> Result<Response<Self::ConverseStream>, Status> {
        let (sender, stream) = mpsc::channel(8);
        tokio::spawn(self.clone().conversation(request.into_inner(), sender));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    /// Says how many messages there are, in text alone.
    async fn generate(
        &self,
        request: Request<v1::GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        use v1::generate_response::Event;
        let request = request.into_inner();
        let text = format!("{} messages", request.messages.len());
        let outcome = v1::Outcome {
            finish_reason: v1::FinishReason::Stop.into(),
            ..Default::default()
        };
        let done = v1::ResponseDone {
            outcome: Some(outcome),
            message: Some(answered("r1", text.clone())),
        };
        let events = [
            Event::Ready(ready(request.config.unwrap_or_default())),
            Event::Text(v1::TextDelta { text }),
            Event::Done(done),
        ];
        let (sender, stream) = mpsc::channel(events.len());
        for event in events {
            let response = v1::GenerateResponse { event: Some(event) };
            sender
                .try_send(Ok(response))
                .expect("there is room for all of them");
        }
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}
