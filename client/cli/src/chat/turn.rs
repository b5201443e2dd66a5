//! One turn: sends a message, receives the answer while it is being made, handles Ctrl-C and the time limit, all at
//! once.

use std::pin::Pin;
use std::time::Duration;

use omni_audio::{SampleRate, Samples};
use omni_client::{Audio, ChatDone, ChatEvent, ClientError, Measured, Meter, ResponseId};
use tokio::time::{Instant, sleep_until};

use super::audio_out::AudioOut;
use super::said::Said;
use super::session::{Cut, GOODBYE, Session, deaf, ended_by_age};
use super::words::Words;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::ui::Ui;

/// Reason why a turn has no answer. Its session can no longer be used.
#[derive(Debug)]
pub(super) enum Stop {
    Failed(Failure),
    /// The text cannot be written.
    WordsGone,
    /// The audio cannot be written.
    AudioGone,
    /// The session had ended by itself before the answer began: no message was sent.
    Expired(Failure),
    /// A signal came before everything was sent.
    Unsaid(u8),
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.into())
    }
}

/// Answer with its times, from the moment everything was said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) done: ChatDone,
    /// Cut of the answer before, if it came that late.
    pub(super) cut: Option<Cut>,
    /// The signal that cut it short.
    pub(super) signal: Option<u8>,
    pub(super) first_text: Option<Duration>,
    pub(super) total: Duration,
    pub(super) measured: Option<Measured>,
    pub(super) playing: Option<Playing>,
}

/// The speech of a response, as heard from its first audio on.
#[derive(Debug, Clone)]
pub(super) struct Playing {
    pub(super) response: ResponseId,
    rate: SampleRate,
    since: Instant,
    received: Samples,
}

impl Playing {
    /// Number of samples played by now.
    pub(super) fn heard(&self) -> Samples {
        self.rate.samples(self.since.elapsed()).min(self.received)
    }

    pub(super) fn goes_on(&self) -> bool {
        self.heard() < self.received
    }
}

pub(super) struct Turn<'a> {
    pub(super) session: &'a mut Session,
    pub(super) words: &'a mut Words,
    pub(super) audio: &'a AudioOut,
    pub(super) ui: &'a Ui,
    pub(super) interrupts: &'a mut Interrupts,
    pub(super) deadline: Deadline,
}

/// State of an answer on its way.
struct Hearing {
    started: Instant,
    response: Option<ResponseId>,
    first_text: Option<Duration>,
    meter: Option<Meter>,
    playing: Option<Playing>,
    signal: Option<u8>,
    cut: Option<Cut>,
}

/// Action of the loop for an event.
enum Heard {
    Nothing,
    Text(String),
    Audio(Audio),
    Done(Box<ChatDone>),
}

type Sending<'s> = Pin<Box<dyn Future<Output = ()> + 's>>;

impl Turn<'_> {
    /// Runs until the answer is done. Sending and receiving never wait for each other.
    pub(super) async fn run(self, said: &Said) -> Result<Answer, Stop> {
        let chat = self.session.chat.clone();
        let mut sending: Option<Sending<'_>> = Some(Box::pin(async {
            // A session that has ended gives the reason in its events.
            let _ = said.send(&chat).await;
        }));
        let mut text = None;
        let mut audio = None;
        let mut patience: Option<Instant> = None;
        let mut hearing = Hearing::new();
        loop {
            tokio::select! {
                biased;
                signal = self.interrupts.next() => {
                    if hearing.signal.replace(signal).is_some() {
                        return Err(Stop::Failed(Failure::Interrupted(signal)));
                    }
                    if sending.is_some() {
                        return Err(Stop::Unsaid(signal));
                    }
                    // Output that waits to be written was not heard yet.
                    (text, audio) = (None, None);
                    let response = hearing.response.clone();
                    let played = hearing.played(self.session);
                    let chat = &chat;
                    sending = Some(Box::pin(async move {
                        let _ = chat.interrupt(response.as_ref(), played).await;
                    }));
                    patience = Some(Instant::now() + GOODBYE);
                }
                failure = self.deadline.passed() => return Err(Stop::Failed(failure)),
                () = until(patience) => return Err(deaf("stop").into()),
                () = run(&mut sending), if sending.is_some() => {
                    sending = None;
                    hearing.said();
                }
                written = self.words.write(&mut text), if text.is_some() => {
                    written.map_err(|_| Stop::WordsGone)?;
                }
                written = self.audio.write(&mut audio), if audio.is_some() => {
                    written.map_err(|_| Stop::AudioGone)?;
                }
                event = self.session.events.next(), if text.is_none() && audio.is_none() => {
                    let event = event.and_then(|event| event.ok_or_else(|| self.session.ended()));
                    let event = event.map_err(|error| hearing.lost(error))?;
                    match hearing.hear(event, self.ui) {
                        Heard::Text(piece) => text = Some(piece),
                        Heard::Audio(piece) => audio = Some(piece),
                        Heard::Done(done) => return Ok(hearing.finish(*done)),
                        Heard::Nothing => {}
                    }
                }
            }
        }
    }
}

impl Hearing {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            response: None,
            first_text: None,
            meter: None,
            playing: None,
            signal: None,
            cut: None,
        }
    }

    /// Starts the clock: everything was sent.
    fn said(&mut self) {
        if self.response.is_none() {
            self.started = Instant::now();
        }
    }

    /// Error of a session that has ended.
    fn lost(&self, error: ClientError) -> Stop {
        if self.response.is_none() && ended_by_age(&error) {
            Stop::Expired(error.into())
        } else {
            error.into()
        }
    }

    fn hear(&mut self, event: ChatEvent, ui: &Ui) -> Heard {
        match event {
            ChatEvent::Started(response) => self.response = Some(response),
            ChatEvent::Warning { reason, message, .. } => ui.warning(&format!("{message} ({reason})")),
            ChatEvent::Done(_, done) => return Heard::Done(Box::new(done)),
            // In flight when the signal came.
            ChatEvent::Text(..) | ChatEvent::Audio(..) if self.signal.is_some() => {}
            ChatEvent::Text(_, text) => {
                self.first_text.get_or_insert(self.started.elapsed());
                return Heard::Text(text);
            }
            ChatEvent::Audio(response, audio) => {
                let at = self.started.elapsed();
                self.meter
                    .get_or_insert_with(|| Meter::new(audio.rate))
                    .audio(at, &audio);
                self.playing
                    .get_or_insert_with(|| Playing {
                        response,
                        rate: audio.rate,
                        since: Instant::now(),
                        received: Samples::ZERO,
                    })
                    .received += audio.samples();
                return Heard::Audio(audio);
            }
            // Of the answer before: the server received the request to stop only then.
            ChatEvent::MessageCut(_, left) => self.cut = Some(Cut(left)),
            ChatEvent::Ready(_) | ChatEvent::MessageAdded(_) => {}
        }
        Heard::Nothing
    }

    /// Number of samples of its speech played by now; `None` if it was only to be read.
    fn played(&self, session: &Session) -> Option<Samples> {
        let spoken = session.ready.outputs.audio();
        spoken.then(|| self.playing.as_ref().map_or(Samples::ZERO, Playing::heard))
    }

    fn finish(self, done: ChatDone) -> Answer {
        Answer {
            done,
            cut: self.cut,
            signal: self.signal,
            first_text: self.first_text,
            total: self.started.elapsed(),
            measured: self.meter.map(Meter::finish),
            playing: self.playing,
        }
    }
}

async fn run(sending: &mut Option<Sending<'_>>) {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
