//! One attempt at a sequence of speech: a job in every stage of its path, the edges between them, and its cancellation.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::attempt::{CancelGuard, Client, Ended, SESSION, given, lost, meter, misfit, place};
use super::pipeline::{Binding, Pipeline};
use super::segment::SegmentSpec;
use super::wiring::Wiring;
use crate::connector::{EdgeReader, EdgeWriter, Hop, Place, metered_edge};
use crate::item::{AudioPiece, Item, ItemKind};
use crate::request::{DecodeRequest, Payloads, SpeechRequest, StageRequest, VoicePrompt};
use crate::stage::{
    CancelFlag, EdgeSender as _, End, JobRefused, Lease, LinkToken, NextStage, StageJob, StageProgress,
};

/// Wait of a sequence whose link has broken for the news that a process has ended, so that the next attempt is not
/// bound to that process.
const DEATH_NOTICE: Duration = Duration::from_secs(1);

/// A sequence in the stages. Dropping it cancels it in all of them.
pub(super) struct SpeechAttempt {
    pub(super) seq: SeqId,
    pub(super) text: Option<Box<EdgeWriter>>,
    pub(super) audio: EdgeReader,
    /// Taken when the first stage is done.
    pub(super) first_done: Option<oneshot::Receiver<()>>,
    /// Progress at each stage, first to last.
    pub(super) progress: Vec<StageProgress>,
    severed: Option<Severed>,
    _cancel: CancelGuard,
    /// Counts as work in flight.
    binding: Binding,
}

/// The link between two stages of an attempt has broken.
#[derive(Debug, Clone)]
struct Severed {
    /// End of the attempt, decided by the death of a process or by its absence.
    end: End,
    since: Stamp,
    /// Latest time of that decision.
    latest: Instant,
}

/// Path of an attempt's items from stage to stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// `true` if audio comes with the frames that it was decoded from.
    pub(super) with_codes: bool,
    /// `true` if they may go by links.
    pub(super) linked: bool,
}

/// Output of a sequence of speech, as its session receives it.
#[derive(Debug, PartialEq)]
pub enum SpeechOutput {
    /// The stage that reads text is done: its place is free, the others work on.
    TextDone,
    /// Audio.
    Audio(AudioPiece),
    /// The end, after all audio. [`End::Lost`] if a replica hangs or none takes work: it is no fault of the request.
    End(End),
}

impl SpeechAttempt {
    /// Submits a new sequence to the replicas of `binding`, beginning with the text of `spec`; more follows if it is
    /// open.
    pub(super) fn new(
        pipeline: &Pipeline,
        binding: Binding,
        (spec, passage): (&SegmentSpec, Passage),
        client: &Client,
    ) -> Result<Self, JobRefused> {
        let seq = pipeline.seqs.next();
        let cancel = CancelFlag::default();
        let leases = binding.leases();
        let guard = CancelGuard {
            flag: cancel.clone(),
            notifiers: leases.iter().map(|lease| lease.wake().clone()).collect(),
        };
        let edges = Edges {
            pipeline,
            seq,
            client,
        };
        let progress: Vec<_> = leases.iter().map(|lease| client.progress(lease)).collect();
        let wiring = &pipeline.wiring;
        let (text_in, mut inputs) = if wiring.whole_text {
            (None, None)
        } else {
            let (writer, reader) = edges.text(spec, &leases[0]);
            (Some(writer), Some(reader))
        };
        let (first_finished, first_done) = oneshot::channel();
        let mut finished = Some(first_finished);
        let mut jobs = Vec::with_capacity(leases.len());
        let requests = requests(spec, wiring, passage.with_codes);
        let mut expects = None;
        for (nth, request) in requests.into_iter().enumerate() {
            let (outputs, next) = edges.behind(nth, leases);
            let mut job = StageJob::new(seq, request, outputs);
            job.inputs = inputs.replace(next).map(|reader| Box::new(reader) as Box<_>);
            job.expects = expects.take();
            job.next = passage
                .linked
                .then(|| next_stage(pipeline, leases, nth))
                .flatten();
            expects = job.next.as_ref().map(|next| next.token);
            job.cancel = cancel.clone();
            job.progress = progress[nth].clone();
            job.finished = finished.take();
            jobs.push(job);
        }
        // Readers first, so that items find them open.
        for (lease, job) in leases.iter().zip(jobs).rev() {
            lease.submit(job)?;
        }
        Ok(Self {
            seq,
            text: text_in.and_then(|writer| begin(writer, &spec.tokens, spec.open)),
            audio: inputs.expect("speech passes a stage"),
            first_done: Some(first_done),
            progress,
            severed: None,
            _cancel: guard,
            binding,
        })
    }

