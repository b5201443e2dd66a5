//! An autoregressive stage: one [`ArEngine`], whose sequences are whole requests or wait for the items of the stage
//! before.

use omni_engine::{
    AddOptions, ArConfig, ArEngine, ArModel, FinishReason, RepetitionLimit, SeqId, Sequences, Stamp,
};
use std::time::Duration;
use tokio::sync::oneshot;

use super::driver::{Admission, Course, Driver, Sequence, Verdict, WARM_UP};
use super::events::EngineEvent;
use super::family::{ArBackend, BackendError, WarmUp};
use super::flow::{End, Recv};
use super::job::StageJob;
use super::sides::{Sink, Source, Want, failed};
use super::status::ReplicaStatus;
use super::worker::Core;
use crate::clock::Clock;
use crate::item::{FromItem as _, Item};
use crate::request::StageRequest;

/// Name of the stage before, and the longest time for which it may deliver nothing.
type Upstream = Option<(&'static str, Duration)>;

/// Error of a sequence that reads the items of a stage before and came without them.
pub(super) const NO_INPUTS: &str = "it was given no inputs";

pub(super) struct Ar<B: ArBackend> {
    backend: B,
    config: ArConfig,
    repetition: Option<RepetitionLimit>,
    upstream: Upstream,
    clock: Clock,
    driver: Driver<ArEngine<B::Model>, Reading>,
}

impl<B: ArBackend> Ar<B> {
    pub(super) fn new(
        backend: B,
        (config, repetition): (ArConfig, Option<RepetitionLimit>),
        upstream: Upstream,
        status: &ReplicaStatus,
        clock: Clock,
    ) -> Self {
        let repetition = repetition.or_else(|| backend.repetition());
        Self {
            backend,
            config,
            repetition: repetition.filter(RepetitionLimit::is_valid),
            upstream,
            clock,
            driver: Driver::new(status.clone(), B::item, clock),
        }
    }

    fn options(&self, request: &StageRequest) -> AddOptions {
        let options = AddOptions {
            needs_rows: request.input().is_some(),
            max_outputs: request.max_outputs().unwrap_or(u32::MAX),
            repetition: self.repetition,
            ..AddOptions::default()
        };
        match request {
            StageRequest::Speech(speech) => AddOptions {
                prompt_rows: speech.prompt_rows(),
                ..options
            },
            StageRequest::Text(text) => AddOptions {
                // Hidden states come out of computing the prompt, which a cached prefix would skip.
                reuse_prefix: !text.export_hidden,
                salt: text.salt,
                ..options
            },
            StageRequest::Decode(_) | StageRequest::Encode(_) => options,
        }
    }
}

/// Inputs of a sequence: its prompt, which may take several steps, and then items. Dropping it resolves `finished`.
struct Reading {
    /// For a request without inputs: the start of the step that first computed it, until that gave an output.
    whole: Option<WholePrompt>,
    inputs: Option<Source<Item>>,
    /// Inputs that its prompt takes besides the first one, plus the frames of its request.
    rows_before: u32,
    /// Inputs received: it waits for another once it has made as many outputs.
    rows: u32,
    /// `true` if a gap between its inputs is the fault of the stage that writes them.
    generated: bool,
    /// Longest time without inputs before it fails.
    patience: Upstream,
    starved: bool,
    /// End of its inputs.
    end: End,
    _finished: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Default)]
struct WholePrompt {
    since: Option<Stamp>,
}

impl Course for Reading {
    fn scheduled(&mut self, step: Stamp) {
        if let Some(prompt) = &mut self.whole {
            prompt.since.get_or_insert(step);
        }
    }

    /// The first output ends all steps that read the prompt.
    fn began(&mut self, step: Stamp) -> Stamp {
        let prompt = self.whole.as_mut();
        prompt.and_then(|prompt| prompt.since.take()).unwrap_or(step)
    }

    fn outcome(&self, reason: FinishReason) -> FinishReason {
        match reason {
            FinishReason::Stop => FinishReason::from(&self.end),
            reason => reason,
        }
    }
}

