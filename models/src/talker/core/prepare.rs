//! Steps done before they are needed, so that they are recorded by then.

use omni_backend::Backend;
use omni_backend::sampling::{Choice, Limits, Sampling};
use omni_engine::ModelError;

use super::prompts::{Plain, Size};
use super::{Core, PADDING, PADDING_SAMPLING};
use crate::paged;

/// Keys that steps are prepared for, most: 80 seconds of the published model's frames. A longer reply's sizes are new
/// when it comes to them.
const PREPARED_KEYS: usize = 1024;

/// A step that is prepared.
enum Piece {
    /// Talker step of `rows` rows that may see `keys` keys.
    Step { rows: usize, keys: usize },
    /// The talker's, with prompts.
    Prompts(Size),
    /// Predictor pass of `rows` rows, whose repetition penalty covers `counted` codes.
    Frame { rows: usize, counted: usize },
}

impl<B: Backend> Core<B> {
    /// Graphs prepared for up to `seqs` sequences. The largest come first, so that memory grows once.
    fn pieces(&self, seqs: usize) -> Vec<Piece> {
        let b = &self.b;
        let keys = b.buckets_of_keys(PREPARED_KEYS.min(self.spec.max_len as usize));
        let mut pieces = Vec::new();
        for rows in b.buckets(seqs) {
            pieces.extend(keys.iter().map(|&keys| Piece::Step { rows, keys }));
            let counted = keys.iter().copied().chain([0]);
            pieces.extend(counted.map(|counted| Piece::Frame { rows, counted }));
        }
        let prompts = self.prompt_sizes(seqs).into_iter().map(Piece::Prompts);
        pieces.splice(0..0, prompts);
        pieces
    }

    /// Prepares the `nth` piece for up to `seqs` sequences; returns `false` if there is none.
    pub(super) fn prepare_piece(&mut self, nth: usize, seqs: usize) -> Result<bool, ModelError> {
        let Some(piece) = self.pieces(seqs).into_iter().nth(nth) else {
            return Ok(false);
        };
        self.computed = None;
        // A recorded graph is valid only while its memory does not move: reserve all of it first.
        let most = self.b.bucket(seqs);
        self.predictor_kv
            .reserve(&self.b, most, self.net.predictor.groups)?;
        let batch = paged::batch(&self.spec);
        // Those that lost their place have a slot, too.
        self.frame_slots.reserve(&self.b, 2 * most)?;
        match piece {
            Piece::Step { rows, keys } => {
                self.decode(&[], batch, Vec::new(), rows, keys)?;
                self.b.wait()?;
            }
            Piece::Prompts(size) => {
                self.prompts(Plain::default(), batch, size)?;
                self.b.wait()?;
            }
            Piece::Frame { rows, counted } => {
                let computed = self.decode(&[], batch, Vec::new(), rows, self.b.bucket_keys(1))?;
                let generated = vec![0; counted];
                let penalty = Sampling {
                    repetition_penalty: if counted > 0 { 2.0 } else { 1.0 },
                    ..PADDING_SAMPLING
                };
                let padding = Choice {
                    sampling: &penalty,
                    limits: Limits {
                        generated: &generated,
                        ..Limits::default()
                    },
                    ..PADDING
                };
                let frames = self.frames(&[], &computed, rows, padding)?;
                self.b.wait_ids(frames.codes)?;
            }
        }
        Ok(true)
    }
}
