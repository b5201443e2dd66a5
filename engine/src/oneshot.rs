//! The generation engine: batches requests that are answered in one step each (an audio encoder).
//!
//! In: [`OneShotEngine::add`], [`OneShotEngine::abort`], [`OneShotEngine::set_paused`]. Out: the events of each
//! [`OneShotEngine::step`]. A step takes requests in the order of arrival while they fit its budget, whole or not at
//! all, and all it takes are computed by it. A request larger than the budget has a step to itself: what cannot be
//! taken in pieces is served alone. The number of requests in a step is bounded too, so that many requests at once delay
//! only those behind them.
//!
//! A request may have several outputs. Those for which its consumer has room are given out in the step that made them,
//! the others in later steps; meanwhile other requests are computed.

use std::collections::{BTreeMap, HashMap};
use std::vec;

use crate::ids::{SeqId, Stamp};
use crate::model::{Answer, ModelError, OneShotModel};
use crate::order::Arrival;
use crate::step::{FinishReason, SeqEvent, SeqRecord, StepReport, StepStats};

/// Limits of a [`OneShotEngine`]. Costs are in the model's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneShotConfig {
    /// Requests in one step.
    pub max_batch: u32,
    /// Cost of one step, unless a single request costs more.
    pub max_batch_cost: u32,
    /// Cost of one request.
    pub max_cost: u32,
    /// Requests that may wait, for their step or for room for their outputs.
    pub max_waiting: u32,
    /// Cost of all that wait.
    pub max_waiting_cost: u32,
}

impl Default for OneShotConfig {
    fn default() -> Self {
        Self {
            max_batch: 8,
            max_batch_cost: 4096,
            max_cost: 1 << 16,
            max_waiting: 256,
            max_waiting_cost: 1 << 20,
        }
    }
}

/// Reason why a request was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum OneShotError {
    /// The queue is at its bound.
    #[error("waiting queue is full ({waiting} of {limit})")]
    QueueFull {
        /// Requests waiting now.
        waiting: u32,
        /// The bound.
        limit: u32,
    },
    /// The queue's cost is at its bound.
    #[error("waiting queue is full (cost {waiting} of {limit}, {cost} more does not fit)")]
    QueueCost {
        /// Cost waiting now.
        waiting: u32,
        /// Cost of the refused request.
        cost: u32,
        /// The bound.
        limit: u32,
    },
    /// The request is larger than any may be.
    #[error("input of cost {cost} is too large, at most {limit} is served")]
    TooLarge {
        /// Its cost.
        cost: u32,
        /// The bound.
        limit: u32,
    },
    /// The id is in use.
    #[error("request {0:?} exists already")]
    Duplicate(SeqId),
    /// The model refused it.
    #[error(transparent)]
    Model(#[from] ModelError),
}

#[derive(Debug)]
struct Request<I> {
    seq: SeqId,
    input: I,
    max_outputs: u32,
    record: SeqRecord,
}

impl<I> Request<I> {
    fn cost(&self) -> u32 {
        self.record.prompt_tokens
    }
}

/// A request that was computed, with the outputs that were not given out yet.
#[derive(Debug)]
struct Computed<O> {
    outputs: vec::IntoIter<O>,
    /// Reason of its end, behind the last output.
    reason: FinishReason,
    record: SeqRecord,
    paused: bool,
}

impl<O> Computed<O> {
    fn new(answer: Answer<O>, max_outputs: u32, record: SeqRecord) -> Self {
        let (mut outputs, mut reason) = match answer {
            Ok(outputs) => (outputs, FinishReason::Stop),
            Err(message) => (Vec::new(), FinishReason::Error(message)),
        };
        if outputs.len() > max_outputs as usize {
            outputs.truncate(max_outputs as usize);
            reason = FinishReason::Length;
        }
        Self {
            outputs: outputs.into_iter(),
            reason,
            record,
            paused: false,
        }
    }

    /// Gives out the outputs for which there is room; returns true if none are left.
    fn give(&mut self, seq: SeqId, mut room: u32, units: fn(&O) -> u32, report: &mut StepReport<O>) -> bool {
        while room > 0
            && let Some(item) = self.outputs.next()
        {
            room = room.saturating_sub(units(&item).max(1));
            self.record.first_output.get_or_insert(report.ended);
            self.record.last_output = Some(report.ended);
            self.record.outputs += 1;
            report.stats.outputs += 1;
            report.stats.decode_tokens += 1;
            report.events.push(SeqEvent::Output { seq, item });
        }
        self.outputs.len() == 0
    }
}

