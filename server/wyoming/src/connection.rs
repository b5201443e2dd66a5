//! One connection: requests one after the other, with text that comes while audio goes out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use omni_core::call::CallContext;
use omni_core::caller::{Caller, CallerAddress};
use omni_core::error::excerpt;
use omni_core::error::log::Refusal;
use omni_core::error::{ErrorKind, ServeError};
use omni_core::id::{RequestName, as_request, in_request};
use omni_json::{PieceJoiner, TextPiece};
use omni_pipeline::orchestrator::StageError;
use omni_session::{Command, Event as SessionEvent, ProtocolError, Session, SessionTimeout};
use omni_telemetry::RequestResult;
use omni_transport::keep_unsent_short;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::codec::FramedRead;

use super::info::info;
use super::speech::{Reply, Utterance, spoken};
use super::wire::{Data, Event, EventDecoder, unknown};
use super::writer::Writer;
use super::{PROTOCOL, Wyoming};

/// Commands on their way to a session, and those that one event may lead to.
const COMMANDS: usize = 4;
const ROOM: usize = 2;
/// Time for which a peer that was told of an error may go on, and bytes that it may send.
const LINGER: Duration = Duration::from_secs(1);
const LAST_BYTES: u64 = 1 << 20;

/// The reason that a connection ends before its peer ends it.
pub(super) enum End {
    /// The peer is gone, or does not read.
    Gone,
    /// It gets the reason.
    Refused(ServeError),
}

impl<E: Into<ServeError>> From<E> for End {
    fn from(error: E) -> Self {
        let error = error.into();
        match error.kind() {
            ErrorKind::CallerGone => Self::Gone,
            _ => Self::Refused(error),
        }
    }
}

type Reader = FramedRead<OwnedReadHalf, EventDecoder>;
type Commands = mpsc::Sender<Result<Command, ServeError>>;

