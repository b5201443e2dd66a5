//! The thinker's weights and how its input rows are made from tokens and audio.

use std::sync::Arc;

use omni_backend::{Backend, Params, Result};

use crate::checkpoint::LoadError;
use crate::computed::Kept;
use crate::config::ThinkerConfig;
use crate::loader::Loader;
use crate::nn::Stack;

use super::sequence::Input;

pub(crate) const LM_HEAD: &str = "thinker.lm_head";
const EMBEDDING: &str = "thinker.model.embed_tokens";

pub(crate) struct ThinkerNet<P: Params> {
    pub(super) config: ThinkerConfig,
    embed_tokens: Arc<P::Table>,
    pub(super) stack: Stack<P>,
    lm_head: P::Matrix,
}

impl<P: Params> ThinkerNet<P> {
    /// `embed_tokens` is shared with the talker.
    pub(crate) fn load(
        l: &Loader<'_, P>,
        embed_tokens: Arc<P::Table>,
        c: &ThinkerConfig,
    ) -> std::result::Result<Self, LoadError> {
        let hidden = c.stack.hidden;
        // The published files say `tie_word_embeddings` at some levels and have a head nevertheless.
        let tied = c.tied && !l.has(&format!("{LM_HEAD}.weight"));
        let head = if tied { EMBEDDING } else { LM_HEAD };
        Ok(Self {
            embed_tokens,
            stack: Stack::load(l, "thinker.model", &c.stack)?,
            lm_head: l.head(head, c.vocab, hidden)?,
            config: c.clone(),
        })
    }
}

/// The embedding table of text tokens, `[vocab, hidden]`.
pub(crate) fn embed_tokens<P: Params>(
    l: &Loader<'_, P>,
    vocab: usize,
    hidden: usize,
) -> std::result::Result<Arc<P::Table>, LoadError> {
    l.table(&format!("{EMBEDDING}.weight"), vocab, hidden)
        .map(Arc::new)
}

impl<B: Backend> ThinkerNet<B> {
    /// From the last layer's rows to hidden states after the norm, and logits `[rows, vocab]`.
    pub(super) fn finish(&self, b: &B, x: &B::Rows, kept: &mut Kept<B>) -> Result<(B::Rows, B::Rows)> {
        kept.norm_linear(b, self.stack.last_norm(), &self.lm_head, x)
    }

    /// Input rows `[inputs, hidden]`.
    pub(super) fn embed(&self, b: &B, inputs: &[Input<'_>]) -> Result<B::Rows> {
        let mut token_index = Vec::new();
        let mut tokens = Vec::new();
        let mut audio_index = Vec::new();
        let mut audio = Vec::new();
        for (row, input) in (0..).zip(inputs) {
            match input {
                Input::Token(id) => {
                    token_index.push(row);
                    tokens.push(*id);
                }
                Input::Audio(values) => {
                    audio_index.push(row);
                    audio.extend_from_slice(values);
                }
            }
        }
        if audio_index.is_empty() {
            return b.lookup(&self.embed_tokens, &b.ids(1, tokens)?, 0);
        }
        let hidden = self.config.stack.hidden;
        let mut rows = b.zeros(inputs.len(), hidden)?;
        if !tokens.is_empty() {
            let tokens = b.lookup(&self.embed_tokens, &b.ids(1, tokens)?, 0)?;
            rows = b.scatter_add(rows, &token_index, &tokens)?;
        }
        b.scatter_add(rows, &audio_index, &b.rows(hidden, audio)?)
    }
}
