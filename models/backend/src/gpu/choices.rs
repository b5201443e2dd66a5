//! Choice of the next ids on the device.

use omni_gpu::kernels::{Embedded, Sample, SampleRow};
use omni_gpu::{Address, Device, Memory};

use super::{Gpu, Ids, Rows, Table, small};
use crate::ops::*;
use crate::sampling::Choice;
use crate::{ComputeError, Result};

/// Input of a choice of ids, and the destinations of the ids.
pub(super) struct Draw<'a, D: Device> {
    pub(super) logits: &'a Rows<D>,
    /// The row of `logits` of each choice, where that is another than its own number.
    pub(super) rows: Option<&'a [u32]>,
    pub(super) choices: &'a [Choice<'a>],
    pub(super) said: Option<&'a Ids<D>>,
    /// Destination of the chosen ids' rows of a table.
    pub(super) embedded: Option<(&'a Rows<D>, &'a Table<D>)>,
}

impl<'a, D: Device> Draw<'a, D> {
    pub(super) fn of(logits: &'a Rows<D>, choices: &'a [Choice<'a>]) -> Self {
        Self {
            logits,
            rows: None,
            choices,
            said: None,
            embedded: None,
        }
    }

    /// Checks indices, which the kernel does not: an error names the access out of bounds.
    fn check(&self, ids: &Ids<D>, column: usize) -> Result<()> {
        let count = self.choices.len();
        let named = self.rows.map_or(count, <[u32]>::len);
        if named != count {
            return Err(ComputeError::Failed(format!(
                "{count} choices from {named} rows of logits"
            )));
        }
        if column >= ids.columns {
            return Err(ComputeError::Failed(format!(
                "column {column} of {} columns of chosen ids",
                ids.columns
            )));
        }
        let own = count.checked_sub(1).map(small);
        let logits = self.rows.map_or(own, |rows| rows.iter().copied().max());
        let said = self.said.and_then(|said| {
            let last = self.choices.iter().filter_map(|choice| choice.said).max();
            Some((last?, said.rows))
        });
        let used = [
            ("logits", logits.map(|last| (last, self.logits.rows))),
            ("chosen ids", own.map(|last| (last, ids.rows))),
            ("ids that were chosen before", said),
        ];
        for (what, used) in used {
            if let Some((last, rows)) = used
                && last as usize >= rows
            {
                return Err(ComputeError::Failed(format!(
                    "row {last} of {rows} rows of {what}"
                )));
            }
        }
        Ok(())
    }
}

impl<D: Device> Gpu<D> {
    /// Puts the chosen ids into a column of `ids`.
    pub(super) fn choose(&self, draw: &Draw<'_, D>, ids: &mut Ids<D>, column: usize) -> Result<()> {
        let Draw {
            logits,
            rows,
            choices,
            said,
            embedded,
        } = *draw;
        draw.check(ids, column)?;
        let counted = choices.iter().filter_map(Choice::counted).map(<[u32]>::len).max();
        // As much as the largest of such steps brings.
        let room = counted.map_or(0, |n| self.bucket_keys(n));
        let mut settings = Vec::with_capacity(choices.len() * SampleRow::WORDS);
        let mut generated = Vec::with_capacity(choices.len() * room);
        for (i, choice) in choices.iter().enumerate() {
            let from = generated.len();
            generated.extend_from_slice(choice.counted().unwrap_or_default());
            let mut row = sample_row(choice, column, from, generated.len() - from);
            row.logits = rows.map_or(small(i), |rows| rows[i]);
            if let (Some(said), Some(at)) = (said, choice.said) {
                row.said = small(at as usize * said.columns);
            }
            settings.extend(row.words());
            generated.resize(from + room, 0);
        }
        let settings = self.bring(settings.into_iter())?;
        let generated = (room > 0)
            .then(|| self.bring(generated.into_iter()))
            .transpose()?;
        let place = |(rows, table): (&Rows<D>, &Table<D>)| Embedded {
            out: rows.address(),
            table: table.values.address(),
            ids: small(table.rows),
            width: small(table.width),
        };
        let kernel = Sample {
            out: ids.column(column),
            logits: logits.address(),
            settings: settings.address(),
            generated: generated.as_ref().map_or(Address::NONE, |g| g.address()),
            said: said.map_or(Address::NONE, |said| said.place.address()),
            embedded: embedded.map(place),
            rows: small(choices.len()),
            vocab: small(logits.width),
            stride: small(ids.columns),
        };
        self.launch(kernel.launch(self.float))
    }
}

fn sample_row(choice: &Choice<'_>, group: usize, from: usize, count: usize) -> SampleRow {
    let s = choice.sampling;
    let limits = choice.limits;
    // Whether the end is near is known here, where all ids are counted.
    let generated = limits.generated.len() + usize::from(choice.said.is_some());
    let early = generated < s.min_tokens as usize;
    SampleRow {
        temperature: s.temperature,
        top_k: s.top_k,
        top_p: s.top_p,
        repetition_penalty: s.repetition_penalty,
        min_tokens: if early { u32::MAX } else { 0 },
        suppress_from: limits.suppress_from.map_or(u32::MAX, small),
        end: limits.end.unwrap_or(u32::MAX),
        generated_from: small(from),
        generated: small(count),
        said: u32::MAX,
        seed: choice.seed,
        step: choice.step,
        group: small(group),
        logits: 0,
    }
}
