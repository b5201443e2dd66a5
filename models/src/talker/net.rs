//! The talker's weights and how its input rows are made from tokens and codes.

use std::sync::Arc;

use omni_backend::{Backend, ComputeError, Params, Result};

use crate::checkpoint::LoadError;
use crate::computed::Kept;
use crate::config::{PredictorConfig, PromptFormat, TalkerConfig, TextTokens};
use crate::loader::Loader;
use crate::nn::{Mlp, Stack};

use super::predictor::Predictor;
use super::sequence::{CodecTrack, Input, TextTrack};

/// Talker and code predictor.
pub(crate) struct TalkerNet<P: Params> {
    pub(super) config: TalkerConfig,
    pub(super) text: TextTokens,
    embed_tokens: Arc<P::Table>,
    text_projection: Mlp<P>,
    /// For the thinker's hidden states, where there is a thinker.
    hidden_projection: Option<Mlp<P>>,
    pub(super) codec_embedding: P::Table,
    pub(super) stack: Stack<P>,
    codec_head: P::Matrix,
    pub(super) predictor: Predictor<P>,
}

impl<P: Params> TalkerNet<P> {
    /// `embed_tokens` may be the thinker's.
    pub(crate) fn load(
        l: &Loader<'_, P>,
        embed_tokens: Arc<P::Table>,
        text: TextTokens,
        c: &TalkerConfig,
        predictor: &PredictorConfig,
    ) -> std::result::Result<Self, LoadError> {
        let hidden = c.stack.hidden;
        let projection = |name: &str| Mlp::load(l, name, c.text_hidden, c.projection, hidden);
        let hears = c.prompt == PromptFormat::Qwen3Omni;
        Ok(Self {
            embed_tokens,
            text_projection: projection("talker.text_projection")?,
            hidden_projection: hears
                .then(|| projection("talker.hidden_projection"))
                .transpose()?,
            codec_embedding: l.table("talker.model.codec_embedding.weight", c.vocab, hidden)?,
            stack: Stack::load(l, "talker.model", &c.stack)?,
            codec_head: l.head("talker.codec_head", c.vocab, hidden)?,
            predictor: Predictor::load(l, predictor, hidden)?,
            config: c.clone(),
            text,
        })
    }
}

impl<B: Backend> TalkerNet<B> {
    /// Returns true if the user turn may have the thinker's hidden states.
    pub(super) fn takes_hidden(&self) -> bool {
        self.hidden_projection.is_some()
    }

    /// From the last layer's rows to hidden states after the norm, and logits `[rows, vocab]`.
    pub(super) fn finish(&self, b: &B, x: &B::Rows, kept: &mut Kept<B>) -> Result<(B::Rows, B::Rows)> {
        kept.norm_linear(b, self.stack.last_norm(), &self.codec_head, x)
    }

