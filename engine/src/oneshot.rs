//! The generation engine: batches requests that are answered in one step each (an audio encoder).
//!
//! In: [`OneShotEngine::add`], [`OneShotEngine::abort`]. Out: the events of each [`OneShotEngine::step`]. A step takes
//! requests in the order of arrival while they fit its budget, whole or not at all, and all it takes are
//! finished after it. A request larger than the budget has a step to itself: what cannot be taken in pieces is served
//! alone. The number of requests in a step is bounded too, so that many requests at once delay only those behind them.

use std::collections::{BTreeMap, HashMap};

use crate::ids::{SeqId, Stamp};
use crate::model::{ModelError, OneShotModel};
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
    /// Requests that may wait.
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
    record: SeqRecord,
}

impl<I> Request<I> {
    fn cost(&self) -> u32 {
        self.record.prompt_tokens
    }

    /// The last events of a request that ends at `at`.
    fn finish<T>(mut self, result: Result<T, FinishReason>, at: Stamp, events: &mut Vec<SeqEvent<T>>) {
        let seq = self.seq;
        self.record.finished = at;
        let reason = match result {
            Ok(item) => {
                self.record.first_output = Some(at);
                self.record.last_output = Some(at);
                self.record.outputs = 1;
                events.push(SeqEvent::Output { seq, item });
                FinishReason::Stop
            }
            Err(reason) => reason,
        };
        let record = self.record;
        events.push(SeqEvent::Finished { seq, reason, record });
    }
}

/// Batching over one [`OneShotModel`].
#[derive(Debug)]
pub struct OneShotEngine<M: OneShotModel> {
    model: M,
    config: OneShotConfig,
    waiting: BTreeMap<Arrival, Request<M::Input>>,
    by_id: HashMap<SeqId, Arrival>,
    waiting_cost: u32,
    next_arrival: u64,
    /// Events since the last step.
    pending: Vec<SeqEvent<M::Output>>,
    /// Requests cancelled since the last step.
    aborted: Vec<Request<M::Input>>,
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
            waiting_cost: 0,
            next_arrival: 0,
            pending: Vec::new(),
            aborted: Vec::new(),
            lost: None,
        }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`OneShotError`]; nothing is kept then.
    pub fn add(&mut self, seq: SeqId, input: M::Input, now: Stamp) -> Result<(), OneShotError> {
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
        self.waiting.insert(arrival, Request { seq, input, record });
        self.pending.push(SeqEvent::Queued { seq, at: now });
        Ok(())
    }

    fn check(&self, seq: SeqId, cost: u32) -> Result<(), OneShotError> {
        if self.by_id.contains_key(&seq) {
            return Err(OneShotError::Duplicate(seq));
        }
        let waiting = self.waiting.len() as u32;
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

    /// Aborts a request. Returns true if it was waiting; the next step's report then has its end.
    pub fn abort(&mut self, seq: SeqId) -> bool {
        let Some(&arrival) = self.by_id.get(&seq) else {
            return false;
        };
        let request = self.take(arrival);
        self.aborted.push(request);
        true
    }

    /// Returns true if [`step`](Self::step) would do anything.
    pub fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.aborted.is_empty()
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reason why the model can do no further step, once it is lost. No end is reported for the requests in the
    /// engine at that time.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// [`step_with`](Self::step_with) for callers whose clock does not move during a step.
    pub fn step(&mut self, now: Stamp) -> StepReport<M::Output> {
        self.step_with(|| now)
    }

    /// Runs one step. `clock` is read when it begins and when its results are there.
    pub fn step_with(&mut self, mut clock: impl FnMut() -> Stamp) -> StepReport<M::Output> {
        let mut report = StepReport::new(clock());
        let began = report.began;
        report.events = std::mem::take(&mut self.pending);
        for request in self.aborted.drain(..) {
            request.finish(Err(FinishReason::Abort), began, &mut report.events);
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
        let count = batch.len() as u32;
        let cost = batch.iter().map(Request::cost).sum();
        report.stats = StepStats {
            waiting_capacity: self.waiting.len() as u32,
            prompt_tokens: cost,
            outputs: count,
            admitted: count,
            prefill_tokens: cost,
            decode_tokens: count,
            ..StepStats::default()
        };
        if !batch.is_empty() {
            let results = self.run(&batch);
            report.ended = clock();
            for (request, result) in batch.into_iter().zip(results) {
                request.finish(result, report.ended, &mut report.events);
            }
        }
        report
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

    /// One answer per request of the batch.
    fn run(&mut self, batch: &[Request<M::Input>]) -> Vec<Result<M::Output, FinishReason>> {
        let inputs: Vec<_> = batch
            .iter()
            .map(|request| (request.seq, &request.input))
            .collect();
        match self.model.run(&inputs) {
            Ok(results) => {
                let found = results.len();
                let expected = batch.len();
                assert_eq!(found, expected, "the model must answer for every request");
                let answer = |result: Result<_, String>| result.map_err(FinishReason::Error);
                results.into_iter().map(answer).collect()
            }
            Err(ModelError::Lost(reason)) => {
                self.lost = Some(reason);
                Vec::new()
            }
            Err(error) => {
                let failed = || Err(FinishReason::Error(error.to_string()));
                batch.iter().map(|_| failed()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