impl<B: ArBackend> Core for Ar<B> {
    type Job = StageJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.load()?;
        let position = self.backend.kv_position();
        let mut engine = self.driver.ar_engine(model, self.config, position);
        let WarmUp { request, inputs } = self.backend.warm_up()?;
        let options = AddOptions {
            repetition: None,
            ..self.options(&request)
        };
        let request = self.backend.request(request)?;
        engine
            .add(WARM_UP, request, options, self.clock.now())
            .map_err(BackendError::warm_up)?;
        for item in inputs {
            let rows = <B::Model as Sequences>::Row::from_item(item);
            let rows = rows.map_err(|item| BackendError::warm_up(item.kind().name()))?;
            engine.push(WARM_UP, rows, false);
        }
        if options.needs_rows {
            engine.push(WARM_UP, Vec::new(), true);
        }
        self.driver.load(engine, ArEngine::prepare);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: StageJob) {
        if job.cancel.is_set() {
            return;
        }
        let options = self.options(&job.request);
        let sink = Sink::new(job.outputs);
        let (generated, decodes, prior) = match &job.request {
            StageRequest::Speech(speech) => (speech.generated, false, speech.prior_frames.len()),
            request => (true, matches!(request, StageRequest::Decode(_)), 0),
        };
        let prior = u32::try_from(prior).unwrap_or(u32::MAX);
        let inputs = job.inputs.filter(|_| options.needs_rows).map(Source::new);
        if options.needs_rows && inputs.is_none() {
            return sink.end(failed(self.driver.stage(), NO_INPUTS));
        }
        let max_outputs = job.request.max_outputs();
        let gives = job.request.output();
        let request = match self.backend.request(job.request) {
            Ok(request) => request,
            Err(error) => return sink.end(failed(self.driver.stage(), error.to_string())),
        };
        let admission = Admission {
            seq: job.seq,
            sink,
            cancel: job.cancel,
            progress: job.progress,
            max_outputs,
            gives,
            course: Reading {
                whole: inputs.is_none().then(WholePrompt::default),
                inputs,
                rows_before: options.prompt_rows.saturating_add(prior),
                rows: 0,
                generated,
                // The text of speech may be a caller's; the session watches the stage that writes an answer.
                patience: self.upstream.filter(|_| decodes),
                starved: false,
                end: End::Stop,
                _finished: job.finished,
            },
        };
        self.driver.admit(admission, |engine, _, now| {
            engine.add(job.seq, request, options, now)
        });
    }

    fn tend(&mut self) {
        let now = self.clock.now();
        self.driver.tend(|seq, sequence, turn| {
            let stage = turn.status.stage();
            let fed = sequence.course.feed(seq, stage, turn.engine);
            if !matches!(fed, Verdict::Keep) {
                return fed;
            }
            let placeless = turn.is_placeless(seq, sequence);
            if is_starved(sequence, placeless, now) {
                turn.status.tell(&EngineEvent::Starved);
                sequence.progress.starve();
            }
            match sequence.course.stalled(stage, now) {
                Some(end) => Verdict::Fail(end),
                None => Verdict::Keep,
            }
        });
    }

    fn has_work(&self) -> bool {
        self.driver.has_work()
    }

    fn lost(&self) -> Option<String> {
        self.driver.lost()
    }

    fn wake_at(&self) -> Option<Stamp> {
        let readings = self.driver.live().map(|sequence| &sequence.course);
        readings.filter_map(Reading::stalls_at).min()
    }

    fn step(&mut self) {
        self.driver.step();
    }

    fn settle(&mut self) {
        self.driver.settle();
    }

    fn end_all(&mut self, end: &End) {
        self.driver.end_all(end);
    }
}

impl Reading {
    /// Moves inputs in.
    fn feed<M>(&mut self, seq: SeqId, stage: &'static str, engine: &mut ArEngine<M>) -> Verdict
    where
        M: ArModel<Row: crate::item::FromItem>,
    {
        let Some(inputs) = &mut self.inputs else {
            return Verdict::Keep;
        };
        loop {
            match inputs.next() {
                Recv::Item(item) => match M::Row::from_item(item) {
                    Ok(rows) => {
                        self.rows += rows.len() as u32;
                        engine.push(seq, rows, false);
                    }
                    Err(item) => return Verdict::Fail(unexpected(stage, &item)),
                },
                Recv::End(end @ (End::Stop | End::Length | End::Repetition)) => {
                    self.end = end;
                    engine.push(seq, Vec::new(), true);
                }
                // Earlier outputs of a failed stage are discarded.
                Recv::End(end) => return Verdict::Fail(end),
                Recv::Empty => return Verdict::Keep,
                Recv::Gone => return Verdict::Drop,
            }
        }
    }

    fn stalls_at(&self) -> Option<Stamp> {
        self.inputs.as_ref()?.stalls_at(self.patience?.1)
    }

    fn stalled(&self, stage: &'static str, now: Stamp) -> Option<End> {
        let (upstream, patience) = self.patience?;
        self.inputs.as_ref()?.stalled(upstream, stage, patience, now)
    }
}

/// Failure of a sequence of `stage` whose upstream sends an item that it does not take.
pub(super) fn unexpected(stage: &'static str, item: &Item) -> End {
    failed(
        stage,
        format!("it was given {}, which it does not take", item.kind().name()),
    )
}

/// Returns true if a sequence begins to wait for an input that the stage before should have delivered. The stage
/// behind is told why nothing comes: an input is awaited, for which its writer answers, or the sequence is
/// `placeless` here, with too many others.
fn is_starved(sequence: &mut Sequence<Reading>, placeless: bool, now: Stamp) -> bool {
    let sink = &mut sequence.sink;
    let reading = &mut sequence.course;
    let idle = !sink.is_paused() && reading.rows <= sequence.outputs.saturating_add(reading.rows_before);
    let inputs = reading.inputs.as_mut();
    let want = inputs.map_or(Want::Nothing, |inputs| inputs.observe(idle, now));
    sink.set_idle(want == Want::Idle || placeless);
    let starved = want != Want::Nothing && reading.generated && reading.rows > 0;
    let begins = starved && !reading.starved;
    reading.starved = starved;
    begins
}
