//! One WebSocket: text goes into a session while its audio goes out.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use omni_core::call::CallContext;
use omni_core::caller::Tenant;
use omni_core::error::{ErrorKind, ServeError};
use omni_family::SpeechInfo;
use omni_services::{CallPermit, SpeechRequest};
use omni_session::{Command, Event, Session};
use omni_telemetry::RequestResult;
use omni_transport::{Ended, Message, WebSocket};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;

use super::messages::{self, ClientMessage, Configured, Delivery};
use super::utterances::{Frame, Utterances};
use crate::OpenAi;
use crate::error::ApiError;
use crate::speech::named;
use crate::websocket::{End, code, over, room};

/// Most commands on their way to the session, and most that one message may cause.
const COMMANDS: usize = 4;
const ROOM: usize = 2;

/// A call before its first message.
pub(super) struct Call {
    pub(super) info: Arc<SpeechInfo>,
    pub(super) tenant: Tenant,
    pub(super) context: CallContext,
}

type Events = ReceiverStream<Result<Event, ServeError>>;

/// A session that runs.
struct Running {
    /// None when no more commands will come.
    commands: Option<mpsc::Sender<Result<Command, ServeError>>>,
    events: Events,
    utterances: Utterances,
}

/// A connection.
pub(super) struct Connection {
    socket: WebSocket,
    openai: OpenAi,
    call: Call,
    /// Held until the session has it.
    permit: Option<CallPermit>,
    running: Option<Running>,
    /// Last config, while the voice of its recording is being made.
    pending: Option<Pending>,
    /// Message behind that config: it waits, and further messages stay unread.
    held: Option<Message>,
    born: Instant,
}

/// A config that waits for its voice. Messages wait with it, events and the end of the connection do not.
struct Pending {
    delivery: Delivery,
    request: BoxFuture<'static, Result<SpeechRequest, ServeError>>,
}

impl Connection {
    pub(super) fn new(socket: WebSocket, openai: OpenAi, call: Call, permit: CallPermit) -> Self {
        Self {
            socket,
            openai,
            call,
            permit: Some(permit),
            running: None,
            pending: None,
            held: None,
            born: Instant::now(),
        }
    }