/// Batching over one [`OneShotModel`].
#[derive(Debug)]
pub struct OneShotEngine<M: OneShotModel> {
    model: M,
    config: OneShotConfig,
    waiting: BTreeMap<Arrival, Request<M::Input>>,
    by_id: HashMap<SeqId, Arrival>,
    computed: BTreeMap<SeqId, Computed<M::Output>>,
    waiting_cost: u32,
    next_arrival: u64,
    /// Events since the last step.
    pending: Vec<SeqEvent<M::Output>>,
    /// Requests cancelled since the last step.
    aborted: Vec<(SeqId, SeqRecord)>,
    /// Reason why the model can do no further step.
    lost: Option<String>,
}

impl<M: OneShotModel> OneShotEngine<M> {
    /// Creates an engine over `model`.
    ///
    /// # Panics
    /// If `config` has a zero limit.
    pub fn new(model: M, config: OneShotConfig) -> Self {
        let limits = [
            config.max_batch,
            config.max_batch_cost,
            config.max_cost,
            config.max_waiting,
            config.max_waiting_cost,
        ];
        assert!(
            limits.iter().all(|limit| *limit > 0),
            "{config:?} has a zero limit"
        );
        Self {
            model,
            config,
            waiting: BTreeMap::new(),
            by_id: HashMap::new(),
            computed: BTreeMap::new(),
            waiting_cost: 0,
            next_arrival: 0,
            pending: Vec::new(),
            aborted: Vec::new(),
            lost: None,
        }
    }

    /// Queues a request; of its outputs the first `max_outputs` are given out.
    ///
    /// # Errors
    /// [`OneShotError`]; nothing is kept then.
    pub fn add(
        &mut self,
        seq: SeqId,
        input: M::Input,
        max_outputs: u32,
        now: Stamp,
    ) -> Result<(), OneShotError> {
        // A request without cost still takes part in a step.
        let cost = self.model.cost(&input)?.max(1);
        self.check(seq, cost)?;
        let arrival = Arrival(self.next_arrival);
        self.next_arrival += 1;
        self.waiting_cost += cost;
        let record = SeqRecord {
            queued: now,
            prompt_tokens: cost,
            ..SeqRecord::default()
        };
        self.by_id.insert(seq, arrival);
        let request = Request {
            seq,
            input,
            max_outputs,
            record,
        };
        self.waiting.insert(arrival, request);
        self.pending.push(SeqEvent::Queued { seq, at: now });
        Ok(())
    }

    fn check(&self, seq: SeqId, cost: u32) -> Result<(), OneShotError> {
        if self.by_id.contains_key(&seq) || self.computed.contains_key(&seq) {
            return Err(OneShotError::Duplicate(seq));
        }
        let waiting = self.len() as u32;
        let limit = self.config.max_waiting;
        if waiting >= limit {
            return Err(OneShotError::QueueFull { waiting, limit });
        }
        let limit = self.config.max_cost;
        if cost > limit {
            return Err(OneShotError::TooLarge { cost, limit });
        }
        let waiting = self.waiting_cost;
        let limit = self.config.max_waiting_cost;
        if cost > limit - waiting {
            return Err(OneShotError::QueueCost { waiting, cost, limit });
        }
        Ok(())
    }

    /// Aborts a request. Returns true if it was there; the next step's report then has its end.
    pub fn abort(&mut self, seq: SeqId) -> bool {
        let record = match self.by_id.get(&seq) {
            Some(&arrival) => Some(self.take(arrival).record),
            None => self.computed.remove(&seq).map(|computed| computed.record),
        };
        self.aborted.extend(record.map(|record| (seq, record)));
        record.is_some()
    }

    /// Pauses the outputs of a request (its consumer is full), or resumes them.
    pub fn set_paused(&mut self, seq: SeqId, paused: bool) {
        if let Some(computed) = self.computed.get_mut(&seq) {
            computed.paused = paused;
        }
    }

