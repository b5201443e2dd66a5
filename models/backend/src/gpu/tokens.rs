//! Choice of the next text tokens on the device: of a step, only tokens are copied to the host.

use omni_gpu::kernels::{MAX_TEXT_VOCAB, Text, TextChange, TextRow};
use omni_gpu::{Address, Device};

use super::{Gpu, Ids, Rows, small};
use crate::ops::*;
use crate::sampling::{Change, Chosen, TextChoice, chosen};
use crate::{Result, StepKey, TextChosen, choose_on_host};

/// Words of a token: its id, and the bits of its log-probability.
const WORDS: usize = 2;

/// Settings of a padding row, for which no token is chosen: any will do.
const PADDING: TextRow = TextRow {
    temperature: 0.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repetition_penalty: 1.0,
    seed: 0,
    step: 0,
    group: 0,
    logits: 0,
    changes_from: 0,
    changes: 0,
    logprob: false,
};

impl<D: Device> Gpu<D> {
    pub(super) fn choose_tokens(
        &self,
        logits: &Rows<D>,
        vocab: usize,
        rows: &[u32],
        choices: &[TextChoice<'_>],
    ) -> Result<Vec<TextChosen>> {
        let changes: Vec<Vec<Change>> = choices
            .iter()
            .map(|choice| choice.sampling.changes(choice.said, vocab))
            .collect();
        // As much as the largest of such steps brings.
        let room = match changes.iter().map(Vec::len).max() {
            None | Some(0) => 0,
            Some(most) => self.bucket_keys(most),
        };
        let key = StepKey {
            stage: "token",
            rows: self.bucket(choices.len()),
            also: room,
            ends: 0,
        };
        if vocab > MAX_TEXT_VOCAB as usize {
            let reason = format!("of {vocab} tokens, more than {MAX_TEXT_VOCAB}, the host chooses");
            self.refuse(key, &reason);
            return choose_on_host(self, logits, vocab, rows, choices);
        }
        let settings = (0..).zip(rows).zip(choices).zip(&changes);
        let settings =
            settings.map(|(((i, &row), choice), changes)| text_row(choice, row, i * room, changes));
        let mut settings: Vec<TextRow> = settings.collect();
        settings.resize(key.rows, PADDING);
        let changes = self.words_of(&changes, key.rows, room);
        let ids = self.step(key, |b| b.tokens(logits, vocab, &settings, changes))?;
        let words = self.fetch_ids(&ids)?;
        let words = words.chunks_exact(WORDS).zip(choices);
        Ok(words
            .map(|(words, choice)| {
                let logprob = choice.logprob.then(|| f32::from_bits(words[1]));
                chosen(words[0]).map(|token| Chosen { token, logprob })
            })
            .collect())
    }

    /// Every row's changes in room of one size.
    fn words_of(&self, changes: &[Vec<Change>], rows: usize, room: usize) -> Vec<u32> {
        let mut words = Vec::with_capacity(rows * room * TextChange::WORDS);
        for (i, changes) in (1..).zip(changes) {
            words.extend(changes.iter().flat_map(|c| text_change(c).words()));
            words.resize(i * room * TextChange::WORDS, 0);
        }
        words.resize(rows * room * TextChange::WORDS, 0);
        words
    }

    fn tokens(
        &self,
        logits: &Rows<D>,
        vocab: usize,
        settings: &[TextRow],
        changes: Vec<u32>,
    ) -> Result<Ids<D>> {
        let rows = settings.len();
        let settings = self.bring(settings.iter().flat_map(TextRow::words))?;
        let changes = if changes.is_empty() {
            None
        } else {
            Some(self.bring(changes.into_iter())?)
        };
        let (out, scratch) = {
            let commands = self.commands();
            let scratch = Text::scratch_bytes(small(rows), small(vocab));
            (commands.take(rows * WORDS * 4)?, commands.take(scratch)?)
        };
        let text = Text {
            out: out.address(),
            scratch: scratch.address(),
            logits: logits.address(),
            settings: settings.address(),
            changes: changes.as_ref().map_or(Address::NONE, |place| place.address()),
            rows: small(rows),
            vocab: small(vocab),
            stride: small(WORDS),
        };
        text.launches(self.float)
            .into_iter()
            .try_for_each(|launch| self.launch(launch))?;
        Ok(Ids {
            place: out,
            rows,
            columns: WORDS,
        })
    }
}

fn text_row(choice: &TextChoice<'_>, logits: u32, changes_from: usize, changes: &[Change]) -> TextRow {
    let s = choice.sampling;
    let place = choice.place;
    TextRow {
        temperature: s.temperature,
        top_k: s.top_k,
        top_p: s.top_p,
        min_p: s.min_p,
        repetition_penalty: s.repetition_penalty,
        seed: place.seed,
        step: place.step,
        group: place.group,
        logits,
        changes_from: small(changes_from),
        changes: small(changes.len()),
        logprob: choice.logprob,
    }
}

fn text_change(change: &Change) -> TextChange {
    TextChange {
        id: change.id,
        said: change.said,
        less: change.less,
        hidden: change.hidden,
    }
}
