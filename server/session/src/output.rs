//! Vocoder output to the bytes of one utterance.
//!
//! Sequences are joined without audible seams (`omni_audio::Joiner`), changed in speed, level and rate (`Renderer`),
//! encoded and numbered (`Encoder`). A little audio is always held back until it is known if more follows, so that
//! the last piece is marked as the last. The generated samples are passed on beside the output: the alignment needs
//! them.

use std::time::Duration;

use bytes::Bytes;
use omni_audio::{Chunk, Encoder, Joiner, Renderer, SampleRate, Samples, Timeline, TrimSettings};

use super::protocol::AudioOut;
use super::settings::Delivery;

/// The audio of one utterance on its way out.
#[derive(Debug)]
pub(super) struct Output {
    /// None once nothing follows.
    stages: Option<Stages>,
    rate: SampleRate,
    begun: bool,
    rendered: Samples,
    limit: Samples,
    /// Longest stretch that is encoded at once, in samples.
    stretch: usize,
}

#[derive(Debug)]
struct Stages {
    joiner: Joiner,
    renderer: Renderer,
    encoder: Encoder,
}

/// Audio to send, with its samples for measurements.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) audio: Vec<AudioOut>,
    pub(super) samples: Vec<f32>,
    /// Generated samples behind it, before changes of speed and rate.
    pub(super) joined: Vec<f32>,
}

impl Output {
    /// Creates the output for a model's samples at `made`, at most `limit` of audio. `serial` tells its stream from
    /// others in one file.
    pub(super) fn new(made: SampleRate, delivery: &Delivery, limit: Duration, serial: u32) -> Self {
        let rate = delivery.format.rate();
        let joiner = Joiner::new(made, TrimSettings::default());
        Self {
            stages: Some(Stages {
                joiner: joiner.with_leading(delivery.leading_silence),
                renderer: Renderer::new(made, rate, delivery.rendering),
                encoder: Encoder::new(delivery.format, serial),
            }),
            rate,
            begun: false,
            rendered: Samples::ZERO,
            limit: rate.samples(limit),
            stretch: stretch(delivery).map_or(usize::MAX, |time| rate.samples(time).len()),
        }
    }

    /// Adds samples of the current sequence.
    pub(super) fn push(&mut self, samples: &[f32]) -> Made {
        self.join(|joiner, out| joiner.push(samples, out))
    }

    /// Begins another sequence, after a pause.
    pub(super) fn next_sequence(&mut self, pause: Duration) -> Made {
        self.join(|joiner, out| joiner.end_piece(pause, out))
    }

    fn join(&mut self, step: impl FnOnce(&mut Joiner, &mut Vec<f32>)) -> Made {
        let Some(Stages {
            joiner,
            renderer,
            encoder,
        }) = &mut self.stages
        else {
            return Made::default();
        };
        let mut joined = Vec::new();
        let mut samples = Vec::new();
        let mut chunks = Vec::new();
        step(joiner, &mut joined);
        renderer.push(&joined, &mut samples);
        for part in samples.chunks(self.stretch) {
            encoder.push(part, &mut chunks);
        }
        self.made(chunks, samples, joined, false)
    }

    /// Ends the audio. If there was nothing audible, adds `silence`.
    pub(super) fn finish(&mut self, silence: Duration) -> Made {
        let Some(Stages {
            joiner,
            mut renderer,
            mut encoder,
        }) = self.stages.take()
        else {
            return Made::default();
        };
        let mut joined = Vec::new();
        let mut samples = Vec::new();
        let mut chunks = Vec::new();
        joiner.finish(&mut joined);
        renderer.push(&joined, &mut samples);
        renderer.finish(&mut samples);
        if !self.begun && joined.is_empty() {
            samples = vec![0.0; self.rate.samples(silence).len()];
        }
        for part in samples.chunks(self.stretch) {
            encoder.push(part, &mut chunks);
        }
        encoder.finish(&mut chunks);
        self.made(chunks, samples, joined, true)
    }

    /// Returns true if there is any audio.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Map of generated audio to the output, as long as nothing follows.
    pub(super) fn timeline(&self, made: SampleRate, delivery: &Delivery) -> Timeline {
        let timeline = Timeline::new(made, self.rate, delivery.rendering.speed);
        let delay = self.stages.as_ref().map(|stages| stages.encoder.delay());
        timeline.delayed(delay.unwrap_or_default())
    }

