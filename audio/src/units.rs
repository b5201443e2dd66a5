//! Units of audio: rates, sample counts and codec frames, each its own type, all arithmetic in integers.
//!
//! Every conversion between samples and time lives here, so that rounding is decided once: time is rounded *down* to
//! whole nanoseconds, samples are rounded *up* (a wait of that many samples is never too short).

use std::fmt;
use std::iter::Sum;
use std::num::NonZeroU32;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A sample rate that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sample rate is {got} Hz, expected {min} to {max} Hz", min = SampleRate::MIN, max = SampleRate::MAX)]
pub struct RateError {
    /// The rate that was given, in Hz.
    pub got: u32,
}

/// Samples per second and channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleRate(NonZeroU32);

impl SampleRate {
    /// The lowest rate accepted, in Hz.
    pub const MIN: u32 = 1_000;
    /// The highest rate accepted, in Hz.
    pub const MAX: u32 = 384_000;

    /// A rate in Hz.
    ///
    /// # Errors
    /// [`RateError`] outside [`Self::MIN`]..=[`Self::MAX`].
    pub fn new(hz: u32) -> Result<Self, RateError> {
        match NonZeroU32::new(hz) {
            Some(rate) if (Self::MIN..=Self::MAX).contains(&hz) => Ok(Self(rate)),
            _ => Err(RateError { got: hz }),
        }
    }

    /// The rate in Hz.
    pub fn hz(self) -> u32 {
        self.0.get()
    }

    /// Duration of `samples`, rounded down to whole nanoseconds. Saturates at about 584 years.
    pub fn duration(self, samples: Samples) -> Duration {
        let nanos = u128::from(samples.0) * NANOS_PER_SECOND / u128::from(self.hz());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Number of samples that cover `time`, rounded up.
    pub fn samples(self, time: Duration) -> Samples {
        let samples = (time.as_nanos() * u128::from(self.hz())).div_ceil(NANOS_PER_SECOND);
        Samples(u64::try_from(samples).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for SampleRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for SampleRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.hz())
    }
}

/// A number of samples per channel, or a position counted in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Samples(pub u64);

impl Samples {
    /// None at all.
    pub const ZERO: Self = Self(0);

    /// The length of a mono buffer.
    pub fn of<T>(mono: &[T]) -> Self {
        Self(mono.len() as u64)
    }

    /// As an index or length in memory.
    ///
    /// # Panics
    /// If this machine cannot address that many samples.
    pub fn len(self) -> usize {
        usize::try_from(self.0).expect("a sample count of this size cannot be in memory")
    }

    /// Returns true if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The difference, or zero if `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Samples {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Samples {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Samples {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Samples {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        Self(counts.map(|count| count.0).sum())
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples", self.0)
    }
}

/// A number of codec frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Frames(pub u64);

/// Samples to which one codec frame decodes (1920 for 12.5 Hz frames at 24 kHz).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SamplesPerFrame(pub NonZeroU32);

impl SamplesPerFrame {
    /// The samples that `frames` decode to.
    pub fn samples(self, frames: Frames) -> Samples {
        Samples(frames.0 * u64::from(self.0.get()))
    }

    /// Number of frames for at least `samples`.
    pub fn frames(self, samples: Samples) -> Frames {
        Frames(samples.0.div_ceil(u64::from(self.0.get())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(hz: u32) -> SampleRate {
        SampleRate::new(hz).unwrap()
    }

    #[test]
    fn seconds_are_exact_at_every_common_rate() {
        for hz in [8_000, 16_000, 22_050, 24_000, 44_100, 48_000] {
            assert_eq!(
                rate(hz).duration(Samples(u64::from(hz) * 7)),
                Duration::from_secs(7)
            );
            assert_eq!(
                rate(hz).samples(Duration::from_secs(7)),
                Samples(u64::from(hz) * 7)
            );
        }
    }

    #[test]
    fn a_rate_out_of_range_is_named_with_its_limits() {
        assert_eq!(
            SampleRate::new(0).unwrap_err().to_string(),
            "sample rate is 0 Hz, expected 1000 to 384000 Hz"
        );
        assert!(SampleRate::new(384_001).is_err());
    }

    #[test]
    fn frames_and_samples_convert_at_the_codec_rate() {
        let spf = SamplesPerFrame(NonZeroU32::new(1920).unwrap());
        assert_eq!(spf.samples(Frames(25)), Samples(48_000));
        assert_eq!(spf.frames(Samples(1)), Frames(1));
        assert_eq!(spf.frames(Samples(1920)), Frames(1));
        assert_eq!(spf.frames(Samples(1921)), Frames(2));
    }

    #[test]
    fn enormous_counts_do_not_overflow() {
        assert_eq!(
            rate(1_000).duration(Samples(u64::MAX)),
            Duration::from_nanos(u64::MAX)
        );
        assert_eq!(rate(384_000).samples(Duration::MAX), Samples(u64::MAX));
    }

    proptest! {
        #[test]
        fn samples_survive_the_way_through_time(hz in SampleRate::MIN..=SampleRate::MAX, n in 0u64..1 << 40) {
            prop_assert_eq!(rate(hz).samples(rate(hz).duration(Samples(n))), Samples(n));
        }

        #[test]
        fn a_wait_in_samples_is_never_too_short(hz in SampleRate::MIN..=SampleRate::MAX, ns in 0u64..1 << 50) {
            let time = Duration::from_nanos(ns);
            let samples = rate(hz).samples(time);
            // One nanosecond is what rounding down may take away.
            prop_assert!(rate(hz).duration(samples) + Duration::from_nanos(1) > time);
        }
    }
}
