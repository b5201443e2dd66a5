//! vLLM's own dashboards find everything they ask for.
//!
//! What they ask for, as facts: series, the labels they match or group by, and what they do with them. Of vLLM's
//! repository, folder examples/online_serving: prometheus_grafana/grafana.json, its
//! k8s-monitoring/grafana-dashboard.json (there with names that only an OpenTelemetry collector gives beside these),
//! and dashboards/grafana/{performance,query}_statistics.json, whose names have an underscore instead of the colon.

use omni_telemetry::Catalogue;

use crate::names::Known;
use crate::promql::read;

/// The use of a series.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Its value.
    Value,
    /// Its rate.
    Rate,
    /// The quantiles of a histogram, and the mean.
    Quantiles,
    /// A histogram as a heat map.
    Heatmap,
    /// The rate of a histogram's sum.
    Sum,
}

use Use::{Heatmap, Quantiles, Rate, Sum, Value};

const ASKED_FOR: [(&str, Use, &str); 18] = [
    ("vllm:e2e_request_latency_seconds", Quantiles, ""),
    ("vllm:time_to_first_token_seconds", Quantiles, ""),
    ("vllm:inter_token_latency_seconds", Quantiles, ""),
    ("vllm:request_queue_time_seconds", Quantiles, ""),
    ("vllm:request_prefill_time_seconds", Quantiles, ""),
    ("vllm:request_decode_time_seconds", Quantiles, ""),
    ("vllm:request_queue_time_seconds", Sum, ""),
    ("vllm:request_prefill_time_seconds", Sum, ""),
    ("vllm:request_decode_time_seconds", Sum, ""),
    ("vllm:request_max_num_generation_tokens", Sum, ""),
    ("vllm:request_prompt_tokens", Heatmap, ""),
    ("vllm:request_generation_tokens", Heatmap, ""),
    ("vllm:prompt_tokens_total", Rate, ""),
    ("vllm:generation_tokens_total", Rate, ""),
    ("vllm:request_success_total", Rate, "finished_reason"),
    ("vllm:num_requests_running", Value, ""),
    ("vllm:num_requests_waiting", Value, ""),
    ("vllm:kv_cache_usage_perc", Value, ""),
];

/// Queries of that kind, for a model.
pub(crate) fn queries(model: &str, window: &str) -> Vec<String> {
    let ours = |part: &str| format!("{part}{{model_name=\"{model}\"}}");
    let rate = |part: &str| format!("rate({}[{window}])", ours(part));
    let query = |(name, kind, label): &(&str, Use, &str)| match kind {
        Value => vec![ours(name)],
        Rate if label.is_empty() => vec![rate(name)],
        Rate => vec![format!("sum by({label}) (increase({}[{window}]))", ours(name))],
        Sum => vec![rate(&format!("{name}_sum"))],
        Heatmap => vec![format!(
            "sum by(le) (increase({}[{window}]))",
            ours(&format!("{name}_bucket"))
        )],
        Quantiles => {
            let quantile = |quantile: &str| {
                let rate = rate(&format!("{name}_bucket"));
                format!("histogram_quantile({quantile}, sum by(le) ({rate}))")
            };
            let mean = format!(
                "{} / {}",
                rate(&format!("{name}_sum")),
                rate(&format!("{name}_count"))
            );
            ["0.5", "0.9", "0.95", "0.99"]
                .map(quantile)
                .into_iter()
                .chain([mean])
                .collect()
        }
    };
    ASKED_FOR.iter().flat_map(query).collect()
}

#[test]
fn dashboards_written_for_vllm_ask_for_what_there_is() {
    let known = Known::new(Catalogue::built_in());
    for query in queries("tiny", "5m") {
        let problems = known.problems(&read(&query).expect("an expression"));
        assert!(problems.is_empty(), "{query}: {problems:?}");
    }
}
