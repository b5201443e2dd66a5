use super::*;

const fn node(name: &'static str, kind: StageKind) -> StageNode {
    StageNode {
        name,
        kind,
        shares_prefixes: false,
    }
}

const fn edge(from: Port, to: Port, payload: PayloadKind, delivery: Delivery) -> StageEdge {
    StageEdge {
        from,
        to,
        payload,
        delivery,
    }
}

const SAY: StageNode = node("say", StageKind::Autoregressive);
const SOUND: StageNode = node("sound", StageKind::Chunk);
const WHO: StageNode = node("who", StageKind::OneShot);

/// A voice that is cloned from a recording, and whose last stage looks two frames ahead; no conversations.
fn clones() -> StageGraph {
    let (say, sound, who) = (Port::Stage("say"), Port::Stage("sound"), Port::Stage("who"));
    StageGraph {
        family: "clones",
        stages: vec![SAY, SOUND, WHO].into(),
        edges: vec![
            edge(Port::Session, who, PayloadKind::Recording, Delivery::Whole),
            edge(who, say, PayloadKind::Embedding, Delivery::Whole),
            edge(Port::Session, say, PayloadKind::Text, Delivery::STREAM),
            edge(
                say,
                sound,
                PayloadKind::Frames,
                Delivery::Stream { look_ahead: 2 },
            ),
            edge(sound, Port::Session, PayloadKind::Audio, Delivery::STREAM),
        ]
        .into(),
    }
}

#[test]
fn a_voice_from_a_recording_and_a_last_stage_that_looks_ahead_can_be_said() {
    let graph = clones();
    assert_eq!(graph.check(), Ok(()));
    assert_eq!(graph.speech(), [&SAY, &SOUND]);
    assert_eq!(graph.answers(), None);
    assert_eq!(graph.encoder("say"), Some(&WHO));
    let upstream = graph.upstream("sound").unwrap();
    assert_eq!(upstream.delivery, Delivery::Stream { look_ahead: 2 });
    assert_eq!(graph.upstream("say"), None);
    assert_eq!(
        graph.speech_only(),
        graph,
        "the voice's recording is a part of speech"
    );
}

#[test]
fn a_graph_without_a_stage_has_no_edges_to_it() {
    let graph = clones().only(|stage| stage.name != "who");
    assert_eq!(graph.check(), Ok(()));
    assert_eq!((graph.stages.len(), graph.edges.len()), (2, 3));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let changed = |change: fn(&mut StageGraph)| {
        let mut graph = clones();
        change(&mut graph);
        graph.check().unwrap_err()
    };
    let (say, sound) = (Port::Stage("say"), Port::Stage("sound"));
    assert_eq!(changed(|g| g.stages.to_mut().push(SAY)), GraphError::Twice("say"));
    assert_eq!(
        changed(|g| g.stages.to_mut()[2].name = "other"),
        GraphError::Unconnected("other")
    );
    assert_eq!(
        changed(|g| _ = g.stages.to_mut().pop()),
        GraphError::Unknown("who")
    );
    let back = edge(sound, say, PayloadKind::Text, Delivery::STREAM);
    let mut graph = clones();
    graph.edges.to_mut().push(back);
    assert_eq!(graph.check(), Err(GraphError::Circle("say")));
    assert_eq!(
        changed(|g| _ = g.edges.to_mut().pop()),
        GraphError::Unconnected("sound")
    );
    let twice = edge(say, Port::Session, PayloadKind::Audio, Delivery::STREAM);
    let mut graph = clones();
    graph.edges.to_mut().push(twice);
    assert_eq!(graph.check(), Err(GraphError::Audio(2)));
    let ahead = edge(
        Port::Session,
        say,
        PayloadKind::Text,
        Delivery::Stream { look_ahead: 1 },
    );
    let mut graph = clones();
    graph.edges.to_mut()[2] = ahead;
    assert_eq!(graph.check(), Err(GraphError::Delivery(ahead)));
}
