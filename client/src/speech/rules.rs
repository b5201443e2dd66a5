//! The protocol of speech sessions, beyond what all calls share: words that follow one another in the text and in the
//! audio.

use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::speak_response::Event;

use super::events::{Limits, Ready, SpeechEvent, TimedText, UtteranceId, Warning};
use crate::audio::rate_of;
use crate::checker::{CallState, Incoming, Rules};
use crate::done::Done;

/// State of one session.
#[derive(Debug, Default)]
pub(crate) struct SpeechRules {
    words: Words,
}

/// Position of the last word of an utterance.
#[derive(Debug, Default)]
struct Words {
    character: u32,
    sample: u64,
}

impl Rules for SpeechRules {
    const ITEM: &'static str = "utterance";
    type Wire = Event;
    type Event = SpeechEvent;

    fn is_ready(wire: &Event) -> bool {
        matches!(wire, Event::Ready(_))
    }

    fn event(&mut self, call: &mut CallState, id: String, wire: Event) -> Result<SpeechEvent, String> {
        let utterance = UtteranceId(id);
        let id = &utterance.0;
        Ok(match wire {
            Event::Ready(settings) => SpeechEvent::Ready(ready(call, settings)?),
            Event::Started(_) => {
                call.start(id)?;
                self.words = Words::default();
                SpeechEvent::Started(utterance)
            }
            Event::Audio(chunk) => SpeechEvent::Audio(utterance.clone(), call.audio(id, chunk)?),
            Event::Alignment(alignment) => {
                call.within("words", id)?;
                let words = alignment.spans.into_iter().map(|span| self.words.word(span));
                SpeechEvent::Alignment(utterance.clone(), words.collect::<Result<_, _>>()?)
            }
            Event::Done(done) => {
                call.finish(id)?;
                SpeechEvent::Done(utterance, Done::from_proto(done)?)
            }
            Event::Warning(warning) => SpeechEvent::Warning(Warning {
                utterance: (!id.is_empty()).then_some(utterance),
                reason: warning.reason,
                message: warning.message,
            }),
        })
    }
}

fn ready(call: &mut CallState, ready: v1::SpeechSessionReady) -> Result<Ready, String> {
    let config = ready.resolved.ok_or("ready does not say the settings in force")?;
    let format = config.output.and_then(|output| output.format).unwrap_or_default();
    let rate = rate_of(&format)?;
    call.ready(Some(rate));
    Ok(Ready {
        session_id: ready.session_id,
        model: config.model,
        voice: config.voice,
        language: config.language,
        rate,
        limits: ready.limits.as_ref().map(Limits::from_proto).unwrap_or_default(),
    })
}

pub(crate) fn from_speak(message: v1::SpeakResponse) -> Incoming<Event> {
    Incoming {
        seq: Some(message.seq),
        id: message.utterance_id,
        event: message.event,
    }
}

pub(crate) fn from_synthesize(message: v1::SynthesizeResponse) -> Incoming<Event> {
    use v1::synthesize_response::Event as Single;
    let event = message.event.map(|event| match event {
        Single::Ready(ready) => Event::Ready(ready),
        Single::Audio(audio) => Event::Audio(audio),
        Single::Done(done) => Event::Done(done),
        Single::Warning(warning) => Event::Warning(warning),
        Single::Alignment(alignment) => Event::Alignment(alignment),
    });
    Incoming {
        seq: None,
        id: String::new(),
        event,
    }
}

impl Words {
    /// Checks the next word; the error names the rule that it breaks.
    fn word(&mut self, span: v1::TimedText) -> Result<TimedText, String> {
        let from = span.char_start;
        let to = span.char_end;
        if from != self.character || to <= from {
            return Err(format!(
                "it sent characters {from} to {to} of the text, expected more from {} on",
                self.character
            ));
        }
        let start = span.start_sample;
        let end = span.end_sample;
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
    use crate::checker::Checker;

    fn ready(rate: u32) -> Event {
        let format = v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: rate,
            channels: 1,
        };
        let output = v1::AudioDelivery {
            format: Some(format),
            ..Default::default()
        };
        Event::Ready(v1::SpeechSessionReady {
            resolved: Some(v1::SpeechConfig {
                output: Some(output),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    fn started() -> Event {
        Event::Started(v1::UtteranceStarted {})
    }

    fn audio(start: u64, samples: u32) -> Event {
        let data = vec![0; samples as usize * 2].into();
        Event::Audio(v1::AudioChunk {
            data,
            start_sample: start,
            sample_count: samples,
            last: false,
        })
    }

    fn word(characters: std::ops::Range<u32>, (start, end): (u64, u64)) -> Event {
        let span = v1::TimedText {
            text: "x".repeat(characters.len()),
            char_start: characters.start,
            char_end: characters.end,
            start_sample: start,
            end_sample: end,
        };
        Event::Alignment(v1::Alignment { spans: vec![span] })
    }

    fn done() -> Event {
        let outcome = v1::Outcome {
            finish_reason: v1::FinishReason::Stop.into(),
            ..Default::default()
        };
        Event::Done(v1::UtteranceDone {
            outcome: Some(outcome),
            ..Default::default()
        })
    }

    /// Plays `(utterance, event)` pairs with consecutive numbers; returns the first error, or that of the end.
    fn complaint(events: Vec<(&str, Event)>) -> Option<String> {
        let mut checker = Checker::session(SpeechRules::default());
        for (i, (id, event)) in events.into_iter().enumerate() {
            let message = Incoming {
                seq: Some(i as u64 + 1),
                id: id.into(),
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
                ("a", started()),
                ("a", word(0..4, (0, 5))),
                ("a", audio(0, 5)),
                ("a", word(4..6, (7, 9))),
                ("a", word(6..7, (9, 9))),
                ("a", audio(5, 7)),
                ("a", done()),
                ("b", started()),
                ("b", audio(0, 1)),
                ("b", done()),
            ]),
            None
        );
    }

    #[test]
    fn each_broken_rule_is_named() {
        let open = |event| vec![("", ready(24_000)), ("a", started()), event];
        for (events, expected) in [
            (vec![("a", started())], "before ready"),
            (vec![("", ready(0))], "sample rate is 0 Hz"),
            (vec![("", ready(24_000)), ("a", audio(0, 1))], "not the open one"),
            (vec![("", ready(24_000)), ("a", done())], "not the open one"),
            (open(("b", started())), "utterance b came inside utterance a"),
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
        let mut checker = Checker::session(SpeechRules::default());
        let message = |seq| Incoming {
            seq: Some(seq),
            id: String::new(),
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
        let mut checker = Checker::session(SpeechRules::default());
        let unknown = Incoming {
            seq: Some(1),
            id: String::new(),
            event: None,
        };
        assert_eq!(checker.event(unknown), Ok(None));
    }
}
