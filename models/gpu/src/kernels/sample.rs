//! From logits to ids: `kernels/sample.cu`.

use super::{args, kernels, launch, of, threads, wide};
use crate::launch::{Address, Float, Launch};

kernels! { "sample":
    typed SAMPLE = "sample"("pppppppuuuuuu") 512;
    typed ARGMAX = "argmax"("ppuu") 1024;
}

/// Most ids to choose from at random: their logits fit the 48 KiB of a block's shared memory, beside half a KiB that
/// the kernel has of its own.
pub const MAX_SAMPLED: u32 = 3840;

/// Choice of one row's id. [`Self::words`] is its form on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleRow {
    /// Divides the logits; 0 takes the largest.
    pub temperature: f32,
    /// Keeps the `top_k` most likely and ties with the last of them; 0 keeps all.
    pub top_k: u32,
    /// Keeps the likeliest until their probabilities reach it.
    pub top_p: f32,
    /// Divides positive and multiplies negative logits of generated ids; 1 changes nothing.
    pub repetition_penalty: f32,
    /// While fewer ids were generated, `end` is not chosen.
    pub min_tokens: u32,
    /// Ids from here on are not chosen, but for `end`; `u32::MAX` for none.
    pub suppress_from: u32,
    /// The id that ends the sequence; `u32::MAX` for none.
    pub end: u32,
    /// Start of the row's ids in [`Sample::generated`].
    pub generated_from: u32,
    /// Number of those ids; repeats are allowed.
    pub generated: u32,
    /// One more such id is that word of [`Sample::said`]; `u32::MAX` for none. It does not count for `min_tokens`.
    pub said: u32,
    /// Key of the row's random numbers.
    pub seed: u64,
    /// First counter of the draw.
    pub step: u32,
    /// Second counter of the draw.
    pub group: u32,
    /// Row of [`Sample::logits`] from which it chooses.
    pub logits: u32,
}

impl SampleRow {
    /// Words of one row.
    pub const WORDS: usize = 16;

    /// Device form, as the kernel reads it.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the seed")]
    pub fn words(&self) -> [u32; Self::WORDS] {
        [
            self.temperature.to_bits(),
            self.top_k,
            self.top_p.to_bits(),
            self.repetition_penalty.to_bits(),
            self.min_tokens,
            self.suppress_from,
            self.end,
            self.generated_from,
            self.generated,
            self.seed as u32,
            (self.seed >> 32) as u32,
            self.step,
            self.group,
            self.said,
            self.logits,
            0,
        ]
    }
}

/// Embedding of a chosen id: its row of a table, or zeros where there is no such row.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// `[rows, width]`.
    pub out: Address,
    /// `[ids, width]`.
    pub table: Address,
    /// Number of ids.
    pub ids: u32,
    /// Elements of each.
    pub width: u32,
}

/// An id per row of logits: penalty, minimum length, suppressed ids, temperature, top-k, top-p, softmax, draw.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// `u32`; row `i`'s id at `i * stride`. [`NO_ROW`](super::NO_ROW) if a logit of the row is not finite.
    pub out: Address,
    /// `[any number, vocab]`; see [`SampleRow::logits`].
    pub logits: Address,
    /// `[rows, 16]` of `u32`: [`SampleRow::words`].
    pub settings: Address,
    /// `u32`: ids that were generated before, of all rows; may be none if no row counts any.
    pub generated: Address,
    /// `u32`: ids that the device has chosen and the host may not know yet; may be none if no row counts any.
    pub said: Address,
    /// The chosen ids' rows of a table, or none.
    pub embedded: Option<Embedded>,
    /// Number of rows.
    pub rows: u32,
    /// At most [`MAX_SAMPLED`].
    pub vocab: u32,
    /// Words from one row's id to the next one's.
    pub stride: u32,
}

impl Sample {
    /// One block per row. More than [`MAX_SAMPLED`] ids are refused by every device.
    pub fn launch(&self, float: Float) -> Launch {
        let keys_at = self.vocab.div_ceil(2);
        let embedded = self.embedded.unwrap_or(Embedded {
            out: Address::NONE,
            table: Address::NONE,
            ids: 0,
            width: 0,
        });
        let mut launch = launch(
            of(&SAMPLE, float),
            [self.rows, 1, 1],
            threads(self.vocab, 512),
            args![
                self.out,
                self.logits,
                self.settings,
                self.generated,
                self.said,
                embedded.out,
                embedded.table,
                self.vocab,
                self.stride,
                keys_at,
                embedded.ids,
                embedded.width,
                wide(embedded.width, &[embedded.out, embedded.table]),
            ],
        );
        // The counters of top-k's search are in the keys' room.
        launch.shared = 8 * (keys_at + self.vocab.next_power_of_two().max(128));
        if self.vocab > MAX_SAMPLED {
            launch.shared = u32::MAX;
        }
        launch
    }
}

/// The first of the largest logits per row.
#[derive(Debug, Clone, Copy)]
pub struct Argmax {
    /// `u32`; row `i`'s id at `i * stride`. [`NO_ROW`](super::NO_ROW) if a logit of the row is not finite.
    pub out: Address,
    /// `[rows, vocab]`.
    pub logits: Address,
    /// Number of rows.
    pub rows: u32,
    /// Any number.
    pub vocab: u32,
    /// Words from one row's id to the next one's.
    pub stride: u32,
}

impl Argmax {
    /// One block per row.
    pub fn launch(&self, float: Float) -> Launch {
        launch(
            of(&ARGMAX, float),
            [self.rows, 1, 1],
            threads(self.vocab, 1024),
            args![self.out, self.logits, self.vocab, self.stride],
        )
    }
}
