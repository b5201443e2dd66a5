//! Rules for a piece of audio, of any format.

use std::time::Duration;

use omni_proto::v1;

/// Bytes of a WAV header.
const WAV_HEADER: usize = 44;

/// Checks one chunk against how audio is delivered, and that it begins where the one before ended.
///
/// # Panics
/// If it is not as the protocol says.
pub(crate) fn check_chunk(output: &v1::AudioDelivery, chunk: &v1::AudioChunk, before: u64) {
    use v1::AudioEncoding as E;
    let format = output.format.expect("the format is filled in");
    assert!(chunk.sample_count > 0 && !chunk.data.is_empty(), "empty audio");
    assert_eq!(chunk.start_sample, before, "audio is contiguous");
    let count = chunk.sample_count as usize;
    let len = chunk.data.len();
    let first = before == 0;
    if let Some(frame) = frame(output) {
        check_frame(format, chunk, frame, first);
    } else if format.encoding() == E::Opus {
        assert_eq!(
            chunk.sample_count,
            format.sample_rate_hz / 50,
            "one packet of 20 ms"
        );
    }
    match format.encoding() {
        E::PcmS16le => assert_eq!(len, 2 * count, "whole samples"),
        E::PcmF32le => assert_eq!(len, 4 * count, "whole samples"),
        E::Mulaw | E::Alaw => assert_eq!(len, count, "whole samples"),
        E::Wav => {
            let header = if first { WAV_HEADER } else { 0 };
            assert_eq!(len, header + 2 * count, "whole samples behind one header");
        }
        E::Opus => {}
        E::OggOpus => assert_eq!(&chunk.data[..4], b"OggS", "whole pages"),
        E::Mp3 => assert_eq!(
            (chunk.data[0], chunk.data[1] & 0xE6),
            (0xFF, 0xE2),
            "whole frames"
        ),
        E::Aac => assert_eq!(chunk.data[..2], [0xFF, 0xF1], "a whole frame"),
        E::Flac => assert_eq!(first, chunk.data.starts_with(b"fLaC"), "one header"),
        other => panic!("{other:?} is not offered"),
    }
}

/// Samples per chunk, if the request set them.
fn frame(output: &v1::AudioDelivery) -> Option<u32> {
    let time = Duration::try_from(output.frame_duration?).expect("a time");
    let hz = output.format.expect("the format is filled in").sample_rate_hz;
    Some((time.as_secs_f64() * f64::from(hz)).round() as u32)
}

/// All but the last play for that time; of Ogg Opus the first plays less by what players leave out.
fn check_frame(format: v1::AudioFormat, chunk: &v1::AudioChunk, frame: u32, first: bool) {
    let left_out = match format.encoding() {
        v1::AudioEncoding::OggOpus if first => format.sample_rate_hz * 65 / 10_000,
        _ => 0,
    };
    let whole = frame - left_out;
    let good = if chunk.last {
        chunk.sample_count <= frame
    } else {
        chunk.sample_count == whole
    };
    assert!(good, "{} samples, expected {whole}", chunk.sample_count);
}