    /// Number formats that it is computed in, stage by stage.
    pub(super) fn formats(&self) -> Vec<Arc<str>> {
        self.binding.formats()
    }

    /// Name of the stage that gives its audio.
    pub(super) fn last(&self) -> &'static str {
        self.binding.last().stage()
    }

    /// Returns true if the first stage has not died since.
    pub(super) fn first_lives(&self) -> bool {
        self.binding.first().is_alive()
    }

    /// Returns true if the process of the first stage has become unreachable.
    pub(super) fn is_first_severed(&self) -> bool {
        self.binding.first().is_severed()
    }

    /// Time at which a link between two of its stages was found broken.
    pub(super) fn severed_since(&self) -> Option<Stamp> {
        self.severed.as_ref().map(|severed| severed.since)
    }

    /// Waits for the next output; the error is the end of the attempt. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, pipeline: &Pipeline) -> Result<SpeechOutput, Ended> {
        let Severed { end, latest, .. } = match self.severed.clone() {
            Some(severed) => severed,
            None => match self.output().await {
                Err(Ended {
                    end: End::Severed { stage, message },
                    ..
                }) => {
                    let severed = Severed {
                        end: lost(stage, message),
                        since: pipeline.clock.now(),
                        latest: Instant::now() + DEATH_NOTICE,
                    };
                    self.severed.insert(severed).clone()
                }
                output => return output.map_err(|ended| ended.with(self.binding.leases())),
            },
        };
        // A stage may report the end of another before it is noticed here.
        let _ = tokio::time::timeout_at(latest, pipeline.died(&self.binding)).await;
        Err(Ended::severed(end).with(self.binding.leases()))
    }

    async fn output(&mut self) -> Result<SpeechOutput, Ended> {
        let last = self.binding.last().stage();
        let audio = |taken| match given(last, taken)? {
            Item::Audio(piece) => Ok(SpeechOutput::Audio(piece)),
            other => Err(misfit(last, &other).into()),
        };
        if let Some(done) = &mut self.first_done {
            tokio::select! {
                biased;
                _ = done => {
                    self.first_done = None;
                    // A stage that has died is not done; the end of the audio reports its frames.
                    if self.first_lives() {
                        return Ok(SpeechOutput::TextDone);
                    }
                }
                taken = self.audio.next() => return audio(taken),
                lost = self.binding.lost(true) => return Err(Ended::unresponsive(lost)),
            }
        }
        tokio::select! {
            biased;
            taken = self.audio.next() => audio(taken),
            lost = self.binding.lost(false) => Err(Ended::unresponsive(lost)),
        }
    }
}

/// The stage behind the `nth`, if the two can reach each other.
fn next_stage(pipeline: &Pipeline, leases: &[Lease], nth: usize) -> Option<NextStage> {
    let lease = &leases[nth];
    let next = leases.get(nth + 1)?;
    lease.address()?;
    Some(NextStage {
        stage: next.stage().to_owned(),
        address: Arc::clone(next.address()?),
        token: LinkToken(pipeline.tokens.next()),
    })
}

