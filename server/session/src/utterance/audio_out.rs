//! The audio of an utterance, on its way out.

use std::time::Duration;

use omni_core::error::ServeError;
use omni_engine::Stamp;
use omni_pipeline::stage::End;

use super::Utterance;
use crate::alignment::TimedText;
use crate::outbox::Outbox;
use crate::pipeline::{Ended, Progress};
use crate::post_processing::{Done, Task};
use crate::protocol::EventBody;
use crate::record::Outcome;
use crate::track::SequenceRecord;

/// Length of the silence for text that has no sound: players and files need some.
const SILENCE: Duration = Duration::from_millis(200);

impl Utterance {
    /// Handles an event; one of the pipeline comes after the job before it has ended.
    pub(crate) fn take(&mut self, progress: Progress, out: &mut Outbox, now: Stamp) {
        if !matches!(progress, Progress::Worked(_)) {
            self.last_spoken = now;
        }
        match progress {
            Progress::Admitted | Progress::TextDone => {}
            Progress::Refused(error) => self.fail(error),
            Progress::Audio { piece, after } => self.post_processing.begin(Task::Audio {
                samples: piece.samples,
                after,
            }),
            Progress::Ended(ended) => self.ended(*ended),
            Progress::Worked(done) => self.worked(*done, out),
        }
    }

    /// Handles the result of a job. After an interruption it is dropped.
    fn worked(&mut self, done: Done, out: &mut Outbox) {
        if self.outcome == Outcome::Interrupted {
            return;
        }
        let full = done.full && !done.last;
        let last = done.last;
        self.send(out, done);
        if full && !self.is_over() && !self.cut {
            self.cut_short();
            for ended in self.pipeline.abort() {
                self.account(&ended);
            }
        }
        if last {
            self.complete = true;
            if self.text.spoke() && !self.begun {
                let message = "the model made no audible sound for this text".to_owned();
                self.warn(out, "NO_AUDIO", message);
            }
        }
    }

    fn ended(&mut self, ended: Ended) {
        self.account(&ended);
        self.post_processing.begin(Task::Ended {
            everything: ended.end == End::Stop,
        });
        match ended.end {
            End::Length if self.frames_left() == 0 => self.cut_short(),
            End::Length => self.outcome = Outcome::Length,
            End::Repetition => self.outcome = Outcome::Repetition,
            end => {
                if let Some(error) = ServeError::of_end(end, "text") {
                    self.fail(error);
                }
            }
        }
    }

    pub(super) fn account(&mut self, ended: &Ended) {
        let text_wait = self.stats.sequence((ended.submitted, ended.held), &ended.stages);
        if let Some((_, sequences)) = &mut self.trace {
            sequences.add(SequenceRecord {
                seq: ended.seq,
                submitted: ended.submitted,
                text_wait,
                stages: ended.stages.clone(),
            });
        }
    }

    /// Ends the audio: the rest that was held back is the last audio.
    pub(super) fn finish_audio(&mut self) {
        if !self.finishing && !self.post_processing.is_working() {
            self.finishing = true;
            self.post_processing.begin(Task::Finish {
                whole: self.outcome == Outcome::Stop,
                silence: if self.text.was_given() {
                    SILENCE
                } else {
                    Duration::ZERO
                },
            });
        }
    }

    /// Ends the audio early, like any other; returns true when that is done.
    pub(crate) fn end_audio(&mut self) -> bool {
        if self.begun {
            self.finish_audio();
        }
        !self.post_processing.is_working()
    }

    /// Returns true if audio of it was given out.
    pub(crate) fn has_sounded(&self) -> bool {
        self.begun
    }

    fn send(&mut self, out: &mut Outbox, done: Done) {
        self.begun |= done.begun;
        self.stats.produced(&done.samples, done.sound);
        for (words, audio) in done.audio {
            self.tell(out, words);
            self.emit(out, EventBody::Audio(audio));
        }
        self.tell(out, done.words);
    }

    fn tell(&self, out: &mut Outbox, words: Vec<TimedText>) {
        if !words.is_empty() {
            self.emit(out, EventBody::Alignment(words));
        }
    }
}
