use proptest::prelude::*;

use super::*;
use crate::encode::{Chunk, Encoder};
use crate::format::{Encoding, Format};
use crate::level::Level;
use crate::wav::WavHeader;

const HEARD: u32 = 16_000;

fn rate(hz: u32) -> SampleRate {
    SampleRate::new(hz).unwrap()
}

fn tone(hz: u32, samples: usize) -> Vec<f32> {
    let step = 440.0 * std::f32::consts::TAU / hz as f32;
    (0..samples).map(|n| 0.4 * (n as f32 * step).sin()).collect()
}

fn input(encoding: InputEncoding, hz: u32, channels: u16) -> InputFormat {
    InputFormat {
        encoding,
        rate: rate(hz),
        channels,
    }
}

fn decoded(format: InputFormat, pieces: &[&[u8]], limit: u64) -> Result<Vec<f32>, DecodeError> {
    let mut decoder = Decoder::new(format, rate(HEARD), Samples(limit))?;
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut out)?;
    }
    decoder.finish(&mut out)?;
    Ok(out)
}

fn encoded(encoding: Encoding, hz: u32, samples: &[f32]) -> Vec<Chunk> {
    let mut encoder = Encoder::new(Format::new(encoding, hz).unwrap(), 3);
    let mut chunks = Vec::new();
    encoder.push(samples, &mut chunks);
    encoder.finish(&mut chunks);
    chunks
}

fn bytes(encoding: Encoding, hz: u32, samples: &[f32]) -> Vec<u8> {
    let chunks = encoded(encoding, hz, samples).into_iter();
    chunks.flat_map(|chunk| chunk.data).collect()
}

const PAIRS: [(InputEncoding, Encoding); 6] = [
    (InputEncoding::Pcm16, Encoding::Pcm16),
    (InputEncoding::PcmF32, Encoding::PcmF32),
    (InputEncoding::Mulaw, Encoding::Mulaw),
    (InputEncoding::Alaw, Encoding::Alaw),
    (InputEncoding::OggOpus, Encoding::OggOpus),
    (InputEncoding::Wav, Encoding::Wav),
];

#[test]
fn what_was_encoded_is_heard_at_the_models_rate_and_at_its_time() {
    for (from, to) in PAIRS {
        for hz in [8_000, 16_000, 24_000, 48_000] {
            if Format::new(to, hz).is_err() {
                continue;
            }
            let file = bytes(to, hz, &tone(hz, hz as usize));
            let heard = decoded(input(from, hz, 1), &[&file], 16_000).unwrap();
            assert_eq!(heard.len(), 16_000, "{from:?} at {hz} Hz");
            let expected = tone(HEARD, heard.len());
            let error: Vec<f32> = (2_000..14_000).map(|n| heard[n] - expected[n]).collect();
            let error = Level::of(&error).rms_dbfs();
            assert!(error < -30.0, "{from:?} at {hz} Hz: {error} dB");
        }
    }
}

#[test]
fn bare_opus_packets_are_heard_one_after_another() {
    let packets = encoded(Encoding::Opus, 48_000, &tone(48_000, 48_000));
    let pieces: Vec<&[u8]> = packets.iter().map(|packet| &packet.data[..]).collect();
    let heard = decoded(input(InputEncoding::Opus, HEARD, 1), &pieces, 32_000).unwrap();
    assert_eq!(heard.len(), packets.len() * 320);
    let level = Level::of(&heard[2_000..14_000]).rms_dbfs();
    assert!((level + 10.97).abs() < 0.3, "{level} dB");
}

#[test]
fn where_the_bytes_of_a_stream_are_cut_changes_nothing() {
    for (from, to) in PAIRS {
        let file = bytes(to, 8_000, &tone(8_000, 4_000));
        let whole = decoded(input(from, 8_000, 1), &[&file], 16_000).unwrap();
        let cut = match from {
            InputEncoding::OggOpus | InputEncoding::Wav => 3,
            _ => 4,
        };
        let pieces: Vec<&[u8]> = file.chunks(cut).collect();
        assert!(
            whole == decoded(input(from, 8_000, 1), &pieces, 16_000).unwrap(),
            "{from:?}"
        );
    }
}

