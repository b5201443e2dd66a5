//! Joins pieces of speech into one utterance with even pauses and without audible joins.
//!
//! A long text is spoken piece by piece; each piece begins and ends with the silence that the model happened to make.
//! A joiner trims every piece ([`Trimmer`]) and inserts the configured pause between two that have sound. Like the
//! trimmer it works chunk by chunk with bounded look-ahead, and its result does not depend on the chunking.
//!
//! The end of every piece is held back until the next one. So when the utterance ends there are always samples left
//! to send as the last ones, even if the last pieces turn out to be silent.

use std::time::Duration;

use crate::trim::{TrimReport, TrimSettings, Trimmer};
use crate::units::{SampleRate, Samples};

/// Longest end of a piece that waits for the next sound or for the end of the utterance.
const HELD: Duration = Duration::from_millis(10);

/// The state of one utterance.
#[derive(Debug)]
pub struct Joiner {
    rate: SampleRate,
    settings: TrimSettings,
    piece: Trimmer,
    /// Silence due before the next sound; none before the first.
    pause: Samples,
    sounded: bool,
    /// The end of the last piece that had sound; it counts as given out.
    held: Vec<f32>,
    scratch: Vec<f32>,
    report: TrimReport,
}

impl Joiner {
    /// A new utterance at `rate`, its first piece open.
    pub fn new(rate: SampleRate, settings: TrimSettings) -> Self {
        Self {
            rate,
            settings,
            piece: Trimmer::new(rate, settings),
            pause: Samples::ZERO,
            sounded: false,
            held: Vec::new(),
            scratch: Vec::new(),
            report: TrimReport::default(),
        }
    }

    /// Keeps `keep` of the silence before the utterance instead of the setting for pieces. Call before the first
    /// samples.
    #[must_use]
    pub fn with_leading(mut self, keep: Duration) -> Self {
        let settings = TrimSettings {
            keep_leading: keep,
            ..self.settings
        };
        self.piece = Trimmer::new(self.rate, settings);
        self
    }

    /// Adds samples of the current piece; appends available output to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.piece.push(samples, &mut self.scratch);
        self.give(out);
    }

    /// Ends the current piece. `pause` is put before the next sound, on top of the silence that trimming leaves at both
    /// sides; it is dropped if no sound follows or none came before.
    pub fn end_piece(&mut self, pause: Duration, out: &mut Vec<f32>) {
        let next = Trimmer::new(self.rate, self.settings);
        let report = std::mem::replace(&mut self.piece, next).finish(&mut self.scratch);
        let held = self.scratch.len().min(self.rate.samples(HELD).len());
        self.give(out);
        if held > 0 {
            self.held = out.split_off(out.len() - held);
        }
        self.add_report(report);
        if self.sounded {
            self.pause = self.pause.max(self.rate.samples(pause));
        }
    }

    /// Ends the utterance. In the report `output` counts the pauses between pieces too.
    pub fn finish(mut self, out: &mut Vec<f32>) -> TrimReport {
        self.end_piece(Duration::ZERO, out);
        out.append(&mut self.held);
        self.report
    }

    fn give(&mut self, out: &mut Vec<f32>) {
        if self.scratch.is_empty() {
            return;
        }
        self.report.output += self.pause + Samples::of(&self.scratch);
        out.append(&mut self.held);
        out.resize(out.len() + self.pause.len(), 0.0);
        out.append(&mut self.scratch);
        self.pause = Samples::ZERO;
        self.sounded = true;
    }

    fn add_report(&mut self, piece: TrimReport) {
        self.report.input += piece.input;
        self.report.leading += piece.leading;
        self.report.trailing += piece.trailing;
        self.report.pauses += piece.pauses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::click::worst_join;
    use proptest::prelude::*;

    const MS: usize = 24;
    const PAUSE: Duration = Duration::from_millis(150);

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    fn tone(ms: usize) -> Vec<f32> {
        (0..ms * MS)
            .map(|i| 0.4 * (i as f32 * 300.0 * std::f32::consts::TAU / 24_000.0).cos())
            .collect()
    }

    fn join(pieces: &[Vec<f32>], chunk: usize) -> (Vec<f32>, TrimReport) {
        let mut joiner = Joiner::new(rate(), TrimSettings::default());
        let mut out = Vec::new();
        for piece in pieces {
            piece.chunks(chunk).for_each(|chunk| joiner.push(chunk, &mut out));
            joiner.end_piece(PAUSE, &mut out);
        }
        let report = joiner.finish(&mut out);
        (out, report)
    }

    #[test]
    fn pieces_are_separated_by_the_pause_and_what_trimming_leaves() {
        let piece = [vec![0.0; 400 * MS], tone(300), vec![0.0; 400 * MS]].concat();
        let (out, report) = join(&[piece.clone(), piece], 1_920);
        assert_eq!(out.len(), (20 + 300 + 80 + 150 + 20 + 300 + 80) * MS);
        assert_eq!(report.output, Samples::of(&out));
    }

    #[test]
    fn a_silent_piece_adds_no_second_pause_and_none_is_left_at_the_ends() {
        let silent = vec![0.0; 500 * MS];
        let (out, _) = join(
            &[silent.clone(), tone(300), silent.clone(), tone(300), silent],
            1_920,
        );
        assert_eq!(out.len(), (300 + 150 + 300) * MS);
    }

    #[test]
    fn other_silence_before_the_utterance_changes_none_within() {
        let piece = [vec![0.0; 400 * MS], tone(300)].concat();
        for (keep, kept) in [(0, 0), (250, 250), (9_000, 400)] {
            let joiner = Joiner::new(rate(), TrimSettings::default());
            let mut joiner = joiner.with_leading(Duration::from_millis(keep));
            let mut out = Vec::new();
            joiner.push(&piece, &mut out);
            joiner.end_piece(PAUSE, &mut out);
            joiner.push(&piece, &mut out);
            joiner.finish(&mut out);
            assert_eq!(out.len(), (kept + 300 + 150 + 20 + 300) * MS);
        }
    }

    #[test]
    fn some_sound_is_left_for_the_end_whatever_came_behind_it() {
        let mut joiner = Joiner::new(rate(), TrimSettings::default());
        let mut out = Vec::new();
        joiner.push(&tone(300), &mut out);
        for _ in 0..3 {
            joiner.end_piece(PAUSE, &mut out);
            joiner.push(&vec![0.0; 500 * MS], &mut out);
        }
        let before = out.len();
        joiner.finish(&mut out);
        assert!(before < out.len());
        assert_eq!(out.len(), 300 * MS);
    }

    #[test]
    fn joins_do_not_click() {
        let (out, _) = join(&[tone(301), tone(299)], 480);
        let joins = [301 * MS, (301 + 150) * MS];
        assert!(worst_join(&out, rate(), &joins).unwrap().score < 2.0);
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_chunking(
            lengths in prop::collection::vec((0usize..200, 0usize..60, 0usize..200), 0..5),
            chunk in 1usize..5_000,
        ) {
            let pieces: Vec<Vec<f32>> = lengths
                .iter()
                .map(|&(before, sound, after)| [vec![0.0; before * MS], tone(sound), vec![0.0; after * MS]].concat())
                .collect();
            prop_assert_eq!(join(&pieces, chunk), join(&pieces, usize::MAX));
        }
    }
}