    /// Returns true if the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.rendered >= self.limit
    }

    fn made(&mut self, chunks: Vec<Chunk>, samples: Vec<f32>, joined: Vec<f32>, end: bool) -> Made {
        self.rendered += Samples::of(&samples);
        self.begun |= !joined.is_empty();
        let count = chunks.len();
        let audio = chunks.into_iter().enumerate().map(|(n, chunk)| AudioOut {
            data: Bytes::from(chunk.data),
            start: chunk.start,
            samples: chunk.samples,
            time: self.rate.duration(chunk.samples),
            joined: n > 0,
            last: end && n + 1 == count,
        });
        Made {
            audio: audio.collect(),
            samples,
            joined,
        }
    }
}

/// Duration that is encoded at once, so that audio held back for its listener comes in steps that leave enough to
/// play: with the encoder's delay, the longest frame, no more than may be ahead.
fn stretch(delivery: &Delivery) -> Option<Duration> {
    delivery.max_lead.map(|lead| lead / 4)
}

#[cfg(test)]
mod tests {
    use omni_audio::{Encoding, Format, Gain, Level, Rendering, Speed, WAV_HEADER_LEN};

    use super::*;

    const RATE: u32 = 16_000;

    fn tone(samples: usize) -> Vec<f32> {
        (0..samples).map(|n| 0.5 * (n as f32 * 0.2).sin()).collect()
    }

    fn delivery(encoding: Encoding, hz: u32) -> Delivery {
        Delivery {
            format: Format::new(encoding, hz).unwrap(),
            rendering: Rendering::default(),
            leading_silence: Duration::from_millis(20),
            max_lead: None,
            whole: false,
        }
    }

    fn output(delivery: &Delivery) -> Output {
        let rate = SampleRate::new(RATE).unwrap();
        Output::new(rate, delivery, Duration::from_secs(60), 1)
    }

    fn collect(delivery: &Delivery, chunks: &[&[f32]]) -> (Vec<AudioOut>, Vec<f32>) {
        let mut output = output(delivery);
        let mut all: Vec<_> = chunks.iter().map(|chunk| output.push(chunk)).collect();
        all.push(output.next_sequence(Duration::from_millis(120)));
        all.push(output.push(&tone(4_000)));
        all.push(output.finish(Duration::ZERO));
        let samples = all.iter().flat_map(|made| made.samples.clone()).collect();
        (all.into_iter().flat_map(|made| made.audio).collect(), samples)
    }

    #[test]
    fn pieces_are_contiguous_and_the_last_one_says_so_in_every_encoding() {
        let tone = tone(8_000);
        for encoding in Encoding::ALL {
            for hz in [8_000, 16_000] {
                let chunks: [&[f32]; 3] = [&tone[..100], &tone[100..5_000], &tone[5_000..]];
                let (pieces, samples) = collect(&delivery(encoding, hz), &chunks);
                let mut next = Samples::ZERO;
                for (i, piece) in pieces.iter().enumerate() {
                    assert_eq!(piece.start, next);
                    assert!(!piece.samples.is_empty() && !piece.data.is_empty());
                    assert_eq!(piece.last, i + 1 == pieces.len());
                    next += piece.samples;
                }
                // Bare packets and frames have no place to state their padding.
                let filled = match encoding {
                    Encoding::Opus => hz as usize / 20,
                    Encoding::Mp3 | Encoding::Aac => 3 * 1_024,
                    _ => 0,
                };
                assert!((samples.len()..=samples.len() + filled).contains(&next.len()));
            }
        }
    }

    #[test]
    fn the_last_audio_says_so_also_when_the_sequences_behind_it_are_silent() {
        for encoding in Encoding::ALL {
            let mut output = output(&delivery(encoding, 8_000));
            let mut all = vec![output.push(&tone(8_000))];
            for _ in 0..2 {
                all.push(output.next_sequence(Duration::from_millis(120)));
                all.push(output.push(&[0.0; 5_000]));
            }
            all.push(output.finish(Duration::ZERO));
            let pieces: Vec<_> = all.iter().flat_map(|made| &made.audio).collect();
            let last: Vec<_> = (0..)
                .zip(&pieces)
                .filter(|(_, p)| p.last)
                .map(|(i, _)| i + 1)
                .collect();
            assert_eq!(last, [pieces.len()], "{encoding:?}");
        }
    }