#[test]
fn two_channels_are_mixed() {
    let stereo = [0x4000_i16, 0, -0x4000, -0x4000].map(i16::to_le_bytes).concat();
    let heard = decoded(input(InputEncoding::Pcm16, HEARD, 2), &[&stereo], 10).unwrap();
    assert_eq!(heard, [0.25, -0.5]);
    let mut file = WavHeader {
        rate: rate(HEARD),
        channels: 2,
    }
    .streaming()
    .to_vec();
    file.extend(&stereo);
    assert_eq!(
        decoded(input(InputEncoding::Wav, HEARD, 1), &[&file], 10).unwrap(),
        heard
    );
}

#[test]
fn what_is_louder_than_full_scale_is_cut_off_there() {
    let loud = [3e38_f32, 3e38, -3e38, -3e38].map(f32::to_le_bytes).concat();
    let heard = decoded(input(InputEncoding::PcmF32, HEARD, 2), &[&loud], 10).unwrap();
    assert_eq!(heard, [1.0, -1.0]);
    let square = [1.0_f32, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0].repeat(500);
    let file = bytes(Encoding::PcmF32, 24_000, &square);
    let heard = decoded(input(InputEncoding::PcmF32, 24_000, 1), &[&file], 10_000).unwrap();
    assert!(Level::of(&heard).peak() <= 1.0);
}

#[test]
fn a_few_bytes_cannot_stand_for_hours() {
    // A packet of one byte stands for 20 ms of silence; 255 are on a page.
    let mut writer = ogg::PacketWriter::new(Vec::new());
    let mut head = b"OpusHead\x01\x01\0\0\x80\xbb\0\0\0\0\0".to_vec();
    let mut tags = b"OpusTags\0\0\0\0\0\0\0\0".to_vec();
    let end = ogg::PacketWriteEndInfo::EndPage;
    for header in [&mut head, &mut tags] {
        writer.write_packet(std::mem::take(header), 1, end, 0).unwrap();
    }
    for n in 1..20_000u64 {
        let info = ogg::PacketWriteEndInfo::NormalPacket;
        writer.write_packet(vec![0x08], 1, info, n * 960).unwrap();
    }
    let file = writer.into_inner();
    let mut decoder = Decoder::new(
        input(InputEncoding::OggOpus, HEARD, 1),
        rate(HEARD),
        Samples(16_000),
    )
    .unwrap();
    let mut out = Vec::new();
    let limit = Samples(16_000);
    assert_eq!(decoder.push(&file, &mut out), Err(DecodeError::TooLong { limit }));
    assert!(out.len() < 200_000);
}

