//! The generation engine: batches requests that are answered in one step each (an audio encoder).
//!
//! In: [`OneShotEngine::add`], [`OneShotEngine::abort`]. Out: the events of each [`OneShotEngine::step`]. A step takes
//! requests in the order of priority and arrival while they fit its budget, whole or not at all, and all it takes are
//! finished after it. A request larger than the budget has a step to itself: what cannot be taken in pieces is served
//! alone. The number of requests in a step is bounded too, so that a crowd delays those behind it and not everybody.

use std::collections::{BTreeMap, HashMap};

use crate::ar::{FinishReason, SeqRecord};
use crate::ids::{SeqId, Stamp};
use crate::model::{ModelError, OneShotModel};
use crate::order::Order;

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

/// How a request is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OneShotOptions {
    /// Lower goes first; among equals, first come, first served.
    pub priority: i32,
}

/// Why a request was not admitted.
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
    /// It is larger than any request may be.
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

/// What happened to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum OneShotEvent<T> {
    /// It was added since the last step.
    Queued {
        /// The request.
        seq: SeqId,
        /// When.
        at: Stamp,
    },
    /// The step took it.
    Scheduled {
        /// The request.
        seq: SeqId,
        /// When it was added.
        queued_at: Stamp,
        /// Start of the step.
        at: Stamp,
    },
    /// It is over and forgotten. Every request that was admitted gets exactly one of these.
    Finished {
        /// The request.
        seq: SeqId,
        /// What it gave; there exactly if the reason is [`FinishReason::Stop`].
        output: Option<T>,
        /// Why it is over: `Stop`, `Abort` or `Error`.
        reason: FinishReason,
        /// Its life in figures; its cost counts as its prompt.
        record: SeqRecord,
    },
}

/// State of the engine after a step, and what the step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OneShotStats {
    /// Requests that wait.
    pub waiting: u32,
    /// Their cost.
    pub waiting_cost: u32,
    /// Requests computed in this step.
    pub batch: u32,
    /// Their cost.
    pub cost: u32,
}

/// Outcome of one [`OneShotEngine::step`].
#[derive(Debug)]
pub struct OneShotReport<T> {
    /// In order of occurrence, beginning with what happened since the last step.
    pub events: Vec<OneShotEvent<T>>,
    /// Counts for this step.
    pub stats: OneShotStats,
    /// When the step began.
    pub began: Stamp,
    /// When its results were there.
    pub ended: Stamp,
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

    fn finish<T>(mut self, result: Result<T, FinishReason>, at: Stamp) -> OneShotEvent<T> {
        self.record.finished = at;
        let (output, reason) = match result {
            Ok(output) => {
                self.record.first_output = Some(at);
                self.record.last_output = Some(at);
                self.record.outputs = 1;
                (Some(output), FinishReason::Stop)
            }
            Err(reason) => (None, reason),
        };
        OneShotEvent::Finished {
            seq: self.seq,
            output,
            reason,
            record: self.record,
        }
    }
}

/// Batching over one [`OneShotModel`].
#[derive(Debug)]
pub struct OneShotEngine<M: OneShotModel> {
    model: M,
    config: OneShotConfig,
    waiting: BTreeMap<Order, Request<M::Input>>,
    by_id: HashMap<SeqId, Order>,
    waiting_cost: u32,
    next_arrival: u64,
    /// Events since the last step.
    pending: Vec<OneShotEvent<M::Output>>,
    /// Requests given up since the last step.
    aborted: Vec<Request<M::Input>>,
}