/// A connection.
pub(super) struct Connection {
    shared: Arc<Wyoming>,
    address: CallerAddress,
    /// The id of every request of this connection: the protocol has none.
    id: String,
    reader: Reader,
    writer: Writer,
    /// An event that came while a request was answered.
    waiting: Option<Event>,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        address: CallerAddress,
        id: String,
        shared: Arc<Wyoming>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        keep_unsent_short(&stream);
        let (reader, writer) = stream.into_split();
        Ok(Self {
            address,
            id,
            reader: FramedRead::new(reader, EventDecoder::default()),
            writer: Writer::new(writer, shared.parts.speech.limits().stall_timeout),
            shared,
            waiting: None,
        })
    }

    /// Runs the connection.
    pub(super) async fn run(mut self) {
        let mut request = self.request("");
        if let Err(End::Refused(error)) = self.talk(&mut request).await {
            tell(request, &error);
            if self.send(Reply::error(&error)).await.is_ok() {
                self.farewell().await;
            }
        }
    }

    /// The name of a request that begins with the event `kind`.
    fn request(&self, kind: &str) -> Arc<RequestName> {
        Arc::new(RequestName {
            id: self.id.clone(),
            protocol: PROTOCOL,
            route: excerpt(kind),
            caller: Some(self.address),
            parent: None,
            arrived: std::time::Instant::now(),
            traced: AtomicBool::new(false),
            on_refused: self.shared.parts.on_refused.clone(),
        })
    }

    /// Answers events until one is refused; `request` is the last.
    async fn talk(&mut self, request: &mut Arc<RequestName>) -> Result<(), End> {
        let mut patience = self.shared.parts.limits.opening_time;
        loop {
            let closing = self.shared.closing.clone();
            let event = match self.waiting.take() {
                Some(event) => event,
                None => tokio::select! {
                    () = closing.cancelled() => return Ok(()),
                    event = self.next(patience) => match event? {
                        Some(event) => event,
                        None => return Ok(()),
                    },
                },
            };
            patience = self.shared.parts.speech.limits().idle_timeout;
            *request = self.request(&event.kind);
            in_request(Arc::clone(request), self.answer(event)).await?;
        }
    }

    /// The next event. One that has begun must come within the time for a request, and begin within `patience`.
    async fn next(&mut self, patience: Duration) -> Result<Option<Event>, End> {
        let begun = Instant::now();
        let each = self.shared.parts.limits.request_time.min(patience);
        let mut within = false;
        loop {
            match timeout(each, self.reader.next()).await {
                Ok(event) => return Ok(event.transpose()?),
                Err(_) if within || begun.elapsed() >= patience => {
                    return Err(SessionTimeout::Idle(patience).into());
                }
                Err(_) => within = self.reader.decoder().is_within(self.reader.read_buffer()),
            }
        }
    }

    async fn answer(&mut self, event: Event) -> Result<(), End> {
        if let Some(reply) = self.asked(&event)? {
            return self.send(reply).await;
        }
        let Event { kind, data } = event;
        match kind.as_str() {
            "synthesize" => {
                let said = self.synthesize(data).await;
                self.counted(said)
            }
            "synthesize-start" => {
                let said = self.synthesize_stream(data).await;
                self.counted(said)
            }
            "synthesize-chunk" | "synthesize-stop" => Err(ProtocolError::Violation(
                "missing synthesize-start; expected it before text in pieces",
            )
            .into()),
            // Unknown events are ignored: clients of later versions send them.
            _ => Ok(()),
        }
    }

    /// The answer to what may be asked at any time; none to other events.
    fn asked(&self, event: &Event) -> Result<Option<Reply>, End> {
        Ok(match event.kind.as_str() {
            "describe" => Some(Reply::new(
                "info",
                info(&self.shared.parts.catalog, &self.caller()?)?,
            )),
            "ping" => Some(pong(&event.data)),
            "transcribe" | "recognize" | "detect" => return Err(unserved(&event.kind)),
            _ => None,
        })
    }

    fn caller(&self) -> Result<Caller, End> {
        Ok(self.shared.caller(self.address)?)
    }

    fn counted(&self, said: Result<(), End>) -> Result<(), End> {
        self.shared.parts.requests.ended(match &said {
            Ok(()) => RequestResult::Ok,
            Err(End::Gone) => RequestResult::Cancelled,
            Err(End::Refused(_)) => RequestResult::Error,
        });
        said
    }

    /// Speaks one whole text.
    async fn synthesize(&mut self, data: Data) -> Result<(), End> {
        let (request, text) = spoken(data)?;
        let speech = &self.shared.parts.speech;
        let caller = self.caller()?;
        let opened = speech
            .synthesize(CallContext::default(), caller, Ok(request), text, Session::uncut)
            .await;
        self.relay(opened?.1, Input::Whole).await
    }

    /// Speaks streamed text.
    async fn synthesize_stream(&mut self, mut data: Data) -> Result<(), End> {
        if data.text_format.as_deref() == Some("ssml") {
            return Err(unknown("text_format", "ssml", "text: SSML is not taken in pieces").into());
        }
        let mut joiner = PieceJoiner::default();
        let text = joiner.push(data.text.take().unwrap_or_default());
        let (request, _) = spoken(data)?;
        let speech = &self.shared.parts.speech;
        let (info, permit) = speech.admit("Wyoming/SynthesizeStream", self.caller()?)?;
        let settings = Command::Configure(Box::new(request.settings(&info)?));
        let (sender, commands) = mpsc::channel(COMMANDS);
        for command in [settings, said(text)] {
            // There is room for both.
            let _ = sender.try_send(Ok(command));
        }
        // Wyoming has no word for "too much", so the session stops reading when its buffer is full.
        let commands = ReceiverStream::new(commands);
        let events = speech.open(CallContext::default(), commands, permit, Session::holding_back);
        let commands = sender;
        self.relay(events, Input::Open(Text { commands, joiner })).await?;
        self.send(Reply::new("synthesize-stopped", Value::Null)).await
    }

    /// Sends what a session says until its utterance is over, and gives it the text that comes meanwhile. Both go on at once: a peer whose
    /// link is full is still heard. One that ends its side is gone.
    async fn relay(
        &mut self,
        mut events: impl Stream<Item = Result<SessionEvent, ServeError>> + Unpin,
        mut input: Input,
    ) -> Result<(), End> {
        let mut utterance = Utterance::default();
        while !(utterance.is_over && self.writer.is_done()) {
            let takes = !utterance.is_over && self.writer.is_done();
            let hears = self.waiting.is_none() && self.writer.has_room();
            tokio::select! {
                event = events.next(), if takes => {
                    for reply in utterance.replies(event.ok_or_else(unended)??)? {
                        self.writer.put(&reply);
                    }
                }
                written = self.writer.write(), if !self.writer.is_done() => written?,
                heard = heard(&mut self.reader, &input), if hears => {
                    self.take(heard?, &mut input)?;
                }
            }
        }
        drop(input);
        // The session has nothing more to say of it, and gives its place back.
        while events.next().await.is_some() {}
        Ok(())
    }

    /// Takes an event that comes while a request is answered.
    fn take(&mut self, event: Event, input: &mut Input) -> Result<(), End> {
        let open = match input {
            Input::Whole if event.kind == "ping" => {
                self.writer.put(&pong(&event.data));
                return Ok(());
            }
            Input::Whole | Input::Ended => {
                self.waiting = Some(event);
                return Ok(());
            }
            Input::Open(open) => open,
        };
        if let Some(reply) = self.asked(&event)? {
            self.writer.put(&reply);
            return Ok(());
        }
        match event.kind.as_str() {
            "synthesize-chunk" => {
                let piece = open.joiner.push(event.data.text.unwrap_or_default());
                open.command(said(piece));
            }
            "synthesize-stop" => {
                open.finish();
                *input = Input::Ended;
            }
            // The next text begins, so this one is complete.
            "synthesize-start" => {
                open.finish();
                *input = Input::Ended;
                self.waiting = Some(event);
            }
            // `synthesize` is the whole text once more, for servers that take no pieces.
            _ => {}
        }
        Ok(())
    }

    async fn send(&mut self, reply: Reply) -> Result<(), End> {
        self.writer.put(&reply);
        while !self.writer.is_done() {
            self.writer.write().await?;
        }
        Ok(())
    }

    /// Ends the connection so that its peer reads why: one that is still talking would only see a reset.
    async fn farewell(self) {
        let mut reader = self.reader.into_inner();
        let mut writer = self.writer.stream;
        let ended = async {
            writer.shutdown().await?;
            tokio::io::copy(&mut (&mut reader).take(LAST_BYTES), &mut tokio::io::sink()).await
        };
        let _ = timeout(LINGER, ended).await;
    }
}

