//! WAV files: a header of 16-bit PCM that can be written before the length is known, and a reader of more formats.
//!
//! A stream begins with [`WavHeader::streaming`], whose sizes are the customary "unknown" `0xFFFFFFFF` (players then
//! read to the end of the input). A writer that can seek replaces it by [`WavHeader::finished`] in the end; both have
//! the same length, so the samples do not move. [`Wav::parse`] reads either.

mod sample;

use crate::units::{RateError, SampleRate, Samples};
use sample::{FORMAT_PCM, SampleFormat};

/// Bytes before the first sample.
pub const WAV_HEADER_LEN: usize = 44;

const UNKNOWN: u32 = u32::MAX;
const BYTES_PER_SAMPLE: u16 = 2;
const FORMAT_EXTENSIBLE: u16 = 0xFFFE;
/// Bytes that the RIFF size counts besides the samples: the header without its own first eight bytes.
const RIFF_OVERHEAD: u32 = WAV_HEADER_LEN as u32 - 8;

/// WAV header, apart from the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WavHeader {
    /// Samples per second and channel.
    pub rate: SampleRate,
    /// Interleaved channels, at least 1.
    pub channels: u16,
}

impl WavHeader {
    /// A header of one channel.
    pub fn mono(rate: SampleRate) -> Self {
        Self { rate, channels: 1 }
    }

    /// The header for audio whose length is not known yet.
    pub fn streaming(self) -> [u8; WAV_HEADER_LEN] {
        self.encode(UNKNOWN, UNKNOWN)
    }

    /// The header for `samples` per channel. Audio too long for the format's 32-bit sizes keeps them unknown.
    pub fn finished(self, samples: Samples) -> [u8; WAV_HEADER_LEN] {
        let bytes = u128::from(samples.0) * u128::from(self.bytes_per_frame());
        match u32::try_from(bytes)
            .ok()
            .and_then(|data| Some((data.checked_add(RIFF_OVERHEAD)?, data)))
        {
            Some((riff, data)) => self.encode(riff, data),
            None => self.streaming(),
        }
    }

    fn bytes_per_frame(self) -> u32 {
        u32::from(self.channels) * u32::from(BYTES_PER_SAMPLE)
    }

    fn encode(self, riff_size: u32, data_size: u32) -> [u8; WAV_HEADER_LEN] {
        let mut header = [0; WAV_HEADER_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(b"RIFF");
        put(&riff_size.to_le_bytes());
        put(b"WAVEfmt ");
        put(&16u32.to_le_bytes());
        put(&FORMAT_PCM.to_le_bytes());
        put(&self.channels.to_le_bytes());
        put(&self.rate.hz().to_le_bytes());
        put(&self.rate.hz().wrapping_mul(self.bytes_per_frame()).to_le_bytes());
        put(&(self.bytes_per_frame() as u16).to_le_bytes());
        put(&(BYTES_PER_SAMPLE * 8).to_le_bytes());
        put(b"data");
        put(&data_size.to_le_bytes());
        header
    }
}

/// Reason why bytes are not a WAV file that this module reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WavError {
    /// The first bytes are something else.
    #[error("not a WAV file: it does not begin with RIFF....WAVE")]
    NotWav,
    /// The file ends inside a header.
    #[error("the WAV file ends at byte {at}, inside its headers")]
    Truncated {
        /// Offset of the end.
        at: usize,
    },
    /// Samples came without a description of them.
    #[error("the WAV file has no fmt chunk before its data")]
    NoFormat,
    /// Samples of another kind.
    #[error(
        "the WAV file holds format {format} with {bits} bits per sample, expected PCM of 16, 24 or 32 bits (format 1), floats \
         of 32 or 64 bits (3), A-law (6) or mu-law (7)"
    )]
    Format {
        /// The format tag.
        format: u16,
        /// Bits per sample.
        bits: u16,
    },
    /// Samples with room between them, or frames of another size than their samples have.
    #[error("the WAV file has frames of {got} bytes, expected {expected}: its samples are not packed")]
    FrameSize {
        /// Value in the header.
        got: u16,
        /// Bytes of the samples of all channels.
        expected: u32,
    },
    /// Floats that mean nothing.
    #[error("the WAV file has samples that are infinite or not a number")]
    NotFinite,
    /// No channel.
    #[error("the WAV file has no channels")]
    NoChannels,
    /// A rate that cannot be used.
    #[error("the WAV file's {0}")]
    Rate(#[from] RateError),
}

