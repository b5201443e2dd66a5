//! One speech session of the command line: feeds text, writes audio, obeys Ctrl-C and the time limit, all at once.

use std::pin::Pin;
use std::time::Duration;

use omni_client::{
    Audio, Client, ClientError, Code, Finish, Meter, Outcome, RpcError, SampleRate, SpeechEvent,
    SpeechEvents, SpeechSender, SpeechSettings, Warning,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::feed::{Fed, Feed, cancel};
use super::subtitles::Subtitles;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::sink::Sink;
use crate::summary::{Summary, Utterance, milliseconds};
use crate::text::Text;
use crate::ui::Ui;
use crate::writer::WriterGone;

/// Limit for a cancelled session to end.
const GOODBYE: Duration = Duration::from_secs(2);

/// Characters of the current text shown during speech.
const CAPTION: usize = 32;

/// Reason why speaking ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something went wrong.
    Failed(Failure),
    /// The audio or the subtitles cannot be written.
    WriterGone,
    /// A second signal requested the immediate end: this one.
    Aborted(u8),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) struct Session<'a> {
    sink: &'a Sink,
    ui: &'a Ui,
    interrupts: &'a mut Interrupts,
    deadline: Deadline,
    say: SpeechSender,
    events: SpeechEvents,
    feed: Feed,
    subtitles: Option<&'a mut Subtitles>,
    /// The rate of all audio, once it is known.
    rate: Option<SampleRate>,
    signal: Option<u8>,
}

/// The utterance being heard.
struct Hearing {
    /// Time at which its first text was sent.
    started: Instant,
    meter: Option<Meter>,
    warnings: Vec<Warning>,
    /// The words that came last.
    caption: String,
}

type Feeding<'f> = Pin<Box<dyn Future<Output = Result<Fed, Failure>> + 'f>>;

impl<'a> Session<'a> {
    pub(super) fn open(
        client: &Client,
        settings: &SpeechSettings,
        sink: &'a Sink,
        ui: &'a Ui,
        interrupts: &'a mut Interrupts,
        deadline: Deadline,
    ) -> Self {
        let (say, events) = client.speech(settings);
        Self {
            sink,
            ui,
            interrupts,
            deadline,
            say,
            events,
            feed: Feed::default(),
            subtitles: None,
            rate: None,
            signal: None,
        }
    }

    /// Writes subtitles, if there is a place for them.
    pub(super) fn with_subtitles(self, subtitles: Option<&'a mut Subtitles>) -> Self {
        Self { subtitles, ..self }
    }

    /// Speaks everything; returns the signal that cut it short, if any.
    pub(super) async fn speak(
        &mut self,
        text: &mut Text,
        times: u32,
        summary: &mut Summary,
    ) -> Result<Option<u8>, Stop> {
        for _ in 0..times {
            // A text beyond the server's limits is spoken in several utterances.
            loop {
                self.utterance(text, summary).await?;
                if self.signal.is_some() {
                    return Ok(self.signal);
                }
                if !self.feed.more() {
                    break;
                }
            }
            text.rewind();
        }
        self.say_goodbye().await;
        Ok(None)
    }

    /// Speaks one utterance. Text goes out and audio comes in at the same time; neither may wait for the other.
    async fn utterance(&mut self, text: &mut Text, summary: &mut Summary) -> Result<(), Stop> {
        let say = self.say.clone();
        let feed = self.feed.clone();
        let mut feeding: Option<Feeding<'_>> = Some(Box::pin(feed.utterance(text, &say)));
        let mut unwritten: Option<Audio> = None;
        let mut patience: Option<Instant> = None;
        let mut hearing = Hearing {
            started: Instant::now(),
            meter: None,
            warnings: Vec::new(),
            caption: String::new(),
        };
        let end = loop {
            tokio::select! {
                biased;
                signal = self.interrupts.next() => {
                    if self.signal.replace(signal).is_some() {
                        return Err(Stop::Aborted(signal));
                    }
                    self.ui.progress(|| "stopping".to_owned());
                    feeding = Some(Box::pin(cancel(&say, feed.started().is_some())));
                    patience = Some(Instant::now() + GOODBYE);
                }
                failure = self.deadline.passed() => break Err(Stop::Failed(failure)),
                () = until(patience) => break Ok(None),
                fed = run(&mut feeding), if feeding.is_some() => {
                    feeding = None;
                    match fed {
                        Err(failure) => break Err(Stop::Failed(failure)),
                        Ok(Fed::Nothing) => return Ok(()),
                        Ok(Fed::Text) => {}
                    }
                }
                written = self.sink.write(&mut unwritten), if unwritten.is_some() => {
                    if let Err(WriterGone) = written {
                        break Err(Stop::WriterGone);
                    }
                }
                told = tell(&mut self.subtitles), if waits(&self.subtitles) => {
                    if let Err(WriterGone) = told {
                        break Err(Stop::WriterGone);
                    }
                }
                event = self.events.next(), if unwritten.is_none() && !waits(&self.subtitles) => {
                    hearing.started = feed.started().unwrap_or(hearing.started);
                    match self.hear(event, &mut hearing, summary) {
                        Ok(Heard::Audio(audio)) => unwritten = Some(audio),
                        Ok(Heard::Done(done)) => break Ok(Some(done)),
                        Ok(Heard::Nothing) => {}
                        Err(failure) => break Err(Stop::Failed(failure)),
                    }
                }
            }
        };
        if feeding.take().is_some() && matches!(end, Ok(Some(_))) {
            self.feed.cut_off();
        }
        self.close(end, hearing, summary)
    }

