//! What listeners get.

use super::model::{BY_REPLICA, Dashboard, OF_REPLICA, Row, heatmap, lines, row, stack, stat};
use super::pipeline::{continuity, in_time, within};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "omni-audio",
        title: "Omni / Audio",
        about: "What listeners get: when it begins, whether it goes on, how fast it is made, how much of it there is.",
        variables: OF_REPLICA,
        rows: vec![service_levels(), first_packet(), continuous(), speed(), amount()],
    }
}

const TTFP: &str = "vllm:omni_audio_ttfp_s";
const RTF: &str = "vllm:omni_audio_rtf";
const PLAYED: &str = "vllm:omni_audio_duration_s_sum{@replica}";

fn service_levels() -> Row {
    let panels = vec![
        stat("First packet p50", "s")
            .about("Arrival of a request to its first audio packet. Half were faster.")
            .quantile(0.5, TTFP, "@replica")
            .limits(0.5, 1.0),
        stat("First packet p99", "s")
            .about("Arrival of a request to its first audio packet. 99 of 100 were faster. Objective: within 1 s.")
            .quantile(0.99, TTFP, "@replica")
            .limits(0.75, 1.0),
        stat("First packet within 1 s", "percentunit")
            .about("Share of first packets within a second. Objective: at least 99 %.")
            .query("within 1 s", &in_time("@rate"))
            .share()
            .limits(0.995, 0.99),
        stat("Without gaps", "percentunit")
            .about("Share of answers whose audio had no gap of more than 100 ms. Objective: at least 99 %.")
            .query("without gaps", &continuity("100", "@rate"))
            .share()
            .limits(0.995, 0.99),
        stat("Real-time factor p95", "none")
            .about("Time to make audio over time to play it. Above 1 playback cannot keep up.")
            .quantile(0.95, RTF, "@replica")
            .limits(0.75, 0.9),
        stat("Audio per second", "s")
            .about("Seconds of audio given out per second: as many listeners can be served at a time.")
            .query("audio", &format!("sum(rate({PLAYED}[@rate]))")),
    ];
    row("Service levels", panels)
}

fn first_packet() -> Row {
    let panels = vec![
        lines("First packet", "s")
            .about("Arrival of a request to its first audio packet being handed to the transport.")
            .quantiles(TTFP, "@replica")
            .limits(0.5, 1.0),
        lines("First packet p95 by replica", "s")
            .about("One that is slower than its siblings has more to do, or a slower machine.")
            .quantile_by_replica(0.95, TTFP),
        heatmap("First packets", "s", TTFP, "@replica")
            .about("How many first packets took how long. Two bands are two kinds of requests."),
    ];
    row("When it begins", panels)
}

fn continuous() -> Row {
    let panels = vec![
        lines("Answers without gaps", "percentunit")
            .about("Share of answers for which a player without a buffer would have waited at most so long at a time.")
            .query("50 ms", &within("0.05", "@rate"))
            .query("100 ms", &continuity("100", "@rate"))
            .query("250 ms", &within("0.25", "@rate"))
            .share()
            .open_below(),
        lines("Worst gap", "s")
            .about("An answer's worst lateness for a player that starts with the first chunk and keeps no buffer. 0 is gapless.")
            .quantiles("vllm:omni_audio_underrun_s", "@replica")
            .limits(0.05, 0.1),
        heatmap("Worst gaps", "s", "vllm:omni_audio_underrun_s", "@replica")
            .about("How many answers had which worst gap. The lowest band is those that had none to speak of."),
        lines("Lead of playback", "s")
            .about(
                "How far audio reaches beyond the playback position when a further chunk arrives. p5 close to 0 means that \
                 some listeners are about to hear a gap.",
            )
            .quantile(0.05, "vllm:omni_audio_playback_lead_s", "@replica")
            .quantile(0.5, "vllm:omni_audio_playback_lead_s", "@replica"),
        lines("Time between chunks", "s")
            .about("Between two consecutive chunks of an answer. Chunks grow, so that this does too.")
            .quantiles("vllm:omni_audio_chunk_gap_s", "@replica"),
        heatmap("Times between chunks", "s", "vllm:omni_audio_chunk_gap_s", "@replica")
            .about("How many chunks came how long after the one before."),
    ];
    row("Whether it goes on", panels)
}

fn speed() -> Row {
    let panels = vec![
        lines("Real-time factor", "none")
            .about(
                "Time to make an answer's audio over the time to play it. Below 1 is faster than playback.",
            )
            .quantiles(RTF, "@replica")
            .limits(0.9, 1.0),
        lines("Real-time factor p95 by replica", "none")
            .about("One that is higher than its siblings has more to do, or a slower machine.")
            .quantile_by_replica(0.95, RTF)
            .limits(0.9, 1.0),
        heatmap("Real-time factors", "none", RTF, "@replica").about("How many answers were made how fast."),
    ];
    row("How fast it is made", panels)
}

fn amount() -> Row {
    let panels = vec![
        stack("Audio by replica", "s")
            .about("Seconds of audio given out per second, by the replica that made them.")
            .query(
                BY_REPLICA,
                &format!("sum by (stage_name, replica, instance) (rate({PLAYED}[@rate]) @named)"),
            ),
        lines("Frames by replica", "frames/s")
            .about("Samples per channel handed to callers, per second.")
            .query(
                BY_REPLICA,
                "sum by (stage_name, replica, instance) (rate(vllm:omni_audio_frames_total{@replica}[@rate]) @named)",
            ),
        lines("Length of answers", "s")
            .about("Playing time of the audio that a request was given.")
            .quantiles("vllm:omni_audio_duration_s", "@replica"),
        stack("Streams", "cps")
            .about("Speech streams per second that were sent to their end, and those that ended early, by cause.")
            .query("completed", "sum(rate(vllm:omni_speech_stream_completed_total{@model}[@rate]))")
            .query(
                "{{reason}}",
                "sum by (reason) (rate(vllm:omni_speech_stream_aborted_total{@model}[@rate]))",
            )
            .wide(12),
        lines("Silent losses", "cps")
            .about("Requests per second that ended well and yet gave no audio. Should stay at zero.")
            .query(
                "{{reason}}",
                "sum by (reason) (rate(vllm:omni_audio_skipped_requests_total{@replica}[@rate]))",
            )
            .wide(12),
    ];
    row("How much there is", panels)
}
