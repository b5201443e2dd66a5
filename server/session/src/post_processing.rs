//! Post-processing of one utterance's audio after the vocoder: joining, rendering, encoding, and alignment with its
//! text.
//!
//! A chunk takes milliseconds, so it is done on threads for computing ([`Compute`]), one job after the other. The
//! tools move into each job and come back with its result, so that the session never waits for them. Text that comes
//! meanwhile is noted, and processed by the next job, before its audio.

use std::time::Duration;

use futures::future::BoxFuture;
use omni_audio::Samples;
use omni_core::compute::Compute;

use super::alignment::{Alignment, Heard, TimedText, Word};
use super::output::{Made, Output};
use super::protocol::AudioOut;
use super::record::Sound;

/// Change of the text for the alignment.
#[derive(Debug)]
pub(super) enum Note {
    /// Text, as it was written.
    Write(String),
    /// Beginning of a sequence with these words, which stand for the text up to a character.
    Begin(Vec<Word>, usize),
    /// Continuation of the sequence that began last.
    Extend(Vec<Word>, usize),
    /// End of the sequence that began last, at its last word.
    Close,
}

/// One job.
#[derive(Debug)]
pub(super) enum Task {
    /// Samples of the model; they begin a sequence if a pause precedes them.
    Audio {
        samples: Vec<f32>,
        after: Option<Duration>,
    },
    /// The sequence being heard has ended; `everything` if all its words were spoken.
    Ended { everything: bool },
    /// Nothing follows; `whole` if the text was spoken to its end. If there was nothing audible, silence of this
    /// length is added.
    Finish { whole: bool, silence: Duration },
}

/// Result of a job.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Audio to send, each behind the words that end in it.
    pub(super) audio: Vec<(Vec<TimedText>, AudioOut)>,
    /// Words for which there was no audio at all.
    pub(super) words: Vec<TimedText>,
    /// The samples of the audio.
    pub(super) samples: Vec<f32>,
    /// Level of the utterance's audio until now.
    pub(super) sound: Sound,
    /// `true` if there is any audio of the utterance.
    pub(super) begun: bool,
    /// `true` if the limit is reached.
    pub(super) full: bool,
    /// `true` if nothing follows.
    pub(super) last: bool,
    /// Times at which each word is heard.
    heard: Heard,
}

/// Audio side of one utterance.
#[derive(derive_more::Debug)]
#[debug("PostProcessing {{ works: {:?}, .. }}", self.working.is_some())]
pub(super) struct PostProcessing {
    compute: Compute,
    /// Present while no job is in progress.
    tools: Option<Box<Tools>>,
    /// Job in progress.
    working: Option<BoxFuture<'static, (Box<Tools>, Done)>>,
    notes: Vec<Note>,
    /// `true` if words are aligned with the audio.
    follows: bool,
    /// `true` if the caller is sent word times.
    tells: bool,
    /// Word times as of the last job.
    heard: Heard,
}

struct Tools {
    output: Output,
    alignment: Alignment,
    sound: Sound,
    follows: bool,
    tells: bool,
}

impl PostProcessing {
    /// Creates the post-processing; word times are sent if `tells`.
    pub(super) fn new(compute: Compute, output: Output, alignment: Alignment, tells: bool) -> Self {
        let tools = Tools {
            output,
            alignment,
            sound: Sound::default(),
            follows: true,
            tells,
        };
        Self {
            compute,
            tools: Some(Box::new(tools)),
            working: None,
            notes: Vec::new(),
            follows: true,
            tells,
            heard: Heard::default(),
        }
    }

    /// Skips the alignment unless the caller is sent word times, because the heard text will not be requested. Call
    /// before any text.
    pub(super) fn unasked(&mut self) {
        self.follows = self.tells;
    }

    /// Notes a change of the text. Consecutive texts become one note.
    pub(super) fn note(&mut self, note: Note) {
        if !self.follows {
            return;
        }
        if let Note::Write(more) = &note
            && let Some(Note::Write(text)) = self.notes.last_mut()
        {
            text.push_str(more);
        } else {
            self.notes.push(note);
        }
    }

    /// Bytes of text in notes that no job has processed.
    pub(super) fn noted_bytes(&self) -> usize {
        let texts = self.notes.iter().map(|note| match note {
            Note::Write(text) => text.len(),
            Note::Begin(..) | Note::Extend(..) | Note::Close => 0,
        });
        texts.sum()
    }

    /// Returns true if a job is in progress.
    pub(super) fn is_working(&self) -> bool {
        self.working.is_some()
    }

    /// Begins a job; none may be in progress.
    pub(super) fn begin(&mut self, task: Task) {
        debug_assert!(self.working.is_none(), "one piece of work at a time");
        let Some(mut tools) = self.tools.take() else {
            return;
        };
        tools.follows = self.follows;
        let notes = std::mem::take(&mut self.notes);
        self.working = Some(Box::pin(self.compute.run(move || {
            tools.take_up(notes);
            let done = tools.work(task);
            (tools, done)
        })));
    }

