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
    let say = Port::Stage("say");
    let sound = Port::Stage("sound");
    let who = Port::Stage("who");
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

/// A voice that computes the latents of a whole text at once, for a vocoder that needs `look_ahead` of them.
fn latents(look_ahead: u32) -> StageGraph {
    let say = Port::Stage("say");
    let sound = Port::Stage("sound");
    let ahead = Delivery::Stream { look_ahead };
    StageGraph {
        family: "latents",
        stages: vec![node("say", StageKind::OneShot), SOUND].into(),
        edges: vec![
            edge(Port::Session, say, PayloadKind::Text, Delivery::Whole),
            edge(say, sound, PayloadKind::Latents, ahead),
            edge(sound, Port::Session, PayloadKind::Audio, Delivery::STREAM),
        ]
        .into(),
    }
}

#[test]
fn a_voice_may_begin_with_a_whole_text_and_pass_latents() {
    for look_ahead in [0, 27, u32::MAX] {
        let graph = latents(look_ahead);
        assert_eq!(graph.check(), Ok(()));
        assert!(graph.takes_whole_text());
        assert_eq!(graph.passed().collect::<Vec<_>>(), [PayloadKind::Latents]);
        assert_eq!(
            graph.upstream("sound").map(|edge| edge.delivery.look_ahead()),
            Some(look_ahead)
        );
    }
    assert!(!clones().takes_whole_text());
}

#[test]
fn a_voice_may_be_one_stage_of_any_kind() {
    for kind in [StageKind::Autoregressive, StageKind::Chunk, StageKind::OneShot] {
        let mut graph = latents(0);
        graph.stages.to_mut().truncate(1);
        graph.stages.to_mut()[0].kind = kind;
        let say = Port::Stage("say");
        let text = if kind == StageKind::OneShot {
            Delivery::Whole
        } else {
            Delivery::STREAM
        };
        *graph.edges.to_mut() = vec![
            edge(Port::Session, say, PayloadKind::Text, text),
            edge(say, Port::Session, PayloadKind::Audio, Delivery::STREAM),
        ];
        assert_eq!(graph.check(), Ok(()), "{kind}");
        assert_eq!((graph.speech().len(), graph.passed().count()), (1, 0));
    }
}

#[test]
fn a_graph_without_a_stage_has_no_edges_to_it() {
    let graph = clones().only(|stage| stage.name != "who");
    assert_eq!(graph.check(), Ok(()));
    assert_eq!((graph.stages.len(), graph.edges.len()), (2, 3));
}

/// A graph that answers, too: what hears for it is not what knows voices.
fn answers() -> StageGraph {
    let think = Port::Stage("think");
    let hear = Port::Stage("hear");
    let mut graph = clones();
    graph.stages.to_mut().extend([
        node("think", StageKind::Autoregressive),
        node("hear", StageKind::OneShot),
    ]);
    graph.edges.to_mut().extend([
        edge(Port::Session, think, PayloadKind::Prompt, Delivery::Whole),
        edge(Port::Session, hear, PayloadKind::Recording, Delivery::Whole),
        edge(hear, think, PayloadKind::Embedding, Delivery::Whole),
        edge(think, Port::Session, PayloadKind::Text, Delivery::STREAM),
    ]);
    graph
}

