//! From phonemes to their durations, and to what the decoder gets for every frame.

use omni_backend::{Act, AttentionShape, BiLstm, Conv, Params, Reach, Result, WholeSignals};

use super::blocks::{Load, SLOPE, Styled, StyledBlock};
use super::config::KokoroConfig;
use crate::loader::Loader;

const BERT_EPS: f32 = 1e-12;
const EPS: f32 = 1e-5;

type Norm<P> = (
    <P as omni_backend::Tables>::Vector,
    <P as omni_backend::Tables>::Vector,
);

/// PL-BERT: one layer, applied again and again.
struct Bert<P: Params> {
    words: P::Table,
    positions: P::Table,
    types: P::Table,
    embedding_norm: Norm<P>,
    embedding: usize,
    enter: P::Matrix,
    shape: AttentionShape,
    layers: usize,
    qkv: P::Matrix,
    dense: P::Matrix,
    norm1: Norm<P>,
    ffn: P::Matrix,
    ffn_out: P::Matrix,
    norm2: Norm<P>,
    leave: P::Matrix,
}

/// A stack that ends in pitch or loudness.
struct Curve<P: Params> {
    blocks: [StyledBlock<P>; 3],
    leave: P::Matrix,
}

pub(super) struct TextNets<P: Params> {
    hidden: usize,
    style: usize,
    bert: Bert<P>,
    /// Recurrent layers, each with the style's gains and shifts of the norm behind it.
    durations: Vec<(BiLstm<P>, P::Matrix)>,
    duration_lstm: BiLstm<P>,
    duration: P::Matrix,
    shared: BiLstm<P>,
    pitch: Curve<P>,
    energy: Curve<P>,
    embedding: P::Table,
    convs: Vec<(Conv<P>, Norm<P>)>,
    lstm: BiLstm<P>,
}

/// Input of the decoder: rows of frames, and curves with two numbers a frame.
pub(super) struct Prosody<R> {
    pub(super) pitch: R,
    pub(super) energy: R,
}

fn norm<P: Params>(l: &Loader<'_, P>, weight: &str, bias: &str, width: usize) -> Load<Norm<P>> {
    Ok((l.vector(weight, width)?, l.vector(bias, width)?))
}

impl<P: Params> Bert<P> {
    fn load(l: &Loader<'_, P>, c: &KokoroConfig) -> Load<Self> {
        let hidden = c.bert.hidden;
        let embeddings = "bert.embeddings";
        let layer = "bert.encoder.albert_layer_groups.0.albert_layers.0";
        let attention = format!("{layer}.attention");
        let table = |name: &str, rows| {
            l.table(
                &format!("{embeddings}.{name}_embeddings.weight"),
                rows,
                c.text_embedding,
            )
        };
        let qkv = ["query", "key", "value"].map(|name| (format!("{attention}.{name}"), hidden));
        let norm = |name: &str, width| norm(l, &format!("{name}.weight"), &format!("{name}.bias"), width);
        Ok(Self {
            words: table("word", c.tokens)?,
            positions: table("position", c.bert.positions)?,
            types: table("token_type", 2)?,
            embedding_norm: norm(&format!("{embeddings}.LayerNorm"), c.text_embedding)?,
            embedding: c.text_embedding,
            enter: l.linear(
                "bert.encoder.embedding_hidden_mapping_in",
                hidden,
                c.text_embedding,
                true,
            )?,
            shape: AttentionShape {
                heads: c.bert.heads,
                kv_heads: c.bert.heads,
                head_dim: hidden / c.bert.heads,
                eps: BERT_EPS,
                window: None,
            },
            layers: c.bert.layers,
            qkv: l.stacked_biased(&qkv, hidden)?,
            dense: l.linear(&format!("{attention}.dense"), hidden, hidden, true)?,
            norm1: norm(&format!("{attention}.LayerNorm"), hidden)?,
            ffn: l.linear(&format!("{layer}.ffn"), c.bert.inner, hidden, true)?,
            ffn_out: l.linear(&format!("{layer}.ffn_output"), hidden, c.bert.inner, true)?,
            norm2: norm(&format!("{layer}.full_layer_layer_norm"), hidden)?,
            leave: l.linear("bert_encoder", c.hidden, hidden, true)?,
        })
    }
}

