//! Delivery of audio: encoding, pace, speed and level, checked.

use std::ops::RangeInclusive;
use std::time::Duration;

use omni_audio::{Encoding, Format, Gain, Rendering, Speed};
use omni_core::error::{ErrorKind, ServeError, about};
use omni_family::SpeechInfo;
use omni_session::Delivery;

use super::settings::invalid;

/// Silence before speech where the caller sets nothing.
const LEADING_SILENCE: Duration = Duration::from_millis(20);
/// Most of it that a caller may request.
const MAX_LEADING_SILENCE: Duration = Duration::from_secs(10);
/// Leads over the listener that may be requested: long enough that no timer of a busy machine makes a gap.
const MAX_LEADS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// Paths of the delivery fields.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryFields {
    pub frame_duration: &'static str,
    pub max_lead: &'static str,
    pub leading_silence: &'static str,
    pub encoding: &'static str,
    pub sample_rate_hz: &'static str,
    pub channels: &'static str,
    pub speed: &'static str,
    pub volume_gain_db: &'static str,
}

/// Delivery that a caller requests; 0 and unset leave it to the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutputRequest {
    pub encoding: Encoding,
    pub sample_rate_hz: u32,
    pub channels: u32,
    pub frame_duration: Duration,
    pub max_lead: Option<Duration>,
    pub leading_silence: Option<Duration>,
    pub speed: Option<f64>,
    pub volume_gain_db: Option<f64>,
    /// `true` if the protocol sends the audio in one piece.
    pub whole: bool,
}

impl Default for OutputRequest {
    fn default() -> Self {
        Self {
            encoding: Encoding::Pcm16,
            sample_rate_hz: 0,
            channels: 0,
            frame_duration: Duration::ZERO,
            max_lead: None,
            leading_silence: None,
            speed: None,
            volume_gain_db: None,
            whole: false,
        }
    }
}

impl OutputRequest {
    #[must_use]
    pub fn rendered(self, speed: Option<f64>, volume_gain_db: Option<f64>) -> Self {
        Self {
            speed,
            volume_gain_db,
            ..self
        }
    }
}

/// Encoding, rate or channels cannot be produced or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", about(.field, .problem))]
pub struct UnsupportedFormat {
    pub field: &'static str,
    pub problem: String,
}

impl From<UnsupportedFormat> for ServeError {
    fn from(error: UnsupportedFormat) -> Self {
        Self::new(
            ErrorKind::InvalidArgument,
            "UNSUPPORTED_AUDIO_FORMAT",
            error.to_string(),
        )
        .about(error.field)
    }
}

pub(super) fn delivery(
    request: &OutputRequest,
    info: &SpeechInfo,
    fields: &DeliveryFields,
) -> Result<Delivery, ServeError> {
    let format = framed(format(request, info, fields)?, request.frame_duration, fields)?;
    Ok(Delivery {
        format,
        rendering: Rendering {
            speed: Speed::new(request.speed.unwrap_or(1.0) as f32)
                .map_err(|error| invalid(fields.speed, error.to_string().trim_start_matches("speed ")))?,
            gain: Gain::new(request.volume_gain_db.unwrap_or(0.0) as f32)
                .map_err(|error| invalid(fields.volume_gain_db, error.to_string()))?,
        },
        leading_silence: leading_silence(request.leading_silence, fields)?,
        max_lead: max_lead(request.max_lead, format, fields)?,
        whole: request.whole,
    })
}

/// The format in chunks of a playing time, if one is requested.
fn framed(format: Format, time: Duration, fields: &DeliveryFields) -> Result<Format, ServeError> {
    if time.is_zero() {
        return Ok(format);
    }
    format
        .framed(time)
        .map_err(|error| invalid(fields.frame_duration, error.to_string()))
}

fn max_lead(
    got: Option<Duration>,
    format: Format,
    fields: &DeliveryFields,
) -> Result<Option<Duration>, ServeError> {
    let Some(lead) = got else { return Ok(None) };
    if !MAX_LEADS.contains(&lead) {
        return Err(invalid(
            fields.max_lead,
            "is out of range; expected 100 ms to 1 h",
        ));
    }
    let frame = format
        .frame()
        .map_or(Duration::ZERO, |frame| format.rate().duration(frame));
    if lead >= 2 * frame {
        Ok(Some(lead))
    } else {
        let problem = format!("is {lead:?}; expected at least twice the frame duration of {frame:?}");
        Err(invalid(fields.max_lead, problem))
    }
}

fn leading_silence(got: Option<Duration>, fields: &DeliveryFields) -> Result<Duration, ServeError> {
    let silence = got.unwrap_or(LEADING_SILENCE);
    if silence <= MAX_LEADING_SILENCE {
        Ok(silence)
    } else {
        Err(invalid(
            fields.leading_silence,
            "is out of range; expected 0 to 10 s",
        ))
    }
}

fn format(request: &OutputRequest, info: &SpeechInfo, fields: &DeliveryFields) -> Result<Format, ServeError> {
    let refuse = |field, problem| ServeError::from(UnsupportedFormat { field, problem });
    if request.channels > 1 {
        let problem = format!("{} channels are not offered; expected 0 or 1", request.channels);
        return Err(refuse(fields.channels, problem));
    }
    let encoding = request.encoding;
    let hz = match request.sample_rate_hz {
        0 => encoding.default_rate(info.sample_rate).hz(),
        hz => hz,
    };
    Format::new(encoding, hz).map_err(|error| refuse(fields.sample_rate_hz, error.to_string()))
}
