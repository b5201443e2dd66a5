//! The catalogue as `docs/metrics.md`.

use std::fmt::Write;

use super::{Absent, Catalogue, Family, FamilyKind, Group};

const HEAD: &str = "# Metrics

<!-- Generated from telemetry/catalogue.yaml by `cargo run -p omni-telemetry --example regenerate`. Do not edit. -->

Every metric family of the server. Names, labels and buckets are those of the vLLM and vLLM-Omni families they stand in for, so
that existing dashboards keep working. `model_name` is the name the model is served by. `stage` and `replica` are ids as text
(`\"0\"`); `vllm:omni_stage_info` says what is behind them. Histograms have fixed buckets, `+Inf` is implied.

With `--metrics-prefix vllm_omni:` every `vllm:omni_` below reads `vllm_omni:`.

`--metrics-listen ADDRESS|off` says where they are read over HTTP (`/metrics`, `/metrics/catalogue`, `/healthz`, `/readyz`), by default
127.0.0.1:9464. `--metrics-tls` serves them with the server's certificate, which lets other machines read them, and `--metrics-keys` asks
readers for a key of the scope metrics, but not probes. A port that is taken stops the start with an error that says so: a second server on a machine needs an address of
its own, and port 0 takes a free one and logs it. `--push-gateway URL` pushes them to a Pushgateway as well; by default the group is
`job=omni`, `instance=HOST:PORT` of the address that is served, and is deleted when the server ends: with `--push-linger 30s` only after
the last push could be read, with `--push-keep` not at all. What a name and a password in the URL cannot have is percent-encoded. A URL with a password on
the command line can be read by other users of the machine: put it in `OMNI_PUSH_GATEWAY`, or a token in a file
(`--push-token-file`). `omni-server metrics list` prints what is served with the flags before it, `omni-server metrics catalogue` all
that is known of it as JSON.

A reader whose `Accept` prefers `application/openmetrics-text` gets OpenMetrics 1.0, as Prometheus does: histograms that are recorded when a
request ends have the trace of the last observation of each bucket as an exemplar, if it is traced. TorchServe's counters without `_total`
are `unknown` there.

