//! Audio as it comes from the wire: checked to be whole, contiguous and never empty.

use std::time::Duration;

use omni_audio::{SampleRate, Samples, from_i16, i16_from_s16le};
use omni_proto::v1;
use prost::bytes::Bytes;

/// A piece of audio: one channel of signed 16-bit little-endian samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audio {
    /// Samples per second.
    pub rate: SampleRate,
    /// Position of the first sample within the utterance or response.
    pub start: Samples,
    /// The samples' bytes, two for each; never empty.
    pub pcm: Bytes,
    /// True for the last audio of an utterance or response that was completed.
    pub last: bool,
}

impl Audio {
    /// Number of samples.
    pub fn samples(&self) -> Samples {
        Samples(self.pcm.len() as u64 / 2)
    }

    /// The samples as floats in `[-1, 1)`.
    pub fn floats(&self) -> impl ExactSizeIterator<Item = f32> + '_ {
        i16_from_s16le(&self.pcm).map(from_i16)
    }
}

/// The audio of one utterance or response so far.
#[derive(Debug, Default)]
pub(crate) struct Track {
    next: Samples,
    /// The last piece was there.
    ended: bool,
}

impl Track {
    /// Checks the next piece; the error names the rule that it breaks.
    pub(crate) fn piece(&mut self, rate: SampleRate, chunk: v1::AudioChunk) -> Result<Audio, String> {
        if self.ended {
            return Err("it sent audio after the last".to_owned());
        }
        if chunk.data.is_empty() || chunk.data.len() != chunk.sample_count as usize * 2 {
            let bytes = chunk.data.len();
            let samples = chunk.sample_count;
            return Err(format!(
                "an audio message says {samples} samples and has {bytes} bytes"
            ));
        }
        if Samples(chunk.start_sample) != self.next {
            return Err(format!(
                "audio goes on at sample {}, expected {}",
                chunk.start_sample, self.next.0
            ));
        }
        self.next += Samples(u64::from(chunk.sample_count));
        self.ended = chunk.last;
        Ok(Audio {
            rate,
            start: Samples(chunk.start_sample),
            pcm: chunk.data,
            last: chunk.last,
        })
    }
}

/// Delivery that this library requests: 16-bit samples of one channel, at the model's own rate unless one is chosen,
/// cut as they are produced unless their playing time is chosen.
pub(crate) fn delivery(
    rate: Option<SampleRate>,
    frame: Option<Duration>,
    max_lead: Option<Duration>,
) -> v1::AudioDelivery {
    v1::AudioDelivery {
        format: Some(v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: rate.map_or(0, SampleRate::hz),
            channels: 1,
        }),
        frame_duration: frame.and_then(|frame| frame.try_into().ok()),
        max_lead: max_lead.and_then(|lead| lead.try_into().ok()),
        leading_silence: None,
    }
}

/// The rate of audio in `format`, or why this library cannot read it.
pub(crate) fn rate_of(format: &v1::AudioFormat) -> Result<SampleRate, String> {
    if format.encoding() != v1::AudioEncoding::PcmS16le || format.channels > 1 {
        return Err(format!(
            "it speaks {} where 16-bit mono was asked for",
            format.encoding().as_str_name()
        ));
    }
    SampleRate::new(format.sample_rate_hz).map_err(|error| error.to_string())
}
