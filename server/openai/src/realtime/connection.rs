//! One WebSocket: moves events between a client, its session and the session that answers.
//!
//! Everything is bounded: a message by its bytes, commands by a channel whose room is waited for before a message is
//! read, events by the channel of the answering session, which stops with its reader. Both directions go on at once:
//! a client whose link is full of audio is read all the same, and audio that has not left when it interrupts is
//! dropped. A client that vanishes ends the answering session, and with it everything that works for it.

use std::time::Duration;

use axum::http::StatusCode;
use futures::{FutureExt as _, StreamExt as _};
use omni_core::call::CallContext;
use omni_core::caller::Caller;
use omni_core::error::ServeError;
use omni_services::{CallPermit, ChatModel};
use omni_session::{
    ChatCommand, ChatEvent, ChatSettings, Command, Event, EventBody, Outcome, Session as SpeechSession,
};
use omni_telemetry::RequestResult;
use omni_transport::{Ended, Message, WebSocket};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::events::{ClientEvent, Head};
use super::formats::AudioFormat;
use super::items::ItemBody;
use super::session::{CANNOT_HEAR, Effects, Session};
use super::settings::named;
use super::told::Told;
use crate::error::ApiError;
use crate::websocket::{End, code, over, room};
use crate::{OpenAi, blocking};

/// Most commands on their way to the answering session, and most that one message may cause.
const COMMANDS: usize = 8;
const ROOM: usize = 4;
/// Longest message that is read on the threads of sessions: recordings are decoded with it.
const SHORT: usize = 32 << 10;
/// Longest time between two messages to the answering session that its caller is there.
const PRESENCE: Duration = Duration::from_secs(1);

type Speech = ReceiverStream<Result<Event, ServeError>>;

/// A connection.
pub(super) struct Connection {
    socket: WebSocket,
    openai: OpenAi,
    session: Session,
    caller: Caller,
    context: CallContext,
    commands: mpsc::Sender<Result<ChatCommand, ServeError>>,
    events: ReceiverStream<Result<ChatEvent, ServeError>>,
    /// Speech session of a notice by the server.
    notice: Option<Speech>,
    /// Set once the answering session has ended: the end of the connection behind the notice.
    ending: Option<End>,
    present: Instant,
}

/// The event that comes first.
enum Next {
    Answer(Option<Result<ChatEvent, ServeError>>),
    Notice(Option<Result<Event, ServeError>>),
    Said(Result<Option<Message>, Ended>),
}

impl Connection {
    pub(super) fn new(
        socket: WebSocket,
        openai: OpenAi,
        session: Session,
        (caller, context, permit): (Caller, CallContext, CallPermit),
    ) -> Self {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let events = openai
            .chat
            .open(context.clone(), ReceiverStream::new(receiver), permit);
        Self {
            socket,
            openai,
            session,
            caller,
            context,
            commands,
            events,
            notice: None,
            ending: None,
            present: Instant::now(),
        }
    }

    /// Serves the client until the connection ends.
    pub(super) async fn run(mut self) {
        let end = loop {
            let done = match self.flush() {
                Ok(()) => self.step().await,
                Err(end) => Err(end),
            };
            if let Err(end) = done {
                break end;
            }
        };
        match end {
            End::Gone => {
                for _ in 0..self.session.open() {
                    self.openai.requests.ended(RequestResult::Cancelled);
                }
            }
            End::Done | End::Closing => {
                let error = internal("session_ended", "the session has ended");
                self.refuse(&error, code::INTERNAL).await;
            }
            End::Refused(error, code) => self.refuse(&error, code).await,
        }
    }

    /// Ends the connection. A response in progress ends first, with the same error.
    async fn refuse(mut self, error: &ApiError, code: u16) {
        self.session.fail(error);
        self.session.refuse(error, None);
        if self.flush().is_ok() {
            self.socket.close(code, error.message()).await;
        }
    }

    /// Passes on the effects of the session.
    fn flush(&mut self) -> Result<(), End> {
        let Effects {
            out,
            commands,
            ended,
            notice,
            silence,
            interrupted,
        } = self.session.effects();
        let mut lost = false;
        for command in commands {
            match self.commands.try_send(Ok(command)) {
                // A session that has ended reports the reason by its events.
                Ok(()) | Err(TrySendError::Closed(_)) => {}
                // There is room, because it was waited for. Without the command, a response would have no end.
                Err(TrySendError::Full(_)) => lost = true,
            }
        }
        for result in ended {
            self.openai.requests.ended(result);
        }
        if silence {
            self.notice = None;
        }
        if interrupted {
            self.socket.drop_audio();
        }
        for Told { mut event, plays } in out.0 {
            event["event_id"] = json!(self.session.event_id());
            match plays {
                Some(time) => self.socket.send_audio(Message::Text(event.to_string()), time),
                None => self.socket.send_text(event.to_string()),
            }
        }
        if let Some(settings) = notice {
            self.speak_notice(&settings);
        }
        if lost {
            let error = internal("command_lost", "the session takes no more commands");
            Err(End::Refused(error, code::INTERNAL))
        } else {
            Ok(())
        }
    }

