//! What a server says while it speaks, as a stream of typed events.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use omni_audio::{SampleRate, Samples};
use omni_proto::v1;

use crate::audio::Audio;
use crate::call::{Call, Hearing, Opening};
use crate::done::{Done, duration};
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::protocol::Checker;

/// The name of an utterance within its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UtteranceId(pub String);

impl fmt::Display for UtteranceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum SpeechEvent {
    /// The session is open, or new settings are in force.
    Ready(Ready),
    /// An utterance began.
    Started(UtteranceId),
    /// Audio of an utterance; pieces are contiguous.
    Audio(UtteranceId, Audio),
    /// Words of an utterance, in order, before the audio with which they end; only if they were asked for.
    Alignment(UtteranceId, Vec<TimedText>),
    /// An utterance ended; nothing of it follows.
    Done(UtteranceId, Done),
    /// Something worth knowing that stopped nothing.
    Warning(Warning),
}

/// The settings in force and what the server accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Names the session in the server's log.
    pub session_id: String,
    /// The model that speaks.
    pub model: String,
    /// The voice it speaks with.
    pub voice: String,
    /// The language it takes the text to be in.
    pub language: String,
    /// The rate of all audio that follows.
    pub rate: SampleRate,
    /// What the server accepts.
    pub limits: Limits,
}

/// What a server accepts in a session. Zero and absent: it did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Longest text of an utterance, in UTF-8 bytes.
    pub max_text_bytes_per_utterance: u32,
    /// Most text that may wait, in UTF-8 bytes.
    pub max_buffered_text_bytes: u32,
    /// An idle session is ended after this.
    pub idle_timeout: Option<Duration>,
    /// Any session is ended after this.
    pub max_session: Option<Duration>,
    /// Longest audio of an utterance.
    pub max_audio_per_utterance: Option<Duration>,
}

/// A part of the text, and when it is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedText {
    /// As it was written: a word or a number with the marks behind it and the white space before it.
    pub text: String,
    /// Its characters in the text of the utterance.
    pub characters: Range<usize>,
    /// The samples of the utterance's audio in which it is heard; none where it has no sound.
    pub samples: Range<Samples>,
}

/// Something worth knowing that stopped nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The utterance concerned; `None` for the session as a whole.
    pub utterance: Option<UtteranceId>,
    /// For programs: stable, UPPER_SNAKE_CASE.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// The receiving half of a session. Dropping it ends the call: the server stops speaking at once.
#[derive(Debug)]
pub struct SpeechEvents {
    endpoint: Endpoint,
    source: Source,
    checker: Checker,
    /// Its end tells the sending half that nobody listens any more. None where there is no such half.
    _hearing: Option<Hearing>,
}

#[derive(Debug)]
enum Source {
    Speak(Call<v1::SpeakResponse>),
    Synthesize(Call<v1::SynthesizeResponse>),
}

impl SpeechEvents {
    pub(crate) fn speak(endpoint: Endpoint, opening: Opening<v1::SpeakResponse>, hearing: Hearing) -> Self {
        Self {
            endpoint,
            source: Source::Speak(Call::Opening(opening)),
            checker: Checker::sessions(),
            _hearing: Some(hearing),
        }
    }

    pub(crate) fn synthesize(endpoint: Endpoint, opening: Opening<v1::SynthesizeResponse>) -> Self {
        Self {
            endpoint,
            source: Source::Synthesize(Call::Opening(opening)),
            checker: Checker::single(),
            _hearing: None,
        }
    }

    /// The next event; `None` when the session has ended well. May be dropped and called again without losing events.
    ///
    /// # Errors
    /// Why the session has ended; it is over then.
    pub async fn next(&mut self) -> Result<Option<SpeechEvent>, ClientError> {
        loop {
            let message = match &mut self.source {
                Source::Speak(call) => call.message().await.map(|message| message.map(from_speak)),
                Source::Synthesize(call) => call.message().await.map(|message| message.map(from_synthesize)),
            };
            let message = message.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
            let Some(message) = message else {
                return self.checked(Checker::end).map(|()| None);
            };
            if let Some(event) = self.checked(|checker| checker.event(message))? {
                return Ok(Some(event));
            }
        }
    }

    fn checked<T>(
        &mut self,
        check: impl FnOnce(&mut Checker) -> Result<T, String>,
    ) -> Result<T, ClientError> {
        check(&mut self.checker).map_err(|what| ClientError::protocol(&self.endpoint, what))
    }
}

/// What passes of the messages of a call, up to the first that breaks the protocol.
pub(crate) fn taken(messages: impl Iterator<Item = v1::SpeakResponse>) -> Vec<SpeechEvent> {
    let mut checker = Checker::sessions();
    let events = messages.map_while(|message| checker.event(from_speak(message)).ok());
    events.flatten().collect()
}

/// A message of either call, before it is checked.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Absent where the call does not number its messages.
    pub(crate) seq: Option<u64>,
    pub(crate) utterance: String,
    pub(crate) event: Option<IncomingEvent>,
}

#[derive(Debug)]
pub(crate) enum IncomingEvent {
    Ready(v1::SpeechSessionReady),
    Started,
    Audio(v1::AudioChunk),
    Alignment(v1::Alignment),
    Done(v1::UtteranceDone),
    Warning(v1::Warning),
}

fn from_speak(message: v1::SpeakResponse) -> Incoming {
    use v1::speak_response::Event;
    let event = message.event.map(|event| match event {
        Event::Ready(ready) => IncomingEvent::Ready(ready),
        Event::Started(_) => IncomingEvent::Started,
        Event::Audio(audio) => IncomingEvent::Audio(audio),
        Event::Done(done) => IncomingEvent::Done(done),
        Event::Warning(warning) => IncomingEvent::Warning(warning),
        Event::Alignment(alignment) => IncomingEvent::Alignment(alignment),
    });
    Incoming {
        seq: Some(message.seq),
        utterance: message.utterance_id,
        event,
    }
}

fn from_synthesize(message: v1::SynthesizeResponse) -> Incoming {
    use v1::synthesize_response::Event;
    let event = message.event.map(|event| match event {
        Event::Ready(ready) => IncomingEvent::Ready(ready),
        Event::Audio(audio) => IncomingEvent::Audio(audio),
        Event::Done(done) => IncomingEvent::Done(done),
        Event::Warning(warning) => IncomingEvent::Warning(warning),
        Event::Alignment(alignment) => IncomingEvent::Alignment(alignment),
    });
    Incoming {
        seq: None,
        utterance: String::new(),
        event,
    }
}

impl Limits {
    pub(crate) fn from_proto(limits: &v1::SessionLimits) -> Self {
        Self {
            max_text_bytes_per_utterance: limits.max_text_bytes_per_utterance,
            max_buffered_text_bytes: limits.max_buffered_text_bytes,
            idle_timeout: duration(limits.idle_timeout),
            max_session: duration(limits.max_session),
            max_audio_per_utterance: duration(limits.max_audio_per_utterance),
        }
    }
}
