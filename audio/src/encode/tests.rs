//! Every encoding is read back by another decoder.

use std::io::Cursor;

use opus_rs::OpusDecoder;
use proptest::prelude::*;

use super::*;
use crate::decode::{Decoder, InputEncoding, InputFormat};
use crate::level::Level;
use crate::pcm::{from_i16, to_i16};
use crate::units::SampleRate;

fn format(encoding: Encoding, hz: u32) -> Format {
    Format::new(encoding, hz).unwrap()
}

fn tone(hz: u32, samples: usize) -> Vec<f32> {
    let step = 440.0 * std::f32::consts::TAU / hz as f32;
    (0..samples).map(|n| 0.4 * (n as f32 * step).sin()).collect()
}

fn encoded(format: Format, samples: &[f32], chunk: usize) -> Vec<Chunk> {
    let mut encoder = Encoder::new(format, 7);
    let mut chunks = Vec::new();
    samples
        .chunks(chunk.max(1))
        .for_each(|piece| encoder.push(piece, &mut chunks));
    encoder.finish(&mut chunks);
    chunks
}

fn bytes(chunks: &[Chunk]) -> Vec<u8> {
    chunks.iter().flat_map(|chunk| chunk.data.clone()).collect()
}

/// Difference of `original` and `decoded`, in dB below full scale.
fn difference(original: &[f32], decoded: &[f32]) -> f32 {
    let error: Vec<f32> = original.iter().zip(decoded).map(|(a, b)| a - b).collect();
    Level::of(&error).rms_dbfs()
}

/// Shift of a decoder's output, in samples, that is accepted: its own filters differ from those of libopus.
const MOST_SHIFT: usize = 20;

/// Difference at the best shift of both.
fn shifted_difference(original: &[f32], decoded: &[f32]) -> f32 {
    let len = original.len().min(decoded.len()) - 2 * MOST_SHIFT;
    let original = &original[MOST_SHIFT..][..len];
    let shifts = (0..=2 * MOST_SHIFT).map(|shift| difference(original, &decoded[shift..][..len]));
    shifts.fold(f32::INFINITY, f32::min)
}

/// Decodes packets with a decoder that shares nothing with libopus.
fn independent<'a>(packets: impl Iterator<Item = &'a [u8]>, hz: u32) -> Vec<f32> {
    let mut decoder = OpusDecoder::new(hz as i32, 1).unwrap();
    let mut room = vec![0.0; hz as usize / 50];
    let mut out = Vec::new();
    for packet in packets {
        let made = decoder.decode(packet, room.len(), &mut room).unwrap();
        out.extend_from_slice(&room[..made]);
    }
    out
}

const ALL_RATES: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];

#[test]
fn bare_opus_packets_are_decoded_by_an_independent_decoder() {
    for hz in ALL_RATES {
        let tone = tone(hz, hz as usize);
        let chunks = encoded(format(Encoding::Opus, hz), &tone, 1_920);
        let decoded = independent(chunks.iter().map(|chunk| &chunk.data[..]), hz);
        let said: Samples = chunks.iter().map(|chunk| chunk.samples).sum();
        assert_eq!(Samples::of(&decoded), said);
        // The decoded sound is late by the codec's look-ahead, and is complete.
        let ahead = OpusPackets::new(format(Encoding::Opus, hz)).delay().len();
        assert!(decoded.len() >= tone.len() + ahead);
        let error = shifted_difference(&tone[hz as usize / 10..], &decoded[ahead + hz as usize / 10..]);
        assert!(error < -28.0, "{hz} Hz: {error} dB");
    }
}

#[test]
fn every_bare_opus_packet_is_a_chunk_of_twenty_milliseconds() {
    let chunks = encoded(format(Encoding::Opus, 24_000), &tone(24_000, 5_000), 5_000);
    for (n, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.samples, Samples(480));
        assert_eq!(chunk.start, Samples(n as u64 * 480));
    }
}