    /// Input rows `[inputs, hidden]`: a text track plus a codec track.
    pub(super) fn embed(&self, b: &B, inputs: &[Input<'_>]) -> Result<B::Rows> {
        let mut rows = self.embed_text(b, inputs)?;
        let mut vector_index = Vec::new();
        let mut vectors = Vec::new();
        let mut index = Vec::new();
        let mut first = Vec::new();
        let mut frame_index = Vec::new();
        let mut frames = Vec::new();
        for (row, input) in (0..).zip(inputs) {
            match input.codec {
                CodecTrack::None => continue,
                CodecTrack::Code(id) => first.push(id),
                CodecTrack::Vector(values) => {
                    vector_index.push(row);
                    vectors.extend_from_slice(values);
                    continue;
                }
                CodecTrack::Frame(codes) => {
                    first.push(codes[0]);
                    frame_index.push(row);
                    frames.extend_from_slice(codes);
                }
            }
            index.push(row);
        }
        if !vector_index.is_empty() {
            let vectors = b.rows(self.config.stack.hidden, vectors)?;
            rows = b.scatter_add(rows, &vector_index, &vectors)?;
        }
        let groups = self.predictor.groups;
        if b.rounds_up() {
            // Summed as in `embed_codes`: a row must not depend on its neighbours, not even in bf16.
            let mut codes = Vec::with_capacity(inputs.len() * groups);
            inputs
                .iter()
                .for_each(|input| input.codec.append_codes(&mut codes, groups));
            return self.add_codes(b, rows, codes);
        }
        if index.is_empty() {
            return Ok(rows);
        }
        let rows = b.lookup_add(rows, &[&self.codec_embedding], &b.ids(1, first)?, Some(&index))?;
        if frame_index.is_empty() {
            return Ok(rows);
        }
        // The first codes have been added, so their column is left out.
        let residual = frames.chunks(groups).flat_map(|codes| &codes[1..]).copied();
        let residual = b.ids(groups - 1, residual.collect())?;
        let tables: Vec<_> = self.predictor.embeddings().iter().collect();
        b.lookup_add(rows, &tables, &residual, Some(&frame_index))
    }

    /// Input rows `[texts, hidden]` of decodes: each a text token plus the row of `frames` that `rows` names.
    pub(super) fn embed_frames(
        &self,
        b: &B,
        texts: Vec<u32>,
        frames: &B::Ids,
        rows: &[u32],
    ) -> Result<B::Rows> {
        b.lookup_add_of(self.embed_tokens(b, texts)?, &self.tables(), frames, rows)
    }

    /// Input rows `[texts, hidden]`: a text token and the codes of a frame each, `codes [texts, groups]`. Absent codes
    /// add nothing where sizes are rounded up.
    pub(super) fn embed_codes(&self, b: &B, texts: Vec<u32>, codes: Vec<u32>) -> Result<B::Rows> {
        self.add_codes(b, self.embed_tokens(b, texts)?, codes)
    }

    fn add_codes(&self, b: &B, rows: B::Rows, codes: Vec<u32>) -> Result<B::Rows> {
        let codes = b.ids(self.predictor.groups, codes)?;
        b.lookup_add(rows, &self.tables(), &codes, None)
    }

    /// Embeddings of a frame's codes.
    fn tables(&self) -> Vec<&B::Table> {
        let others = self.predictor.embeddings().iter();
        std::iter::once(&self.codec_embedding).chain(others).collect()
    }

    fn embed_tokens(&self, b: &B, tokens: Vec<u32>) -> Result<B::Rows> {
        let rows = b.lookup(&self.embed_tokens, &b.ids(1, tokens)?, 0)?;
        self.text_projection.forward(b, &rows)
    }

    fn embed_text(&self, b: &B, inputs: &[Input<'_>]) -> Result<B::Rows> {
        let mut token_index = Vec::new();
        let mut tokens = Vec::new();
        let mut hidden_index = Vec::new();
        let mut hidden = Vec::new();
        for (row, input) in (0..).zip(inputs) {
            match input.text {
                TextTrack::Token(id) => {
                    token_index.push(row);
                    tokens.push(id);
                }
                TextTrack::Hidden(state) => {
                    hidden_index.push(row);
                    hidden.extend_from_slice(state);
                }
            }
        }
        if hidden_index.is_empty() {
            return self.embed_tokens(b, tokens);
        }
        let mut rows = b.zeros(inputs.len(), self.config.stack.hidden)?;
        if !tokens.is_empty() {
            rows = b.scatter_add(rows, &token_index, &self.embed_tokens(b, tokens)?)?;
        }
        let projection = self.hidden_projection.as_ref();
        let missing = || ComputeError::Failed("talker: a hidden state without a projection".into());
        let hidden = b.rows(self.config.text_hidden, hidden)?;
        let hidden = projection.ok_or_else(missing)?.forward(b, &hidden)?;
        b.scatter_add(rows, &hidden_index, &hidden)
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use omni_gpu::{Emulated, Float};

    use super::*;
    use crate::config::SpeechConfig;
    use crate::random::RandomModel;
    use crate::thinker;
    use omni_backend::Gpu;

    type Device = Gpu<Emulated>;

    fn host<B: Backend>(b: &B, rows: &B::Rows) -> Vec<f32> {
        b.host(rows).expect("numbers")
    }

    /// A talker of the embedded shapes with random weights, in bf16.
    fn talker() -> (Device, TalkerNet<Device>) {
        let model: RandomModel = "random:embedded@3".parse().expect("a name");
        let checkpoint = model.checkpoint(None).expect("a checkpoint");
        let config = SpeechConfig::parse(&checkpoint.required("config.json").expect("a file"));
        let config = config.expect("a configuration");
        let b = Gpu::new(Emulated::default(), Float::Bf16, false);
        let loader = Loader::new(&checkpoint, &b);
        let SpeechConfig {
            text,
            talker,
            predictor,
            ..
        } = &config;
        let table = thinker::embed_tokens(&loader, talker.text_vocab, talker.text_hidden).expect("a table");
        let net = TalkerNet::load(&loader, table, *text, talker, predictor).expect("a talker");
        (b, net)
    }

    #[test]
    fn the_bits_of_an_input_row_depend_neither_on_the_rows_beside_it_nor_on_how_it_is_made() {
        let (b, net) = talker();
        let hidden = net.config.stack.hidden;
        let groups = net.predictor.groups;
        let frame: Vec<u32> = (1..).step_by(3).take(groups).collect();
        let vector: Vec<f32> = (0..hidden).map(|i| (i as f32).sin()).collect();
        let own = [
            (5, CodecTrack::Frame(&frame)),
            (6, CodecTrack::Code(7)),
            (8, CodecTrack::None),
        ];
        fn input((token, codec): (u32, CodecTrack<'_>)) -> Input<'_> {
            Input {
                text: TextTrack::Token(token),
                codec,
            }
        }
        let rows = |inputs: &[(u32, CodecTrack<'_>)]| {
            let inputs: Vec<_> = inputs.iter().copied().map(input).collect();
            host(&b, &net.embed(&b, &inputs).expect("rows"))
        };
        let alone = rows(&own);
        let beside = rows(&[&[(9, CodecTrack::Vector(&vector))], &own[..]].concat());
        assert!(beside[hidden..] == alone, "beside a vector");
        for (i, own) in own.iter().enumerate() {
            assert!(rows(&[*own]) == alone[i * hidden..][..hidden], "row {i} alone");
        }

        let mut codes = Vec::new();
        own.iter()
            .for_each(|(_, codec)| codec.append_codes(&mut codes, groups));
        let texts = own.iter().map(|(token, _)| *token).collect();
        let made = net.embed_codes(&b, texts, codes).expect("rows");
        assert!(host(&b, &made) == alone, "by codes");
    }
}
