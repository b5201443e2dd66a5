//! One WebSocket: text goes into a session while its audio goes out.

use std::sync::Arc;

use futures::StreamExt as _;
use omni_telemetry::RequestResult;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;

use super::messages::{self, ClientMessage, Configured};
use super::utterances::{Frame, Utterances};
use crate::caller::Tenant;
use crate::error::ServeError;
use crate::model::SpeechInfo;
use crate::openai::OpenAi;
use crate::openai::error::ApiError;
use crate::openai::speech::named;
use crate::openai::websocket::{End, code, over};
use crate::service::{CallContext, CallPermit};
use crate::session::{Command, Event, Session};
use crate::transport::{Ended, Message, WebSocket};

/// Commands on their way to the session.
const COMMANDS: usize = 4;

/// What is known of a call before it says anything.
pub(super) struct Call {
    pub(super) info: Arc<SpeechInfo>,
    pub(super) tenant: Tenant,
    pub(super) context: CallContext,
}

/// A session that runs.
struct Running {
    /// None when nothing more will be said.
    commands: Option<mpsc::Sender<Result<Command, ServeError>>>,
    events: ReceiverStream<Result<Event, ServeError>>,
    utterances: Utterances,
}

/// A connection.
pub(super) struct Connection {
    socket: WebSocket,
    openai: OpenAi,
    call: Call,
    /// Until the session has it.
    permit: Option<CallPermit>,
    running: Option<Running>,
    born: Instant,
}

impl Connection {
    pub(super) fn new(socket: WebSocket, openai: OpenAi, call: Call, permit: CallPermit) -> Self {
        Self {
            socket,
            openai,
            call,
            permit: Some(permit),
            running: None,
            born: Instant::now(),
        }
    }

    /// From its begin to its end.
    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        for _ in 0..self.running.take().map_or(0, |running| running.utterances.open()) {
            self.openai.requests.ended(RequestResult::Cancelled);
        }
        match end {
            End::Gone => {}
            End::Done => self.socket.close(code::NORMAL, "").await,
            End::Closing => self.socket.close(code::GOING_AWAY, "the server ends").await,
            End::Refused(error, code) => {
                let told = messages::error(&error, None);
                if self.socket.send_text(told.to_string()).await.is_ok() {
                    self.socket.close(code, error.message()).await;
                }
            }
        }
    }

    /// Waits for what comes first, a message or an event of the session.
    async fn step(&mut self) -> Result<(), End> {
        let Some(running) = &mut self.running else {
            return self.opening().await;
        };
        tokio::select! {
            event = running.events.next() => match event {
                Some(Ok(event)) => self.relay(event).await,
                Some(Err(error)) => Err(over(&error, named(&error))),
                None => Err(End::Done),
            },
            message = heard(&mut self.socket, running.commands.as_ref()) => self.take(message?).await,
        }
    }

    /// Before there is a session.
    async fn opening(&mut self) -> Result<(), End> {
        let (closing, late) = (self.socket.closing(), self.born + self.openai.limits.request_time);
        tokio::select! {
            () = closing.cancelled() => Err(End::Closing),
            () = sleep_until(late) => {
                let problem = "no session.config that can be used came in time";
                Err(End::Refused(ApiError::invalid(None, problem), code::POLICY))
            }
            message = self.socket.next() => self.take(message?).await,
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), End> {
        let parsed = match message {
            Message::Text(text) => ClientMessage::parse(&text),
            Message::Binary(_) => Err(ApiError::invalid(None, "a message is binary, expected text")),
        };
        let done = match parsed {
            Ok(message) => self.obey(message).await,
            Err(error) => Err(Refusal::Message(error)),
        };
        match done {
            Ok(()) => Ok(()),
            Err(Refusal::Message(error)) => self.tell(&messages::error(&error, None)).await,
            Err(Refusal::Connection(end)) => Err(end),
        }
    }

    async fn obey(&mut self, message: ClientMessage) -> Result<(), Refusal> {
        let running = match message {
            ClientMessage::Config(config) => return self.configure(*config).await,
            ClientMessage::Close if self.running.is_none() => return Err(Refusal::Connection(End::Done)),
            _ => self.running.as_mut().ok_or_else(|| {
                let problem = "there is no session yet, send session.config first";
                Refusal::Message(ApiError::invalid(Some("type"), problem))
            })?,
        };
        let command = match message {
            ClientMessage::Text(text) => {
                running.utterances.text(&text);
                let utterance = String::new();
                Command::Text { text, utterance }
            }
            ClientMessage::Done => {
                running.utterances.finish();
                Command::Finish
            }
            ClientMessage::Close | ClientMessage::Config(_) => {
                running.commands = None;
                return Ok(());
            }
        };
        running.command(command);
        Ok(())
    }

    async fn configure(&mut self, config: Configured) -> Result<(), Refusal> {
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.utterances.is_writing())
        {
            let problem = "text is buffered, send input.done before another session.config";
            return Err(Refusal::Message(ApiError::invalid(Some("type"), problem)));
        }
        let refused = |error: ServeError| Refusal::Message(named(&error));
        let (
            speech,
            Call {
                info,
                tenant,
                context,
            },
        ) = (&self.openai.speech, &self.call);
        let request = speech.imitated(*tenant, config.request).await.map_err(refused)?;
        let settings = request.settings(info).map_err(refused)?;
        if let Some(permit) = self.permit.take() {
            let (sender, commands) = mpsc::channel(COMMANDS);
            let commands = ReceiverStream::new(commands);
            // There is no message that stops an utterance, nor one that says "too much".
            let events = speech.open(context.clone(), commands, permit, Session::holding_back);
            self.running = Some(Running {
                commands: Some(sender),
                events,
                utterances: Utterances::new(speech.limits().max_text_bytes),
            });
        }
        if let Some(running) = &mut self.running {
            running.utterances.configured(config.delivery);
            running.command(Command::Configure(Box::new(settings)));
        }
        Ok(())
    }

    async fn relay(&mut self, event: Event) -> Result<(), End> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        for frame in running.utterances.frames(event) {
            match frame {
                Frame::Text(told) => self.socket.send_text(told.to_string()).await?,
                Frame::Audio(bytes) => self.socket.send_binary(bytes).await?,
                Frame::Over(result) => self.openai.requests.ended(result),
            }
        }
        Ok(())
    }

    async fn tell(&mut self, told: &Value) -> Result<(), End> {
        Ok(self.socket.send_text(told.to_string()).await?)
    }
}

impl Running {
    /// There is room: it was waited for before the message was read. A session that is over says so itself.
    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.try_send(Ok(command));
        }
    }
}

/// What a message that cannot be obeyed ends.
enum Refusal {
    /// Itself.
    Message(ApiError),
    Connection(End),
}

/// The next message, when there is room for what it says. After the last one only the end of the connection counts.
async fn heard(
    socket: &mut WebSocket,
    commands: Option<&mpsc::Sender<Result<Command, ServeError>>>,
) -> Result<Message, Ended> {
    let Some(commands) = commands else {
        loop {
            socket.next().await?;
        }
    };
    match commands.reserve().await {
        Ok(room) => drop(room),
        // The session is over, and says why.
        Err(_) => std::future::pending().await,
    }
    socket.next().await
}