`--log-stats-interval TIME` is the time between two lines of statistics in the log (5 s, vLLM's `VLLM_LOG_STATS_INTERVAL`). `Engine 002` in
them enumerates stages and their replicas; the log says at the start which is which. `--log-request-tables` adds a table per request and
edge. `--metrics-buckets SET=BOUND,...` replaces a set of bounds (vLLM's `--custom-histogram-buckets`). With `--log-stats off` only the
process's own families are left.

`promtool check metrics` accepts all of them and remarks on three habits that these names inherit: colons, units abbreviated in the
name (`_s`), and TorchServe's capitals and bare counters.

## Metrics of callers

Custom metrics are declared by a file (`--metrics-config FILE`, in TorchServe's format) or, with `--metrics-service on`, by callers over
gRPC: `omni.v1.MetricsService` has `Declare`, `Record` (a stream of samples, each message answered with what was refused, its place and a
reason) and `List`. They are served and pushed with the server's own. The service is off by default, because whoever can call the server
could then write what its operators look at. `--metrics-auto-declare` lets the first sample of a metric declare it, if it says kind and
unit; otherwise samples of undeclared metrics are refused.

Refused, with a typed reason and recorded nowhere: another kind or unit than declared, a label too few, too many or twice, a value that is
not finite, a counter that would go down, and whatever goes beyond the bounds: 256 custom metrics, 16 labels and 64 bounds each, 256 label
sets each and 8192 in all, names of 128 bytes, label values of 256, 1000 samples and 256 KiB in a message, 64 recording calls at once.
Names that begin with `vllm:` or `vllm_omni:` are the server's own. A metric and its series stay until the server ends.

## Where the values differ from vLLM's on purpose

* A caller that goes away is counted: in `vllm:request_success_total{finished_reason=\"abort\"}`, and in the latency families that
  its request reached.
* Prefill and inference begin at the first time a request was scheduled. A preemption is part of the interval it interrupts.
* Queue time is never negative.
* `finished_reason` has vLLM's words. An answer that was stopped because it went round in circles is `repetition`, to its engine and to
  the pipeline; only `error` is none of the pipeline's words: there, failures of every kind are `abort`, and
  `vllm:omni_requests_failed_total` tells them apart.
* Times of requests begin when there is something to work on: when text makes a sentence or is flushed, and for an answer with the request
  for it. How long callers write is in `vllm:omni_text_wait_s`, and in no latency of the pipeline. To an engine, a sequence whose text is
  still being written has the waits for it in its latencies from one output to the next.
* `vllm:omni_audio_rtf` is time that passed, from the hand-over of a request to the last output of the last stage, over playing time. Waits
  for text are left out, and so is time in which the listener had no room for more (`max_lead`, a slow reader). The processor time is in
  the field `real_time_factor` of what a caller is told.
* `vllm:omni_requests_failed_total` says whose failure it is; only `stage_error` and `unknown` are the server's. A request that was refused
  for its content before anything was begun is a `client_error`, too; one that was turned away for want of room or quota is in
  `vllm:admission_rejections_total` alone. A call without a good key is no request: `grpc_server_handled_total` and `http_requests_total`
  have it.
* A request that was aborted counts the tokens that its session had taken; its engine may have made some more.
* Sizes and times of transfers are measured at the edge, per message, wherever data passes: between stages, and between calls (`session`)
  and stages. Within one process nothing is encoded: to send is to measure and to book a place, to receive is to give it back. A prompt
  passes no edge, it is handed over with its job.
* `vllm:prompt_tokens_total` of the talker is what it computes before its first frame (voice, template and the first of the text); text
  that follows is read one token per frame. The encoder's are frames of audio. `vllm:omni_prompt_tokens_total` has the text.
* `vllm:mm_cache_*` count recordings: one query for each of a conversation that is answered, a hit if it need not be heard again.
* Audio families cover unary calls as well as streams, and requests that were aborted.
* `stage_type` is `llm` or `generation`.
* A request is an utterance, or an answer with its speech. To an engine, every sequence is one: a sentence to the talker. The first
  sequence of an utterance arrived when it could be spoken, a later one when it was begun.
* code2wav has no prompts and no KV cache: its tokens are the codec frames it decoded, its outputs the chunks it gave.
* The engine families of a replica that died count what was on it as `error`; what starts again elsewhere is counted there too, and once
  in the pipeline's families.
* Warming up is not counted. Everything else is, from the first call on.
* A replica in a process of its own (`placement: process`) has the same families as one in a thread, with the same meaning. What it
  had not told when its process died is lost, but every sequence that it took is counted once; so are those that died with it.
";

impl Catalogue {
    /// The documentation of every family, as Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut out = String::from(HEAD);
        for group in &self.groups {
            let families = self
                .families
                .iter()
                .filter(|family| family.group == group.name)
                .map(AsRef::as_ref);
            section(&mut out, group, &families.collect::<Vec<_>>());
        }
        buckets(&mut out, self);
        deprecated(&mut out, self);
        absent(&mut out, &self.absent);
        out
    }
}

fn section(out: &mut String, group: &Group, families: &[&Family]) {
    let off = if group.enabled { "" } else { " (off by default)" };
    let _ = write!(
        out,
        "\n## {}{off}\n\n{}\n\n| family | type | unit | labels | meaning |\n|---|---|---|---|---|\n",
        group.name, group.about
    );
    for family in families {
        let kind = match &family.buckets {
            Some(buckets) => format!("histogram: {}", buckets.set),
            None => family.kind.exposed().to_owned(),
        };
        let labels: Vec<_> = family
            .exposed_labels()
            .into_iter()
            .map(|label| match family.values.get(label) {
                Some(values) => format!("{label} ({})", values.join(", ")),
                None => label.to_owned(),
            })
            .collect();
        let pending = family.pending.as_ref();
        let pending = pending.map(|what| format!(" *Not served yet: waits for {what}.*"));
        let _ = writeln!(
            out,
            "| `{}` | {kind} | {} | {} | {}{} |",
            family.name,
            family.unit,
            labels.join(", "),
            family.help,
            pending.unwrap_or_default()
        );
    }
}

fn buckets(out: &mut String, catalogue: &Catalogue) {
    out.push_str("\n## Buckets\n\n| set | upper bounds |\n|---|---|\n");
    let mut sets: Vec<_> = catalogue
        .families
        .iter()
        .filter(|family| family.kind == FamilyKind::Histogram)
        .filter_map(|family| family.buckets.as_ref())
        .collect();
    sets.sort_by(|a, b| a.set.cmp(&b.set));
    sets.dedup_by(|a, b| a.set == b.set);
    for set in sets {
        let bounds: Vec<_> = set.bounds.iter().map(f64::to_string).collect();
        let rule = if set.by_length {
            " for 32768 tokens; 1, 2, 5, 10 and so on, up to the longest sequence that a stage of the served model allows"
        } else {
            ""
        };
        let _ = writeln!(out, "| {} | {}{rule} |", set.set, bounds.join(", "));
    }
}

fn deprecated(out: &mut String, catalogue: &Catalogue) {
    out.push_str(
        "\n## Deprecated names\n\nOther names of families that are here, so that older dashboards keep working. Each has the notice in its \
         HELP, and is hidden from\nthe release named last on. `--show-hidden-metrics-for-version RELEASE` shows what RELEASE or a later one has \
         hidden.\n\n| name | family | deprecated since | hidden from |\n|---|---|---|---|\n",
    );
    for name in catalogue.deprecated() {
        let _ = writeln!(
            out,
            "| `{}` | `{}` | {} | {} |",
            name.name, name.family, name.since, name.hidden
        );
    }
}

fn absent(out: &mut String, absent: &[Absent]) {
    out.push_str(
        "\n## Absent\n\nFamilies of vLLM and vLLM-Omni that are neither declared nor rendered here.\n\n",
    );
    out.push_str("| families | why |\n|---|---|\n");
    for entry in absent {
        let names = entry.names.iter().map(|name| format!("`{name}`"));
        let prefixes = entry.prefixes.iter().map(|prefix| format!("`{prefix}*`"));
        let all: Vec<_> = names.chain(prefixes).collect();
        let _ = writeln!(out, "| {} | {} |", all.join(", "), entry.reason);
    }
}