/// A WAV file in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Wav {
    /// The header.
    pub header: WavHeader,
    /// The samples in `[-1, 1]`, channels interleaved.
    pub samples: Vec<f32>,
}

impl Wav {
    /// Reads PCM, floats and G.711, also with an extensible header. Floats beyond full scale are clipped. A data
    /// chunk of unknown length, or longer than the file, ends with the file; other chunks are skipped.
    ///
    /// # Errors
    /// [`WavError`] with the problem of the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, WavError> {
        Self::parse_at_most(bytes, |_| Samples(u64::MAX))
    }

    /// As [`parse`](Self::parse), but decodes at most one frame beyond the limit that `most` derives from the header.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse).
    pub fn parse_at_most(bytes: &[u8], most: impl FnOnce(&WavHeader) -> Samples) -> Result<Self, WavError> {
        if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
            return Err(WavError::NotWav);
        }
        let mut format = None;
        let mut at = 12;
        loop {
            let head = bytes
                .get(at..at + 8)
                .ok_or(WavError::Truncated { at: bytes.len() })?;
            let size = u32_at(head, 4) as usize;
            let body = &bytes[at + 8..bytes.len().min((at + 8).saturating_add(size))];
            match &head[..4] {
                b"fmt " => format = Some(parse_format(body, at + 8)?),
                b"data" => {
                    let (header, format) = format.ok_or(WavError::NoFormat)?;
                    let frame = format.bytes() * usize::from(header.channels);
                    let frames = most(&header).len().saturating_add(1);
                    let samples = format.read(&body[..body.len().min(frames.saturating_mul(frame))])?;
                    return Ok(Self { header, samples });
                }
                _ => {}
            }
            // Chunks are padded to even lengths.
            at = (at + 8)
                .saturating_add(size)
                .saturating_add(size % 2)
                .min(bytes.len());
        }
    }

    /// Samples per channel.
    pub fn len(&self) -> Samples {
        Samples((self.samples.len() / usize::from(self.header.channels)) as u64)
    }

    /// Returns true if it holds no audio.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }
}

