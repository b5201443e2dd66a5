//! Features of audio, for every 10 ms: loudness and brightness.

use super::{STEP, Timbre};
use crate::units::{SampleRate, Samples};

/// Weight of the features against the prior of the tempo.
const EVIDENCE: f32 = 1.5;
/// Beyond three deviations one thing is as unlikely as another.
const WORST: f32 = 9.0;
/// Levels, in dB beside the loudest, below which everything is as silent.
const SILENT: f32 = -45.0;
/// Least reference level for the loudest so far, in dBFS.
const LOUD: f32 = -30.0;
/// Below this, in Hz, everything is as dull.
const DULL: f32 = 100.0;

/// Features of 10 ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    level: f32,
    brightness: f32,
}

impl Moment {
    /// Logarithm of how likely it is in a sound, weighed against the tempo.
    pub(super) fn likelihood(self, timbre: &Timbre) -> f32 {
        let part = |heard: f32, usual: f32, spread: f32| {
            let off = (heard - usual) / spread;
            -0.5 * (off * off).min(WORST) - spread.ln()
        };
        let level = part(self.level, timbre.level, timbre.level_spread);
        let brightness = part(self.brightness, timbre.brightness, timbre.brightness_spread);
        EVIDENCE * (level + brightness)
    }
}

/// Extracts the moments of a signal.
#[derive(Debug, Clone)]
pub(super) struct Extractor {
    rate: SampleRate,
    /// Samples of one moment.
    pub(super) step: usize,
    /// Samples received.
    pub(super) taken: Samples,
    /// The incomplete moment: its samples, their energy and that of their differences.
    count: usize,
    energy: f64,
    change: f64,
    last: f32,
    loudest: f32,
}

impl Extractor {
    pub(super) fn new(rate: SampleRate) -> Self {
        Self {
            rate,
            step: rate.samples(STEP).len(),
            taken: Samples::ZERO,
            count: 0,
            energy: 0.0,
            change: 0.0,
            last: 0.0,
            loudest: LOUD,
        }
    }

    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Moment>) {
        self.taken += Samples::of(samples);
        for &sample in samples {
            self.energy += f64::from(sample * sample);
            let change = sample - self.last;
            self.change += f64::from(change * change);
            self.last = sample;
            self.count += 1;
            if self.count == self.step {
                out.push(self.moment());
            }
        }
    }

    fn moment(&mut self) -> Moment {
        let level = (10.0 * (self.energy / self.step as f64 + 1e-9).log10()) as f32;
        self.loudest = self.loudest.max(level);
        // A tone of f Hz changes from sample to sample by 2 sin(pi f / rate) of its own strength.
        let change = (self.change / (self.energy + 1e-6)).clamp(0.0, 4.0).sqrt() / 2.0;
        let hz = f64::from(self.rate.hz()) / std::f64::consts::PI * change.asin();
        (self.count, self.energy, self.change) = (0, 0.0, 0.0);
        Moment {
            level: (level - self.loudest).max(SILENT),
            brightness: (hz as f32).max(DULL).ln(),
        }
    }
}