impl<M: OneShotModel> OneShotEngine<M> {
    /// Takes the model.
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
        }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`OneShotError`]; nothing is kept then.
    pub fn add(
        &mut self,
        seq: SeqId,
        input: M::Input,
        options: OneShotOptions,
        now: Stamp,
    ) -> Result<(), OneShotError> {
        // What costs nothing still takes part in a step.
        let cost = self.model.cost(&input)?.max(1);
        self.check(seq, cost)?;
        let order = Order {
            priority: options.priority,
            arrival: self.next_arrival,
        };
        self.next_arrival += 1;
        self.waiting_cost += cost;
        let record = SeqRecord {
            queued: now,
            prompt_tokens: cost,
            ..SeqRecord::default()
        };
        self.by_id.insert(seq, order);
        self.waiting.insert(order, Request { seq, input, record });
        self.pending.push(OneShotEvent::Queued { seq, at: now });
        Ok(())
    }

    fn check(&self, seq: SeqId, cost: u32) -> Result<(), OneShotError> {
        if self.by_id.contains_key(&seq) {
            return Err(OneShotError::Duplicate(seq));
        }
        let (waiting, limit) = (self.waiting.len() as u32, self.config.max_waiting);
        if waiting >= limit {
            return Err(OneShotError::QueueFull { waiting, limit });
        }
        let limit = self.config.max_cost;
        if cost > limit {
            return Err(OneShotError::TooLarge { cost, limit });
        }
        let (waiting, limit) = (self.waiting_cost, self.config.max_waiting_cost);
        if cost > limit - waiting {
            return Err(OneShotError::QueueCost { waiting, cost, limit });
        }
        Ok(())
    }

    /// Gives a request up. Returns whether it was still waiting; if so the next step's report has its end.
    pub fn abort(&mut self, seq: SeqId) -> bool {
        let Some(order) = self.by_id.get(&seq) else {
            return false;
        };
        let order = *order;
        let request = self.take(order);
        self.aborted.push(request);
        true
    }

    /// Whether [`step`](Self::step) would do anything.
    pub fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.aborted.is_empty()
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The model, for reading.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// [`step_with`](Self::step_with) for callers whose clock does not move during a step.
    pub fn step(&mut self, now: Stamp) -> OneShotReport<M::Output> {
        self.step_with(|| now)
    }

    /// Does one step of work. `clock` is read when it begins and when its results are there.
    pub fn step_with(&mut self, mut clock: impl FnMut() -> Stamp) -> OneShotReport<M::Output> {
        let began = clock();
        let mut events = std::mem::take(&mut self.pending);
        let aborted = self.aborted.drain(..);
        events.extend(aborted.map(|request| request.finish(Err(FinishReason::Abort), began)));
        let mut batch = self.plan();
        for request in &mut batch {
            request.record.scheduled = Some(began);
            events.push(OneShotEvent::Scheduled {
                seq: request.seq,
                queued_at: request.record.queued,
                at: began,
            });
        }
        let stats = OneShotStats {
            waiting: self.waiting.len() as u32,
            waiting_cost: self.waiting_cost,
            batch: batch.len() as u32,
            cost: batch.iter().map(Request::cost).sum(),
        };
        let mut ended = began;
        if !batch.is_empty() {
            let results = self.run(&batch);
            ended = clock();
            let finish = |(request, result): (Request<_>, _)| request.finish(result, ended);
            events.extend(batch.into_iter().zip(results).map(finish));
        }
        OneShotReport {
            events,
            stats,
            began,
            ended,
        }
    }

    /// Takes the first requests as far as they fit; the first of all always does.
    fn plan(&mut self) -> Vec<Request<M::Input>> {
        let mut batch: Vec<Request<M::Input>> = Vec::new();
        let mut cost = 0u32;
        while (batch.len() as u32) < self.config.max_batch {
            let Some((order, next)) = self.waiting.first_key_value() else {
                break;
            };
            cost = cost.saturating_add(next.cost());
            if !batch.is_empty() && cost > self.config.max_batch_cost {
                break;
            }
            let order = *order;
            batch.push(self.take(order));
        }
        batch
    }

    fn take(&mut self, order: Order) -> Request<M::Input> {
        let request = self.waiting.remove(&order).expect("it waits");
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
                let (found, expected) = (results.len(), batch.len());
                assert_eq!(found, expected, "the model must answer for every request");
                let answer = |result: Result<_, String>| result.map_err(FinishReason::Error);
                results.into_iter().map(answer).collect()
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