fn parse_format(body: &[u8], at: usize) -> Result<(WavHeader, SampleFormat), WavError> {
    if body.len() < 16 {
        return Err(WavError::Truncated { at: at + body.len() });
    }
    let tag = u16_at(body, 0);
    let channels = u16_at(body, 2);
    let bits = u16_at(body, 14);
    // The extensible form keeps the real format in the first bytes of a GUID.
    let format = if tag == FORMAT_EXTENSIBLE && body.len() >= 26 {
        u16_at(body, 24)
    } else {
        tag
    };
    let samples = SampleFormat::of(format, bits).ok_or(WavError::Format { format, bits })?;
    if channels == 0 {
        return Err(WavError::NoChannels);
    }
    let got = u16_at(body, 12);
    let expected = samples.bytes() as u32 * u32::from(channels);
    if u32::from(got) != expected {
        return Err(WavError::FrameSize { got, expected });
    }
    let header = WavHeader {
        rate: SampleRate::new(u32_at(body, 4))?,
        channels,
    };
    Ok((header, samples))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn header() -> WavHeader {
        WavHeader::mono(SampleRate::new(24_000).unwrap())
    }

    fn pcm(samples: &[i16]) -> Vec<u8> {
        samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
    }

    /// Samples of a file as 16 bits, exact for 16-bit input.
    fn read(bytes: &[u8]) -> Vec<i16> {
        let wav = Wav::parse(bytes).unwrap();
        wav.samples.into_iter().map(crate::pcm::to_i16).collect()
    }

    fn finished_file(samples: &[i16]) -> Vec<u8> {
        [&header().finished(Samples::of(samples))[..], &pcm(samples)].concat()
    }

    #[test]
    fn an_independent_reader_accepts_a_finished_file() {
        let samples = [0, 1, -1, i16::MAX, i16::MIN];
        let mut reader = hound::WavReader::new(Cursor::new(finished_file(&samples))).unwrap();
        assert_eq!((reader.spec().sample_rate, reader.spec().channels), (24_000, 1));
        assert_eq!(
            reader.samples::<i16>().map(Result::unwrap).collect::<Vec<_>>(),
            samples
        );
    }

    #[test]
    fn a_file_by_an_independent_writer_is_read() {
        let mut file = Cursor::new(Vec::new());
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: 8_000,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut writer = hound::WavWriter::new(&mut file, spec).unwrap();
        [1i16, 2, 3, 4]
            .iter()
            .for_each(|&sample| writer.write_sample(sample).unwrap());
        writer.finalize().unwrap();
        let wav = Wav::parse(file.get_ref()).unwrap();
        assert_eq!((wav.header.channels, wav.len()), (2, Samples(2)));
        assert_eq!(read(file.get_ref()), [1, 2, 3, 4]);
    }

    /// A file of the samples 0, half, minus half and the lowest, by an independent writer.
    fn written(bits: u16, format: hound::SampleFormat, write: impl Fn(&mut HoundWriter<'_>, f64)) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 24_000,
            bits_per_sample: bits,
            sample_format: format,
        };
        let mut writer = hound::WavWriter::new(&mut file, spec).unwrap();
        [0.0, 0.5, -0.5, -1.0].iter().for_each(|&s| write(&mut writer, s));
        writer.finalize().unwrap();
        file.into_inner()
    }

    type HoundWriter<'a> = hound::WavWriter<&'a mut Cursor<Vec<u8>>>;

    /// The independent writer puts more than 16 bits, and floats, behind an extensible header.
    #[test]
    fn integers_of_24_and_32_bits_and_floats_are_read() {
        use hound::SampleFormat::{Float, Int};
        let int = |bits: u16| {
            let full = f64::from(1_u32 << (bits - 1));
            written(bits, Int, |writer, s| {
                writer.write_sample((s * full) as i32).unwrap();
            })
        };
        let float = written(32, Float, |writer, s| {
            writer.write_sample(s as f32).unwrap();
        });
        for file in [int(16), int(24), int(32), float] {
            let wav = Wav::parse(&file).unwrap();
            assert_eq!((wav.header.rate.hz(), wav.header.channels), (24_000, 1));
            assert_eq!(wav.samples, [0.0, 0.5, -0.5, -1.0]);
        }
    }

    /// A file as programs write it that give floats of 64 bits or G.711 a header of 18 bytes.
    fn of(format: u16, bits: u16, data: &[u8]) -> Vec<u8> {
        let bytes = u32::from(bits / 8);
        let fmt = [
            &format.to_le_bytes()[..],
            &1_u16.to_le_bytes(),
            &24_000_u32.to_le_bytes(),
            &(24_000 * bytes).to_le_bytes(),
            &(bytes as u16).to_le_bytes(),
            &bits.to_le_bytes(),
            &0_u16.to_le_bytes(),
        ];
        let length = (data.len() as u32).to_le_bytes();
        let head = [b"RIFF\xFF\xFF\xFF\xFFWAVEfmt \x12\0\0\0", &fmt.concat()[..]];
        [&head.concat()[..], b"data", &length, data].concat()
    }

    #[test]
    fn floats_of_64_bits_and_telephone_recordings_are_read() {
        let doubles = [0.25_f64, 7.0].map(f64::to_le_bytes).concat();
        assert_eq!(Wav::parse(&of(3, 64, &doubles)).unwrap().samples, [0.25, 1.0]);
        for (format, law) in [(6, crate::g711::Law::A), (7, crate::g711::Law::Mu)] {
            let byte = law.encode(0.25);
            let heard = Wav::parse(&of(format, 8, &[byte])).unwrap().samples;
            assert_eq!(heard, [law.decode(byte)]);
        }
        let nothing = of(3, 32, &f32::NAN.to_le_bytes());
        assert_eq!(Wav::parse(&nothing), Err(WavError::NotFinite));
    }

    #[test]
    fn samples_with_room_between_them_are_refused_and_not_read_as_noise() {
        let mut file = of(1, 24, &[0; 8]);
        // 24 bits in containers of four bytes.
        file[32..34].copy_from_slice(&4_u16.to_le_bytes());
        assert_eq!(
            Wav::parse(&file),
            Err(WavError::FrameSize { got: 4, expected: 3 })
        );
    }

    #[test]
    fn no_more_is_read_than_is_wanted_and_one_frame() {
        let file = finished_file(&[1, 2, 3, 4, 5]);
        let wav = Wav::parse_at_most(&file, |_| Samples(2)).unwrap();
        assert_eq!(wav.len(), Samples(3));
    }

    #[test]
    fn the_streaming_header_says_unknown_and_reads_to_the_end() {
        let streaming = header().streaming();
        assert_eq!(streaming[4..8], [0xFF; 4]);
        assert_eq!(streaming[40..44], [0xFF; 4]);
        let bytes = [streaming.to_vec(), pcm(&[5, 6])].concat();
        assert_eq!(read(&bytes), [5, 6]);
    }

    #[test]
    fn sizes_of_audio_past_four_gigabytes_stay_unknown() {
        let last = (u64::from(u32::MAX) - 36) / 2;
        assert_ne!(header().finished(Samples(last)), header().streaming());
        assert_eq!(header().finished(Samples(last + 1)), header().streaming());
        assert_eq!(header().finished(Samples(u64::MAX)), header().streaming());
    }

    #[test]
    fn chunks_it_does_not_know_are_skipped_with_their_padding() {
        let plain = finished_file(&[7, 8]);
        let mut bytes = plain[..36].to_vec();
        bytes.extend(b"LIST\x03\0\0\0abc\0");
        bytes.extend(&plain[36..]);
        assert_eq!(read(&bytes), [7, 8]);
    }

    #[test]
    fn wrong_files_are_refused_with_what_is_wrong() {
        assert_eq!(Wav::parse(b"OggS"), Err(WavError::NotWav));
        assert_eq!(
            Wav::parse(&header().streaming()[..30]),
            Err(WavError::Truncated { at: 30 })
        );
        let mut eight_bits = header().streaming();
        eight_bits[34] = 8;
        assert_eq!(
            Wav::parse(&eight_bits),
            Err(WavError::Format { format: 1, bits: 8 })
        );
        let mut no_rate = header().streaming();
        no_rate[24..28].fill(0);
        assert_eq!(Wav::parse(&no_rate), Err(WavError::Rate(RateError { got: 0 })));
        assert_eq!(
            Wav::parse(b"RIFF\0\0\0\0WAVEdata\0\0\0\0"),
            Err(WavError::NoFormat)
        );
    }

    proptest! {
        #[test]
        fn writing_and_reading_gives_the_samples_back(samples in prop::collection::vec(any::<i16>(), 0..300)) {
            prop_assert_eq!(read(&finished_file(&samples)), samples);
        }

        #[test]
        fn arbitrary_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..60) {
            let bytes = [header().finished(Samples(40)).to_vec(), tail].concat();
            let _ = Wav::parse(&bytes);
            let _ = Wav::parse(&bytes[cut.min(bytes.len())..]);
            let mut riff = b"RIFF....WAVE".to_vec();
            riff.extend(&bytes[cut.min(bytes.len())..]);
            let _ = Wav::parse(&riff);
        }
    }
}
