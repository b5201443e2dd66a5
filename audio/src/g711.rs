//! G.711: a byte a sample, as telephones carry speech.

use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};

use crate::pcm::{from_i16, to_i16};

/// Companding law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Law {
    /// North America and Japan (PCMU).
    Mu,
    /// Elsewhere (PCMA).
    A,
}

impl Law {
    /// One sample as a byte.
    pub(crate) fn encode(self, sample: f32) -> u8 {
        match self {
            Self::Mu => encode_ulaw(to_i16(sample)),
            Self::A => encode_alaw(to_i16(sample)),
        }
    }

    /// Sample of a byte.
    pub(crate) fn decode(self, byte: u8) -> f32 {
        from_i16(match self {
            Self::Mu => decode_ulaw(byte),
            Self::A => decode_alaw(byte),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decoder's output for a mu-law character (ITU-T G.711, table 2a), at 16 bits: 14-bit values times 4.
    fn table_mu(byte: u8) -> i32 {
        // On the wire all bits are inverted.
        let character = !byte;
        let segment = u32::from(character >> 4 & 7);
        let step = i32::from(character & 15);
        let magnitude = ((2 * step + 33) << segment) - 33;
        4 * if character & 0x80 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    /// As above for A-law (table 1a): 13-bit values times 8.
    fn table_a(byte: u8) -> i32 {
        // On the wire every other bit is inverted.
        let character = byte ^ 0x55;
        let segment = u32::from(character >> 4 & 7);
        let step = i32::from(character & 15);
        let magnitude = match segment {
            0 => 2 * step + 1,
            _ => (2 * step + 33) << (segment - 1),
        };
        8 * if character & 0x80 == 0 {
            -magnitude
        } else {
            magnitude
        }
    }

    type Table = fn(u8) -> i32;
    const LAWS: [(Law, Table); 2] = [(Law::Mu, table_mu), (Law::A, table_a)];

    #[test]
    fn every_byte_decodes_to_the_value_in_the_recommendation() {
        for (law, table) in LAWS {
            for byte in 0..=u8::MAX {
                let decoded = i32::from(to_i16(law.decode(byte)));
                assert_eq!(decoded, table(byte), "{law:?} {byte:#04x}");
            }
        }
    }

    /// The interval of magnitudes, between two decision values of the recommendation, that a byte stands for, at 16
    /// bits.
    fn interval(law: Law, byte: u8) -> (i32, i32) {
        let character = match law {
            Law::Mu => !byte,
            Law::A => byte ^ 0x55,
        };
        let segment = u32::from(character >> 4 & 7);
        let step = i32::from(character & 15);
        let ends = |from: i32, shift: u32, offset: i32, unit: i32| {
            let end = |step: i32| unit * ((step << shift) - offset);
            (end(from), end(from + 1))
        };
        match (law, segment) {
            (Law::Mu, _) => ends(16 + step, segment + 1, 33, 4),
            (Law::A, 0) => ends(step, 1, 0, 8),
            (Law::A, _) => ends(16 + step, segment, 0, 8),
        }
    }

    #[test]
    fn every_sample_becomes_the_character_in_whose_interval_it_lies() {
        for (law, table) in LAWS {
            for sample in i16::MIN..=i16::MAX {
                let byte = law.encode(from_i16(sample));
                let (lowest, highest) = interval(law, byte);
                let magnitude = i32::from(sample).abs();
                // The laws know 14 and 13 bits: where a sample has more, either side of a decision value is right.
                // What lies beyond the last interval belongs to it.
                let unit = 8;
                let high = highest + unit > 32_000 || magnitude <= highest + unit;
                assert!(magnitude >= lowest - unit && high, "{law:?} {sample} {byte:#04x}");
                assert!(
                    magnitude <= unit || table(byte).signum() == i32::from(sample).signum(),
                    "{law:?} {sample}"
                );
            }
        }
    }

    #[test]
    fn silence_is_what_telephones_send() {
        assert_eq!(Law::Mu.encode(0.0), 0xFF);
        assert_eq!(Law::A.encode(0.0), 0xD5);
    }
}
