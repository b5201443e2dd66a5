//! Holds a server to the protocol: messages come in, events go out, or what was wrong.
//!
//! Checked: consecutive numbers, `ready` first, audio only inside an utterance, contiguous audio in whole samples that is
//! never empty, words that follow one another in the text and in the audio, exactly one end per utterance, no utterance left
//! open at the end. Kinds of events this version does not know are skipped, as the protocol only ever grows.

use omni_audio::{SampleRate, Samples};
use omni_proto::v1;

use crate::audio::{Audio, Track, rate_of};
use crate::done::Done;
use crate::events::{Incoming, IncomingEvent, Limits, Ready, SpeechEvent, TimedText, UtteranceId, Warning};

/// What has been heard of one session.
#[derive(Debug)]
pub(crate) struct Checker {
    /// The call carries one utterance that begins by itself.
    single: bool,
    seq: u64,
    rate: Option<SampleRate>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    id: UtteranceId,
    track: Track,
    words: Words,
}

/// How far an utterance's words have come.
#[derive(Debug, Default)]
struct Words {
    character: u32,
    sample: u64,
}

impl Checker {
    /// For calls of many utterances, each with its start.
    pub(crate) fn sessions() -> Self {
        Self {
            single: false,
            seq: 0,
            rate: None,
            open: None,
        }
    }

    /// For calls of one utterance, which starts with the call.
    pub(crate) fn single() -> Self {
        let open = Some(Open {
            id: UtteranceId(String::new()),
            track: Track::default(),
            words: Words::default(),
        });
        Self {
            single: true,
            open,
            ..Self::sessions()
        }
    }

    /// The next message; `None` if it says nothing to this version.
    pub(crate) fn event(&mut self, message: Incoming) -> Result<Option<SpeechEvent>, String> {
        self.count(message.seq)?;
        let id = UtteranceId(message.utterance);
        let Some(event) = message.event else {
            return Ok(None);
        };
        if self.rate.is_none() && !matches!(event, IncomingEvent::Ready(_)) {
            return Err("it sent something else before ready".into());
        }
        match event {
            IncomingEvent::Ready(ready) => self.ready(ready).map(SpeechEvent::Ready),
            IncomingEvent::Started => self.started(id).map(SpeechEvent::Started),
            IncomingEvent::Audio(audio) => self.audio(&id, audio).map(|audio| SpeechEvent::Audio(id, audio)),
            IncomingEvent::Alignment(alignment) => self
                .alignment(&id, alignment)
                .map(|words| SpeechEvent::Alignment(id, words)),
            IncomingEvent::Done(done) => self.done(&id, done).map(|done| SpeechEvent::Done(id, done)),
            IncomingEvent::Warning(warning) => Ok(SpeechEvent::Warning(Warning {
                utterance: (!id.0.is_empty()).then_some(id),
                reason: warning.reason,
                message: warning.message,
            })),
        }
        .map(Some)
    }