    /// Serves the client until the connection ends.
    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        let result = match end {
            End::Gone => RequestResult::Cancelled,
            End::Done | End::Closing | End::Refused(..) => RequestResult::Error,
        };
        for _ in 0..self.running.take().map_or(0, |running| running.utterances.open()) {
            self.openai.requests.ended(result);
        }
        match end {
            End::Gone => {}
            End::Done => self.socket.close(code::NORMAL, "").await,
            End::Closing => self.socket.close(code::GOING_AWAY, "the server ends").await,
            End::Refused(error, code) => {
                let told = messages::error(&error, None);
                self.socket.send_text(told.to_string());
                self.socket.close(code, error.message()).await;
            }
        }
    }

    /// Waits for a message, an event of the session, or the voice of a config.
    async fn step(&mut self) -> Result<(), End> {
        let waits = self.pending.is_some();
        let closing = self.socket.closing();
        let takes = self.socket.takes_audio();
        let idle = !waits
            && self.held.is_none()
            && self
                .running
                .as_ref()
                .is_some_and(|running| running.utterances.open() == 0);
        let (events, commands) = match &mut self.running {
            Some(running) => (Some(&mut running.events), running.commands.as_ref()),
            None if waits => (None, None),
            None => return self.opening().await,
        };
        tokio::select! {
            event = next_event(events), if takes => match event {
                Some(Ok(event)) => {
                    self.relay(Some(event));
                    Ok(())
                }
                // It served everything that was asked of it.
                Some(Err(error)) if error.kind() == ErrorKind::ShuttingDown && idle => Err(End::Closing),
                Some(Err(error)) => Err(over(&error, named(&error))),
                None => Err(End::Done),
            },
            (delivery, request) = voiced(&mut self.pending) => {
                self.pending = None;
                // The timeout of a peer without a session begins again.
                self.born = Instant::now();
                let done = match request {
                    Ok(request) => self.configured(delivery, &request),
                    Err(error) => Err(Refusal::Message(named(&error))),
                };
                self.answer(done)
            }
            // A running session ends by itself.
            () = closing.cancelled(), if waits && commands.is_none() => Err(End::Closing),
            message = heard(&mut self.socket, &mut self.held, commands, waits) => self.take(message?),
        }
    }

    /// Serves messages before there is a session.
    async fn opening(&mut self) -> Result<(), End> {
        if let Some(message) = self.held.take() {
            return self.take(Some(message));
        }
        let closing = self.socket.closing();
        let late = self.born + self.openai.limits.request_time;
        tokio::select! {
            () = closing.cancelled() => Err(End::Closing),
            () = sleep_until(late) => {
                let problem = "no session.config that can be used came in time";
                Err(End::Refused(ApiError::invalid(None, problem), code::POLICY))
            }
            message = self.socket.next(true) => self.take(message?),
        }
    }

    fn take(&mut self, message: Option<Message>) -> Result<(), End> {
        let Some(message) = message else { return Ok(()) };
        let parsed = match message {
            Message::Text(text) => ClientMessage::parse(&text, self.openai.sites.strict),
            Message::Binary(_) => Err(ApiError::invalid(None, "a message is binary; expected text")),
        };
        let done = match parsed {
            Ok(message) => self.obey(message),
            Err(error) => Err(Refusal::Message(error)),
        };
        self.answer(done)
    }

    /// Reports a refused message, or ends with the connection.
    fn answer(&mut self, done: Result<(), Refusal>) -> Result<(), End> {
        match done {
            Ok(()) => self.relay(None),
            Err(Refusal::Message(error)) => self.socket.send_text(messages::error(&error, None).to_string()),
            Err(Refusal::Connection(end)) => return Err(end),
        }
        Ok(())
    }

    fn obey(&mut self, message: ClientMessage) -> Result<(), Refusal> {
        let running = match message {
            ClientMessage::Config(config) => return self.configure(*config),
            ClientMessage::Close if self.running.is_none() => return Err(Refusal::Connection(End::Done)),
            _ => self.running.as_mut().ok_or_else(|| {
                let problem = "there is no session yet, send session.config first";
                Refusal::Message(ApiError::invalid(Some("type"), problem))
            })?,
        };
        let said = |text| Command::Text {
            text,
            utterance: String::new(),
        };
        match message {
            ClientMessage::Text(piece) => {
                let text = running.utterances.text(piece);
                running.command(said(text));
            }
            ClientMessage::Done => {
                // Utterances without text wait in no queue that has a bound of its own.
                let most = self.openai.speech.limits().max_utterances + COMMANDS;
                if !running.utterances.is_writing() && running.utterances.open() >= most {
                    let problem = "too many utterances wait, send input.done after session.done of some";
                    return Err(Refusal::Message(ApiError::invalid(Some("type"), problem)));
                }
                if let Some(rest) = running.utterances.finish() {
                    running.command(said(rest));
                    running.command(Command::Finish);
                }
            }
            ClientMessage::Close | ClientMessage::Config(_) => running.commands = None,
        }
        Ok(())
    }

    fn configure(&mut self, config: Configured) -> Result<(), Refusal> {
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.utterances.is_writing())
        {
            let problem = "text is buffered, send input.done before another session.config";
            return Err(Refusal::Message(ApiError::invalid(Some("type"), problem)));
        }
        let speech = self.openai.speech.clone();
        let tenant = self.call.tenant;
        self.pending = Some(Pending {
            delivery: config.delivery,
            request: Box::pin(async move { speech.imitated(tenant, config.request).await }),
        });
        Ok(())
    }

    fn configured(&mut self, delivery: Delivery, request: &SpeechRequest) -> Result<(), Refusal> {
        let speech = &self.openai.speech;
        let call = &self.call;
        let settings = request
            .settings(&call.info)
            .map_err(|error| Refusal::Message(named(&error)))?;
        if let Some(permit) = self.permit.take() {
            let (sender, commands) = mpsc::channel(COMMANDS);
            let commands = ReceiverStream::new(commands);
            // The protocol has no message that stops an utterance, nor one that reports "too much".
            let events = speech.open(call.context.clone(), commands, permit, Session::holding_back);
            self.running = Some(Running {
                commands: Some(sender),
                events,
                utterances: Utterances::new(speech.limits().max_text_bytes),
            });
        }
        if let Some(running) = &mut self.running {
            running.utterances.configured(delivery);
            running.command(Command::Configure(Box::new(settings)));
        }
        Ok(())
    }

    /// Sends the messages for an event of the session, and those about utterances that the session does not know.
    fn relay(&mut self, event: Option<Event>) {
        let Some(running) = &mut self.running else {
            return;
        };
        let frames = event.map_or_else(Vec::new, |event| running.utterances.frames(event));
        let empty = running.utterances.empty();
        for frame in frames.into_iter().chain(empty) {
            match frame {
                Frame::Text(told) => self.socket.send_text(told.to_string()),
                Frame::Audio(bytes, time) => self.socket.send_audio(Message::Binary(bytes), time),
                Frame::Over(result) => self.openai.requests.ended(result),
            }
        }
    }
}

impl Running {
    /// Sends a command. There is room: it was waited for before the message was taken, and none is taken while a
    /// config is pending. A session that has ended reports that itself.
    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.try_send(Ok(command));
        }
    }
}

/// Scope of a refusal.
enum Refusal {
    /// Only the message.
    Message(ApiError),
    Connection(End),
}

/// Next event of a session; never resolves without one.
async fn next_event(events: Option<&mut Events>) -> Option<Result<Event, ServeError>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the voice of the pending config; never resolves if none is pending.
async fn voiced(pending: &mut Option<Pending>) -> (Delivery, Result<SpeechRequest, ServeError>) {
    match pending {
        Some(pending) => {
            let request = (&mut pending.request).await;
            (pending.delivery.clone(), request)
        }
        None => std::future::pending().await,
    }
}

/// Writes to the client; returns its next message when there is room for its commands. After the last one only the
/// end of the connection counts.
async fn heard(
    socket: &mut WebSocket,
    held: &mut Option<Message>,
    commands: Option<&mpsc::Sender<Result<Command, ServeError>>>,
    waits: bool,
) -> Result<Option<Message>, Ended> {
    let reads = socket.takes_more();
    if waits {
        // Read until the peer sends a message, so that its end is noticed.
        if let Some(message) = socket.next(reads && held.is_none()).await? {
            *held = Some(message);
        }
        return Ok(None);
    }
    let Some(commands) = commands else {
        socket.next(reads).await?;
        return Ok(None);
    };
    if !reads {
        return socket.next(false).await;
    }
    tokio::select! {
        biased;
        () = room(commands, ROOM) => {}
        written = socket.next(false) => return written,
    }
    match held.take() {
        Some(message) => Ok(Some(message)),
        None => socket.next(true).await,
    }
}
