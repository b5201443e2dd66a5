//! The stages of every family, and what passes between them.

use std::borrow::Cow;

use omni_engine::{Delivery, PayloadKind, Port, StageEdge, StageGraph, StageKind, StageNode};

/// Families whose graphs are known, by name.
pub const FAMILIES: &[&str] = &["qwen3-omni"];

/// Graphs of [`FAMILIES`], in the same order.
pub static GRAPHS: &[&StageGraph] = &[&QWEN3_OMNI];

/// Name of the stage that writes the text of an answer.
pub const THINKER: &str = "thinker";
/// Name of the stage that turns text into codec frames.
pub const TALKER: &str = "talker";
/// Name of the stage that turns codec frames into samples.
pub const CODE2WAV: &str = "code2wav";
/// Name of the stage that turns a recording into rows of the thinker's prompt.
pub const ENCODER: &str = "encoder";

/// Names of the stages in other programs and papers.
const OTHER_NAMES: [(&str, &[&str]); 4] = [
    (
        THINKER,
        &[
            "llm",
            "lm",
            "language_model",
            "chat",
            "answerer",
            "brain",
            "text_model",
            "reasoner",
        ],
    ),
    (
        TALKER,
        &[
            "tts",
            "speaker",
            "speech",
            "speech_lm",
            "acoustic_model",
            "acoustic",
            "voice",
            "t2s",
        ],
    ),
    (
        CODE2WAV,
        &[
            "vocoder",
            "vocos",
            "decoder",
            "audio_decoder",
            "codec",
            "codec_decoder",
            "token2wav",
            "tokens2wav",
            "code2wave",
            "codes2wav",
            "detokenizer",
            "wav",
            "waveform",
            "synthesizer",
        ],
    ),
    (
        ENCODER,
        &[
            "asr",
            "stt",
            "audio",
            "audio_encoder",
            "audio_tower",
            "whisper",
            "hearing",
            "listener",
            "ear",
            "recognizer",
            "recogniser",
            "transcriber",
            "speech_encoder",
        ],
    ),
];

/// The stage probably meant by a word for its function, such as `vocoder`.
pub fn stage_meant(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase().replace(['-', ' '], "_");
    let known = OTHER_NAMES
        .iter()
        .find(|(_, others)| others.contains(&word.as_str()));
    known.map(|(stage, _)| *stage)
}

/// Qwen3-Omni. The thinker's text goes to the session, which shows it, and passes it on to the talker.
pub static QWEN3_OMNI: StageGraph = StageGraph {
    family: "qwen3-omni",
    stages: Cow::Borrowed(&[
        StageNode {
            name: THINKER,
            kind: StageKind::Autoregressive,
            shares_prefixes: true,
        },
        StageNode {
            name: TALKER,
            kind: StageKind::Autoregressive,
            // Its rows depend on text still to come: no two sequences share a prefix.
            shares_prefixes: false,
        },
        StageNode {
            name: CODE2WAV,
            kind: StageKind::Chunk,
            shares_prefixes: false,
        },
        StageNode {
            name: ENCODER,
            kind: StageKind::OneShot,
            shares_prefixes: false,
        },
    ]),
    edges: Cow::Borrowed(&[
        whole(Port::Session, Port::Stage(ENCODER), PayloadKind::Recording),
        whole(Port::Stage(ENCODER), Port::Stage(THINKER), PayloadKind::Embedding),
        whole(Port::Session, Port::Stage(THINKER), PayloadKind::Prompt),
        stream(Port::Stage(THINKER), Port::Session, PayloadKind::Text),
        stream(Port::Stage(THINKER), Port::Stage(TALKER), PayloadKind::Text),
        stream(Port::Session, Port::Stage(TALKER), PayloadKind::Text),
        stream(Port::Stage(TALKER), Port::Stage(CODE2WAV), PayloadKind::Frames),
        stream(Port::Stage(CODE2WAV), Port::Session, PayloadKind::Audio),
    ]),
};

const fn whole(from: Port, to: Port, payload: PayloadKind) -> StageEdge {
    StageEdge {
        from,
        to,
        payload,
        delivery: Delivery::Whole,
    }
}

const fn stream(from: Port, to: Port, payload: PayloadKind) -> StageEdge {
    StageEdge {
        from,
        to,
        payload,
        delivery: Delivery::STREAM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_graph_that_can_be_run() {
        let families: Vec<_> = GRAPHS.iter().map(|graph| graph.family).collect();
        assert_eq!(families, FAMILIES);
        for graph in GRAPHS {
            assert_eq!(graph.check(), Ok(()), "{}", graph.family);
        }
    }

    #[test]
    fn speech_needs_neither_the_thinker_nor_its_encoder() {
        let speech = QWEN3_OMNI.speech_only();
        let names: Vec<_> = speech.stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names, [TALKER, CODE2WAV]);
        assert_eq!(speech.check(), Ok(()));
        assert_eq!(QWEN3_OMNI.answers().map(|stage| stage.name), Some(THINKER));
        assert_eq!(QWEN3_OMNI.encoder(THINKER).map(|stage| stage.name), Some(ENCODER));
        assert_eq!(QWEN3_OMNI.encoder(TALKER), None);
    }
}