    /// Returns true if [`step`](Self::step) would do anything.
    pub fn has_work(&self) -> bool {
        let gives = || self.computed.values().any(|computed| !computed.paused);
        !self.waiting.is_empty() || !self.aborted.is_empty() || gives()
    }

    /// Requests in the engine.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.computed.len()
    }

    /// Returns true if no request is in the engine.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reason why the model can do no further step, once it is lost. No end is reported for the requests in the
    /// engine at that time.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// [`step_with`](Self::step_with) for callers whose clock does not move during a step, and whose consumers have
    /// room for everything.
    pub fn step(&mut self, now: Stamp) -> StepReport<M::Output> {
        self.step_with(|| now, &mut |_| u32::MAX)
    }

    /// Runs one step. `clock` is read when it begins and when its results are there; `room` returns the units for which
    /// the consumer of a request has room.
    pub fn step_with(
        &mut self,
        mut clock: impl FnMut() -> Stamp,
        room: &mut dyn FnMut(SeqId) -> u32,
    ) -> StepReport<M::Output> {
        let mut report = StepReport::new(clock());
        let began = report.began;
        report.events = std::mem::take(&mut self.pending);
        for (seq, record) in self.aborted.drain(..) {
            report.end(seq, FinishReason::Abort, record);
        }
        let mut batch = self.plan();
        for request in &mut batch {
            request.record.scheduled = Some(began);
            report.events.push(SeqEvent::Scheduled {
                seq: request.seq,
                queued_at: request.record.queued,
                at: began,
                resumed: false,
            });
        }
        let cost = batch.iter().map(Request::cost).sum();
        report.stats = StepStats {
            waiting_capacity: self.waiting.len() as u32,
            prompt_tokens: cost,
            admitted: batch.len() as u32,
            prefill_tokens: cost,
            ..StepStats::default()
        };
        if !batch.is_empty() {
            let answers = self.run(&batch);
            report.ended = clock();
            for (request, answer) in batch.into_iter().zip(answers) {
                let computed = Computed::new(answer, request.max_outputs, request.record);
                self.computed.insert(request.seq, computed);
            }
        }
        self.give(&mut report, room);
        report.stats.running = self.computed.len() as u32;
        report
    }

    /// Gives out the outputs for which there is room, and ends the requests of which all were given out.
    fn give(&mut self, report: &mut StepReport<M::Output>, room: &mut dyn FnMut(SeqId) -> u32) {
        let giving = self.computed.iter_mut().filter(|(_, computed)| !computed.paused);
        let mut done = Vec::new();
        for (&seq, computed) in giving {
            if computed.give(seq, room(seq), M::units, report) {
                report.end(seq, computed.reason.clone(), computed.record);
                done.push(seq);
            }
        }
        for seq in done {
            self.computed.remove(&seq);
        }
    }

    /// Takes the first requests as far as they fit; the first of all always does.
    fn plan(&mut self) -> Vec<Request<M::Input>> {
        let mut batch: Vec<Request<M::Input>> = Vec::new();
        let mut cost = 0u32;
        while (batch.len() as u32) < self.config.max_batch {
            let Some((arrival, next)) = self.waiting.first_key_value() else {
                break;
            };
            cost = cost.saturating_add(next.cost());
            if !batch.is_empty() && cost > self.config.max_batch_cost {
                break;
            }
            let arrival = *arrival;
            batch.push(self.take(arrival));
        }
        batch
    }

    fn take(&mut self, arrival: Arrival) -> Request<M::Input> {
        let request = self.waiting.remove(&arrival).expect("it waits");
        self.by_id.remove(&request.seq);
        self.waiting_cost -= request.cost();
        request
    }

    /// One answer per request of the batch; none if the model is lost.
    fn run(&mut self, batch: &[Request<M::Input>]) -> Vec<Answer<M::Output>> {
        let inputs: Vec<_> = batch
            .iter()
            .map(|request| (request.seq, &request.input))
            .collect();
        match self.model.run(&inputs) {
            Ok(answers) => {
                let found = answers.len();
                let expected = batch.len();
                assert_eq!(found, expected, "the model must answer for every request");
                answers
            }
            Err(ModelError::Lost(reason)) => {
                self.lost = Some(reason);
                Vec::new()
            }
            Err(error) => batch.iter().map(|_| Err(error.to_string())).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
