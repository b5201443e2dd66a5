//! What is done to the audio of one utterance after the vocoder: joined, rendered and encoded, and its text found in it.
//!
//! That takes milliseconds per chunk, so it is done on threads for computing ([`Compute`]), one piece after the other. Text that
//! comes meanwhile is noted, and taken up by the next piece of work, before its audio.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use omni_audio::Samples;

use super::alignment::{Alignment, Heard, TimedText, Word};
use super::output::{Made, Output};
use super::protocol::AudioOut;
use super::record::Sound;
use crate::compute::Compute;

/// What the alignment is told of the text.
#[derive(Debug)]
pub(super) enum Note {
    /// More of the text, as it was written.
    Write(String),
    /// A sequence begins with these words, which stand for the text up to a character.
    Begin(Vec<Word>, usize),
    /// The sequence that began last goes on.
    Extend(Vec<Word>, usize),
    /// The sequence that began last ends with what it has.
    Close,
}

/// One piece of work.
#[derive(Debug)]
pub(super) enum Task {
    /// The next samples of the model; a sequence begins with them if a pause is to be before it.
    Audio {
        samples: Vec<f32>,
        after: Option<Duration>,
    },
    /// The sequence that sounds is over, and has said everything or not.
    Ended { everything: bool },
    /// Nothing follows; the text was spoken to its end or not. If there was nothing audible, there is so much silence.
    Finish { whole: bool, silence: Duration },
}

/// What came of a piece of work.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Audio to send, each behind the words that end in it.
    pub(super) audio: Vec<(Vec<TimedText>, AudioOut)>,
    /// Words for which there was no audio at all.
    pub(super) words: Vec<TimedText>,
    /// The samples of the audio.
    pub(super) samples: Vec<f32>,
    /// How loud the audio of the utterance is until now.
    pub(super) sound: Sound,
    /// Whether there is any audio of the utterance.
    pub(super) begun: bool,
    /// Whether the limit is reached.
    pub(super) full: bool,
    /// Whether nothing follows.
    pub(super) last: bool,
}

/// The audio side of one utterance.
pub(super) struct PostProcessing {
    compute: Compute,
    bench: Arc<Bench>,
    /// The work in progress.
    working: Option<BoxFuture<'static, Done>>,
}

struct Bench {
    notes: Mutex<Vec<Note>>,
    tools: Mutex<Tools>,
}

struct Tools {
    output: Output,
    alignment: Alignment,
    sound: Sound,
    /// Whether the text is found in the audio.
    follows: bool,
    /// Whether the caller is told of words.
    tells: bool,
}

impl fmt::Debug for PostProcessing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostProcessing")
            .field("works", &self.working.is_some())
            .finish_non_exhaustive()
    }
}

impl PostProcessing {
    /// Words are told if it `tells`.
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
            bench: Arc::new(Bench {
                notes: Mutex::default(),
                tools: Mutex::new(tools),
            }),
            working: None,
        }
    }

    /// What was heard will not be asked: the text is found in the audio only if the caller is told of words.
    pub(super) fn unasked(&mut self) {
        let mut tools = self.bench.tools();
        tools.follows = tools.tells;
    }

    /// Something about the text.
    pub(super) fn note(&self, note: Note) {
        self.bench.notes().push(note);
    }

    /// Whether there is work in progress.
    pub(super) fn is_working(&self) -> bool {
        self.working.is_some()
    }

    /// Begins a piece of work; there is none in progress.
    pub(super) fn begin(&mut self, task: Task) {
        debug_assert!(self.working.is_none(), "one piece of work at a time");
        let bench = Arc::clone(&self.bench);
        self.working = Some(Box::pin(self.compute.run(move || bench.work(task))));
    }

    /// What comes of the work in progress, if there is any. Dropping the future loses nothing.
    pub(super) async fn done(&mut self) -> Option<Done> {
        let done = self.working.as_mut()?.await;
        self.working = None;
        Some(done)
    }

    /// What of its text is heard when. Waits for a piece of work that is in progress, as no more than one chunk takes.
    pub(super) fn heard(&self) -> Heard {
        self.bench.tools_with_notes().alignment.heard()
    }

    /// The text, cut where a listener stopped that has heard samples up to `played`. Waits as [`heard`](Self::heard) does.
    pub(super) fn split(&self, played: Samples) -> (String, String) {
        let tools = self.bench.tools_with_notes();
        let (heard, rest) = tools.alignment.split(played);
        (heard.to_owned(), rest.to_owned())
    }
}

impl Bench {
    fn notes(&self) -> MutexGuard<'_, Vec<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tools(&self) -> MutexGuard<'_, Tools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tools_with_notes(&self) -> MutexGuard<'_, Tools> {
        let mut tools = self.tools();
        let notes = std::mem::take(&mut *self.notes());
        notes.into_iter().for_each(|note| tools.note(note));
        tools
    }

    fn work(&self, task: Task) -> Done {
        self.tools_with_notes().work(task)
    }
}

impl Tools {
    fn note(&mut self, note: Note) {
        if !self.follows {
            return;
        }
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