/// Requests to each stage of the path. The first reads text, the last gives samples. The lead of the voice goes to the
/// last stage, and so do the frames that were made and given out before.
fn requests(spec: &SegmentSpec, wiring: &Wiring, with_codes: bool) -> Vec<StageRequest> {
    let speech = &spec.request;
    let lead = speech.head.voice_prompt.as_deref().map(VoicePrompt::lead);
    let lead = if speech.prior_frames.is_empty() {
        lead.unwrap_or_default()
    } else {
        [&lead.unwrap_or_default()[..], &speech.prior_frames]
            .concat()
            .into()
    };
    let whole_text = wiring.whole_text.then(|| spec.tokens.as_slice().into());
    let first = StageRequest::Speech(SpeechRequest {
        payloads: Payloads {
            reads: (!wiring.whole_text).then_some(ItemKind::Text),
            gives: wiring.gives[0],
        },
        whole_text: speech.whole_text.clone().or(whole_text),
        ..speech.clone()
    });
    let decode = |pair: &[ItemKind]| {
        let payloads = Payloads::new(pair[0], pair[1]);
        // Codec frames are led by codec frames only.
        let leads = payloads.gives == ItemKind::Audio && pair[0] == ItemKind::Frames;
        StageRequest::Decode(DecodeRequest {
            head: speech.head.clone(),
            payloads,
            lead: if leads { Arc::clone(&lead) } else { Arc::default() },
            with_codes: with_codes && leads,
        })
    };
    std::iter::once(first)
        .chain(wiring.gives.windows(2).map(decode))
        .collect()
}

/// Makes the edges of one sequence.
struct Edges<'a> {
    pipeline: &'a Pipeline,
    seq: SeqId,
    client: &'a Client,
}

impl Edges<'_> {
    /// Edge by which the first stage reads text: from the session, which shows an answer's text to its reader on the
    /// way.
    fn text(&self, spec: &SegmentSpec, first: &Lease) -> (EdgeWriter, EdgeReader) {
        let wiring = &self.pipeline.wiring;
        let writer = wiring.answers.zip(spec.writer).map(|(stage, replica)| Place {
            stage: self.pipeline.name(stage),
            replica: Some(replica),
        });
        let hop = Hop {
            seq: self.seq,
            from: writer.unwrap_or(SESSION),
            to: place(first),
        };
        let meter = meter(self.pipeline, hop, self.client.trace.clone());
        metered_edge(
            self.pipeline.text_batches,
            None,
            Some(first.wake().clone()),
            meter,
        )
    }

    /// The edge from the `nth` stage to the next one, or to the session.
    fn behind(&self, nth: usize, leases: &[Lease]) -> (EdgeWriter, EdgeReader) {
        let writer = &leases[nth];
        let reader = leases.get(nth + 1);
        let hop = Hop {
            seq: self.seq,
            from: place(writer),
            to: reader.map_or(SESSION, place),
        };
        let meter = meter(self.pipeline, hop, self.client.trace.clone());
        let capacity = self.pipeline.capacity(self.pipeline.wiring.speech[nth]);
        let wake = reader.map(|reader| reader.wake().clone());
        metered_edge(capacity, Some(writer.wake().clone()), wake, meter)
    }
}

/// Puts the beginning of the text on its edge. The rest has no deadline: it is a caller's, or an answer's, whose own
/// session watches the stage that writes it and knows if its reader delays it.
fn begin(mut edge: EdgeWriter, tokens: &[u32], open: bool) -> Option<Box<EdgeWriter>> {
    edge.set_idle(true);
    let put = edge.put(Item::Text(tokens.to_vec()), 1);
    let edge = Box::new(edge);
    match put {
        Ok(()) if open => return Some(edge),
        Ok(()) => edge.end(End::Stop),
        Err(full) => edge.end(End::Failed {
            stage: SESSION.stage,
            message: full.to_string(),
        }),
    }
    None
}