/// Every encoding with a playing time in milliseconds that its chunks may have.
const FRAMED: [(Encoding, u64); 16] = [
    (Encoding::Pcm16, 10),
    (Encoding::Pcm16, 3),
    (Encoding::PcmF32, 20),
    (Encoding::Mulaw, 20),
    (Encoding::Alaw, 30),
    (Encoding::Wav, 100),
    (Encoding::Opus, 5),
    (Encoding::Opus, 10),
    (Encoding::Opus, 20),
    (Encoding::Opus, 40),
    (Encoding::Opus, 60),
    (Encoding::OggOpus, 10),
    (Encoding::OggOpus, 20),
    (Encoding::OggOpus, 100),
    (Encoding::Flac, 5),
    (Encoding::Flac, 80),
];

#[test]
fn every_chunk_but_the_last_plays_for_exactly_its_frame() {
    for (encoding, ms) in FRAMED {
        for len in [1, 16 * ms as usize, 8_000, 8_001] {
            let format = format(encoding, 16_000);
            let framed = format.framed(std::time::Duration::from_millis(ms)).unwrap();
            let tone = tone(16_000, len);
            let chunks = encoded(framed, &tone, 777);
            assert_eq!(chunks, encoded(framed, &tone, usize::MAX), "{framed:?}");
            let frame = Samples(16 * ms);
            let skipped = match encoding {
                // What players leave out before the first sample.
                Encoding::OggOpus => Samples(104),
                _ => Samples::ZERO,
            };
            let (last, whole) = chunks.split_last().unwrap();
            assert!(!last.samples.is_empty() && last.samples <= frame, "{framed:?}");
            for (n, chunk) in whole.iter().enumerate() {
                let expected = if n == 0 { frame - skipped } else { frame };
                assert_eq!(chunk.samples, expected, "{framed:?}, chunk {n}");
            }
        }
    }
}

#[test]
fn frames_change_no_sample() {
    let tone = tone(16_000, 8_001);
    for (encoding, ms) in FRAMED {
        let format = format(encoding, 16_000);
        let framed = format.framed(std::time::Duration::from_millis(ms)).unwrap();
        let chunks = encoded(framed, &tone, 777);
        match encoding {
            Encoding::Flac => {
                let samples = from_flac(&bytes(&chunks), 16_000);
                let expected: Vec<_> = tone.iter().map(|&sample| to_i16(sample)).collect();
                assert!(samples == expected, "{framed:?}");
            }
            Encoding::Opus => {
                for chunk in &chunks {
                    let samples = ::opus::packet::get_nb_samples(&chunk.data, 16_000).unwrap();
                    assert_eq!(samples as u64, 16 * ms, "{framed:?}");
                }
            }
            Encoding::OggOpus => {
                let said: Samples = chunks.iter().map(|chunk| chunk.samples).sum();
                assert_eq!(said, Samples::of(&tone), "{framed:?}");
            }
            _ => assert!(
                bytes(&chunks) == bytes(&encoded(format, &tone, 777)),
                "{framed:?}"
            ),
        }
    }
}

#[test]
fn an_ogg_opus_stream_has_exactly_its_samples_and_begins_with_the_first() {
    for hz in ALL_RATES {
        for len in [1, 100, hz as usize / 50, hz as usize / 3 + 17] {
            let tone = tone(hz, len);
            let chunks = encoded(format(Encoding::OggOpus, hz), &tone, 777);
            let said: Samples = chunks.iter().map(|chunk| chunk.samples).sum();
            assert_eq!(said, Samples::of(&tone), "{hz} Hz");
            assert!(chunks.iter().all(|chunk| !chunk.samples.is_empty()));
            let file = bytes(&chunks);
            let mut reader = ogg::PacketReader::new(Cursor::new(&file));
            let mut packets = Vec::new();
            while let Some(packet) = reader.read_packet().unwrap() {
                packets.push(packet);
            }
            let skip = u16::from_le_bytes([packets[0].data[10], packets[0].data[11]]);
            assert!(packets[0].data.starts_with(b"OpusHead\x01\x01"));
            assert!(packets[1].data.starts_with(b"OpusTags"));
            let last = packets.last().unwrap();
            assert!(last.last_in_stream());
            let factor = u64::from(48_000 / hz);
            assert_eq!(last.absgp_page(), u64::from(skip) + len as u64 * factor);
            if len > 1_000 {
                let decoded = independent(packets[2..].iter().map(|packet| &packet.data[..]), hz);
                let decoded = &decoded[usize::from(skip) / factor as usize..];
                let error = shifted_difference(&tone[hz as usize / 10..], &decoded[hz as usize / 10..]);
                assert!(error < -28.0, "{hz} Hz: {error} dB");
            }
        }
    }
}

