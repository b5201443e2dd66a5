//! From the vocoder's pieces to the bytes of one utterance.
//!
//! Sequences are joined without audible seams (`omni_audio::Joiner`), encoded, and numbered. A little audio is always held
//! back until it is known whether more follows, so that the last piece can say that it is.

use std::time::Duration;

use bytes::Bytes;
use omni_audio::{Joiner, SampleRate, Samples, TrimSettings, WAV_HEADER_LEN, WavHeader, encode_s16le};

use super::protocol::AudioOut;
use super::settings::Encoding;

/// The audio of one utterance on its way out.
#[derive(Debug)]
pub(super) struct Output {
    rate: SampleRate,
    encoding: Encoding,
    joiner: Joiner,
    sent: Samples,
    limit: Samples,
}

/// Audio to send, with its samples for whoever measures them.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) audio: AudioOut,
    pub(super) samples: Vec<f32>,
}

impl Output {
    /// At most `limit` samples.
    pub(super) fn new(rate: SampleRate, encoding: Encoding, limit: Samples) -> Self {
        Self {
            rate,
            encoding,
            joiner: Joiner::new(rate, TrimSettings::default()),
            sent: Samples::ZERO,
            limit,
        }
    }

    /// The next samples of the current sequence.
    pub(super) fn push(&mut self, samples: &[f32]) -> Option<Encoded> {
        let mut out = Vec::new();
        self.joiner.push(samples, &mut out);
        self.encode(out, false)
    }

    /// Another sequence follows, after a pause.
    pub(super) fn next_sequence(&mut self, pause: Duration) -> Option<Encoded> {
        let mut out = Vec::new();
        self.joiner.end_piece(pause, &mut out);
        self.encode(out, false)
    }

    /// Nothing follows.
    pub(super) fn finish(&mut self) -> Option<Encoded> {
        let mut out = Vec::new();
        let joiner = Joiner::new(self.rate, TrimSettings::default());
        std::mem::replace(&mut self.joiner, joiner).finish(&mut out);
        self.encode(out, true)
    }

    /// Whether any audio was given out.
    pub(super) fn has_begun(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Samples given out.
    pub(super) fn sent(&self) -> Samples {
        self.sent
    }

    /// Whether the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.sent >= self.limit
    }

    fn encode(&mut self, samples: Vec<f32>, last: bool) -> Option<Encoded> {
        if samples.is_empty() {
            return None;
        }
        let start = self.sent;
        let mut bytes = Vec::with_capacity(WAV_HEADER_LEN + 2 * samples.len());
        if self.encoding == Encoding::Wav && start.is_empty() {
            bytes.extend_from_slice(&WavHeader::mono(self.rate).streaming());
        }
        encode_s16le(&samples, &mut bytes);
        let count = Samples::of(&samples);
        self.sent += count;
        let audio = AudioOut {
            data: Bytes::from(bytes),
            start,
            samples: count,
            last,
        };
        Some(Encoded { audio, samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 16_000;

    fn tone(samples: usize) -> Vec<f32> {
        (0..samples).map(|n| 0.5 * (n as f32 * 0.2).sin()).collect()
    }

    fn output(encoding: Encoding) -> Output {
        Output::new(SampleRate::new(RATE).unwrap(), encoding, Samples(1_000_000))
    }

    fn collect(encoding: Encoding, chunks: &[&[f32]]) -> Vec<AudioOut> {
        let mut output = output(encoding);
        let mut all: Vec<_> = chunks.iter().filter_map(|c| output.push(c)).collect();
        all.extend(output.next_sequence(Duration::from_millis(120)));
        all.extend(output.push(&tone(4_000)));
        all.extend(output.finish());
        all.into_iter().map(|encoded| encoded.audio).collect()
    }

    #[test]
    fn pieces_are_contiguous_and_the_last_one_says_so() {
        let tone = tone(8_000);
        let pieces = collect(
            Encoding::Pcm16,
            &[&tone[..100], &tone[100..5_000], &tone[5_000..]],
        );
        let mut next = Samples::ZERO;
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(piece.start, next);
            assert_eq!(piece.data.len(), 2 * piece.samples.len());
            assert!(!piece.samples.is_empty());
            assert_eq!(piece.last, i + 1 == pieces.len());
            next += piece.samples;
        }
    }

    #[test]
    fn only_the_first_piece_of_wav_has_a_header() {
        let tone = tone(8_000);
        let pieces = collect(Encoding::Wav, &[&tone[..4_000], &tone[4_000..]]);
        assert_eq!(&pieces[0].data[..4], b"RIFF");
        assert_eq!(pieces[0].data.len(), WAV_HEADER_LEN + 2 * pieces[0].samples.len());
        assert!(pieces[1..].iter().all(|p| p.data.len() == 2 * p.samples.len()));
    }

    #[test]
    fn how_audio_was_cut_into_chunks_changes_nothing() {
        let tone = tone(8_000);
        let bytes = |chunks: &[&[f32]]| -> Vec<u8> {
            let pieces = collect(Encoding::Pcm16, chunks);
            pieces.iter().flat_map(|p| p.data.to_vec()).collect()
        };
        assert!(bytes(&[&tone]) == bytes(&[&tone[..1], &tone[1..777], &tone[777..]]));
    }

    #[test]
    fn silence_alone_gives_nothing() {
        let mut output = output(Encoding::Wav);
        assert!(output.push(&[0.0; 5_000]).is_none());
        assert!(output.finish().is_none());
    }
}
