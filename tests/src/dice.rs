//! Chance that can be had again.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): equal numbers
/// from equal seeds on every machine.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Independent generator number `part`; this one does not change.
    pub fn part(&self, part: u64) -> Self {
        let mut parts = Self(self.0 ^ Self(part).roll());
        Self(parts.roll())
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several; there must be some.
    pub fn of<T: Copy>(&mut self, several: &[T]) -> T {
        several[self.place(several.len())]
    }

    /// Index below `count`, which must not be 0.
    pub fn place(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// A time below `most`, in milliseconds.
    pub fn moment(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.below(most.as_millis().max(1) as u64))
    }

    /// `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }
}
