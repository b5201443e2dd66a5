//! What a piece of audio must look like, whatever its format.

use omni_proto::v1;

/// Bytes of a WAV header.
const WAV_HEADER: usize = 44;

/// Checks one chunk against its format, and that it begins where the one before ended.
///
/// # Panics
/// If it is not as the protocol says.
pub(crate) fn check_chunk(format: v1::AudioFormat, chunk: &v1::AudioChunk, before: u64) {
    use v1::AudioEncoding as E;
    assert!(chunk.sample_count > 0 && !chunk.data.is_empty(), "empty audio");
    assert_eq!(chunk.start_sample, before, "audio is contiguous");
    let (count, len) = (chunk.sample_count as usize, chunk.data.len());
    let first = before == 0;
    match format.encoding() {
        E::PcmS16le => assert_eq!(len, 2 * count, "whole samples"),
        E::PcmF32le => assert_eq!(len, 4 * count, "whole samples"),
        E::Mulaw | E::Alaw => assert_eq!(len, count, "whole samples"),
        E::Wav => {
            let header = if first { WAV_HEADER } else { 0 };
            assert_eq!(len, header + 2 * count, "whole samples behind one header");
        }
        E::Opus => assert_eq!(
            chunk.sample_count,
            format.sample_rate_hz / 50,
            "one packet of 20 ms"
        ),
        E::OggOpus => assert_eq!(&chunk.data[..4], b"OggS", "whole pages"),
        E::Flac => assert_eq!(first, chunk.data.starts_with(b"fLaC"), "one header"),
        other => panic!("{other:?} is not offered"),
    }
}