    fn hear(
        &mut self,
        event: Result<Option<SpeechEvent>, ClientError>,
        hearing: &mut Hearing,
        summary: &mut Summary,
    ) -> Result<Heard, Failure> {
        match event? {
            Some(SpeechEvent::Ready(ready)) => {
                self.feed.limit(ready.limits.max_text_bytes_per_utterance);
                self.rate = Some(ready.rate);
                summary.ready(ready);
                self.ui.progress(|| "queued".to_owned());
            }
            Some(SpeechEvent::Started(_)) => self.ui.progress(|| "speaking".to_owned()),
            Some(SpeechEvent::Audio(_, audio)) => {
                let meter = hearing.meter.get_or_insert_with(|| Meter::new(audio.rate));
                meter.audio(hearing.started.elapsed(), &audio);
                if let Some(subtitles) = &mut self.subtitles {
                    subtitles.audio(audio.rate.duration(audio.samples()));
                }
                let caption = &hearing.caption;
                self.ui.progress(|| progress(meter, caption));
                return Ok(Heard::Audio(audio));
            }
            Some(SpeechEvent::Alignment(_, words)) => {
                if let (Some(subtitles), Some(rate)) = (&mut self.subtitles, self.rate) {
                    subtitles.words(&words, rate);
                }
                words.iter().for_each(|word| hearing.say(&word.text));
            }
            Some(SpeechEvent::Warning(warning)) => {
                self.ui
                    .warning(&format!("{} ({})", warning.message, warning.reason));
                hearing.warnings.push(warning);
            }
            Some(SpeechEvent::Done(_, done)) => return Ok(Heard::Done(Box::new(done.outcome))),
            None => {
                let what = "it ended the session before the utterance".to_owned();
                return Err(ClientError::Protocol {
                    endpoint: summary.endpoint(),
                    what,
                }
                .into());
            }
        }
        Ok(Heard::Nothing)
    }

    /// Enters the utterance into the summary and judges its end.
    fn close(
        &mut self,
        end: Result<Option<Box<Outcome>>, Stop>,
        hearing: Hearing,
        summary: &mut Summary,
    ) -> Result<(), Stop> {
        if let Some(subtitles) = &mut self.subtitles {
            subtitles.end();
        }
        let measured = hearing.meter.map(Meter::finish);
        let silent = measured.is_none();
        let (done, stop) = match end {
            Ok(done) => (done.map(|done| *done), None),
            Err(stop) => (None, Some(stop)),
        };
        let verdict = done.as_ref().map_or(Ok(()), |done| self.judge(done, silent));
        summary.utterance(Utterance {
            done,
            measured,
            warnings: hearing.warnings,
        });
        stop.map_or(verdict, Err)
    }

    fn judge(&self, done: &Outcome, silent: bool) -> Result<(), Stop> {
        match &done.finish {
            Finish::Error(error) => Err(ClientError::Rpc(error.clone()).into()),
            Finish::Stop | Finish::Length | Finish::Repetition if silent && self.signal.is_none() => {
                let error = RpcError::new(Code::Unknown, "the server gave no audio for this text");
                Err(ClientError::Rpc(Box::new(error)).into())
            }
            Finish::Length => {
                let then = if self.feed.more() {
                    ", the text that follows is spoken on its own"
                } else {
                    ""
                };
                self.ui.warning(&format!(
                    "the speech was cut: it reached the longest the server gives{then}"
                ));
                Ok(())
            }
            Finish::Repetition => {
                self.ui
                    .warning("the speech was stopped: the model repeated itself");
                Ok(())
            }
            Finish::Interrupted if self.signal.is_none() => {
                self.ui.warning("the server stopped the speech before its end");
                Ok(())
            }
            Finish::Stop | Finish::Interrupted => Ok(()),
        }
    }

    /// Closes the sending side and lets the server end the call, so that it does not look like a lost client.
    async fn say_goodbye(&mut self) {
        // Replaced by a sender that leads nowhere: dropping the last real one closes the sending side.
        self.say = SpeechSender::closed();
        let drain = async { while let Ok(Some(_)) = self.events.next().await {} };
        // Everything is here already; how the call ends changes nothing.
        let _ = timeout(GOODBYE, drain).await;
    }
}

enum Heard {
    Nothing,
    Audio(Audio),
    Done(Box<Outcome>),
}

impl Hearing {
    /// Another word; the oldest make room for it.
    fn say(&mut self, word: &str) {
        self.caption.push_str(word);
        let surplus = self.caption.chars().count().saturating_sub(CAPTION);
        if surplus > 0 {
            let at = self.caption.char_indices().nth(surplus).map_or(0, |(at, _)| at);
            let word = self.caption[at..]
                .find(char::is_whitespace)
                .map_or(at, |blank| at + blank);
            self.caption.drain(..word);
        }
    }
}

fn progress(meter: &Meter, caption: &str) -> String {
    let first = meter.first_audio().unwrap_or_default();
    let caption = caption.trim();
    let mark = if caption.is_empty() { "" } else { " · " };
    format!(
        "first audio after {} · {:.1} s of audio{mark}{}",
        milliseconds(first),
        meter.audio_so_far().as_secs_f64(),
        // One line, whatever was written.
        caption.replace(char::is_control, " "),
    )
}

async fn run(feeding: &mut Option<Feeding<'_>>) -> Result<Fed, Failure> {
    match feeding {
        Some(feeding) => feeding.await,
        None => std::future::pending().await,
    }
}

fn waits(subtitles: &Option<&mut Subtitles>) -> bool {
    subtitles.as_ref().is_some_and(|subtitles| subtitles.waits())
}

async fn tell(subtitles: &mut Option<&mut Subtitles>) -> Result<(), WriterGone> {
    match subtitles {
        Some(subtitles) => subtitles.write().await,
        None => std::future::pending().await,
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
