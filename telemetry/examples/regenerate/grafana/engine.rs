//! The engine of each replica.

use super::model::{BY_REPLICA, Dashboard, OF_REPLICA, Panel, Row, heatmap, lines, row, stack, stat, table};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "omni-engine",
        title: "Omni / Engine",
        about: "What the engine of every replica does. Choose a stage or a replica above; legends name both.",
        variables: OF_REPLICA,
        rows: vec![
            now(),
            scheduler(),
            cache(),
            throughput(),
            latency(),
            intervals(),
            requests(),
        ],
    }
}

/// One line per replica of a gauge.
fn gauge(panel: Panel, family: &str) -> Panel {
    panel.query(
        BY_REPLICA,
        &format!("sum by (stage_name, replica, instance) ({family}{{@replica}} @named)"),
    )
}

/// One line per replica of a counter's rate.
fn rate(panel: Panel, family: &str) -> Panel {
    panel.query(
        BY_REPLICA,
        &format!("sum by (stage_name, replica, instance) (rate({family}{{@replica}}[@rate]) @named)"),
    )
}

fn now() -> Row {
    let panels = vec![
        stat("Running", "none")
            .about("Requests in the running batches of all replicas chosen.")
            .query("running", "sum(vllm:num_requests_running{@replica})"),
        stat("Waiting", "none")
            .about("Requests that engines have accepted and are not running.")
            .query("waiting", "sum(vllm:num_requests_waiting{@replica})"),
        stat("Fullest KV cache", "percentunit")
            .about("Of the replicas chosen, the one with the largest share of KV blocks in use. At 100 % requests are preempted.")
            .query("fullest", "max(vllm:kv_cache_usage_perc{@replica})")
            .share()
            .limits(0.8, 0.95),
        stat("Made", "tokens/s")
            .about("Tokens and codec frames made per second by the replicas chosen.")
            .query("made", "sum(rate(vllm:generation_tokens_total{@replica}[@rate]))"),
        stat("Preemptions", "cps")
            .about("Running requests per second that lost their KV blocks and had to be computed again. Should stay at zero.")
            .query("preemptions", "sum(rate(vllm:num_preemptions_total{@replica}[@rate]))")
            .limits(0.01, 1.0),
        stat("Replicas up", "percentunit")
            .about("Share of the replicas chosen that take work.")
            .query("up", "avg(vllm:omni_replica_up{@replica})")
            .share()
            .limits(1.0, 0.99),
    ];
    row("Now", panels)
}

fn scheduler() -> Row {
    let panels = vec![
        gauge(
            stack("Running by replica", "none").about("Requests in the running batch."),
            "vllm:num_requests_running",
        ),
        gauge(
            stack("Waiting by replica", "none").about("Requests that the engine has accepted and is not running."),
            "vllm:num_requests_waiting",
        ),
        stack("Waiting by cause", "none")
            .about("capacity: there is no room. deferred: they wait for something else, such as their caller.")
            .query(
                "{{stage_name}} {{reason}}",
                "sum by (stage_name, reason) (vllm:num_requests_waiting_by_reason{@replica} @named)",
            ),
        rate(
            lines("Preemptions by replica", "cps")
                .about("Running requests per second that lost their KV blocks. A cache that is too small shows here.")
                .wide(12),
            "vllm:num_preemptions_total",
        ),
        lines("Preemptions per request p99", "none")
            .about("How often requests that finished had been preempted. 0 is most often.")
            .quantile_by_stage(0.99, "vllm:request_num_preemptions")
            .wide(12),
    ];
    row("Scheduler", panels)
}

fn cache() -> Row {
    let hits = "sum by (stage_name) (rate(vllm:prefix_cache_hits_total{@replica}[@rate]) @named)";
    let looked_up = "sum by (stage_name) (rate(vllm:prefix_cache_queries_total{@replica}[@rate]) @named)";
    let panels = vec![
        gauge(
            lines("KV cache in use", "percentunit")
                .about("Share of the KV blocks in use. What is only cached counts as free.")
                .share()
                .limits(0.8, 0.95),
            "vllm:kv_cache_usage_perc",
        ),
        lines("Found in the prefix cache", "percentunit")
            .about("Share of the tokens looked up at admission whose KV was there already.")
            .query("{{stage_name}}", &format!("{hits} / {looked_up}"))
            .share(),
        stack("Found by tier", "tokens/s")
            .about("Tokens found at admission, by the tier that held them.")
            .query(
                "{{source}}",
                "sum by (source) (rate(vllm:prompt_tokens_cached_by_source_total{@replica}[@rate]))",
            ),
        stack("Prompt tokens by source", "tokens/s")
            .about("Where the KV of prompts came from: computed, or found.")
            .query(
                "{{source}}",
                "sum by (source) (rate(vllm:prompt_tokens_by_source_total{@replica}[@rate]))",
            ),
        lines("Prompt tokens computed and saved", "tokens/s")
            .about("Prompt tokens of requests that reached their first output, and those of them that needed no prefill.")
            .query("all", "sum(rate(vllm:prompt_tokens_total{@replica}[@rate]))")
            .query("saved", "sum(rate(vllm:prompt_tokens_cached_total{@replica}[@rate]))"),
        lines("Prompt tokens computed per request", "none")
            .about("Of requests that finished.")
            .quantile_by_stage(0.5, "vllm:request_prefill_kv_computed_tokens")
            .quantile_by_stage(0.95, "vllm:request_prefill_kv_computed_tokens"),
        table("KV caches")
            .about("The KV cache that each engine was given.")
            .query("", "vllm:cache_config_info{@host, stage=~\"$stage\", replica=~\"$replica\"}"),
    ];
    row("KV cache", panels)
}

