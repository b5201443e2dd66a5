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
127.0.0.1:9464. A port that is taken stops the start with an error that says so: a second server on a machine needs an address of
its own, and port 0 takes a free one and logs it. `--push-gateway URL` pushes them to a Pushgateway as well; by default the group is
`job=omni`, `instance=HOST:PORT` of the address that is served, and is deleted when the server ends. A URL with a password on
the command line can be read by other users of the machine: put it in `OMNI_PUSH_GATEWAY`, or a token in a file
(`--push-token-file`). `omni-server metrics list` prints what is served with the flags before it, `omni-server metrics catalogue` all
that is known of it as JSON.

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
* Sizes and times of transfers are measured at the edge, per message. They are not zeros.
* Audio families cover unary calls as well as streams, and requests that were aborted.
* `stage_type` is `llm` or `generation`.
* A request is an utterance, or an answer with its speech. To an engine, every sequence is one: a sentence to the talker. The first
  sequence of an utterance arrived with its first text, a later one when it was begun.
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
