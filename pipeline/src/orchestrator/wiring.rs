//! Which stages of a graph a request passes, found once when the pipeline is made.

use omni_engine::{GraphError, StageGraph};

/// Places of stages in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wiring {
    /// The stages that speech passes, from the one that reads text to the one that gives audio; at least two.
    pub(super) speech: Vec<usize>,
    /// The stage that encodes the recordings of voices for the first of them.
    pub(super) speaker: Option<usize>,
    /// The stage that answers conversations.
    pub(super) answers: Option<usize>,
    /// The stage that encodes the recordings of conversations.
    pub(super) hears: Option<usize>,
}

/// Why no pipeline can be made of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WiringError {
    /// It contradicts itself.
    #[error("the stage graph cannot be run: {0}")]
    Graph(#[from] GraphError),
    /// Speech passes fewer than two stages.
    #[error("speech passes the stages [{}], expected one that reads text and one behind it that gives audio", .0.join(", "))]
    Speech(Vec<&'static str>),
}

impl Wiring {
    pub(super) fn of(graph: &StageGraph) -> Result<Self, WiringError> {
        graph.check()?;
        let place = |name: &str| graph.stages.iter().position(|stage| stage.name == name);
        let path = graph.speech();
        if path.len() < 2 {
            return Err(WiringError::Speech(path.iter().map(|stage| stage.name).collect()));
        }
        let encoder = |reader: &str| graph.encoder(reader).and_then(|stage| place(stage.name));
        let answers = graph.answers();
        Ok(Self {
            speaker: encoder(path[0].name),
            speech: path.iter().filter_map(|stage| place(stage.name)).collect(),
            hears: answers.and_then(|stage| encoder(stage.name)),
            answers: answers.and_then(|stage| place(stage.name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use omni_engine::{Delivery, PayloadKind, Port, StageEdge, StageKind, StageNode};

    use super::*;

    fn node(name: &'static str, kind: StageKind) -> StageNode {
        StageNode {
            name,
            kind,
            shares_prefixes: false,
        }
    }

    fn edge(from: Port, to: Port, payload: PayloadKind) -> StageEdge {
        let delivery = match payload {
            PayloadKind::Prompt | PayloadKind::Recording | PayloadKind::Embedding => Delivery::Whole,
            PayloadKind::Text | PayloadKind::Frames | PayloadKind::Audio => Delivery::STREAM,
        };
        StageEdge {
            from,
            to,
            payload,
            delivery,
        }
    }

    fn graph(stages: Vec<StageNode>, edges: Vec<StageEdge>) -> StageGraph {
        StageGraph {
            family: "test",
            stages: Cow::Owned(stages),
            edges: Cow::Owned(edges),
        }
    }

    #[test]
    fn a_chain_of_frames_is_passed_in_the_order_of_its_edges_wherever_its_stages_stand() {
        use {PayloadKind as P, Port::Session, Port::Stage};
        let graph = graph(
            vec![
                node("sound", StageKind::Chunk),
                node("voice", StageKind::OneShot),
                node("text", StageKind::Autoregressive),
                node("detail", StageKind::Chunk),
            ],
            vec![
                edge(Session, Stage("voice"), P::Recording),
                edge(Stage("voice"), Stage("text"), P::Embedding),
                edge(Stage("detail"), Stage("sound"), P::Frames),
                edge(Session, Stage("text"), P::Text),
                edge(Stage("text"), Stage("detail"), P::Frames),
                edge(Stage("sound"), Session, P::Audio),
            ],
        );
        let expected = Wiring {
            speech: vec![2, 3, 0],
            speaker: Some(1),
            answers: None,
            hears: None,
        };
        assert_eq!(Wiring::of(&graph), Ok(expected));
    }

    #[test]
    fn a_graph_that_speaks_with_one_stage_is_refused_by_name() {
        use {PayloadKind as P, Port::Session, Port::Stage};
        let graph = graph(
            vec![node("all", StageKind::Autoregressive)],
            vec![
                edge(Session, Stage("all"), P::Text),
                edge(Stage("all"), Session, P::Audio),
            ],
        );
        let error = Wiring::of(&graph).unwrap_err();
        assert!(error.to_string().contains("[all]"), "{error}");
    }
}