impl<P: Params> Curve<P> {
    fn load(l: &Loader<'_, P>, name: &str, c: &KokoroConfig) -> Load<Self> {
        let width = c.hidden;
        let block = |i: usize, inputs, out, doubles| {
            StyledBlock::load(
                l,
                &format!("predictor.{name}.{i}"),
                (inputs, out),
                c.style,
                doubles,
            )
        };
        let leave = l.conv(&format!("predictor.{name}_proj"), 1, width / 2, 1, 1)?;
        Ok(Self {
            blocks: [
                block(0, width, width, false)?,
                block(1, width, width / 2, true)?,
                block(2, width / 2, width / 2, false)?,
            ],
            leave: leave.matrix,
        })
    }
}

impl<P: Params> TextNets<P> {
    pub(super) fn load(l: &Loader<'_, P>, c: &KokoroConfig) -> Load<Self> {
        let hidden = c.hidden;
        let units = hidden / 2;
        let durations = |i: usize| {
            let name = "predictor.text_encoder.lstms";
            Ok((
                l.bilstm(&format!("{name}.{}", 2 * i), hidden + c.style, units)?,
                l.linear(&format!("{name}.{}.fc", 2 * i + 1), 2 * hidden, c.style, true)?,
            ))
        };
        let conv = |i: usize| {
            let name = format!("text_encoder.cnn.{i}");
            Ok((
                l.conv(&format!("{name}.0"), hidden, hidden, c.text_kernel, 1)?,
                norm(l, &format!("{name}.1.gamma"), &format!("{name}.1.beta"), hidden)?,
            ))
        };
        Ok(Self {
            hidden,
            style: c.style,
            bert: Bert::load(l, c)?,
            durations: (0..c.layers).map(durations).collect::<Load<_>>()?,
            duration_lstm: l.bilstm("predictor.lstm", hidden + c.style, units)?,
            duration: l.linear(
                "predictor.duration_proj.linear_layer",
                c.max_duration,
                hidden,
                true,
            )?,
            shared: l.bilstm("predictor.shared", hidden + c.style, units)?,
            pitch: Curve::load(l, "F0", c)?,
            energy: Curve::load(l, "N", c)?,
            embedding: l.table("text_encoder.embedding.weight", c.tokens, hidden)?,
            convs: (0..c.layers).map(conv).collect::<Load<_>>()?,
            lstm: l.bilstm("text_encoder.lstm", hidden, units)?,
        })
    }
}

impl<B: WholeSignals> Bert<B> {
    fn forward(&self, b: &B, ids: &[u32], lens: &[usize]) -> Result<B::Rows> {
        let positions = lens.iter().flat_map(|&len| (0..).take(len));
        let columns = ids
            .iter()
            .zip(positions)
            .flat_map(|(&id, position)| [id, position, 0]);
        let x = b.lookup_add(
            b.zeros(ids.len(), self.embedding)?,
            &[&self.words, &self.positions, &self.types],
            &b.ids(3, columns.collect())?,
            None,
        )?;
        let norm = |norm: &Norm<B>, x: &B::Rows| b.layer_norm(&norm.0, &norm.1, BERT_EPS, x);
        let mut x = b.linear(&self.enter, &norm(&self.embedding_norm, &x)?)?;
        for _ in 0..self.layers {
            let y = b.attention_within(&self.shape, &b.linear(&self.qkv, &x)?, lens)?;
            let y = norm(&self.norm1, &b.linear_add(x, None, &self.dense, &y)?)?;
            let z = b.gelu_tanh(b.linear(&self.ffn, &y)?)?;
            x = norm(&self.norm2, &b.linear_add(y, None, &self.ffn_out, &z)?)?;
        }
        b.linear(&self.leave, &x)
    }
}

/// The rows of both, beside each other. Those of `y` are one a signal, or as many as those of `x`.
fn beside(x: &[f32], y: &[f32], (wide, narrow): (usize, usize), lens: &[usize]) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len() / wide * (wide + narrow));
    let owners = lens
        .iter()
        .enumerate()
        .flat_map(|(i, &len)| std::iter::repeat_n(i, len));
    for (row, owner) in x.chunks(wide).zip(owners) {
        out.extend_from_slice(row);
        out.extend_from_slice(&y[owner * narrow..(owner + 1) * narrow]);
    }
    out
}