/// The samples of a file at this rate, by another library than the one that encodes.
fn from_flac(file: &[u8], hz: u32) -> Vec<i16> {
    let rate = SampleRate::new(hz).unwrap();
    let format = InputFormat {
        encoding: InputEncoding::Flac,
        rate,
        channels: 1,
    };
    let mut decoder = Decoder::new(format, rate, Samples(1_000_000)).unwrap();
    let mut samples = Vec::new();
    decoder.push(file, &mut samples).unwrap();
    decoder.finish(&mut samples).unwrap();
    samples.into_iter().map(to_i16).collect()
}

#[test]
fn flac_is_lossless_in_an_independent_decoder() {
    for hz in [8_000, 22_050, 24_000, 44_100, 48_000] {
        for len in [1, 15, hz as usize / 25, hz as usize / 3] {
            let tone = tone(hz, len);
            let file = bytes(&encoded(format(Encoding::Flac, hz), &tone, 700));
            let samples = from_flac(&file, hz);
            let expected: Vec<_> = tone.iter().map(|&sample| to_i16(sample)).collect();
            assert!(samples == expected, "{hz} Hz, {len} samples");
        }
    }
}

#[test]
fn flac_is_smaller_than_what_it_holds() {
    let file = bytes(&encoded(
        format(Encoding::Flac, 24_000),
        &tone(24_000, 48_000),
        1_920,
    ));
    assert!(file.len() < 48_000, "{} bytes", file.len());
}

#[test]
fn only_the_first_chunk_of_wav_has_a_header() {
    let chunks = encoded(format(Encoding::Wav, 22_050), &tone(22_050, 3_000), 1_000);
    assert_eq!(chunks[0].data.len(), 44 + 2_000);
    assert_eq!(chunks[1].data.len(), 2_000);
    let wav = crate::wav::Wav::parse(&bytes(&chunks)).unwrap();
    assert_eq!((wav.header.rate.hz(), wav.len()), (22_050, Samples(3_000)));
}

#[test]
fn laws_and_floats_keep_every_sample_in_its_place() {
    let tone = tone(8_000, 800);
    for (encoding, size, error) in [
        (Encoding::Mulaw, 1, -40.0),
        (Encoding::Alaw, 1, -40.0),
        (Encoding::PcmF32, 4, -150.0),
    ] {
        let bytes = bytes(&encoded(format(encoding, 8_000), &tone, 99));
        assert_eq!(bytes.len(), size * tone.len());
        let decoded: Vec<f32> = match encoding {
            Encoding::PcmF32 => crate::pcm::f32_from_f32le(&bytes).collect(),
            Encoding::Mulaw => bytes
                .iter()
                .map(|&b| from_i16(audio_codec_algorithms::decode_ulaw(b)))
                .collect(),
            _ => bytes
                .iter()
                .map(|&b| from_i16(audio_codec_algorithms::decode_alaw(b)))
                .collect(),
        };
        assert!(difference(&tone, &decoded) < error, "{encoding:?}");
    }
}

const MPEG_RATES: [u32; 9] = [
    8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000,
];

/// White noise: every band is in it, all the time.
fn noise(samples: usize) -> Vec<f32> {
    let mut state = 1u32;
    let noise = (0..samples).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state) / f64::from(u32::MAX) - 0.5) as f32 * 0.7
    });
    noise.collect()
}

