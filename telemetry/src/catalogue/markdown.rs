//! The catalogue as `docs/metrics.md`.

use std::fmt::Write;

use super::{Absent, Catalogue, Family, FamilyKind, Group};

const HEAD: &str = "# Metrics

<!-- Generated from telemetry/catalogue.yaml by `cargo run -p omni-telemetry --example regenerate`. Do not edit. -->

Every metric family of the server. Names, labels and buckets are those of vLLM and vLLM-Omni, so that existing dashboards keep working.
`model_name` is the served model name. `stage` and `replica` are ids as text (`\"0\"`); `vllm:omni_stage_info` maps them to stage names and
devices. Histograms have fixed buckets; `+Inf` is implied.

With `--metrics-prefix vllm_omni:` every `vllm:omni_` below reads `vllm_omni:`.

## Scraping and pushing

`--metrics-listen ADDRESS|off` sets the HTTP address of `/metrics`, `/metrics/catalogue`, `/healthz` and `/readyz`; the default is 127.0.0.1:9464,
and port 0 takes a free port and logs it. A port in use is an error at startup, so a second server on a machine needs an address of its own.
`--metrics-tls` serves them with the server's certificate, which allows scraping from other machines. `--metrics-keys` requires an API key of the
scope `metrics` for scrapes, but not for probes.

`--push-gateway URL` also pushes to a Pushgateway. The default group is `job=omni`, `instance=HOST:PORT` of the served address. The server deletes
its group at shutdown: with `--push-linger 30s` after the last push could be scraped, with `--push-keep` never. A label of the group
(`--push-grouping`) that a metric has is an error: the gateway would refuse the group sooner or later, or overwrite the label. Names and passwords in the URL are
percent-encoded. Other users of the machine can read the command line: put a URL with a password into `OMNI_PUSH_GATEWAY`, or a token into a file
(`--push-token-file`).

`omni-server metrics list` prints the families that the flags before it select, `omni-server metrics catalogue` prints the catalogue as JSON.

A scraper whose `Accept` header prefers `application/openmetrics-text`, as Prometheus does, gets OpenMetrics 1.0. Histograms that are recorded at the
end of a traced request then have its trace id as an exemplar, the latest per bucket. TorchServe's counters without `_total` have the type `unknown` there.

