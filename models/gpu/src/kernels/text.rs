//! From logits of text to tokens: `kernels/text.cu`.

use super::{args, kernels, launch, of, threads};
use crate::launch::{Address, Float, Launch};

kernels! { "text":
    typed TEXT_PREPARE = "text_prepare"("pppppppu") 512;
    plain TEXT_WEIGH = "text_weigh"("pppppu") 512;
    typed TEXT_CHOOSE = "text_choose"("pppppppuu") 1024;
}

/// Most tokens to choose from: their weights, whole numbers, add up to 64 bits.
pub const MAX_TEXT_VOCAB: u32 = 1 << 18;

/// Tokens that a block of the first two kernels has.
const SLICE: u32 = 4096;
const BINS: u32 = 1024;
const DIGITS: u32 = 256;
/// Values that the third kernel has room for.
const LIST: u32 = 4096;
/// Bytes of a bin: a weight and a count.
const BIN: u32 = 12;
/// Bytes of a slice's summary.
const TOLD: u32 = 32;

/// Choice of one row's token. [`Self::words`] is its form on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextRow {
    /// Divides the logits; 0 takes the largest.
    pub temperature: f32,
    /// Keeps the `top_k` most likely and ties with the last of them; 0 keeps all.
    pub top_k: u32,
    /// Keeps the likeliest until their probabilities reach it.
    pub top_p: f32,
    /// Drops tokens less likely than `min_p` times the most likely one.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens that were said; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Key of the row's random numbers.
    pub seed: u64,
    /// First counter of the draw.
    pub step: u32,
    /// Second counter of the draw.
    pub group: u32,
    /// The row of [`Text::logits`] that it is about.
    pub logits: u32,
    /// Start of the row's changes in [`Text::changes`].
    pub changes_from: u32,
    /// Number of those changes.
    pub changes: u32,
    /// `true` if the token's log-probability is returned.
    pub logprob: bool,
}

impl TextRow {
    /// Words of one row.
    pub const WORDS: usize = 16;

    /// Device form, as the kernels read it.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the seed")]
    pub fn words(&self) -> [u32; Self::WORDS] {
        [
            self.temperature.to_bits(),
            self.top_k,
            self.top_p.to_bits(),
            self.min_p.to_bits(),
            self.repetition_penalty.to_bits(),
            self.seed as u32,
            (self.seed >> 32) as u32,
            self.step,
            self.group,
            self.logits,
            self.changes_from,
            self.changes,
            u32::from(self.logprob),
            0,
            0,
            0,
        ]
    }
}

/// Change of one token's logit before the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextChange {
    /// The token, below 2^30; one beyond the vocabulary is ignored.
    pub id: u32,
    /// `true` if the repetition penalty, which comes first, applies to it.
    pub said: bool,
    /// Amount subtracted from its logit then.
    pub less: f32,
    /// `true` if it cannot be chosen.
    pub hidden: bool,
}

impl TextChange {
    /// Words of one change.
    pub const WORDS: usize = 2;

    /// Device form, as the kernels read it.
    pub fn words(&self) -> [u32; Self::WORDS] {
        let bits = u32::from(self.said) << 30 | u32::from(self.hidden) << 31;
        [self.id | bits, self.less.to_bits()]
    }
}

/// A token per row: changes of single logits, temperature, top-k, min-p, top-p, softmax, draw.
///
/// Sums are integers, so a row's result does not depend on other rows.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// `u32`; row `i`'s token at `i * stride` and the bits of its log-probability behind it, 0 if that is not wanted.
    /// If a logit of the row is not finite: the position of the first such with the highest bit set, and 0.
    pub out: Address,
    /// Any content, see [`Text::scratch_bytes`].
    pub scratch: Address,
    /// `[any number, vocab]`.
    pub logits: Address,
    /// `[rows, 16]` of `u32`: [`TextRow::words`].
    pub settings: Address,
    /// `[changes, 2]` of `u32`: [`TextChange::words`], no id twice in a row; may be none if no row has any.
    pub changes: Address,
    /// Number of tokens chosen.
    pub rows: u32,
    /// At most [`MAX_TEXT_VOCAB`].
    pub vocab: u32,
    /// Words from one row's token to the next one's, at least 2.
    pub stride: u32,
}

impl Text {
    fn slices(vocab: u32) -> u32 {
        vocab.div_ceil(SLICE)
    }

    /// Bytes that the kernels leave for each other: bins, what slices tell, values.
    pub fn scratch_bytes(rows: u32, vocab: u32) -> usize {
        let each = BINS * BIN + Self::slices(vocab) * TOLD + vocab * 4;
        rows as usize * each as usize
    }

    /// One after another: logits to values, values to bins, bins to tokens. More than [`MAX_TEXT_VOCAB`] tokens are
    /// refused by every device.
    pub fn launches(&self, float: Float) -> [Launch; 3] {
        let rows = self.rows as usize;
        let slices = Self::slices(self.vocab);
        let weights = self.scratch;
        let counts = weights.offset(rows * BINS as usize * 8);
        let told = counts.offset(rows * BINS as usize * 4);
        let values = told.offset(rows * slices as usize * TOLD as usize);
        let threads_of_slice = threads(self.vocab, 512);
        let grid = [slices, self.rows, 1];
        let prepare = args![
            values,
            told,
            counts,
            weights,
            self.logits,
            self.settings,
            self.changes,
            self.vocab,
        ];
        let mut prepare = launch(of(&TEXT_PREPARE, float), grid, threads_of_slice, prepare);
        prepare.shared = 4 * SLICE;
        if self.vocab > MAX_TEXT_VOCAB {
            prepare.shared = u32::MAX;
        }
        let weigh = args![counts, weights, values, told, self.settings, self.vocab];
        let mut weigh = launch(&TEXT_WEIGH[0], grid, threads_of_slice, weigh);
        weigh.shared = BINS * BIN;
        let choose = args![
            self.out,
            self.logits,
            values,
            told,
            counts,
            weights,
            self.settings,
            self.vocab,
            self.stride,
        ];
        let threads = threads(self.vocab, 1024);
        let mut choose = launch(of(&TEXT_CHOOSE, float), [self.rows, 1, 1], threads, choose);
        choose.shared = (BINS + DIGITS) * BIN + 4 * LIST;
        [prepare, weigh, choose]
    }
}
