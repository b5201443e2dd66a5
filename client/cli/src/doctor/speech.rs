//! A spoken sentence, measured.

use std::time::Duration;

use omni_client::{Client, ClientError, Finish, Measured, Meter, Outcome, SpeechEvent};
use serde_json::json;
use tokio::time::Instant;

use super::check::Check;
use super::network::text;
use crate::args::Doctor;
use crate::deadline::Deadline;
use crate::summary::{CONTINUITY, gaps, milliseconds};

const SENTENCE: &str = "This is a short test of the whole way.";
/// Audio that stays below this level counts as silence: -60 dB of full scale.
const INAUDIBLE: f32 = 0.001;

/// The answer.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) measured: Option<Measured>,
    pub(super) outcome: Option<Outcome>,
    peak: f32,
}

/// Speaks, and checks the audio.
pub(super) async fn check(args: &Doctor, client: &Client) -> (Check, Option<Heard>) {
    let spoken = Deadline::after(Some(args.timeout))
        .within(speak(args, client))
        .await;
    match spoken {
        Ok(heard) => (judge(&heard), Some(heard)),
        Err(failure) => {
            let advice = failure.advice();
            let advice = advice.unwrap_or("see the server's log; --timeout gives it more time");
            (Check::wrong("speech", text(&failure), advice), None)
        }
    }
}

async fn speak(args: &Doctor, client: &Client) -> Result<Heard, ClientError> {
    let sent = Instant::now();
    let (say, mut events) = client.speech(&args.voice.settings());
    // A session that closes early says why in its events.
    let _ = say.text(SENTENCE).await;
    let _ = say.finish().await;
    drop(say);
    let mut meter = None::<Meter>;
    let mut outcome = None;
    let mut peak = 0.0_f32;
    while let Some(event) = events.next().await? {
        match event {
            SpeechEvent::Audio(_, audio) => {
                meter
                    .get_or_insert_with(|| Meter::new(audio.rate))
                    .audio(sent.elapsed(), &audio);
                peak = audio.floats().fold(peak, |peak, sample| peak.max(sample.abs()));
            }
            SpeechEvent::Done(_, done) => outcome = Some(done.outcome),
            _ => {}
        }
    }
    Ok(Heard {
        measured: meter.map(Meter::finish),
        outcome,
        peak,
    })
}

fn judge(heard: &Heard) -> Check {
    if let Some(Finish::Error(error)) = heard.outcome.as_ref().map(|outcome| &outcome.finish) {
        return Check::wrong("speech", error.to_string(), "a fault of the server; see its log");
    }
    let Some(measured) = &heard.measured else {
        return Check::wrong("speech", "the server gave no audio", "see its log");
    };
    if heard.peak < INAUDIBLE {
        return Check::wrong(
            "speech",
            "all of the audio is silence",
            "is the model's checkpoint whole?",
        );
    }
    let factor = measured.real_time_factor.unwrap_or_default();
    let first = measured.first_audio.unwrap_or_default();
    let finding = format!(
        "{:.1} s of audio, first audio {} (first sound {}), real-time factor {factor:.3}, {}",
        measured.audio.as_secs_f64(),
        milliseconds(first),
        milliseconds(measured.audible_first_audio.unwrap_or_default()),
        gaps(measured)
    );
    let check = if !measured.continuity.ok(CONTINUITY) || factor >= 1.0 {
        let advice =
            "the server does not keep up: is it busy (`omni-client bench -c 1`), or too small for the model?";
        Check::doubtful("speech", finding, advice)
    } else {
        Check::good("speech", finding)
    };
    check.with(figures(measured, first))
}

fn figures(measured: &Measured, first: Duration) -> serde_json::Value {
    json!({
        "audio_seconds": measured.audio.as_secs_f64(),
        "time_to_first_audio_seconds": first.as_secs_f64(),
        "time_to_first_audible_seconds": measured.audible_first_audio.map(|time| time.as_secs_f64()),
        "real_time_factor": measured.real_time_factor,
        "worst_underrun_seconds": measured.continuity.worst().as_secs_f64(),
        "chunks": measured.continuity.chunks,
    })
}
