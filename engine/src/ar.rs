//! The autoregressive engine: continuous batching over paged KV blocks.
//!
//! In: [`ArEngine::add`], [`ArEngine::push`], [`ArEngine::abort`], [`ArEngine::set_paused`]. Out: the events and the
//! statistics of each [`ArEngine::step`]. Sequences join and leave between steps. A step takes every runnable decode
//! first, then prompt chunks under the remaining token budget; batches are ragged and never padded. When KV blocks run
//! out the youngest sequence is preempted and later recomputed.

mod plan;
mod sequence;

use std::collections::{HashMap, VecDeque};

use crate::blocks::BlockPool;
use crate::ids::{SeqId, Stamp};
use crate::model::{ArModel, KvSpec, ModelError, Sampled, SeqStep};
use plan::Entry;
use sequence::{Sequence, State};

/// Limits of an [`ArEngine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArConfig {
    /// Sequences that may hold KV blocks at once.
    pub max_num_seqs: u32,
    /// Positions computed per step, decodes and prompt chunks together. At least `max_num_seqs`, so that decodes
    /// always fit.
    pub max_num_batched_tokens: u32,
    /// Prompt positions computed per step: the cap on how long a newcomer may hold up the streams in flight.
    pub max_prefill_tokens: u32,
    /// Sequences that may wait for a place.
    pub max_waiting: u32,
}

impl Default for ArConfig {
    fn default() -> Self {
        Self {
            max_num_seqs: 64,
            max_num_batched_tokens: 512,
            max_prefill_tokens: 256,
            max_waiting: 1024,
        }
    }
}

/// How a sequence is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddOptions {
    /// Every output needs one more row from upstream (see [`ArEngine::push`]); without, the model feeds itself.
    pub needs_rows: bool,
    /// End with [`FinishReason::Length`] after this many outputs, at least 1.
    pub max_outputs: u32,
}

/// Why a sequence was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The waiting queue is at its bound.
    #[error("waiting queue is full ({waiting} of {limit})")]
    QueueFull {
        /// Sequences waiting now.
        waiting: u32,
        /// The bound.
        limit: u32,
    },
    /// It could not run even alone.
    #[error("prompt of {prompt} positions does not fit: the model takes {max_len}, its KV cache {capacity}")]
    TooLong {
        /// Prompt positions.
        prompt: u32,
        /// Longest sequence of the model.
        max_len: u32,
        /// Positions in the whole KV pool.
        capacity: u32,
    },
    /// The id is in use.
    #[error("sequence {0:?} exists already")]
    Duplicate(SeqId),
    /// It may produce nothing, so there is nothing to do.
    #[error("sequence {0:?} asks for no outputs at all")]
    NoOutputs(SeqId),
    /// The model refused the request.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Why a sequence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    Stop,
    /// It reached `max_outputs`, the model's longest sequence, or the size of the KV pool.
    Length,
    /// Its computation failed.
    Error(String),
}

/// What happened to a sequence in a step.
#[derive(Debug, Clone, PartialEq)]
pub enum ArEvent<T> {
    /// It moved from waiting to running, for the first time or again after a preemption.
    Scheduled {
        /// The sequence.
        seq: SeqId,
        /// When it began to wait.
        queued_at: Stamp,
        /// Start of the step that took it.
        at: Stamp,
    },
    /// It lost its KV blocks and waits to be recomputed.
    Preempted {
        /// The sequence.
        seq: SeqId,
    },
    /// It produced one output.
    Output {
        /// The sequence.
        seq: SeqId,
        /// The output.
        item: T,
    },
    /// It is over and forgotten.
    Finished {
        /// The sequence.
        seq: SeqId,
        /// Why.
        reason: FinishReason,
    },
}

/// State of the engine after a step, and what the step did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ArStats {
    /// Sequences that hold KV blocks.
    pub running: u32,
    /// Sequences that wait for a place.
    pub waiting: u32,
    /// Share of the KV blocks in use, 0 to 1.
    pub kv_usage: f64,
    /// Prompt positions computed in this step (recomputation included).
    pub prefill_tokens: u32,
    /// Decode positions computed in this step.
    pub decode_tokens: u32,
    /// Sequences that ran out of upstream rows at the end of this step.
    pub starved: u32,
    /// Sequences preempted in this step.
    pub preempted: u32,
}