/// `(1 + gain) * normalised + shift` of every row; `style` is `[signals, gains | shifts]`.
fn styled_norm(x: &mut [f32], style: &[f32], width: usize, lens: &[usize]) {
    let owners = lens.iter().zip(style.chunks(2 * width));
    let owners = owners.flat_map(|(&len, style)| std::iter::repeat_n(style, len));
    for (row, style) in x.chunks_mut(width).zip(owners) {
        let (gains, shifts) = style.split_at(width);
        let mean = row.iter().sum::<f32>() / width as f32;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / width as f32;
        let scale = 1.0 / (variance + EPS).sqrt();
        for ((v, gain), shift) in row.iter_mut().zip(gains).zip(shifts) {
            *v = (1.0 + gain) * (*v - mean) * scale + shift;
        }
    }
}

impl<B: WholeSignals> TextNets<B> {
    /// Output of PL-BERT for every id, `[ids, hidden]`.
    pub(super) fn read(&self, b: &B, ids: &[u32], lens: &[usize]) -> Result<B::Rows> {
        self.bert.forward(b, ids, lens)
    }

    /// Rows of every id with the style beside them, `[ids, hidden + style]`, and its frames before rounding at speed 1.
    pub(super) fn durations(&self, on: Styled<'_, B>, read: &B::Rows) -> Result<(B::Rows, Vec<f32>)> {
        let Styled { b, style, lens } = on;
        let styles = b.host(style)?;
        let widths = (self.hidden, self.style);
        let with_style = |x: &[f32]| b.rows(self.hidden + self.style, beside(x, &styles, widths, lens));
        let mut x = with_style(&b.host(read)?)?;
        for (lstm, norm) in &self.durations {
            let mut y = b.host(&b.bilstm(lstm, &x, lens)?)?;
            styled_norm(&mut y, &b.host(&b.linear(norm, style)?)?, self.hidden, lens);
            x = with_style(&y)?;
        }
        let logits = b.linear(&self.duration, &b.bilstm(&self.duration_lstm, &x, lens)?)?;
        let logits = b.host(&logits)?;
        let rows = lens.iter().sum::<usize>().max(1);
        let sum = |row: &[f32]| row.iter().map(|v| 1.0 / (1.0 + (-v).exp())).sum();
        Ok((x, logits.chunks((logits.len() / rows).max(1)).map(sum).collect()))
    }

    /// Pitch and loudness for the rows of frames; `lens` are those of the frames.
    pub(super) fn prosody(&self, on: Styled<'_, B>, frames: &B::Rows) -> Result<Prosody<B::Rows>> {
        let x = on.b.bilstm(&self.shared, frames, on.lens)?;
        Ok(Prosody {
            pitch: self.pitch.forward(on, &x)?,
            energy: self.energy.forward(on, &x)?,
        })
    }

    /// Rows of every id for the decoder, `[ids, hidden]`.
    pub(super) fn text(&self, b: &B, ids: &[u32], lens: &[usize]) -> Result<B::Rows> {
        let mut x = b.lookup(&self.embedding, &b.ids(1, ids.to_vec())?, 0)?;
        for (conv, norm) in &self.convs {
            let y = b.convolve(conv, Act::None, &x, lens, Reach::centred(conv.taps))?;
            x = b.leaky(SLOPE, b.layer_norm(&norm.0, &norm.1, EPS, &y)?)?;
        }
        b.bilstm(&self.lstm, &x, lens)
    }
}

impl<B: WholeSignals> Curve<B> {
    fn forward(&self, on: Styled<'_, B>, x: &B::Rows) -> Result<B::Rows> {
        let twice: Vec<usize> = on.lens.iter().map(|len| 2 * len).collect();
        let [first, second, third] = &self.blocks;
        let x = second.forward(on, &first.forward(on, x)?)?;
        let on = Styled { lens: &twice, ..on };
        on.b.linear(&self.leave, &third.forward(on, &x)?)
    }
}
