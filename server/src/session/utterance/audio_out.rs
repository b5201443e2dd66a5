//! The audio of an utterance, on its way out.

use omni_audio::Samples;
use omni_engine::Stamp;

use super::Utterance;
use crate::error::ServeError;
use crate::session::alignment::TimedText;
use crate::session::outbox::Outbox;
use crate::session::output::Made;
use crate::session::protocol::EventBody;
use crate::session::record::Outcome;
use crate::session::speaking::{Ended, Spoken};
use crate::session::track::SequenceRecord;
use crate::stage::End;

impl Utterance {
    /// Takes the pipeline's event.
    pub(in crate::session) fn spoken(&mut self, spoken: Spoken, out: &mut Outbox, now: Stamp) {
        self.last_spoken = now;
        match spoken {
            Spoken::Admitted | Spoken::TalkerDone => {}
            Spoken::Refused(error) => self.fail(error),
            Spoken::Audio { piece, after } => {
                if let Some(pause) = after.filter(|_| self.output.has_begun()) {
                    let tail = self.output.next_sequence(pause);
                    self.alignment.rest(&tail.joined);
                    self.send(out, tail);
                }
                let audio = self.output.push(&piece.samples);
                self.alignment.audio(&audio.joined);
                self.send(out, audio);
                if self.output.is_full() {
                    self.cut_short();
                    for ended in self.speaking.abort() {
                        self.account(&ended);
                    }
                }
            }
            Spoken::Ended(ended) => self.ended(ended),
        }
    }

    fn ended(&mut self, ended: Ended) {
        self.account(&ended);
        self.alignment.complete(ended.end == End::Stop);
        match ended.end {
            End::Stop => {}
            End::Length if self.frames_left() == 0 => self.cut_short(),
            End::Length => self.outcome = Outcome::Length,
            End::Repetition => self.outcome = Outcome::Repetition,
            End::Rejected(message) => self.fail(ServeError::InvalidField {
                field: "text",
                problem: message,
            }),
            End::Overloaded(message) => self.fail(ServeError::Overloaded(message)),
            End::Failed { stage, message } => self.fail(ServeError::StageFailed { stage, message }),
            End::Lost { stage, message } => self.fail(ServeError::StageUnavailable { stage, message }),
        }
    }

    pub(super) fn account(&mut self, ended: &Ended) {
        self.ledger
            .sequence(ended.submitted, ended.talker, ended.code2wav);
        if let Some((_, sequences)) = &mut self.trace {
            sequences.add(SequenceRecord {
                seq: ended.seq,
                submitted: ended.submitted,
                talker: ended.talker,
                code2wav: ended.code2wav,
            });
        }
    }

    /// Everything is spoken: the held-back rest goes out as the last audio.
    pub(super) fn complete(&mut self, out: &mut Outbox) {
        if std::mem::replace(&mut self.complete, true) {
            return;
        }
        let rest = self.output.finish();
        self.alignment.rest(&rest.joined);
        self.send(out, rest);
        if self.settings.alignment && !self.output.has_begun() {
            let words = self
                .alignment
                .tell_rest(Samples::ZERO, self.outcome == Outcome::Stop);
            self.tell(out, words);
        }
        if self.text.spoke() && !self.output.has_begun() {
            let message = "the model made no audible sound for this text".to_owned();
            let reason = "NO_AUDIO";
            self.emit(out, EventBody::Warning { reason, message });
        }
    }

    /// Whether audio of it was given out.
    pub(in crate::session) fn has_sounded(&self) -> bool {
        self.output.has_begun()
    }

    /// It goes no further, and what was given out of it ends like any other audio.
    pub(in crate::session) fn end_audio(&mut self, out: &mut Outbox) {
        if self.has_sounded() {
            self.complete(out);
        }
    }

    fn send(&mut self, out: &mut Outbox, made: Made) {
        self.ledger.produced(&made.samples);
        for audio in made.audio {
            if self.settings.alignment {
                let end = audio.start + audio.samples;
                let words = match audio.last {
                    true => self.alignment.tell_rest(end, self.outcome == Outcome::Stop),
                    false => self.alignment.tell(end),
                };
                self.tell(out, words);
            }
            self.emit(out, EventBody::Audio(audio));
        }
    }

    fn tell(&self, out: &mut Outbox, words: Vec<TimedText>) {
        if !words.is_empty() {
            self.emit(out, EventBody::Alignment(words));
        }
    }
}