`--log-stats-interval TIME` is the interval of the statistics in the log (5 s, vLLM's `VLLM_LOG_STATS_INTERVAL`): a line for every replica
through which something went, at level debug for the others. `--log-request-tables` adds a table per request and edge. `--metrics-buckets
SET=BOUND,...` replaces a bucket set (vLLM's `--custom-histogram-buckets`). With `--log-stats off` only the process families remain.

`promtool check metrics` accepts all families. It remarks on three inherited habits: colons, units abbreviated in names (`_s`), and TorchServe's
capitals and bare counters.

## Custom metrics

A file declares custom metrics (`--metrics-config FILE`, in TorchServe's format), or callers declare them over gRPC with `--metrics-service on`:
`omni.v1.MetricsService` has `Declare`, `Record` (a stream of samples; each message is answered with the rejected samples, their indices and
reasons) and `List`. The server serves and pushes them with its own. The service is off by default, because any caller could then write what
operators see. With `--metrics-auto-declare`, the first sample of a metric declares it if it has kind and unit; otherwise samples of undeclared
metrics are rejected.

A sample may name the request that it was measured for (`request_id`). Lines of the log mode carry that name; labels do not.

Rejected samples have a typed reason and are recorded nowhere: another kind or unit than declared; missing, extra or duplicate labels; non-finite
values; decreasing counters; and anything beyond the limits: 256 custom metrics, 16 labels and 64 bounds each, 256 label sets each and 32768 series in
all (a label set of a histogram is a series for each bound and three more), names of 128 bytes, label values of 256, 1000 samples and 256 KiB in a message, 64 recording calls at once. Names that begin with `vllm:` or
`vllm_omni:` are reserved. A metric and its series stay until the server ends. There is no kind `summary`: quantiles of several servers cannot
be joined, and those of a histogram can.

## Deliberate differences from vLLM

* Aborted requests are counted: in `vllm:request_success_total{finished_reason=\"abort\"}`, and in the latency families of the phases they reached.
* Prefill and inference begin when a request is first scheduled. A preemption is part of the interval it interrupts.
* Queue time is never negative.
* `finished_reason` has vLLM's values. `repetition` is an answer that was stopped because it repeated itself, for its engine and for the
  pipeline. Engines also have `error`; the pipeline counts every failure as `abort`, and `vllm:omni_requests_failed_total` has the causes.
* Request times begin when there is work: when text makes a sentence or is flushed, or with the request for an answer. `vllm:omni_text_wait_s`
  has the time in which callers write; pipeline latencies do not. Engine inter-token latencies of a sequence include the waits for its text.
* `vllm:omni_audio_rtf` is wall-clock time from the hand-over of a request to the last output of the last stage, over playing time. It excludes waits
  for text and for a listener without room (`max_lead`, a slow reader). The response field `real_time_factor` is processor time.
* `vllm:omni_requests_failed_total` has the responsible party: only `stage_error` and `unknown` are server failures. A request rejected for its
  content is a `client_error`, and one that is refused because a stage is down, restarted or not loaded yet a `stage_error`. Rejections for lack of capacity or quota are in `vllm:admission_rejections_total` only. Calls without a valid key
  are in `grpc_server_handled_total` and `http_requests_total` only.
* An aborted request counts the tokens that its session received; its engine may have produced more.
* Transfers are measured at the edge, per message: between stages, and between calls (`session`) and stages. Nothing is encoded within one process:
  sending is measuring and reserving room, receiving is releasing it. A prompt passes no edge; it is part of the job.
* `vllm:prompt_tokens_total` of the talker counts the tokens before its first frame (voice, template and the first text); it reads later text
  at one token per frame. The encoder counts audio frames. `vllm:omni_prompt_tokens_total` has the text tokens.
* `vllm:mm_cache_*` count recordings: one query per recording of a conversation that is answered, a hit if its encoding is cached.
* Audio families cover unary and streaming calls, aborted requests included. Audio that is handed over in one piece (WAV by HTTP that is not
  streamed, Riva's `Synthesize`, the speech socket without `stream_audio`, a chat completion that is not streamed) has no packets: it is in no
  family of first packets and gaps, as in vLLM-Omni, and no alert on those is about it. `vllm:omni_e2e_request_latency_s` has how long it took.
* Inaudible audio is in `vllm:omni_audio_silent_requests_total`, by cause, and in no family of gaps. It counts as a request that ended well.
* What no replica did (the silence of a text without a letter) is counted at the first replica of the stage, and at `replica=\"none\"` if there is none.
* The series of a replica that was removed stay for two minutes, so that every reader sees its last counts, and go then; those of more than eight
  removed replicas of a stage go at once. A replica that joins again begins at 0 after that.
* The deadline of a caller is `client_abort`, also where the caller's cancel comes a moment before it.
* `stage_type` is `llm` or `generation`.
* A pipeline request is an utterance, or an answer with its speech. An engine request is a sequence, which for the talker is a sentence. The
  first sequence of an utterance arrives when it can be spoken, a later one when it begins.
* code2wav has no prompts and no KV cache: its tokens are decoded codec frames, its outputs are chunks.
* Sequences on a replica that dies count as `error` in its engine families. Their retries count there again, and once in the pipeline families.
  Nothing is known of their course: they are in `request_success_total` and `e2e_request_latency_seconds`, and in no other histogram.
* Warm-up is not counted. Counting begins with the first call.
* Replicas in processes (`placement: process`) have the same families with the same meaning. Figures that a process did not report before it died
  are lost, but every sequence it accepted is counted once, those that died with it included.
";

impl Catalogue {
    /// The documentation of every family, as Markdown.
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
