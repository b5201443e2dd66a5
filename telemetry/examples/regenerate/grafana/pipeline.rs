//! Whole requests: are the callers served, and if not, where does it stick?

use super::model::{Dashboard, OF_REPLICA, Panel, Row, lines, row, stack, stat, table};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "omni-pipeline",
        title: "Omni / Pipeline",
        about: "Service levels first, then load, stages and calls. Start here.",
        variables: OF_REPLICA,
        rows: vec![
            row("Service levels", service_levels()),
            row("Service levels over time", over_time()),
            row("Load", load()),
            stages(),
            calls(),
            server(),
        ],
    }
}

const TTFP: &str = "vllm:omni_audio_ttfp_s";
const RTF: &str = "vllm:omni_audio_rtf";

/// Requests that failed through no doing of the caller, per second of the window.
fn errors(window: &str) -> String {
    format!("sum(rate(vllm:omni_requests_failed_total{{@model, reason=~\"stage_error|unknown\"}}[{window}]))")
}

fn ended(window: &str) -> String {
    format!("sum(rate(vllm:omni_requests_success_total{{@model}}[{window}]))")
}

/// The share of requests that had audio without a gap longer than so many milliseconds.
pub(super) fn continuity(threshold: &str, window: &str) -> String {
    let ok = format!("vllm:omni_audio_continuity_ok_total{{@replica, threshold_ms=\"{threshold}\"}}");
    format!("sum(rate({ok}[{window}])) / sum(rate(vllm:omni_audio_underrun_s_count{{@replica}}[{window}]))")
}

/// The same by a bound of the histogram of gaps, in seconds.
pub(super) fn within(bound: &str, window: &str) -> String {
    let family = "vllm:omni_audio_underrun_s";
    let ok = format!("sum(rate({family}_bucket{{@replica, le=\"{bound}\"}}[{window}]))");
    format!("{ok} / sum(rate({family}_count{{@replica}}[{window}]))")
}

/// The share of first packets within a second.
pub(super) fn in_time(window: &str) -> String {
    let in_time = format!("sum(rate({TTFP}_bucket{{@replica, le=~\"1|1\\\\.0\"}}[{window}]))");
    format!("{in_time} / sum(rate({TTFP}_count{{@replica}}[{window}]))")
}

fn service_levels() -> Vec<Panel> {
    vec![
        stat("Requests", "reqps")
            .about("Requests that ended, per second, however they ended.")
            .query("requests", &ended("@rate")),
        stat("Errors", "percentunit")
            .about("Share of requests that failed through no doing of the caller. Objective: at most 0.5 %.")
            .query("errors", &format!("{} / {}", errors("@rate"), ended("@rate")))
            .limits(0.005, 0.01),
        stat("First packet p95", "s")
            .about("From the moment a request could be spoken to its first audio packet. 19 of 20 were faster. Objective: 99 % within 1 s.")
            .quantile(0.95, TTFP, "@replica")
            .limits(0.5, 1.0),
        stat("Without gaps", "percentunit")
            .about("Share of answers whose audio had no gap of more than 100 ms. Objective: at least 99 %.")
            .query("without gaps", &continuity("100", "@rate"))
            .share()
            .limits(0.995, 0.99),
        stat("Real-time factor p95", "none")
            .about("From hand-over to the last output of the last stage, over time to play it. Above 1 playback cannot keep up.")
            .quantile(0.95, RTF, "@replica")
            .limits(0.75, 0.9),
        stat("Alerts firing", "none")
            .about("Alerts of grafana/prometheus/alerts.yml that fire now, for all servers. 0 also if the rules are not loaded.")
            .query("alerts", "count(ALERTS{alertname=~\"Omni.*\", alertstate=\"firing\"}) or vector(0)")
            .limits(1.0, 1.0),
    ]
}