#[test]
fn what_is_no_audio_is_refused_with_what_is_wrong() {
    use InputEncoding as E;
    let told = |format, bytes: &[u8]| decoded(format, &[bytes], 16_000).unwrap_err().to_string();
    let cases: [(InputFormat, &[u8], &str); 11] = [
        (input(E::Pcm16, HEARD, 2), &[0; 6], "whole samples of 4 bytes"),
        (input(E::Mulaw, 8_000, 1), &[], "at least one"),
        (
            input(E::PcmF32, HEARD, 1),
            &f32::NAN.to_le_bytes(),
            "infinite or not a number",
        ),
        (input(E::Pcm16, 7_999, 1), &[0; 2], "8000 to 48000 Hz"),
        (input(E::Pcm16, HEARD, 3), &[0; 6], "expected 1 or 2"),
        (input(E::Wav, HEARD, 1), b"RIFFnonsense", "not a WAV file"),
        (input(E::OggOpus, HEARD, 1), b"ID3nonsense", "Ogg pages"),
        (input(E::OggOpus, HEARD, 1), b"OggS", "ends before its audio"),
        (input(E::Opus, HEARD, 1), &[], "packet of 0 bytes"),
        (input(E::Opus, HEARD, 1), &[0xFF; 3], "packet of 3 bytes"),
        (input(E::Pcm16, HEARD, 1), &[0; 40_000], "more than 16000 samples"),
    ];
    for (format, bytes, expected) in cases {
        let told = told(format, bytes);
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_damaged_or_doubled_stream_is_refused() {
    let file = bytes(Encoding::OggOpus, HEARD, &tone(HEARD, 8_000));
    let refused = |bytes: &[u8]| match decoded(input(InputEncoding::OggOpus, HEARD, 1), &[bytes], 99_999) {
        Err(DecodeError::Ogg(what)) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&file[..file.len() - 1]),
        "it ends within a page or a packet"
    );
    assert_eq!(
        refused(&[&file[..], &file[..]].concat()),
        "it holds more than one stream"
    );
    let mut damaged = file;
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(refused(&damaged), "a page is damaged");
}

/// Sets Ogg's checksum (RFC 3533, 6), so that damage passes it and reaches the decoders.
fn with_checksum(mut page: Vec<u8>) -> Vec<u8> {
    if page.len() < 27 {
        return page;
    }
    page[22..26].fill(0);
    let crc = page.iter().fold(0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            (crc << 1) ^ if crc & 0x8000_0000 == 0 { 0 } else { 0x04c1_1db7 }
        })
    });
    page[22..26].copy_from_slice(&crc.to_le_bytes());
    page
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        which in 0..PAIRS.len(),
        cut in 1usize..50,
    ) {
        let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
        let _ = decoded(input(PAIRS[which].0, 8_000, 1), &pieces, 50_000);
        let _ = decoded(input(InputEncoding::Opus, 8_000, 1), &pieces, 50_000);
    }

    #[test]
    fn pages_of_any_content_never_panic(
        pages in prop::collection::vec(
            (
                0u8..8,
                prop::sample::select(vec![0u64, 312, 960, u64::MAX]),
                prop::collection::vec(prop::sample::select(vec![0u8, 1, 3, 254, 255]), 0..6),
                any::<u8>(),
            ),
            0..6,
        ),
        begun in any::<bool>(),
    ) {
        let mut file = if begun {
            bytes(Encoding::OggOpus, HEARD, &tone(HEARD, 3_000))
        } else {
            Vec::new()
        };
        // Without its last page, which ends it.
        if let Some(last) = file.windows(4).rposition(|four| four == b"OggS") {
            file.truncate(last);
        }
        for (flags, position, segments, filling) in pages {
            let mut page = b"OggS\0".to_vec();
            page.push(flags);
            page.extend(position.to_le_bytes());
            page.extend(3u32.to_le_bytes());
            page.extend([0; 8]);
            page.push(segments.len() as u8);
            page.extend(&segments);
            let body: usize = segments.iter().map(|&len| usize::from(len)).sum();
            page.extend(vec![filling; body]);
            file.extend(with_checksum(page));
        }
        let _ = decoded(input(InputEncoding::OggOpus, HEARD, 1), &[&file], 50_000);
    }
}

/// The head of a FLAC file of one channel, 16 bits, 16 kHz and 16 samples.
const FLAC_HEAD: [u8; 42] = [
    0x66, 0x4c, 0x61, 0x43, 0x80, 0, 0, 0x22, 0, 0x10, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x3, 0xe8, 0, 0xf0, 0, 0,
    0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn a_flac_file_whose_block_has_fewer_samples_than_partitions_is_refused() {
    // A block of 16 samples that claims 2^15 partitions, with correct checksums.
    let block = [
        0xff, 0xf8, 0x60, 0x8, 0, 0xf, 0x96, 0x10, 0x3c, 0, 0, 0, 0, 0x9c, 0xe0,
    ];
    let file = [&FLAC_HEAD[..], &block].concat();
    let refused = decoded(input(InputEncoding::Flac, HEARD, 1), &[&file], 1_000);
    assert_eq!(refused, Err(DecodeError::Flac));
}

#[test]
fn a_flac_file_with_a_damaged_block_is_refused_and_not_heard_without_it() {
    let file = bytes(Encoding::Flac, HEARD, &tone(HEARD, 9_000));
    let format = input(InputEncoding::Flac, HEARD, 1);
    assert!(decoded(format, &[&file], 10_000).is_ok());
    for at in [file.len() / 4, file.len() / 2, file.len() * 3 / 4] {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        assert_eq!(
            decoded(format, &[&damaged], 10_000),
            Err(DecodeError::Flac),
            "{at}"
        );
    }
}
