//! Tables of requests and edges.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::stats::EdgeSums;
use crate::records::{EdgeEnd, RequestOutcome, RequestRecord};

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// One request, one line per stage.
pub(super) fn request(record: &RequestRecord) -> String {
    let outcome = match record.outcome {
        RequestOutcome::Stop => "stop",
        RequestOutcome::Length => "length",
        RequestOutcome::Repetition => "repetition",
        RequestOutcome::Failed(reason) => reason.label(),
    };
    let mut out = format!(
        "request {}: {outcome} after {:.1} ms",
        record.id,
        millis(record.latency)
    );
    if let Some(wait) = record.queue_wait {
        let _ = write!(out, ", of which {:.1} ms in the queue", millis(wait));
    }
    if let Some(wait) = record.text_wait.filter(|wait| !wait.is_zero()) {
        let _ = write!(out, "; {:.1} ms more were waits for its text", millis(wait));
    }
    if !record.stages.is_empty() {
        out.push_str("\nstage replica        type    gen ms   in  out");
    }
    for stage in &record.stages {
        let _ = write!(
            out,
            "\n{:>5} {:>7}  {:>10}  {:>8} {:>4} {:>4}",
            stage.replica.stage,
            stage.replica.replica,
            stage.kind.label(),
            stage
                .generation
                .map_or_else(|| "-".to_owned(), |time| format!("{:.1}", millis(time))),
            stage.tokens_in,
            stage.tokens_out
        );
    }
    out
}

/// Every edge that was used, one line each.
pub(super) fn edges(edges: &BTreeMap<(EdgeEnd, EdgeEnd), EdgeSums>) -> String {
    let mut out =
        String::from("edges\n from    to  hops      bytes  mean tx ms  mean in flight ms  mean rx ms");
    for ((from, to), sums) in edges {
        let mean = |sum: Duration| millis(sum) / sums.hops.max(1) as f64;
        let name = |end: &EdgeEnd| match end {
            EdgeEnd::Session => "call".to_owned(),
            EdgeEnd::Replica(replica) => format!("{}/{}", replica.stage, replica.replica),
        };
        let _ = write!(
            out,
            "\n{:>5} {:>5} {:>5} {:>10} {:>11.3} {:>18.3} {:>11.3}",
            name(from),
            name(to),
            sums.hops,
            sums.bytes,
            mean(sums.tx),
            mean(sums.in_flight),
            mean(sums.rx)
        );
    }
    out
}