fn over_time() -> Vec<Panel> {
    vec![
        stack("Requests by outcome", "reqps")
            .about("stop: ended naturally. length: at a limit. repetition: in circles. abort: everything else; see the failures beside.")
            .query(
                "{{finished_reason}}",
                "sum by (finished_reason) (rate(vllm:omni_requests_success_total{@model}[@rate]))",
            ),
        stack("Failures by cause", "reqps")
            .about(
                "stage_error and unknown are the server's own and use up its error budget. client_* and quota are the callers' doing; \
                 overload, operator, session_limit and shutdown ended requests that had begun.",
            )
            .query(
                "{{reason}}",
                "sum by (reason) (rate(vllm:omni_requests_failed_total{@model}[@rate]))",
            ),
        lines("Error budget burn, 1 h", "none")
            .about(
                "How many times faster than allowed each budget of bad events is being used up. 1 lasts a month; at 14.4 \
                 the operator is paged.",
            )
            .query("errors", &format!("{} / {} / 0.005", errors("1h"), ended("1h")))
            .query("first packet", &format!("(1 - {}) / 0.01", in_time("1h")))
            .query("gaps", &format!("(1 - {}) / 0.01", continuity("100", "1h")))
            .limits(1.0, 14.4),
        lines("First packet", "s")
            .about("From the moment a request could be spoken to its first audio packet being handed to the transport.")
            .quantiles(TTFP, "@replica")
            .limits(0.5, 1.0),
        lines("Answers without gaps", "percentunit")
            .about("Share of answers for which a player without a buffer would have waited at most so long at a time.")
            .query("50 ms", &within("0.05", "@rate"))
            .query("100 ms", &continuity("100", "@rate"))
            .query("250 ms", &within("0.25", "@rate"))
            .share()
            .open_below(),
        lines("Real-time factor", "none")
            .about("From hand-over to the last output of the last stage, queues included, over the time to play it.")
            .quantiles(RTF, "@replica")
            .limits(0.9, 1.0),
        lines("Whole requests", "s")
            .about(
                "Arrival to the last of the output, of requests that ended naturally, without waits for their callers' text. Long \
                 answers take long.",
            )
            .quantiles("vllm:omni_e2e_request_latency_s", "@model"),
        lines("Time to first token", "s")
            .about("From the moment a request could be worked on to the first output of each stage.")
            .quantile_by_stage(0.5, "vllm:time_to_first_token_seconds")
            .quantile_by_stage(0.95, "vllm:time_to_first_token_seconds"),
        lines("Cancel", "s")
            .about("A caller's cancel to the moment no stage works on the request any more.")
            .quantiles("vllm:omni_cancel_latency_s", "@model")
            .empty_while("no caller cancels", "no caller cancels"),
    ]
}

fn load() -> Vec<Panel> {
    vec![
        stack("Requests in the server", "none")
            .about("running: at least one stage works on it. waiting: admitted, and no stage has begun.")
            .query("running", "sum(vllm:omni_num_requests_running{@model})")
            .query("waiting", "sum(vllm:omni_num_requests_waiting{@model})"),
        lines("Wait before the first stage", "s")
            .about("Admission of a request to its hand-over to the first stage.")
            .quantiles("vllm:omni_request_queue_wait_s", "@model"),
        stack("Turned away", "reqps")
            .about(
                "Requests refused at the door. max_...: there was no room, and anything but zero is too much load. The others: \
                 an API key used up its quota.",
            )
            .query(
                "{{reason}}",
                "sum by (reason) (rate(vllm:admission_rejections_total{@model}[@rate]))",
            ),
        lines("Waits for text", "s")
            .about("How long requests waited for their callers to write. No other time on this page has it in it.")
            .quantiles("vllm:omni_text_wait_s", "@model"),
        lines("Sessions open", "none")
            .about("Calls that are open now. One session may carry many requests.")
            .query(
                "{{instance}}",
                "sum by (instance) (vllm:omni_sessions_active{@model})",
            ),
        lines("Sessions opened", "cps")
            .about("New sessions per second.")
            .query(
                "{{instance}}",
                "sum by (instance) (rate(vllm:omni_sessions_total{@model}[@rate]))",
            ),
        lines("Length of sessions", "s")
            .about("How long sessions that ended were open.")
            .quantiles("vllm:omni_session_duration_s", "@model"),
    ]
}