    /// Waits for the result of the job in progress, if there is one. Dropping the future loses nothing.
    pub(super) async fn done(&mut self) -> Option<Done> {
        let (tools, mut done) = self.working.as_mut()?.await;
        self.working = None;
        self.heard = std::mem::take(&mut done.heard);
        self.tools = Some(tools);
        Some(done)
    }

    /// Times at which each word of its text is heard, as far as they follow from the audio before the job in
    /// progress.
    pub(super) fn heard(&self) -> Heard {
        self.heard.clone()
    }

    /// Splits the text at the place where a listener stopped after samples up to `played`; nothing while a job is in
    /// progress.
    pub(super) fn split(&mut self, played: Samples) -> Option<(String, String)> {
        let tools = self.tools.as_mut()?;
        tools.take_up(std::mem::take(&mut self.notes));
        let (heard, rest) = tools.alignment.split(played);
        Some((heard.to_owned(), rest.to_owned()))
    }
}

impl Tools {
    fn take_up(&mut self, notes: Vec<Note>) {
        notes.into_iter().for_each(|note| self.note(note));
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Write(text) => self.alignment.write(&text),
            Note::Begin(words, to) => self.alignment.begin(&words, to),
            Note::Extend(words, to) => self.alignment.extend(&words, to),
            Note::Close => self.alignment.close(),
        }
    }

    fn work(&mut self, task: Task) -> Done {
        let mut done = Done::default();
        match task {
            Task::Audio { samples, after } => {
                if let Some(pause) = after.filter(|_| self.output.has_begun()) {
                    let tail = self.output.next_sequence(pause);
                    self.rest(&tail);
                    self.take(tail, false, &mut done);
                }
                let made = self.output.push(&samples);
                if self.follows {
                    self.alignment.audio(&made.joined);
                }
                self.take(made, false, &mut done);
            }
            Task::Ended { everything } => {
                if self.follows {
                    self.alignment.complete(everything);
                }
            }
            Task::Finish { whole, silence } => {
                let rest = self.output.finish(silence);
                self.rest(&rest);
                self.take(rest, whole, &mut done);
                if self.tells && !self.output.has_begun() && done.audio.is_empty() {
                    done.words = self.alignment.tell_rest(Samples::ZERO, whole);
                }
                done.last = true;
            }
        }
        done.sound = self.sound;
        done.begun = self.output.has_begun();
        done.full = self.output.is_full();
        if self.follows {
            done.heard = self.alignment.heard();
        }
        done
    }

    fn rest(&mut self, made: &Made) {
        if self.follows {
            self.alignment.rest(&made.joined);
        }
    }

    fn take(&mut self, made: Made, whole: bool, done: &mut Done) {
        self.sound.made.add(&made.joined);
        self.sound.given.add(&made.samples);
        done.samples.extend(made.samples);
        for audio in made.audio {
            let end = audio.start + audio.samples;
            let words = match (self.tells, audio.last) {
                (false, _) => Vec::new(),
                (true, true) => self.alignment.tell_rest(end, whole),
                (true, false) => self.alignment.tell(end),
            };
            done.audio.push((words, audio));
        }
    }
}

#[cfg(test)]
mod tests {
    use omni_audio::{Encoding, Format, Rendering, SampleRate};

    use super::*;
    use crate::settings::Delivery;

    fn post_processing() -> PostProcessing {
        let rate = SampleRate::new(16_000).unwrap();
        let delivery = Delivery {
            format: Format::new(Encoding::Pcm16, 16_000).unwrap(),
            rendering: Rendering::default(),
            leading_silence: Duration::ZERO,
            max_lead: None,
            whole: false,
        };
        let output = Output::new(rate, &delivery, Duration::from_secs(60), 1);
        let alignment = Alignment::new(rate, output.timeline(rate, &delivery));
        PostProcessing::new(Compute::new(1), output, alignment, true)
    }

    #[test]
    fn text_in_pieces_of_a_byte_is_one_note_and_counted() {
        let mut post = post_processing();
        for _ in 0..1_000 {
            post.note(Note::Write("a".to_owned()));
        }
        assert_eq!((post.notes.len(), post.noted_bytes()), (1, 1_000));
        post.note(Note::Close);
        post.note(Note::Write("b".to_owned()));
        assert_eq!((post.notes.len(), post.noted_bytes()), (3, 1_001));
    }

    #[test]
    fn text_that_nobody_will_ask_about_is_not_kept() {
        let mut post = post_processing();
        post.tells = false;
        post.unasked();
        post.note(Note::Write("a".to_owned()));
        assert_eq!(post.noted_bytes(), 0);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_piece_of_work_to_learn_what_was_heard() {
        let mut post = post_processing();
        post.note(Note::Write("abc".to_owned()));
        // The job never begins: its future is not polled.
        post.begin(Task::Ended { everything: false });
        assert!(post.is_working() && post.split(Samples::ZERO).is_none());
        assert_eq!(post.heard().words("abc", Samples(u64::MAX)), 0);
        post.done().await.expect("work");
        let split = post.split(Samples::ZERO);
        assert_eq!(split, Some((String::new(), "abc".to_owned())));
    }
}