    async fn step(&mut self) -> Result<(), End> {
        // A notice that could not be spoken ends at once.
        if self.session.has_news() {
            return Ok(());
        }
        if self.notice.is_none()
            && let Some(end) = self.ending.take()
        {
            return Err(end);
        }
        let ended = self.ending.is_some();
        if !ended && !self.session.settles() && self.session.hears_more() {
            self.session.hear();
            // Other sessions need this thread, too, and so does a response in progress.
            tokio::task::yield_now().await;
            if let Some(written) = self.socket.next(false).now_or_never() {
                written?;
            }
            if !self.socket.takes_audio() {
                return Ok(());
            }
            return match self.events.next().now_or_never() {
                Some(event) => self.answered(event),
                None => Ok(()),
            };
        }
        match self.next().await {
            Next::Answer(event) => return self.answered(event),
            Next::Notice(event) => self.noticed(event),
            Next::Said(message) => match message? {
                None => {}
                Some(Message::Text(text)) => {
                    self.be_present();
                    match read(text, self.session.reads()).await {
                        Ok(event) => self.session.client(event),
                        Err(error) => self.session.refuse(&error, None),
                    }
                }
                Some(Message::Binary(_)) => {
                    let error = ApiError::coded(
                        "invalid_event",
                        None,
                        "a message is binary; expected JSON as text",
                    );
                    self.session.refuse(&error, None);
                }
            },
        }
        Ok(())
    }

    fn answered(&mut self, event: Option<Result<ChatEvent, ServeError>>) -> Result<(), End> {
        let end = match event {
            Some(Ok(event)) => {
                self.session.answered(event);
                return Ok(());
            }
            Some(Err(error)) => over(&error, named(&error)),
            None => End::Done,
        };
        match end {
            // The notice is a session of its own, which ends by itself.
            end @ (End::Done | End::Closing | End::Refused(..)) if self.notice.is_some() => {
                self.ending = Some(end);
                Ok(())
            }
            end => Err(end),
        }
    }

    async fn next(&mut self) -> Next {
        let Self {
            socket,
            session,
            commands,
            events,
            notice,
            ending,
            ..
        } = self;
        let noticed = async {
            match notice {
                Some(notice) => notice.next().await,
                None => std::future::pending().await,
            }
        };
        // The event that it waits for stands behind audio that is dropped.
        let takes = socket.takes_audio() || session.settles();
        let reads = !session.settles() && socket.takes_more();
        tokio::select! {
            event = events.next(), if takes && ending.is_none() => Next::Answer(event),
            event = noticed, if takes => Next::Notice(event),
            message = heard(socket, commands, reads) => Next::Said(message),
        }
    }

    /// Keeps the answering session from being idle while its caller sends.
    fn be_present(&mut self) {
        let often = self.openai.speech.limits().idle_timeout / 4;
        if self.present.elapsed() >= often.min(PRESENCE) {
            self.present = Instant::now();
            let _ = self.commands.try_send(Ok(ChatCommand::Present));
        }
    }

    /// Speaks the notice, by a speech session of its own. Without a place for one, it is only written.
    fn speak_notice(&mut self, settings: &ChatSettings) {
        let admitted = self.openai.speech.admit("Realtime", self.caller.clone());
        let (_, permit) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return self.session.ended_notice(Some(&error)),
        };
        let text = Command::Text {
            text: CANNOT_HEAR.to_owned(),
            utterance: String::new(),
        };
        let configure = Command::Configure(Box::new(settings.speech.clone()));
        let commands = futures::stream::iter([configure, text, Command::Finish].map(Ok));
        let speech = &self.openai.speech;
        let events = speech.open(self.context.clone(), commands, permit, SpeechSession::uncut);
        self.notice = Some(events);
    }

    fn noticed(&mut self, event: Option<Result<Event, ServeError>>) {
        let failed = match event {
            Some(Ok(event)) => match event.body {
                EventBody::Audio(audio) => return self.session.spoke(&audio),
                EventBody::Done(done) if done.outcome == Outcome::Error => done.error,
                EventBody::Done(_) => None,
                _ => return,
            },
            Some(Err(error)) => Some(error),
            None => None,
        };
        self.notice = None;
        self.session.ended_notice(failed.as_ref());
    }
}

/// Error of the server, with a code for programs.
fn internal(code: &str, problem: &str) -> ApiError {
    ApiError::unread(StatusCode::INTERNAL_SERVER_ERROR, code, problem)
}

/// Parses an event; a long one on a thread for blocking work, with its recordings.
async fn read(
    text: String,
    (format, model): (AudioFormat, ChatModel),
) -> Result<(Head, Result<ClientEvent, ApiError>), ApiError> {
    let parse = move |text: &str| ClientEvent::parse(text, &|item: ItemBody| item.item(format, &model));
    if text.len() <= SHORT {
        Ok(parse(&text))
    } else {
        blocking(move || Ok(parse(&text))).await
    }
}

/// Writes to the client; returns its next message if it `reads` and there is room for the resulting commands.
async fn heard(
    socket: &mut WebSocket,
    commands: &mpsc::Sender<Result<ChatCommand, ServeError>>,
    reads: bool,
) -> Result<Option<Message>, Ended> {
    if !reads {
        return socket.next(false).await;
    }
    tokio::select! {
        biased;
        () = room(commands, ROOM) => {}
        written = socket.next(false) => return written,
    }
    socket.next(true).await
}