fn stages() -> Row {
    let panels = vec![
        stack("Waiting in stages", "none")
            .about("Requests queued in each stage, its replicas together. The stage that fills up is the narrow one.")
            .query(
                "{{stage_name}}",
                "sum by (stage_name) (vllm:omni_stage_waiting_requests{@stage} @staged)",
            ),
        lines("Time in stages p95", "s")
            .about("Hand-over of a request to a stage until its last output, its own queue included. Stages overlap.")
            .query(
                "{{stage_name}}",
                "histogram_quantile(0.95, sum by (le, stage_name) (rate(vllm:omni_stage_gen_time_s_bucket{@stage}[@rate]) @staged))",
            ),
        lines("Replicas that take work", "none")
            .about("Replicas per stage that take work. Fewer than usual: some are loading, failed, or were taken out.")
            .query(
                "{{stage_name}}",
                "sum by (stage_name) (vllm:omni_replica_up{@replica} @named)",
            ),
        lines("Stages without input", "cps")
            .about("Times per second that a request ran out of input in a stage although the stage before should have delivered.")
            .query(
                "{{stage_name}}",
                "sum by (stage_name) (rate(vllm:omni_stage_starved_total{@replica}[@rate]) @named)",
            ),
        lines("Tokens", "tokens/s")
            .about("Input of the first stage, and what all stages made: tokens and codec frames. Counted when a request ends.")
            .query("in", "sum(rate(vllm:omni_prompt_tokens_total{@model}[@rate]))")
            .query("made", "sum(rate(vllm:omni_generation_tokens_total{@model}[@rate]))"),
        lines("Deaths and restarts", "none")
            .about("Replicas that died, and that took work again after it, in an hour. Sequences without audio yet move to other replicas.")
            .query(
                "{{stage_name}} died",
                "sum by (stage_name) (increase(vllm:omni_replica_deaths_total{@replica}[1h]) @named)",
            )
            .query(
                "{{stage_name}} is back",
                "sum by (stage_name) (increase(vllm:omni_replica_restarts_total{@replica}[1h]) @named)",
            ),
        lines("Threads left behind", "none")
            .about("Threads of replicas whose model did not return from a step in time. Zero in normal operation.")
            .query(
                "{{stage_name}}",
                "sum by (stage_name) (vllm:omni_stage_stuck_threads{@stage} @staged)",
            ),
    ];
    row("Stages", panels)
}

fn calls() -> Row {
    let panels = vec![
        lines("Calls", "reqps")
            .about("gRPC calls begun, by method.")
            .query(
                "{{grpc_method}}",
                "sum by (grpc_method) (rate(grpc_server_started_total{@host}[@rate]))",
            ),
        lines("Calls by status", "reqps")
            .about("gRPC calls that ended, by status code.")
            .query(
                "{{grpc_code}}",
                "sum by (grpc_code) (rate(grpc_server_handled_total{@host}[@rate]))",
            ),
        lines("Length of calls p95", "s")
            .about("To the end of their stream, so that a conversation counts in full.")
            .query(
                "{{grpc_method}}",
                "histogram_quantile(0.95, sum by (le, grpc_method) (rate(grpc_server_handling_seconds_bucket{@host}[@rate])))",
            ),
        lines("Messages", "cps")
            .about("Messages of streams, counted one by one.")
            .query(
                "received {{grpc_method}}",
                "sum by (grpc_method) (rate(grpc_server_msg_received_total{@host}[@rate]))",
            )
            .query(
                "sent {{grpc_method}}",
                "sum by (grpc_method) (rate(grpc_server_msg_sent_total{@host}[@rate]))",
            )
            .wide(24),
        stack("HTTP by status", "reqps")
            .about("Calls of the HTTP API that ended, by class of status.")
            .query(
                "{{status}}",
                "sum by (status) (rate(http_requests_total{@host}[@rate]))",
            ),
        lines("HTTP by route p95", "s")
            .about("To the last byte of the answer. The bounds are coarse: 0.1, 0.5 and 1 s.")
            .query(
                "{{handler}}",
                "histogram_quantile(0.95, sum by (le, handler) (rate(http_request_duration_seconds_bucket{@host}[@rate])))",
            ),
        lines("HTTP p95", "s")
            .about("To the last byte of the answer, all routes together.")
            .query(
                "all",
                "histogram_quantile(0.95, sum by (le) (rate(http_request_duration_highr_seconds_bucket{@host}[@rate])))",
            ),
    ];
    row("Calls", panels)
}

fn server() -> Row {
    let panels = vec![
        table("Stages and their replicas")
            .about("What stands behind the ids in stage and replica.")
            .query("", "vllm:omni_stage_info{@replica}")
            .wide(16),
        table("Versions")
            .about("The version of each server.")
            .query("", "vllm:omni_build_info{@host}")
            .wide(8),
    ];
    row("What is served", panels)
}