/// The text of a request.
enum Input {
    /// It came whole.
    Whole,
    /// It comes in pieces.
    Open(Text),
    /// It came in pieces, and has no more of them. Events that come now are answered behind its audio.
    Ended,
}

/// A text that is still being written.
struct Text {
    commands: Commands,
    joiner: PieceJoiner,
}

impl Text {
    /// Sends a command; room was awaited before the event was read. A session that has ended reports this itself.
    fn command(&self, command: Command) {
        let _ = self.commands.try_send(Ok(command));
    }

    /// Ends the text.
    fn finish(&mut self) {
        let rest: String = self.joiner.finish().into_iter().collect();
        self.command(said(rest));
        self.command(Command::Finish);
    }
}

fn said(text: String) -> Command {
    Command::Text {
        text,
        utterance: String::new(),
    }
}

/// Next event, once there is room for it.
async fn heard(reader: &mut Reader, input: &Input) -> Result<Event, End> {
    if let Input::Open(text) = input {
        match text.commands.reserve_many(ROOM).await {
            Ok(room) => drop(room),
            // The session has ended, and reports the reason.
            Err(_) => std::future::pending().await,
        }
    }
    reader.next().await.transpose()?.ok_or(End::Gone)
}

fn pong(data: &Data) -> Reply {
    let text = data.text.clone().map(TextPiece::whole);
    Reply::new("pong", json!({"text": text}))
}

/// Writes a refusal to the log and to the request's trace.
fn tell(request: Arc<RequestName>, error: &ServeError) {
    let refusal = Refusal {
        fault: error.kind().fault(),
        status: &"error",
        reason: error.reason(),
        message: error.message(),
    };
    as_request(Some(request), || refusal.log());
}

fn unserved(kind: &str) -> End {
    let message = format!(
        "unsupported event '{kind}'; expected synthesize: this server speaks, and recognises nothing"
    );
    ServeError::new(ErrorKind::NotSupported, "NOT_SERVED", message).into()
}

fn unended() -> ServeError {
    let stage = "session";
    let message = "the speech ended without an end".to_owned();
    StageError::Failed { stage, message }.into()
}
