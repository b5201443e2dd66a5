//! The sequences of one utterance: one that is heard, at most one started ahead of it.
//!
//! The next sequence starts when the stage that reads text is done with the current one, while the stages behind it
//! and the listener are still busy with its audio: no gap between sentences, and never more than one sequence per
//! utterance in the first stage. The permit is held only while there is work, so that a caller that pauses between
//! sentences delays no other. One that pauses within a sentence keeps a permit and a place in that stage, and
//! therefore only for a bounded time.

use std::collections::VecDeque;
use std::time::Duration;

use futures::future::BoxFuture;
use omni_engine::{SeqId, Stamp};

use omni_core::error::ServeError;
use omni_core::orchestrator::Orchestrator;
use omni_pipeline::item::AudioPiece;
use omni_pipeline::orchestrator::{
    AdmissionError, Binding, Segment, SegmentSpec, SpeechOutput, UtterancePermit,
};
use omni_pipeline::stage::{End, ReplicaId, StageSnapshot};

use super::post_processing::Done;

/// Pipeline of an utterance.
#[derive(derive_more::Debug)]
#[debug("UtterancePipeline {{ waits: {:?}, running: {:?}, .. }}", self.admission.is_some(), self.running.len())]
pub(super) struct UtterancePipeline {
    orchestrator: Orchestrator,
    admission: Option<BoxFuture<'static, Result<UtterancePermit, AdmissionError>>>,
    permit: Option<UtterancePermit>,
    /// Replicas of its sequences, from the first one on; released with the permit.
    binding: Option<Binding>,
    /// `true` if its owner holds a permit for as long as this lives.
    lent: bool,
    /// Running sequences: the first is heard, the last takes tokens.
    running: VecDeque<Running>,
}

struct Running {
    segment: Segment,
    submitted: Stamp,
    /// Silence before it, if other audio came before.
    pause: Duration,
    heard: bool,
}

/// Event of an utterance.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is a permit: sequences can start.
    Admitted,
    /// There is none.
    Refused(ServeError),
    /// The stage that reads text is done with the current sequence: the next can start.
    TextDone,
    /// Audio; with the pause that precedes it if a new sequence begins with it.
    Audio {
        piece: AudioPiece,
        after: Option<Duration>,
    },
    /// The current sequence is over.
    Ended(Box<Ended>),
    /// Result of a job on its audio.
    Worked(Box<Done>),
}

/// A sequence that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) seq: Option<SeqId>,
    pub(super) submitted: Stamp,
    /// The stages that it passed, first to last.
    pub(super) stages: Vec<(&'static str, StageSnapshot)>,
    /// Time in which its audio found no room on the way to the session.
    pub(super) held: Duration,
}

impl UtterancePipeline {
    pub(super) fn new(orchestrator: Orchestrator) -> Self {
        Self {
            orchestrator,
            admission: None,
            permit: None,
            binding: None,
            lent: false,
            running: VecDeque::new(),
        }
    }

    /// Works under a permit that its owner holds.
    pub(super) fn lend(&mut self) {
        self.lent = true;
    }

    /// Returns true if nothing is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.admission.is_none()
    }

    /// Returns true if the first stage has nothing to do for this utterance but wait for text.
    pub(super) fn is_starved(&self) -> bool {
        match self.running.back() {
            None => self.admission.is_none(),
            Some(last) => last.segment.is_starved(),
        }
    }

    /// Time since which the first stage only waits for text, while a sequence is open.
    pub(super) fn starved_since(&self) -> Option<Stamp> {
        self.running.back()?.segment.first().last_output
    }

    /// Returns true if it does not wait for its caller: a permit is pending, or the stages are at work on the text so
    /// far.
    pub(super) fn is_busy(&self) -> bool {
        self.admission.is_some() || !self.is_starved()
    }

    /// Returns true if there is a permit; requests one if not.
    pub(super) fn has_permit(&mut self) -> bool {
        if self.lent {
            return true;
        }
        if self.permit.is_none() && self.admission.is_none() {
            self.admission = Some(Box::pin(self.orchestrator.admit()));
        }
        self.permit.is_some()
    }

    /// Releases the permit, and with it the replicas. Under an owner's permit they are kept.
    pub(super) fn release(&mut self) {
        self.permit = None;
        if !self.lent {
            self.binding = None;
        }
    }

    /// Returns true if another sequence may start, given a permit.
    pub(super) fn can_start(&self) -> bool {
        match self.running.len() {
            0 => true,
            1 => self.running[0].segment.is_text_done(),
            _ => false,
        }
    }

    /// The sequence that takes more tokens, if there is one.
    pub(super) fn open_segment(&mut self) -> Option<&mut Segment> {
        let last = self.running.back_mut()?;
        // The model may end a sequence while more text is expected. Tokens for it would be lost then.
        let takes = last.segment.is_open() && !last.segment.is_text_done();
        takes.then_some(&mut last.segment)
    }

    /// Returns true if a sequence waits for more tokens.
    pub(super) fn is_open(&self) -> bool {
        self.running.back().is_some_and(|last| last.segment.is_open())
    }

    /// The replica whose audio is heard.
    pub(super) fn last_replica(&self) -> Option<ReplicaId> {
        self.running.front()?.segment.last().replica
    }

    /// Frames made so far by the running sequences.
    pub(super) fn frames(&self) -> u32 {
        self.running.iter().map(|r| r.segment.first().outputs).sum()
    }

    /// Starts a sequence; `pause` is the silence before it.
    pub(super) fn start(&mut self, spec: SegmentSpec, pause: Duration, now: Stamp) -> Result<(), ServeError> {
        debug_assert!(self.permit.is_some() || self.lent, "sequences need a permit");
        let segment = self.orchestrator.start(spec, &mut self.binding)?;
        self.running.push_back(Running {
            segment,
            submitted: now,
            pause,
            heard: false,
        });
        Ok(())
    }

    /// Drops all running sequences; returns their progress.
    pub(super) fn abort(&mut self) -> Vec<Ended> {
        self.admission = None;
        self.permit = None;
        self.binding = None;
        self.running.drain(..).map(|r| r.ended(End::Stop)).collect()
    }

    /// Waits for the next event; never resolves if nothing runs. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Progress {
        if let Some(admission) = &mut self.admission {
            let admitted = admission.await;
            self.admission = None;
            return match admitted {
                Ok(permit) => {
                    self.permit = Some(permit);
                    Progress::Admitted
                }
                Err(error) => Progress::Refused(error.into()),
            };
        }
        let Some(current) = self.running.front_mut() else {
            return std::future::pending().await;
        };
        match current.segment.next().await {
            SpeechOutput::TextDone => Progress::TextDone,
            SpeechOutput::Audio(piece) => {
                let after = (!current.heard).then_some(current.pause);
                current.heard = true;
                Progress::Audio { piece, after }
            }
            SpeechOutput::End(end) => {
                let ended = self.running.pop_front().expect("it is the current one");
                Progress::Ended(Box::new(ended.ended(end)))
            }
        }
    }
}

impl Running {
    fn ended(self, end: End) -> Ended {
        let stages = self.segment.progress();
        Ended {
            end,
            seq: self.segment.seq(),
            submitted: self.submitted,
            stages,
            held: self.segment.held(),
        }
    }
}
