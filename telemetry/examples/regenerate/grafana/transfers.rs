//! What passes between stages.

use super::model::{Dashboard, OF_REPLICA, Panel, Row, heatmap, lines, row, stat, table};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "omni-transfers",
        title: "Omni / Transfers",
        about: "Messages between stages, and between calls (session) and stages: how many, how large, how long under way. Stage and replica above choose the sender.",
        variables: OF_REPLICA,
        rows: vec![all(), by_edge(), distributions()],
    }
}

const SIZE: &str = "vllm:omni_transfer_size_bytes";
const TX: &str = "vllm:omni_transfer_tx_s";
const RX: &str = "vllm:omni_transfer_rx_s";
const IN_FLIGHT: &str = "vllm:omni_transfer_in_flight_s";

/// Edges by their ids: from stage/replica to stage/replica.
const EDGE: &str = "{{from_stage}}/{{from_replica}} to {{to_stage}}/{{to_replica}}";
const BY_EDGE: &str = "from_stage, from_replica, to_stage, to_replica";

fn all() -> Row {
    let panels = vec![
        stat("Messages", "cps")
            .about("Messages between stages per second.")
            .query("messages", &format!("sum(rate({SIZE}_count{{@edge}}[@rate]))"))
            .wide(6),
        stat("Bytes", "Bps")
            .about("Encoded payload between stages per second.")
            .query("bytes", &format!("sum(rate({SIZE}_sum{{@edge}}[@rate]))"))
            .wide(6),
        stat("Under way p95", "s")
            .about("From the end of sending to the start of receiving. Long means that the receiver is busy or far away.")
            .quantile(0.95, IN_FLIGHT, "@edge")
            .limits(0.05, 0.25)
            .wide(6),
        stat("Size p95", "bytes")
            .about("Encoded size of a message.")
            .quantile(0.95, SIZE, "@edge")
            .wide(6),
        table("Stages")
            .about("What stands behind the ids of stages and replicas below.")
            .query("", "vllm:omni_stage_info{@model}"),
    ];
    row("All edges", panels)
}

fn quantile_by_edge(panel: Panel, family: &str) -> Panel {
    panel.query(
        EDGE,
        &format!("histogram_quantile(0.95, sum by (le, {BY_EDGE}) (rate({family}_bucket{{@edge}}[@rate])))"),
    )
}

fn by_edge() -> Row {
    let panels = vec![
        lines("Messages by edge", "cps")
            .about("Messages per second, by sender and receiver as stage/replica.")
            .query(
                EDGE,
                &format!("sum by ({BY_EDGE}) (rate({SIZE}_count{{@edge}}[@rate]))"),
            ),
        lines("Bytes by edge", "Bps")
            .about("Encoded payload per second.")
            .query(
                EDGE,
                &format!("sum by ({BY_EDGE}) (rate({SIZE}_sum{{@edge}}[@rate]))"),
            ),
        lines("Mean size by edge", "bytes")
            .about("Encoded size of a message.")
            .query(
                EDGE,
                &format!(
                    "sum by ({BY_EDGE}) (rate({SIZE}_sum{{@edge}}[@rate])) / sum by ({BY_EDGE}) (rate({SIZE}_count{{@edge}}[@rate]))"
                ),
            ),
        quantile_by_edge(
            lines("Sending p95 by edge", "s").about("The sender's part: encoding and hand-over."),
            TX,
        ),
        quantile_by_edge(
            lines("Under way p95 by edge", "s")
                .about("From the end of sending to the start of receiving. Grows when the receiver falls behind."),
            IN_FLIGHT,
        ),
        quantile_by_edge(
            lines("Receiving p95 by edge", "s").about("The receiver's part: taking and decoding."),
            RX,
        ),
    ];
    row("By edge", panels)
}

fn distributions() -> Row {
    let panels = vec![
        lines("Parts of a hop", "s")
            .about("Mean time of each part, over all messages.")
            .query("sending", &mean(TX))
            .query("under way", &mean(IN_FLIGHT))
            .query("receiving", &mean(RX)),
        heatmap("Times under way", "s", IN_FLIGHT, "@edge")
            .about("How many messages were under way how long."),
        heatmap("Sizes", "bytes", SIZE, "@edge").about("How many messages were how large."),
    ];
    row("Distributions", panels)
}

fn mean(family: &str) -> String {
    format!("sum(rate({family}_sum{{@edge}}[@rate])) / sum(rate({family}_count{{@edge}}[@rate]))")
}
