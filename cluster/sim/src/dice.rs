//! Random numbers, equal for equal seeds.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// In (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON
    }

    /// Exponential with that mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().min(1.0).ln() * mean
    }

    /// As probable at every distance from the mean up to that share of it.
    pub(crate) fn around(&mut self, mean: f64, share: f64) -> f64 {
        mean * (1.0 + share * (2.0 * self.unit().min(1.0) - 1.0))
    }
}