    /// The server ended the call with OK.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        match &self.open {
            Some(open) if !open.id.0.is_empty() => {
                Err(format!("it ended the stream inside utterance {}", open.id))
            }
            Some(_) => Err("it ended the stream before the utterance".into()),
            None => Ok(()),
        }
    }

    fn count(&mut self, seq: Option<u64>) -> Result<(), String> {
        match seq {
            Some(seq) if seq != self.seq + 1 => Err(format!("message {seq} came after message {}", self.seq)),
            Some(seq) => {
                self.seq = seq;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn ready(&mut self, ready: v1::SpeechSessionReady) -> Result<Ready, String> {
        let config = ready.resolved.ok_or("ready does not say the settings in force")?;
        let format = config.output.and_then(|output| output.format).unwrap_or_default();
        let rate = rate_of(&format)?;
        self.rate = Some(rate);
        Ok(Ready {
            session_id: ready.session_id,
            model: config.model,
            voice: config.voice,
            language: config.language,
            rate,
            limits: ready.limits.as_ref().map(Limits::from_proto).unwrap_or_default(),
        })
    }

    fn started(&mut self, id: UtteranceId) -> Result<UtteranceId, String> {
        if let Some(open) = &self.open {
            return Err(format!("utterance {id} began inside utterance {}", open.id));
        }
        self.open = Some(Open {
            id: id.clone(),
            track: Track::default(),
            words: Words::default(),
        });
        Ok(id)
    }

    fn audio(&mut self, id: &UtteranceId, chunk: v1::AudioChunk) -> Result<Audio, String> {
        let rate = self.rate.ok_or("it sent audio before ready")?;
        self.inside(id, "audio")?.track.piece(rate, chunk)
    }

    fn alignment(&mut self, id: &UtteranceId, alignment: v1::Alignment) -> Result<Vec<TimedText>, String> {
        let words = &mut self.inside(id, "words")?.words;
        alignment.spans.into_iter().map(|span| words.word(span)).collect()
    }

    fn inside(&mut self, id: &UtteranceId, what: &str) -> Result<&mut Open, String> {
        let open = self.open.as_mut().filter(|open| open.id == *id);
        open.ok_or_else(|| format!("it sent {what} of utterance {id}, which is not the open one"))
    }

    fn done(&mut self, id: &UtteranceId, done: v1::UtteranceDone) -> Result<Done, String> {
        match self.open.take() {
            Some(open) if open.id == *id => {}
            _ if self.single => return Err("it ended the utterance twice".into()),
            _ => return Err(format!("it ended utterance {id}, which is not the open one")),
        }
        Done::from_proto(done).map_err(str::to_owned)
    }
}

impl Words {
    /// The next word, or what is wrong with it.
    fn word(&mut self, span: v1::TimedText) -> Result<TimedText, String> {
        let (from, to) = (span.char_start, span.char_end);
        if from != self.character || to <= from {
            return Err(format!(
                "it sent characters {from} to {to} of the text, expected more from {} on",
                self.character
            ));
        }
        let (start, end) = (span.start_sample, span.end_sample);
        if start < self.sample || end < start {
            return Err(format!(
                "it sent a word at samples {start} to {end}, expected none before {}",
                self.sample
            ));
        }
        (self.character, self.sample) = (to, end);
        Ok(TimedText {
            text: span.text,
            characters: from as usize..to as usize,
            samples: Samples(start)..Samples(end),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(rate: u32) -> IncomingEvent {
        let format = v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: rate,
            channels: 1,
        };
        let output = v1::AudioDelivery {
            format: Some(format),
            ..Default::default()
        };
        IncomingEvent::Ready(v1::SpeechSessionReady {
            resolved: Some(v1::SpeechConfig {
                output: Some(output),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    fn audio(start: u64, samples: u32) -> IncomingEvent {
        let data = vec![0; samples as usize * 2].into();
        IncomingEvent::Audio(v1::AudioChunk {
            data,
            start_sample: start,
            sample_count: samples,
            last: false,
        })
    }

    fn word(characters: std::ops::Range<u32>, (start, end): (u64, u64)) -> IncomingEvent {
        let span = v1::TimedText {
            text: "x".repeat(characters.len()),
            char_start: characters.start,
            char_end: characters.end,
            start_sample: start,
            end_sample: end,
        };
        IncomingEvent::Alignment(v1::Alignment { spans: vec![span] })
    }

    fn done() -> IncomingEvent {
        let outcome = v1::Outcome {
            finish_reason: v1::FinishReason::Stop.into(),
            ..Default::default()
        };
        IncomingEvent::Done(v1::UtteranceDone {
            outcome: Some(outcome),
            ..Default::default()
        })
    }

    /// Plays `(utterance, event)` pairs with good numbers; the first complaint, or that of the end.
    fn complaint(events: Vec<(&str, IncomingEvent)>) -> Option<String> {
        let mut checker = Checker::sessions();
        for (i, (id, event)) in events.into_iter().enumerate() {
            let message = Incoming {
                seq: Some(i as u64 + 1),
                utterance: id.into(),
                event: Some(event),
            };
            if let Err(what) = checker.event(message) {
                return Some(what);
            }
        }
        checker.end().err()
    }

    #[test]
    fn a_good_session_of_two_utterances_passes() {
        assert_eq!(
            complaint(vec![
                ("", ready(24_000)),
                ("a", IncomingEvent::Started),
                ("a", word(0..4, (0, 5))),
                ("a", audio(0, 5)),
                ("a", word(4..6, (7, 9))),
                ("a", word(6..7, (9, 9))),
                ("a", audio(5, 7)),
                ("a", done()),
                ("b", IncomingEvent::Started),
                ("b", audio(0, 1)),
                ("b", done()),
            ]),
            None
        );
    }

    #[test]
    fn each_broken_rule_is_named() {
        let open = |event| vec![("", ready(24_000)), ("a", IncomingEvent::Started), event];
        for (events, expected) in [
            (vec![("a", IncomingEvent::Started)], "before ready"),
            (vec![("", ready(0))], "sample rate is 0 Hz"),
            (vec![("", ready(24_000)), ("a", audio(0, 1))], "not the open one"),
            (vec![("", ready(24_000)), ("a", done())], "not the open one"),
            (open(("b", IncomingEvent::Started)), "began inside"),
            (open(("a", audio(1, 1))), "expected 0"),
            (open(("a", audio(0, 0))), "says 0 samples"),
            (open(("b", audio(0, 1))), "not the open one"),
            (open(("b", word(0..1, (0, 1)))), "not the open one"),
            (open(("a", word(1..2, (0, 1)))), "from 0 on"),
            (open(("a", word(0..0, (0, 1)))), "from 0 on"),
            (open(("a", word(0..1, (2, 1)))), "none before 0"),
            (open(("a", audio(0, 1))), "inside utterance a"),
        ] {
            let what = complaint(events).unwrap_or_default();
            assert!(what.contains(expected), "{what:?} does not say {expected:?}");
        }
    }

    #[test]
    fn a_lost_message_is_noticed() {
        let mut checker = Checker::sessions();
        let message = |seq| Incoming {
            seq: Some(seq),
            utterance: String::new(),
            event: Some(ready(8_000)),
        };
        assert!(checker.event(message(1)).is_ok());
        assert_eq!(
            checker.event(message(3)).unwrap_err(),
            "message 3 came after message 1"
        );
    }

    #[test]
    fn events_of_a_later_version_are_skipped() {
        let mut checker = Checker::sessions();
        let unknown = Incoming {
            seq: Some(1),
            utterance: String::new(),
            event: None,
        };
        assert_eq!(checker.event(unknown), Ok(None));
    }
}
