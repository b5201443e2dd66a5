//! Limits of the engine, and options of a sequence.

use crate::content::CacheSalt;
use crate::ids::SeqId;
use crate::model::ModelError;

/// Limits of an [`ArEngine`](crate::ArEngine).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArConfig {
    /// Sequences that may hold KV blocks at once ("places").
    pub max_num_seqs: u32,
    /// Positions computed per step, decodes and prompt chunks together. If there are more decodes than that, they take
    /// turns, the one served longest ago first.
    pub max_num_batched_tokens: u32,
    /// Most prompt positions per step: bounds the delay of running streams by a newcomer.
    pub max_prefill_tokens: u32,
    /// Prompt positions that decodes leave room for in every step in which a prompt could be computed, so that
    /// newcomers are admitted when decodes alone would fill the step. At most `max_prefill_tokens` and half of
    /// `max_num_batched_tokens` take effect.
    pub min_prefill_tokens: u32,
    /// Longest sequence, prompt and generated positions together; the model's own limit holds as well.
    pub max_model_len: u32,
    /// Sequences without a place.
    pub max_waiting: u32,
    /// Positions of all sequences without a place.
    pub max_waiting_tokens: u32,
    /// Steps for which a sequence that cannot run (no row from upstream, consumer full) keeps its place while another
    /// could use it. It loses it at once if the step would otherwise be empty.
    pub hold_patience: u32,
    /// Shares the KV rows of common prefixes between sequences whose model names the content of their positions.
    pub prefix_cache: bool,
}

impl Default for ArConfig {
    fn default() -> Self {
        Self {
            max_num_seqs: 64,
            max_num_batched_tokens: 512,
            max_prefill_tokens: 256,
            min_prefill_tokens: 32,
            max_model_len: u32::MAX,
            max_waiting: 1024,
            max_waiting_tokens: 1 << 20,
            hold_patience: 8,
            prefix_cache: true,
        }
    }
}

impl ArConfig {
    pub(super) fn check(&self) {
        let limits = [
            self.max_num_seqs,
            self.max_num_batched_tokens,
            self.max_prefill_tokens,
            self.min_prefill_tokens,
            self.max_model_len,
            self.max_waiting,
            self.max_waiting_tokens,
        ];
        assert!(limits.iter().all(|limit| *limit > 0), "{self:?} has a zero limit");
        assert!(
            self.max_num_batched_tokens > 1 || self.max_num_seqs == 1,
            "{self:?}: a step of one position cannot be divided between decodes and prompts"
        );
    }

    /// The prefill floor that takes effect.
    pub(super) fn prefill_floor(&self) -> u32 {
        let half = self.max_num_batched_tokens / 2;
        self.min_prefill_tokens.min(self.max_prefill_tokens).min(half)
    }
}

/// Options of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddOptions {
    /// Every output needs one more row from upstream (see [`push`](crate::ArEngine::push)); otherwise the model feeds
    /// itself.
    pub needs_rows: bool,
    /// Rows of the prompt besides the first one: with `needs_rows`, output `n` needs row `n` behind these.
    pub prompt_rows: u32,
    /// End with [`FinishReason::Length`](crate::FinishReason::Length) after this many outputs, at least 1.
    pub max_outputs: u32,
    /// Allows cached KV rows in place of the computation of prompt positions. Off for requests that need more of the
    /// computation than KV rows (hidden rows of prompt positions for the next stage).
    pub reuse_prefix: bool,
    /// Sequences with different salts never share KV rows.
    pub salt: CacheSalt,
    /// End with [`FinishReason::Repetition`](crate::FinishReason::Repetition) when the outputs repeat.
    pub repetition: Option<RepetitionLimit>,
}

impl Default for AddOptions {
    fn default() -> Self {
        Self {
            needs_rows: false,
            prompt_rows: 0,
            max_outputs: u32::MAX,
            reuse_prefix: true,
            salt: CacheSalt::default(),
            repetition: None,
        }
    }
}

/// Condition under which outputs count as endless repetition: they end in one pattern, repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepetitionLimit {
    /// Shortest pattern looked for, in tokens, at least 1.
    pub min_pattern: u32,
    /// Longest pattern looked for, in tokens.
    pub max_pattern: u32,
    /// Consecutive occurrences of the pattern, at least 2.
    pub count: u32,
}

impl RepetitionLimit {
    /// Longest pattern accepted: every token is compared once per length.
    pub const MAX_PATTERN: u32 = 256;

    /// Returns true if the bounds are consistent: patterns of 1 to at most `MAX_PATTERN` tokens, and a count above 1.
    pub fn is_valid(&self) -> bool {
        (1..=self.max_pattern).contains(&self.min_pattern)
            && self.max_pattern <= Self::MAX_PATTERN
            && self.count > 1
    }
}

/// Reason why a sequence was not admitted.
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
    /// The waiting queue's positions are at their bound.
    #[error("waiting queue is full ({waiting} of {limit} positions, {prompt} more do not fit)")]
    QueueTokens {
        /// Positions waiting now.
        waiting: u32,
        /// Prompt positions of the refused sequence.
        prompt: u32,
        /// The bound.
        limit: u32,
    },
    /// The sequence could not run even alone.
    #[error("prompt of {prompt} positions does not fit: the model takes {max_len}, its KV cache {capacity}")]
    TooLong {
        /// Prompt positions.
        prompt: u32,
        /// Longest sequence, of the model or by configuration.
        max_len: u32,
        /// Positions in the whole KV pool.
        capacity: u32,
    },
    /// The id is in use.
    #[error("sequence {0:?} exists already")]
    Duplicate(SeqId),
    /// The limit of outputs is zero.
    #[error("sequence {0:?} asks for no outputs at all")]
    NoOutputs(SeqId),
    /// The repetition limit is invalid.
    #[error(
        "invalid repetition limit {0:?}, expected patterns of 1 to {max} tokens and a count of at least 2",
        max = RepetitionLimit::MAX_PATTERN
    )]
    Repetition(RepetitionLimit),
    /// The model refused the request.
    #[error(transparent)]
    Model(#[from] ModelError),
}
