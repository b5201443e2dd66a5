//! Settings of each stage of a graph: from those of the deploy file to those of `omni-pipeline`.

use std::time::Duration;

use omni_config::deploy::{ArStage, ChunkStage, Deploy, OneShotStage, Stage};
use omni_engine::{
    ArConfig, ChunkConfig, OneShotConfig, PayloadKind, Port, StageGraph, StageKind, StageNode, StreamOptions,
};
use omni_family::SpeechInfo;
use omni_pipeline::request::Sampling;
use omni_pipeline::stage::{EngineSettings, StageSettings, TurnTimeouts};

/// Unit of the cost of a recording.
const ENCODER_FRAME_MS: u128 = 10;

/// The settings of every stage of one graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages<'a> {
    pub(super) graph: &'a StageGraph,
    pub(super) deploy: &'a Deploy,
    pub(super) info: &'a SpeechInfo,
    /// Utterances worked on at once.
    pub(super) max_active: usize,
}

impl Stages<'_> {
    /// Settings of a stage.
    pub(super) fn settings(&self, node: &StageNode) -> StageSettings {
        let upstream = self.graph.upstream(node.name);
        let stall = self.deploy.stage(node.name).upstream_stall();
        StageSettings {
            mailbox: self.mailbox(node.name),
            upstream: upstream.and_then(|edge| edge.from.stage()).zip(stall),
            engine: match node.kind {
                StageKind::Autoregressive => {
                    let deploy = self.deploy.ar(node.name);
                    EngineSettings::Ar {
                        config: ar_config(deploy),
                        repetition: deploy.repetition(),
                    }
                }
                StageKind::Chunk => EngineSettings::Chunk {
                    config: chunk_config(self.deploy.chunk(node.name), self.info.frame_duration()),
                    options: StreamOptions {
                        unplayed_items: self.info.leading_silence_frames,
                        look_ahead: upstream.map_or(0, |edge| edge.delivery.look_ahead()),
                    },
                    samples_per_frame: self.info.samples_per_frame.0.get(),
                },
                StageKind::OneShot => {
                    EngineSettings::OneShot(one_shot_config(self.deploy.one_shot(node.name)))
                }
            },
        }
    }

    /// Most jobs waiting at a replica. Every utterance has at most two sequences in the stages of speech: the audible
    /// one and the next.
    fn mailbox(&self, stage: &str) -> usize {
        let speaks = self.graph.speech().iter().any(|node| node.name == stage);
        4 * if speaks { 2 } else { 1 } * self.max_active + 16
    }

    /// Outputs of one sequence that may wait for their reader; `audio` is how much of a listener's.
    pub(super) fn capacity(&self, node: &StageNode, audio: Duration) -> u32 {
        match node.kind {
            StageKind::Autoregressive => self.deploy.ar(node.name).output_capacity,
            StageKind::OneShot if self.graph.encodes(node.name) => 1,
            StageKind::Chunk | StageKind::OneShot => {
                let frames = audio.as_secs_f64() / self.info.frame_duration().as_secs_f64();
                // At least two, so that one can be made while one is read.
                (frames.ceil() as u32).max(2)
            }
        }
    }

    /// Time for which the stage that answers may give nothing once it has begun. A session stands for the stage that takes the answer's text
    /// from it.
    pub(super) fn answer_stall(&self, answers: &'static str) -> Duration {
        let mut readers = self.graph.readers(Port::Stage(answers), PayloadKind::Text);
        let stall = readers.find_map(|reader| self.deploy.stage(reader.name).upstream_stall());
        stall.unwrap_or(Duration::MAX)
    }
}

/// Time for which a replica of `stage` may be in a turn.
pub(super) fn timeouts(load: Duration, stage: &Stage) -> TurnTimeouts {
    TurnTimeouts {
        step: stage.step_timeout,
        load,
    }
}

fn ar_config(stage: &ArStage) -> ArConfig {
    ArConfig {
        max_num_seqs: stage.max_num_seqs,
        max_num_batched_tokens: stage.max_num_batched_tokens,
        max_prefill_tokens: stage.max_prefill_tokens,
        min_prefill_tokens: stage.min_prefill_tokens,
        max_model_len: stage.max_model_len.unwrap_or(u32::MAX),
        max_waiting: stage.max_waiting,
        max_waiting_tokens: stage.max_waiting_tokens,
        prefix_cache: stage.prefix_caching(),
        ..ArConfig::default()
    }
}

fn chunk_config(stage: &ChunkStage, frame: Duration) -> ChunkConfig {
    ChunkConfig {
        max_batch: stage.max_batch,
        max_batched_items: stage.max_batched_frames,
        max_streams: stage.max_streams,
        ramp: stage.ramp.clone(),
        item_duration: frame,
    }
}

fn one_shot_config(stage: &OneShotStage) -> OneShotConfig {
    let frames = |time: Duration| u32::try_from(time.as_millis() / ENCODER_FRAME_MS).unwrap_or(u32::MAX);
    OneShotConfig {
        max_batch: stage.max_batch,
        max_batch_cost: frames(stage.max_batched_audio).max(1),
        // How long a recording may be is the model's, and was checked when it came.
        max_cost: u32::MAX,
        max_waiting: stage.max_waiting,
        max_waiting_cost: frames(stage.max_waiting_audio).max(1),
    }
}

/// Default sampling of an autoregressive stage.
pub(super) fn sampling(stage: &ArStage) -> Sampling {
    Sampling {
        temperature: stage.temperature,
        top_p: stage.top_p,
        top_k: stage.top_k,
        repetition_penalty: stage.repetition_penalty,
        ..Sampling::default()
    }
}