    #[test]
    fn only_the_first_piece_of_wav_has_a_header() {
        let tone = tone(8_000);
        let (pieces, _) = collect(&delivery(Encoding::Wav, RATE), &[&tone[..4_000], &tone[4_000..]]);
        assert_eq!(&pieces[0].data[..4], b"RIFF");
        assert_eq!(pieces[0].data.len(), WAV_HEADER_LEN + 2 * pieces[0].samples.len());
        assert!(pieces[1..].iter().all(|p| p.data.len() == 2 * p.samples.len()));
    }

    #[test]
    fn how_audio_was_cut_into_chunks_changes_nothing() {
        let tone = tone(8_000);
        for encoding in Encoding::ALL {
            let bytes = |chunks: &[&[f32]]| -> Vec<u8> {
                let (pieces, _) = collect(&delivery(encoding, 8_000), chunks);
                pieces.iter().flat_map(|piece| piece.data.to_vec()).collect()
            };
            assert!(bytes(&[&tone]) == bytes(&[&tone[..1], &tone[1..777], &tone[777..]]));
        }
    }

    #[test]
    fn speech_is_as_fast_and_as_loud_as_was_asked_for() {
        let tone = tone(32_000);
        let usual = delivery(Encoding::Pcm16, RATE);
        let (_, before) = collect(&usual, &[&tone]);
        let quick = Delivery {
            rendering: Rendering {
                speed: Speed::new(2.0).unwrap(),
                gain: Gain::new(-20.0).unwrap(),
            },
            ..usual
        };
        let (_, after) = collect(&quick, &[&tone]);
        assert_eq!(after.len(), before.len().div_ceil(2));
        let softer = Level::of(&after).rms_dbfs() - Level::of(&before).rms_dbfs();
        assert!((softer + 20.0).abs() < 0.5, "{softer} dB");
    }

    #[test]
    fn silence_before_speech_is_as_long_as_is_wanted() {
        let speech = [vec![0.0; 16_000], tone(8_000)].concat();
        let with = |ms| Delivery {
            leading_silence: Duration::from_millis(ms),
            ..delivery(Encoding::Pcm16, RATE)
        };
        let length = |delivery| collect(&delivery, &[&speech]).1.len();
        assert_eq!(length(with(300)), length(with(0)) + 300 * 16);
        assert_eq!(length(with(5_000)), length(with(0)) + 16_000);
    }

    #[test]
    fn the_limit_is_on_what_is_heard() {
        let slow = Delivery {
            rendering: Rendering {
                speed: Speed::new(0.5).unwrap(),
                ..Rendering::default()
            },
            ..delivery(Encoding::Pcm16, RATE)
        };
        let rate = SampleRate::new(RATE).unwrap();
        let mut output = Output::new(rate, &slow, Duration::from_secs(1), 1);
        output.push(&tone(6_000));
        assert!(!output.is_full());
        output.push(&tone(6_000));
        assert!(output.is_full());
    }

    #[test]
    fn silence_alone_gives_nothing() {
        for encoding in Encoding::ALL {
            let mut output = output(&delivery(encoding, 8_000));
            assert!(output.push(&[0.0; 5_000]).audio.is_empty());
            assert!(output.finish(Duration::ZERO).audio.is_empty());
            assert!(!output.has_begun());
        }
    }

    #[test]
    fn silence_stands_for_what_has_no_sound_and_for_nothing_else() {
        let silence = Duration::from_millis(200);
        for encoding in Encoding::ALL {
            let mut nothing = output(&delivery(encoding, 8_000));
            assert!(nothing.push(&[0.0; 5_000]).audio.is_empty());
            let made = nothing.finish(silence);
            assert_eq!(made.samples, [0.0; 1_600], "{encoding:?}");
            assert!(made.audio.last().is_some_and(|audio| audio.last), "{encoding:?}");
            assert!(!nothing.has_begun());
            let mut plain = output(&delivery(encoding, 8_000));
            let mut other = output(&delivery(encoding, 8_000));
            plain.push(&tone(8_000));
            other.push(&tone(8_000));
            assert_eq!(
                plain.finish(silence).samples,
                other.finish(Duration::ZERO).samples
            );
        }
    }
}