/// Bursts of 440 Hz in turn with silence, a tenth of a second each, so that it begins and ends all the time.
fn bursts(hz: u32, samples: usize) -> Vec<f32> {
    let tone = tone(hz, samples);
    let part = hz as usize / 10;
    let gated = tone.iter().enumerate();
    gated
        .map(|(n, &s)| if (n / part).is_multiple_of(2) { s } else { 0.0 })
        .collect()
}

/// Decodes with a port of minimp3, which shares nothing with the encoder.
fn from_mp3(file: &[u8], hz: u32) -> Vec<f32> {
    let decoded = nanomp3::decode_all::<f32>(file);
    assert_eq!(decoded.sample_rate, hz);
    decoded.samples
}

/// Decodes ADTS frames with another library's decoder.
fn from_adts(file: &[u8], hz: u32) -> Vec<f32> {
    let mut decoder = rusty_aac::AacDecoder::new();
    let mut at = 0;
    let mut out = Vec::new();
    while at < file.len() {
        let head = rusty_aac::parse_adts(&file[at..]).unwrap();
        assert_eq!((head.sample_rate, head.channels), (hz, 1));
        let frame = decoder.decode(&file[at..at + head.frame_length], None).unwrap();
        out.extend(frame.samples);
        at += head.frame_length;
    }
    out
}

#[test]
fn mp3_and_aac_are_decoded_by_independent_decoders_at_every_rate() {
    for (encoding, decode) in [
        (Encoding::Mp3, from_mp3 as fn(&[u8], u32) -> Vec<f32>),
        (Encoding::Aac, from_adts),
    ] {
        for hz in MPEG_RATES {
            for sound in [tone(hz, hz as usize), bursts(hz, hz as usize), noise(hz as usize)] {
                let format = format(encoding, hz);
                let chunks = encoded(format, &sound, 777);
                let decoded = decode(&bytes(&chunks), hz);
                let said: Samples = chunks.iter().map(|chunk| chunk.samples).sum();
                assert_eq!(Samples::of(&decoded), said, "{format:?}");
                let delay = Encoder::new(format, 0).delay().len();
                assert!(
                    decoded.len() >= delay + sound.len(),
                    "{format:?}: the end is lost"
                );
                let error = difference(&sound, &decoded[delay..]) - Level::of(&sound).rms_dbfs();
                assert!(error < -8.0, "{format:?}: {error} dB");
            }
        }
    }
}

#[test]
fn no_samples_make_no_bytes() {
    for encoding in Encoding::ALL {
        assert_eq!(encoded(format(encoding, 8_000), &[], 1), []);
    }
}

#[test]
fn noise_and_nonsense_are_encoded_too() {
    let nonsense = [f32::NAN, f32::INFINITY, -1e30, 1.0, -1.0, 0.0].repeat(1_000);
    for encoding in Encoding::ALL {
        let chunks = encoded(format(encoding, 16_000), &nonsense, 333);
        let said: Samples = chunks.iter().map(|chunk| chunk.samples).sum();
        assert!(said >= Samples(6_000), "{encoding:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn chunks_are_contiguous_and_how_the_samples_were_cut_changes_no_byte(
        samples in prop::collection::vec(-1.0f32..1.0, 0..4_000),
        cut in 1usize..3_000,
        encoding in prop::sample::select(Encoding::ALL.to_vec()),
        hz in prop::sample::select(vec![8_000, 16_000]),
    ) {
        let chunks = encoded(format(encoding, hz), &samples, cut);
        let mut next = Samples::ZERO;
        for chunk in &chunks {
            prop_assert_eq!(chunk.start, next);
            prop_assert!(!chunk.data.is_empty() && !chunk.samples.is_empty());
            next += chunk.samples;
        }
        match encoding {
            Encoding::Opus | Encoding::Mp3 | Encoding::Aac => prop_assert!(samples.is_empty() || next > Samples::of(&samples)),
            _ => prop_assert_eq!(next, Samples::of(&samples)),
        }
        prop_assert_eq!(bytes(&chunks), bytes(&encoded(format(encoding, hz), &samples, usize::MAX)));
    }
}
