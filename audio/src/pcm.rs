//! Between floating-point samples and 16-bit little-endian PCM.
//!
//! Full scale is 32768: every 16-bit value has exactly one float, and comes back from it unchanged. `+1.0` itself is
//! one step above the largest 16-bit value and clamps to 32767.

const FULL_SCALE: f32 = 32_768.0;

/// One sample in `[-1, 1]` as a 16-bit integer: clamped, rounded to nearest (ties to even, so that rounding adds no
/// offset), NaN as silence.
#[allow(clippy::cast_possible_truncation)] // a float-to-integer cast saturates, which is the clamp
pub fn to_i16(sample: f32) -> i16 {
    (sample * FULL_SCALE).round_ties_even() as i16
}

/// One 16-bit sample as a float in `[-1, 1)`, exactly.
pub fn from_i16(sample: i16) -> f32 {
    f32::from(sample) / FULL_SCALE
}

/// Appends `samples` to `bytes` as signed 16-bit little-endian PCM, two bytes each.
pub fn encode_s16le(samples: &[f32], bytes: &mut Vec<u8>) {
    bytes.reserve(samples.len() * 2);
    bytes.extend(samples.iter().flat_map(|&sample| to_i16(sample).to_le_bytes()));
}

/// Appends `samples` to `bytes` as 32-bit little-endian floats, four bytes each: clamped to full scale, NaN as silence.
pub fn encode_f32le(samples: &[f32], bytes: &mut Vec<u8>) {
    let clean = |sample: f32| {
        if sample.is_nan() {
            0.0
        } else {
            sample.clamp(-1.0, 1.0)
        }
    };
    bytes.reserve(samples.len() * 4);
    bytes.extend(samples.iter().flat_map(|&sample| clean(sample).to_le_bytes()));
}

/// Samples from 32-bit little-endian floats. An incomplete last sample is ignored.
pub fn f32_from_f32le(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

/// The samples in `bytes` of signed 16-bit little-endian PCM. A lone last byte is not a sample and is left out.
pub fn i16_from_s16le(bytes: &[u8]) -> impl ExactSizeIterator<Item = i16> + '_ {
    bytes
        .chunks_exact(2)
        .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_16_bit_value_survives_the_round_trip() {
        for value in i16::MIN..=i16::MAX {
            assert_eq!(to_i16(from_i16(value)), value);
        }
    }

    #[test]
    fn out_of_range_clamps_and_nan_is_silence() {
        assert_eq!(to_i16(1.0), i16::MAX);
        assert_eq!(to_i16(7.5), i16::MAX);
        assert_eq!(to_i16(f32::INFINITY), i16::MAX);
        assert_eq!(to_i16(-1.0), i16::MIN);
        assert_eq!(to_i16(-7.5), i16::MIN);
        assert_eq!(to_i16(f32::NEG_INFINITY), i16::MIN);
        assert_eq!(to_i16(f32::NAN), 0);
    }

    #[test]
    fn ties_round_to_even() {
        let half_steps = [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2)];
        for (steps, expected) in half_steps {
            assert_eq!(to_i16(steps / FULL_SCALE), expected, "{steps} steps");
        }
    }

    #[test]
    fn bytes_are_little_endian_pairs_and_a_lone_byte_is_left_out() {
        let mut bytes = vec![9];
        encode_s16le(&[from_i16(0x0102), from_i16(-2)], &mut bytes);
        assert_eq!(bytes, [9, 0x02, 0x01, 0xFE, 0xFF]);
        assert_eq!(i16_from_s16le(&[0x02, 0x01, 0xFE]).collect::<Vec<_>>(), [0x0102]);
    }

    proptest! {
        #[test]
        fn rounding_is_never_off_by_more_than_half_a_step(sample in -1.0f32..0.999_98) {
            prop_assert!((from_i16(to_i16(sample)) - sample).abs() <= 0.5 / FULL_SCALE);
        }
    }
}
