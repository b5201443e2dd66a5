//! Loading the model, starting its stages, and warming them up.

use std::sync::Arc;

use anyhow::Context as _;
use omni_engine::{ArConfig, ChunkConfig};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::config::Config;
use crate::orchestrator::{EdgeLimits, Orchestrator, Pipeline, SegmentEvent, SegmentSpec, TextEncoder};
use crate::stage::{
    Code2WavLimits, End, Sampling, SpeechBackend, StageState, TalkerLimits, TalkerRequest, Wake,
    code2wav_stage, talker_stage,
};
use crate::tasks::{Tasks, abandon};

/// Text batches between a session and the talker.
const TOKEN_BATCHES: u32 = 4096;
/// Codec frames between talker and code2wav.
const FRAMES: u32 = 32;
/// Spoken once, unheard, before the server says that it serves.
const WARM_UP_TEXT: &str = "hello.";
/// Frames of it.
const WARM_UP_FRAMES: u32 = 8;

/// What is needed to start a model.
#[derive(Debug)]
pub(super) struct ModelStart {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) tasks: Arc<Tasks>,
}

impl ModelStart {
    /// Returns when the model is installed and warm.
    pub(super) async fn run<B, L>(self, load: L, orchestrator: &Orchestrator) -> anyhow::Result<()>
    where
        B: SpeechBackend,
        L: FnOnce() -> anyhow::Result<B> + Send + 'static,
    {
        let (loaded_tx, loaded) = oneshot::channel();
        // Reading a large checkpoint takes minutes and cannot be interrupted. A server that is told to stop meanwhile does not
        // wait for it: nothing was served yet, the files are only read, and the thread ends with the process.
        abandon("load", move || {
            // Nobody waits for the model any more if the server is being stopped.
            let _ = loaded_tx.send(load());
        })?;
        let backend = loaded.await.context("loading the model panicked")??;
        orchestrator.install(self.stages(Arc::new(backend))?);
        warm_up(orchestrator).await
    }

    fn stages<B: SpeechBackend>(&self, backend: Arc<B>) -> anyhow::Result<Pipeline> {
        let info = Arc::new(backend.info().clone());
        // Every utterance has at most two sequences: one that is heard and one ahead of it.
        let sequences = 2 * self.config.max_active;
        let count = u32::try_from(sequences).context("--max-active is too large")?;
        let mailbox = 4 * sequences + 16;

        // A place for both: a paused look-ahead keeps its place, and must not keep another caller out.
        let engine = ArConfig {
            max_num_seqs: count,
            max_num_batched_tokens: count.max(ArConfig::default().max_num_batched_tokens),
            max_waiting: count,
            ..ArConfig::default()
        };
        let limits = TalkerLimits { mailbox, engine };
        let (talker, body) = talker_stage(Arc::clone(&backend), limits, Wake::default(), self.clock);
        self.tasks.thread("talker", move || body.run())?;

        // A cancelled stream may still be there when its successor comes, hence the slack.
        let engine = ChunkConfig {
            max_streams: 2 * count,
            ..ChunkConfig::new(info.frame_duration())
        };
        let limits = Code2WavLimits { mailbox, engine };
        let (code2wav, body) = code2wav_stage(Arc::clone(&backend), limits, Wake::default(), self.clock);
        self.tasks.thread("code2wav", move || body.run())?;

        let encode: TextEncoder = Arc::new(move |text| backend.encode(text));
        let edges = EdgeLimits {
            token_batches: TOKEN_BATCHES,
            frames: FRAMES,
            audio: self.config.max_buffered_audio,
        };
        Ok(Pipeline {
            info,
            encode,
            talker,
            code2wav,
            edges,
        })
    }
}

/// Sends a short sequence through every stage, so that the first caller does not pay for what happens once.
async fn warm_up(orchestrator: &Orchestrator) -> anyhow::Result<()> {
    let pipeline = orchestrator.model().context("the model was just installed")?;
    for mut state in [pipeline.talker.state(), pipeline.code2wav.state()] {
        let state = state.wait_for(|state| *state != StageState::Loading).await;
        match &*state.context("a stage ended while it was loading")? {
            StageState::Ready => {}
            other => anyhow::bail!("a stage could not be built: {other:?}"),
        }
    }
    let request = TalkerRequest {
        voice: pipeline
            .info
            .voices
            .first()
            .map(|voice| voice.id.clone())
            .unwrap_or_default(),
        language: pipeline.info.languages.first().cloned(),
        sampling: Sampling::default(),
        seed: 0,
    };
    let tokens = (pipeline.encode)(WARM_UP_TEXT).context("the tokenizer refuses the warm-up text")?;
    let spec = SegmentSpec {
        request,
        tokens,
        open: false,
        max_frames: WARM_UP_FRAMES,
    };
    let mut segment = orchestrator.start(spec)?;
    loop {
        match segment.next().await {
            SegmentEvent::TalkerDone | SegmentEvent::Audio(_) => {}
            SegmentEvent::End(End::Stop | End::Length) => return Ok(()),
            SegmentEvent::End(end) => anyhow::bail!("the warm-up failed: {end:?}"),
        }
    }
}
