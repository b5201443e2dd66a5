//! One line about how soon, how fast and how evenly an answer came.

use omni_client::Finish;

use super::turn::Answer;
use crate::summary::{gaps, milliseconds};

pub(super) fn line(answer: &Answer) -> String {
    let outcome = &answer.done.outcome;
    let mut parts = Vec::new();
    match outcome.finish {
        Finish::Interrupted => parts.push("interrupted".to_owned()),
        Finish::Length => parts.push("cut".to_owned()),
        Finish::Repetition => parts.push("repeating".to_owned()),
        Finish::Error(_) => parts.push("failed".to_owned()),
        Finish::Stop => {}
    }
    parts.extend(
        answer
            .first_text
            .map(|time| format!("first text {}", milliseconds(time))),
    );
    match &answer.measured {
        Some(measured) => {
            let first = measured.first_audio.unwrap_or_default();
            parts.push(format!("first audio {}", milliseconds(first)));
            parts.push(format!("{:.1} s of audio", measured.audio.as_secs_f64()));
            parts.extend(
                measured
                    .real_time_factor
                    .map(|factor| format!("real-time factor {factor:.3}")),
            );
            parts.push(gaps(measured));
        }
        None => parts.push(format!("done after {}", milliseconds(answer.total))),
    }
    if outcome.usage.output_text_tokens > 0 {
        parts.push(format!("{} tokens", outcome.usage.output_text_tokens));
    }
    parts.join(" · ")
}
