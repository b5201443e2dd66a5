//! Stages of a graph that a request passes, looked up once when the pipeline is made.

use omni_engine::{GraphError, StageGraph, StageKind};

use crate::item::ItemKind;

/// Places of stages in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wiring {
    /// The stages that speech passes, from the one that reads text to the one that gives audio; at least one.
    pub(super) speech: Vec<usize>,
    /// Items that each of them gives.
    pub(super) gives: Vec<ItemKind>,
    /// `true` if the first of them gets its text as a part of its request.
    pub(super) whole_text: bool,
    /// `true` if the first of them generates on behind codec frames that it is given, and the next one decodes these.
    pub(super) continues: bool,
    /// The stage that encodes the recordings of voices for the first of them.
    pub(super) speaker: Option<usize>,
    /// The stage that answers conversations.
    pub(super) answers: Option<usize>,
    /// The stage that encodes the recordings of conversations.
    pub(super) hears: Option<usize>,
}

impl Wiring {
    pub(super) fn of(graph: &StageGraph) -> Result<Self, GraphError> {
        graph.check()?;
        let place = |name: &str| graph.stages.iter().position(|stage| stage.name == name);
        let path = graph.speech();
        let encoder = |reader: &str| graph.encoder(reader).and_then(|stage| place(stage.name));
        let answers = graph.answers();
        let mut gives: Vec<_> = graph.passed().map(ItemKind::from).collect();
        gives.push(ItemKind::Audio);
        Ok(Self {
            speaker: encoder(path[0].name),
            speech: path.iter().filter_map(|stage| place(stage.name)).collect(),
            whole_text: graph.takes_whole_text(),
            continues: gives == [ItemKind::Frames, ItemKind::Audio]
                && path[0].kind == StageKind::Autoregressive,
            gives,
            hears: answers.and_then(|stage| encoder(stage.name)),
            answers: answers.and_then(|stage| place(stage.name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use omni_engine::{Delivery, PayloadKind, Port, StageEdge, StageNode};

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
            _ => Delivery::STREAM,
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
                edge(Stage("detail"), Stage("sound"), P::Latents),
                edge(Session, Stage("text"), P::Text),
                edge(Stage("text"), Stage("detail"), P::Frames),
                edge(Stage("sound"), Session, P::Audio),
            ],
        );
        let expected = Wiring {
            speech: vec![2, 3, 0],
            gives: vec![ItemKind::Frames, ItemKind::Latents, ItemKind::Audio],
            whole_text: false,
            continues: false,
            speaker: Some(1),
            answers: None,
            hears: None,
        };
        assert_eq!(Wiring::of(&graph), Ok(expected));
    }

    const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];
    const KINDS: [StageKind; 3] = [StageKind::Autoregressive, StageKind::Chunk, StageKind::OneShot];
    const PAYLOADS: [PayloadKind; 7] = [
        PayloadKind::Prompt,
        PayloadKind::Text,
        PayloadKind::Frames,
        PayloadKind::Latents,
        PayloadKind::Audio,
        PayloadKind::Recording,
        PayloadKind::Embedding,
    ];
    const DELIVERIES: [Delivery; 3] = [
        Delivery::Whole,
        Delivery::STREAM,
        Delivery::Stream { look_ahead: 2 },
    ];

    /// A valid graph: speech by `path` stages of which the first is of that kind, with or without a stage that knows
    /// voices, and one that answers.
    fn sound(first: StageKind, path: usize, knows: bool, answers: bool) -> StageGraph {
        use {PayloadKind as P, Port::Session, Port::Stage};
        let mut stages = vec![node(NAMES[0], first)];
        stages.extend(NAMES[1..path].iter().map(|name| node(name, StageKind::Chunk)));
        let mut text = edge(Session, Stage(NAMES[0]), P::Text);
        if first == StageKind::OneShot {
            text.delivery = Delivery::Whole;
        }
        let frames = if first == StageKind::Autoregressive {
            P::Frames
        } else {
            P::Latents
        };
        let mut edges = vec![text, edge(Stage(NAMES[path - 1]), Session, P::Audio)];
        edges.extend(
            NAMES[..path]
                .windows(2)
                .map(|pair| edge(Stage(pair[0]), Stage(pair[1]), frames)),
        );
        if knows {
            stages.push(node("four", StageKind::OneShot));
            edges.push(edge(Session, Stage("four"), P::Recording));
            edges.push(edge(Stage("four"), Stage(NAMES[0]), P::Embedding));
        }
        if answers {
            stages.push(node("five", StageKind::Autoregressive));
            edges.push(edge(Session, Stage("five"), P::Prompt));
            edges.push(edge(Stage("five"), Session, P::Text));
        }
        graph(stages, edges)
    }

    /// Changes a graph at random: numbers select the change, its place and its values.
    fn change(graph: &mut StageGraph, [what, at, a, b, c]: [usize; 5]) {
        let port = |n: usize| NAMES.get(n % 7).map_or(Port::Session, |name| Port::Stage(name));
        let stages = graph.stages.to_mut();
        let edges = graph.edges.to_mut();
        let any = StageEdge {
            from: port(a),
            to: port(b),
            payload: PAYLOADS[c % 7],
            delivery: DELIVERIES[at % 3],
        };
        let stage = at % stages.len().max(1);
        let at = at % edges.len().max(1);
        match what % 8 {
            0 => edges.push(any),
            1 => edges[at] = any,
            2 if !edges.is_empty() => _ = edges.remove(at),
            3 if !edges.is_empty() => edges[at].payload = any.payload,
            4 if !edges.is_empty() => edges[at].delivery = DELIVERIES[c % 3],
            5 if !stages.is_empty() => stages[stage].kind = KINDS[a % 3],
            6 => stages.push(node(NAMES[a % 5], KINDS[b % 3])),
            _ if stages.len() > 1 => _ = stages.remove(stage),
            _ => {}
        }
    }

    /// Edges of a graph that attempts open, as writer, reader and payload.
    fn passed(wiring: &Wiring, graph: &StageGraph) -> Vec<(Port, Port, PayloadKind)> {
        use {PayloadKind as P, Port::Session, Port::Stage};
        let at = |place: usize| Stage(graph.stages[place].name);
        let path = &wiring.speech;
        let mut passed = vec![(Session, at(path[0]), P::Text)];
        passed.extend(path.windows(2).zip(&wiring.gives).map(|(pair, gives)| {
            let payload = if *gives == ItemKind::Latents {
                P::Latents
            } else {
                P::Frames
            };
            (at(pair[0]), at(pair[1]), payload)
        }));
        passed.push((at(path[path.len() - 1]), Session, P::Audio));
        if let Some(answers) = wiring.answers {
            passed.push((Session, at(answers), P::Prompt));
            passed.push((at(answers), Session, P::Text));
            // By the session, which shows it.
            passed.push((at(answers), at(path[0]), P::Text));
        }
        for (encoder, reader) in [(wiring.speaker, Some(path[0])), (wiring.hears, wiring.answers)] {
            if let Some((encoder, reader)) = encoder.zip(reader) {
                passed.push((Session, at(encoder), P::Recording));
                passed.push((at(encoder), at(reader), P::Embedding));
            }
        }
        passed
    }

    /// True if a stage of that kind does what its part in requests asks of it.
    fn does(kind: StageKind, nth: usize, part: &str) -> bool {
        match part {
            "speech" => nth == 0 || kind != StageKind::OneShot,
            "encodes" => kind == StageKind::OneShot,
            _ => kind == StageKind::Autoregressive,
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(4096))]

        #[test]
        fn what_is_accepted_is_run_as_it_is_declared_and_what_is_refused_is_named(
            first in 0_usize..3,
            (path, knows, answers) in (1_usize..=3, proptest::bool::ANY, proptest::bool::ANY),
            changes in proptest::collection::vec(proptest::array::uniform5(0_usize..64), 0..4),
        ) {
            let mut graph = sound(KINDS[first], path, knows, answers);
            changes.iter().for_each(|numbers| change(&mut graph, *numbers));
            match Wiring::of(&graph) {
                Ok(wiring) => {
                    let kind = |place: usize| graph.stages[place].kind;
                    assert!(wiring.speech.len() == wiring.gives.len(), "{graph:?}");
                    assert_eq!(wiring.gives.last(), Some(&ItemKind::Audio), "{graph:?}");
                    let first = kind(wiring.speech[0]);
                    assert_eq!(wiring.whole_text, first == StageKind::OneShot, "{graph:?}");
                    for (nth, place) in wiring.speech.iter().enumerate() {
                        assert!(does(kind(*place), nth, "speech"), "{graph:?}");
                    }
                    let encoders = [wiring.speaker, wiring.hears];
                    assert!(encoders.iter().flatten().all(|place| does(kind(*place), 0, "encodes")), "{graph:?}");
                    assert!(wiring.answers.iter().all(|place| does(kind(*place), 0, "answers")), "{graph:?}");
                    let used = [&wiring.speech[..], &[wiring.answers, wiring.speaker, wiring.hears].into_iter().flatten().collect::<Vec<_>>()].concat();
                    assert!((0..graph.stages.len()).all(|place| used.contains(&place)), "a stage gets no work: {graph:?}");
                    assert!(used.iter().enumerate().all(|(nth, place)| !used[..nth].contains(place)), "a stage has two parts: {graph:?}");
                    let passed = passed(&wiring, &graph);
                    for edge in &*graph.edges {
                        assert!(passed.contains(&(edge.from, edge.to, edge.payload)), "nothing passes {edge}: {graph:?}");
                        let reader = edge.to.stage().and_then(|name| graph.stage(name)).map(|stage| stage.kind);
                        let whole = match edge.payload {
                            PayloadKind::Prompt | PayloadKind::Recording | PayloadKind::Embedding => true,
                            PayloadKind::Text => reader == Some(StageKind::OneShot),
                            _ => false,
                        };
                        let honoured = reader == Some(StageKind::Chunk) && wiring.speech.len() > 1;
                        assert!(edge.delivery.look_ahead() == 0 || honoured, "{edge}: {graph:?}");
                        assert_eq!(edge.delivery == Delivery::Whole, whole, "{edge}: {graph:?}");
                    }
                }
                Err(error) => {
                    let said = error.to_string();
                    let named = NAMES.iter().any(|name| said.contains(name));
                    assert!(named || said.contains("the session"), "{said}: {graph:?}");
                }
            }
        }
    }

    #[test]
    fn what_the_changes_begin_with_can_be_run() {
        for (first, path) in KINDS
            .iter()
            .flat_map(|first| [1, 2, 3].map(|path| (*first, path)))
        {
            for (knows, answers) in [(false, false), (true, false), (false, true), (true, true)] {
                let wiring = Wiring::of(&sound(first, path, knows, answers));
                assert!(wiring.is_ok(), "{first} {path} {knows} {answers}: {wiring:?}");
            }
        }
    }
}
