//! One sequence in flight, as its session sees it.

use std::fmt;

use tokio::sync::oneshot;

use crate::connector::{EdgeReader, EdgeWriter};
use crate::stage::{
    AudioPiece, CancelFlag, End, Outlet, StageProgress, StageSnapshot, Taken, TalkerRequest, Wake,
};

/// What to speak in one sequence.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// Voice and sampling.
    pub request: TalkerRequest,
    /// The text, or its beginning.
    pub tokens: Vec<u32>,
    /// Whether more tokens will be added.
    pub open: bool,
    /// Most codec frames to make.
    pub max_frames: u32,
}

/// What happened to a segment.
#[derive(Debug, PartialEq)]
pub enum SegmentEvent {
    /// The talker is done: its place is free, the vocoder works on.
    TalkerDone,
    /// Audio.
    Audio(AudioPiece),
    /// The end, after all audio.
    End(End),
}

/// A sequence in flight. Dropping it cancels it in every stage.
pub struct Segment {
    pub(super) tokens: Option<Box<EdgeWriter<Vec<u32>>>>,
    pub(super) audio: EdgeReader<AudioPiece>,
    pub(super) talker_done: Option<oneshot::Receiver<()>>,
    pub(super) talker: StageProgress,
    pub(super) code2wav: StageProgress,
    pub(super) pushed: u32,
    pub(super) _cancel: CancelGuard,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("open", &self.is_open())
            .field("talker_done", &self.is_talker_done())
            .finish_non_exhaustive()
    }
}

impl Segment {
    /// Whether tokens can be added: they have not ended, and the talker still reads them.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens.as_ref().is_some_and(|writer| !writer.is_abandoned())
    }

    /// Adds tokens; `last` says that no more will come. Nothing happens if it is not open.
    pub fn push(&mut self, tokens: Vec<u32>, last: bool) {
        if let Some(writer) = &mut self.tokens
            && !tokens.is_empty()
        {
            self.pushed += tokens.len() as u32;
            writer.put(tokens, 1);
        }
        if last && let Some(writer) = self.tokens.take() {
            writer.end(End::Stop);
        }
    }

    /// Whether the edge takes another batch of tokens.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.tokens.as_ref().is_some_and(|writer| writer.has_room())
    }

    /// Whether the talker waits for text.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        self.is_open() && self.talker.snapshot().outputs >= self.pushed
    }

    /// Whether the talker is done with it.
    #[must_use]
    pub fn is_talker_done(&self) -> bool {
        self.talker_done.is_none()
    }

    /// Readings of the talker and of code2wav.
    #[must_use]
    pub fn progress(&self) -> (StageSnapshot, StageSnapshot) {
        (self.talker.snapshot(), self.code2wav.snapshot())
    }

    /// The next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> SegmentEvent {
        if let Some(done) = &mut self.talker_done {
            tokio::select! {
                biased;
                _ = done => {
                    self.talker_done = None;
                    return SegmentEvent::TalkerDone;
                }
                taken = self.audio.next() => return event(taken),
            }
        }
        event(self.audio.next().await)
    }
}

fn event(taken: Taken<AudioPiece>) -> SegmentEvent {
    match taken {
        Taken::Item(piece) => SegmentEvent::Audio(piece),
        Taken::End(end) => SegmentEvent::End(end),
        Taken::Gone | Taken::Empty => SegmentEvent::End(End::Failed {
            stage: "code2wav",
            message: "the stage went away".to_owned(),
        }),
    }
}

/// Cancels on drop.
#[derive(Debug)]
pub(super) struct CancelGuard {
    pub(super) flag: CancelFlag,
    pub(super) bells: [Wake; 2],
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.flag.set();
        for bell in &self.bells {
            bell.ring();
        }
    }
}