#[test]
fn what_cannot_be_run_is_refused_by_stage_and_edge() {
    use Delivery::Whole;
    use PayloadKind::{Audio, Embedding, Frames, Latents, Prompt, Recording, Text};
    use Port::Session;
    use StageKind::{Autoregressive, Chunk, OneShot};
    const STREAM: Delivery = Delivery::STREAM;
    assert_eq!(answers().check(), Ok(()));
    let at = Port::Stage;
    let say = at("say");
    let sound = at("sound");
    let who = at("who");
    let think = at("think");
    let hear = at("hear");
    let more = at("more");
    type Change<'a> = &'a dyn Fn(&mut Vec<StageNode>, &mut Vec<StageEdge>);
    let cases: &[(Change<'_>, &str)] = &[
        (&|stages, _| stages.push(SAY), "stage say is declared twice"),
        (
            &|stages, _| stages[2].name = "other",
            "stage other has no input or no output",
        ),
        (
            &|stages, _| _ = stages.remove(2),
            "recordings from the session to stage who: there is no stage who",
        ),
        (
            &|_, edges| edges.push(edge(sound, say, Text, STREAM)),
            "stage say waits for its own output",
        ),
        (
            &|_, edges| edges.retain(|edge| edge.payload != Audio),
            "stage sound has no input or no output",
        ),
        (
            &|_, edges| edges.push(edge(say, Session, Audio, STREAM)),
            "the stages [sound, say] give audio to the session, expected one",
        ),
        (
            &|_, edges| edges[4] = edge(sound, Session, Text, STREAM),
            "no stage gives audio to the session, expected one",
        ),
        (
            &|_, edges| edges[2] = edge(Session, say, Text, Delivery::Stream { look_ahead: 1 }),
            "text from the session to stage say: the delivery is Stream { look_ahead: 1 }, expected a stream",
        ),
        // What the last stage of speech takes whole would never reach it.
        (
            &|_, edges| edges[3] = edge(say, sound, Frames, Whole),
            "codec frames from stage say to stage sound: the delivery is Whole, expected a stream",
        ),
        (
            &|stages, edges| {
                stages[1].kind = OneShot;
                edges[3] = edge(say, sound, Frames, Whole);
            },
            "codec frames from stage say to stage sound: stage sound is one-shot, expected an autoregressive or a chunk stage",
        ),
        (
            &|_, edges| edges[4] = edge(sound, Session, Audio, Whole),
            "audio from stage sound to the session: the delivery is Whole",
        ),
        (
            &|_, edges| edges[0] = edge(Session, who, Recording, STREAM),
            "recordings from the session to stage who: the delivery is Stream { look_ahead: 0 }, expected whole",
        ),
        (
            &|stages, _| stages[0].kind = OneShot,
            "text from the session to stage say: the delivery is Stream { look_ahead: 0 }, expected a stream without look-ahead, or whole where",
        ),
        (
            &|_, edges| edges[2] = edge(Session, say, Text, Whole),
            "text from the session to stage say: the delivery is Whole, expected a stream without look-ahead, or whole where",
        ),
        (
            &|stages, _| stages[3].kind = Chunk,
            "prompts from the session to stage think: stage think is chunk, expected an autoregressive stage",
        ),
        (
            &|stages, _| stages[2].kind = Autoregressive,
            "recordings from the session to stage who: stage who is autoregressive, expected a one-shot stage",
        ),
        // Two encoders for one reader, two writers of frames for one reader: the second would never get work.
        (
            &|stages, edges| {
                stages.push(node("more", OneShot));
                edges.extend([
                    edge(Session, more, Recording, Whole),
                    edge(more, say, Embedding, Whole),
                ]);
            },
            "there are embeddings from stage who to stage say and embeddings from stage more to stage say, expected one",
        ),
        (
            &|stages, edges| {
                stages.push(node("more", Autoregressive));
                edges.extend([
                    edge(Session, more, Text, STREAM),
                    edge(more, sound, Frames, STREAM),
                ]);
            },
            "there are codec frames from stage say to stage sound and codec frames from stage more to stage sound",
        ),
        (
            &|stages, edges| {
                stages.push(node("more", Autoregressive));
                edges.extend([
                    edge(Session, more, Prompt, Whole),
                    edge(more, Session, Text, STREAM),
                ]);
            },
            "there are prompts from the session to stage think and prompts from the session to stage more",
        ),
        // Frames for a stage from which no audio comes, text for one that does not speak.
        (
            &|stages, edges| {
                stages.push(node("more", Chunk));
                edges.extend([
                    edge(say, more, Frames, STREAM),
                    edge(more, Session, Frames, STREAM),
                ]);
            },
            "codec frames from stage say to stage more: no request passes this edge",
        ),
        (
            &|stages, edges| {
                stages.push(node("more", Autoregressive));
                edges.extend([
                    edge(Session, more, Text, STREAM),
                    edge(more, Session, Text, STREAM),
                ]);
            },
            "text from the session to stage more: no request passes this edge",
        ),
        (
            &|stages, edges| {
                stages.push(node("more", OneShot));
                edges.extend([
                    edge(Session, more, Recording, Whole),
                    edge(more, think, Prompt, Whole),
                ]);
            },
            "there are prompts from the session to stage think and prompts from stage more to stage think, expected one",
        ),
        (
            &|_, edges| edges.push(edge(Session, say, Prompt, Whole)),
            "there are prompts from the session to stage think and prompts from the session to stage say",
        ),
        (
            &|_, edges| {
                edges.retain(|edge| edge.to != think || edge.payload != Prompt);
                edges.push(edge(Session, say, Prompt, Whole));
            },
            "stage say takes prompts and speaks",
        ),
        (
            &|_, edges| edges.retain(|edge| (edge.to, edge.payload) != (say, Text)),
            "the edge for text from the session to stage say is missing",
        ),
        (
            &|_, edges| {
                edges.retain(|edge| edge.from != think);
                edges.push(edge(think, say, Text, STREAM));
            },
            "the edge for text from stage think to the session is missing",
        ),
        // A stage in the middle of speech, or one that is no encoder, at an end of what an encoder passes.
        (
            &|_, edges| edges.push(edge(hear, sound, Embedding, Whole)),
            "embeddings from stage hear to stage sound: no request passes this edge",
        ),
        (
            &|stages, edges| {
                stages[0].kind = OneShot;
                edges[2] = edge(Session, say, Text, Whole);
                edges.push(edge(Session, say, Recording, Whole));
            },
            "recordings from the session to stage say: no request passes this edge",
        ),
        (
            &|stages, edges| {
                stages[0].kind = OneShot;
                edges[2] = edge(Session, say, Text, Whole);
                edges.retain(|edge| edge.from != hear && edge.to != hear);
                stages.pop();
                edges.push(edge(say, think, Embedding, Whole));
            },
            "embeddings from stage say to stage think: no request passes this edge",
        ),
        // Two kinds of frames for one reader: only one of them would be sent.
        (
            &|_, edges| edges.push(edge(say, sound, Latents, STREAM)),
            "there are codec frames from stage say to stage sound and latents from stage say to stage sound",
        ),
        (
            &|stages, edges| {
                stages[1].kind = OneShot;
                edges[3] = edge(say, sound, Latents, STREAM);
            },
            "latents from stage say to stage sound: stage sound is one-shot, expected an autoregressive or a chunk stage",
        ),
    ];
    for (change, expected) in cases {
        let mut graph = answers();
        change(graph.stages.to_mut(), graph.edges.to_mut());
        let said = graph.check().map_err(|error| error.to_string());
        let said = said.expect_err(expected);
        assert!(said.contains(expected), "{said:?} does not say {expected:?}");
    }
}
