//! Random numbers of a load: little state, equal numbers from equal seeds on every machine and in every version.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Independent generator number `part` of a seed.
    pub(crate) fn part(seed: u64, part: u64) -> Self {
        let mut parts = Self(seed);
        let start = parts.next();
        Self(start ^ Self(part).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly from `[from, to)`.
    pub(crate) fn between(&mut self, from: f64, to: f64) -> f64 {
        from + self.unit() * (to - from)
    }

    /// A position below `count`, which must not be zero.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count - 1)
    }
}

/// Arrival times of requests, in seconds from the start: a Poisson process of `rate` per second, so that gaps are
/// exponentially distributed.
pub(crate) fn arrivals(random: &mut Random, rate: f64, count: u32) -> Vec<f64> {
    let mut at = 0.0;
    let next = |_| {
        at -= (1.0 - random.unit()).ln() / rate;
        at
    };
    (0..count).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.next(), random.next(), random.next()],
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn arrivals_repeat_with_their_seed_and_come_at_the_rate_asked_for() {
        let of = |seed| arrivals(&mut Random::part(seed, 3), 20.0, 10_000);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        let times = of(7);
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.05).abs() < 0.002, "{mean}");
        // In an exponential distribution 1 - 1/e are shorter than the mean.
        let short = gaps.iter().filter(|&&gap| gap < 0.05).count() as f64 / gaps.len() as f64;
        assert!((short - 0.632).abs() < 0.02, "{short}");
    }

    #[test]
    fn ranges_are_kept() {
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            assert!((0.2..2.0).contains(&random.between(0.2, 2.0)));
            assert!(random.below(3) < 3);
        }
    }
}