/// Outcome of one [`ArEngine::step`].
#[derive(Debug)]
pub struct ArReport<T> {
    /// In order of occurrence.
    pub events: Vec<ArEvent<T>>,
    /// Counts for this step.
    pub stats: ArStats,
}

/// Continuous batching over one [`ArModel`].
#[derive(Debug)]
pub struct ArEngine<M: ArModel> {
    model: M,
    config: ArConfig,
    spec: KvSpec,
    pool: BlockPool,
    sequences: HashMap<SeqId, Sequence>,
    /// First come, first served; preempted sequences return to the front.
    waiting: VecDeque<SeqId>,
    /// In the order of arrival, oldest first.
    running: Vec<SeqId>,
    next_arrival: u64,
}

impl<M: ArModel> ArEngine<M> {
    /// Takes the model; its [`KvSpec`] sizes the block pool.
    ///
    /// # Panics
    /// If `config` has a zero limit, or a token budget below `max_num_seqs`.
    pub fn new(model: M, config: ArConfig) -> Self {
        assert!(
            config.max_num_seqs > 0 && config.max_prefill_tokens > 0,
            "{config:?} has a zero limit"
        );
        assert!(
            config.max_num_batched_tokens >= config.max_num_seqs,
            "{config:?}: the token budget must hold one decode of every sequence"
        );
        let spec = model.kv_spec();
        Self {
            model,
            config,
            spec,
            pool: BlockPool::new(spec.num_blocks, spec.block_size),
            sequences: HashMap::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            next_arrival: 0,
        }
    }

    /// Queues a sequence.
    ///
    /// # Errors
    /// [`AddError`]; nothing is kept then.
    ///
    /// # Panics
    /// If the model opens the sequence with an empty prompt.
    pub fn add(
        &mut self,
        seq: SeqId,
        request: M::Request,
        options: AddOptions,
        now: Stamp,
    ) -> Result<(), AddError> {
        if self.sequences.contains_key(&seq) {
            return Err(AddError::Duplicate(seq));
        }
        let waiting = self.waiting.len() as u32;
        if waiting >= self.config.max_waiting {
            return Err(AddError::QueueFull {
                waiting,
                limit: self.config.max_waiting,
            });
        }
        if options.max_outputs == 0 {
            return Err(AddError::NoOutputs(seq));
        }
        let prompt = self.model.open(seq, request)?;
        assert!(prompt > 0, "{seq:?} was opened with an empty prompt");
        let (max_len, capacity) = (self.spec.max_len, self.pool.capacity());
        let room = max_len.min(capacity);
        if prompt > room {
            self.model.close(seq);
            return Err(AddError::TooLong {
                prompt,
                max_len,
                capacity,
            });
        }
        // The last output needs no position of its own, hence the extra one.
        let max_outputs = options.max_outputs.min(room - prompt + 1);
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        let options = AddOptions {
            max_outputs,
            ..options
        };
        self.sequences
            .insert(seq, Sequence::new(prompt, options, arrival, now));
        self.waiting.push_back(seq);
        Ok(())
    }

    /// Hands over upstream rows; `last` says that no more will come. Unknown sequences are ignored: they may have
    /// ended while the rows were under way.
    pub fn push(&mut self, seq: SeqId, rows: Vec<M::Row>, last: bool) {
        if let Some(sequence) = self.sequences.get_mut(&seq) {
            sequence.receive(rows.len() as u32, last);
            self.model.push(seq, rows, last);
        }
    }

    /// Holds a sequence back between steps (its consumer is full), or lets it go on. It keeps its KV blocks.
    pub fn set_paused(&mut self, seq: SeqId, paused: bool) {
        if let Some(sequence) = self.sequences.get_mut(&seq) {
            sequence.paused = paused;
        }
    }

    /// Ends a sequence now. Returns whether it was still alive; no event follows.
    pub fn abort(&mut self, seq: SeqId) -> bool {
        self.remove(seq)
    }

    /// Whether [`step`](Self::step) would do anything. If not, only a call of `add`, `push`, `set_paused` or `abort`
    /// can change that, so a worker may sleep until its next command.
    pub fn has_work(&self) -> bool {
        self.running.iter().any(|seq| self.sequences[seq].is_runnable()) || self.next_admissible().is_some()
    }