fn throughput() -> Row {
    let panels = vec![
        rate(
            lines("Made by replica", "tokens/s").about("Tokens and codec frames made per second."),
            "vllm:generation_tokens_total",
        ),
        rate(
            lines("Prompts by replica", "tokens/s")
                .about("Prompt tokens per second of requests that reached their first output."),
            "vllm:prompt_tokens_total",
        ),
        heatmap("Tokens per output", "none", "vllm:iteration_tokens_total", "@replica")
            .about("Tokens handled per output of an engine, prompt and new ones together: how large its batches are."),
    ];
    row("Throughput", panels)
}

fn latency() -> Row {
    let panels = vec![
        lines("Time to first token", "s")
            .about("Arrival at the edge to the first output of the stage.")
            .quantile_by_stage(0.5, "vllm:time_to_first_token_seconds")
            .quantile_by_stage(0.95, "vllm:time_to_first_token_seconds")
            .quantile_by_stage(0.99, "vllm:time_to_first_token_seconds"),
        lines("Between tokens", "s")
            .about("Time between two consecutive outputs of a request.")
            .quantile_by_stage(0.5, "vllm:inter_token_latency_seconds")
            .quantile_by_stage(0.95, "vllm:inter_token_latency_seconds")
            .quantile_by_stage(0.99, "vllm:inter_token_latency_seconds"),
        lines("Whole requests", "s")
            .about("Arrival at the edge to the last output of the stage.")
            .quantile_by_stage(0.5, "vllm:e2e_request_latency_seconds")
            .quantile_by_stage(0.95, "vllm:e2e_request_latency_seconds")
            .quantile_by_stage(0.99, "vllm:e2e_request_latency_seconds"),
        lines("Time to first token p95 by replica", "s")
            .about("One that is slower than its siblings has more to do, or a slower machine.")
            .quantile_by_replica(0.95, "vllm:time_to_first_token_seconds"),
        lines("Mean time per token", "s")
            .about("Decode time over tokens, per request that finished.")
            .quantile_by_stage(0.5, "vllm:request_time_per_output_token_seconds")
            .quantile_by_stage(0.95, "vllm:request_time_per_output_token_seconds"),
        heatmap(
            "Times between tokens",
            "s",
            "vllm:inter_token_latency_seconds",
            "@replica",
        )
        .about("How many outputs came how long after the one before. A second band is prefills in between."),
    ];
    row("Latency", panels)
}

fn intervals() -> Row {
    let of = |title, about, family| {
        lines(title, "s")
            .about(about)
            .quantile_by_stage(0.5, family)
            .quantile_by_stage(0.95, family)
            .wide(6)
    };
    let panels = vec![
        of(
            "Queue",
            "Wait in the stage's queue until a request was first scheduled.",
            "vllm:request_queue_time_seconds",
        ),
        of(
            "Prefill",
            "First scheduling to first token.",
            "vllm:request_prefill_time_seconds",
        ),
        of(
            "Decode",
            "First token to last token.",
            "vllm:request_decode_time_seconds",
        ),
        of(
            "Inference",
            "First scheduling to last token: prefill and decode.",
            "vllm:request_inference_time_seconds",
        ),
    ];
    row("Where the time goes", panels)
}

fn requests() -> Row {
    let panels = vec![
        stack("Finished by reason", "reqps")
            .about("Requests that engines are done with. Aborts and errors are in it too.")
            .query(
                "{{stage_name}} {{finished_reason}}",
                "sum by (stage_name, finished_reason) (rate(vllm:request_success_total{@replica}[@rate]) @named)",
            ),
        heatmap("Prompts", "none", "vllm:request_prompt_tokens", "@replica")
            .about("Length of the prompts of requests that finished, in tokens."),
        heatmap("Outputs", "none", "vllm:request_generation_tokens", "@replica")
            .about("Length of the outputs of requests that finished, in tokens or codec frames."),
        lines("Longest output", "none")
            .about("Longest output among the sequences of a request, in tokens.")
            .quantile_by_stage(0.95, "vllm:request_max_num_generation_tokens"),
        lines("Limit asked for", "none")
            .about("Limit on new tokens, of requests that set one.")
            .quantile_by_stage(0.5, "vllm:request_params_max_tokens")
            .quantile_by_stage(0.95, "vllm:request_params_max_tokens")
            .empty_while("no request sets one", "none set"),
        lines("Sequences asked for", "none")
            .about("Mean number of sequences per request. Here a request is one sequence.")
            .query(
                "mean",
                "sum(rate(vllm:request_params_n_sum{@replica}[@rate])) / sum(rate(vllm:request_params_n_count{@replica}[@rate]))",
            ),
    ];
    row("Requests", panels)
}