    /// Sequences known: waiting and running.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Whether no sequence is known.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// The model, for reading.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Gives up the engine and returns the model, all sequences closed.
    pub fn into_model(mut self) -> M {
        for seq in self.sequences.keys().copied().collect::<Vec<_>>() {
            self.remove(seq);
        }
        self.model
    }

    /// Does one step of work at time `now`: plan, execute, sample.
    pub fn step(&mut self, now: Stamp) -> ArReport<M::Output> {
        let mut report = ArReport {
            events: Vec::new(),
            stats: ArStats::default(),
        };
        let plan = self.plan(now, &mut report);
        if !plan.is_empty() {
            self.run(&plan, &mut report);
        }
        self.fill_stats(&mut report.stats);
        report
    }

    fn run(&mut self, plan: &[Entry], report: &mut ArReport<M::Output>) {
        let batch: Vec<SeqStep<'_>> = plan
            .iter()
            .map(|e| SeqStep {
                seq: e.seq,
                start: e.start,
                len: e.len,
                blocks: &self.sequences[&e.seq].blocks,
            })
            .collect();
        if let Err(error) = self.model.execute(&batch) {
            self.fail(plan.iter().map(|e| e.seq), &error, report);
            return;
        }
        let complete = self.advance(plan, &mut report.stats);
        if complete.is_empty() {
            return;
        }
        match self.model.sample(&complete) {
            Ok(sampled) => {
                assert_eq!(
                    sampled.len(),
                    complete.len(),
                    "the model must answer for every sequence"
                );
                for (seq, result) in complete.into_iter().zip(sampled) {
                    self.apply(seq, result, report);
                }
            }
            Err(error) => self.fail(complete.into_iter(), &error, report),
        }
    }

    /// Books the computed positions; returns the sequences that have caught up and can be sampled.
    fn advance(&mut self, plan: &[Entry], stats: &mut ArStats) -> Vec<SeqId> {
        let mut complete = Vec::with_capacity(plan.len());
        for entry in plan {
            let sequence = self
                .sequences
                .get_mut(&entry.seq)
                .expect("planned sequences are alive");
            sequence.computed += entry.len;
            match entry.prefill {
                true => stats.prefill_tokens += entry.len,
                false => stats.decode_tokens += entry.len,
            }
            if sequence.computed == sequence.known {
                complete.push(entry.seq);
            }
        }
        complete
    }

    fn apply(&mut self, seq: SeqId, result: Sampled<M::Output>, report: &mut ArReport<M::Output>) {
        let reason = match result {
            Sampled::Item(item) => {
                report.events.push(ArEvent::Output { seq, item });
                let sequence = self.sequences.get_mut(&seq).expect("sampled sequences are alive");
                sequence.emitted();
                if sequence.outputs < sequence.options.max_outputs {
                    report.stats.starved += u32::from(sequence.lacks_row());
                    return;
                }
                FinishReason::Length
            }
            Sampled::End => FinishReason::Stop,
            Sampled::Failed(message) => FinishReason::Error(message),
        };
        self.remove(seq);
        report.events.push(ArEvent::Finished { seq, reason });
    }

    fn fail(
        &mut self,
        seqs: impl Iterator<Item = SeqId>,
        error: &ModelError,
        report: &mut ArReport<M::Output>,
    ) {
        for seq in seqs {
            self.remove(seq);
            let reason = FinishReason::Error(error.to_string());
            report.events.push(ArEvent::Finished { seq, reason });
        }
    }

    fn remove(&mut self, seq: SeqId) -> bool {
        let Some(mut sequence) = self.sequences.remove(&seq) else {
            return false;
        };
        self.pool.release(&mut sequence.blocks);
        match sequence.state {
            State::Running => self.running.retain(|s| *s != seq),
            State::Waiting | State::Preempted => self.waiting.retain(|s| *s != seq),
        }
        self.model.close(seq);
        true
    }

    fn fill_stats(&self, stats: &mut ArStats) {
        stats.running = self.running.len() as u32;
        stats.waiting = self.waiting.len() as u32;
        let total = self.pool.total().max(1);
        stats.kv_usage = f64::from(total - self.pool.available()) / f64::from(total);
    }
}

#[cfg(test)]
mod tests;
