//! The thinker of one checkpoint: loaded once, then as many thinkers as there are replicas.

use std::sync::Arc;

use omni_backend::{Backend, DryRun, Params};
use omni_engine::ModelError;

use crate::checkpoint::{Checkpoint, LoadError};
use crate::config::ThinkerConfig;
use crate::loader::Loader;
use crate::talker::KvOptions;
use crate::thinker::{self, Thinker, ThinkerNet};

/// Properties of a thinker for its callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinkerLimits {
    /// Longest sequence, prompt and reply together, in positions.
    pub max_positions: u32,
    /// Text tokens there are.
    pub vocab: u32,
    /// Numbers in a row of audio, and in a hidden row.
    pub hidden: u32,
    /// The token that opens audio in a prompt.
    pub audio_start: u32,
    /// The token that closes audio in a prompt.
    pub audio_end: u32,
    /// The token that stands for a row of audio in a prompt's text form.
    pub audio_pad: u32,
}

struct ThinkerNets<P: Params> {
    params: P,
    thinker: Arc<ThinkerNet<P>>,
}

/// Networks of a thinker, erased over the backend.
trait AnyThinkerNets: Send + Sync {
    fn thinker(&self, kv: KvOptions) -> Result<Thinker, ModelError>;
}

/// The thinker's weights.
#[derive(derive_more::Debug)]
#[debug("ThinkerModel {{ limits: {:?}, .. }}", self.limits)]
pub struct ThinkerModel {
    nets: Box<dyn AnyThinkerNets>,
    limits: ThinkerLimits,
}

impl<B: Backend> AnyThinkerNets for ThinkerNets<B> {
    fn thinker(&self, kv: KvOptions) -> Result<Thinker, ModelError> {
        let core = thinker::Core::new(self.params.urgent_replica()?, Arc::clone(&self.thinker), kv)?;
        Ok(Thinker(Box::new(core)))
    }
}

impl ThinkerModel {
    pub(crate) fn load<B: Backend>(
        checkpoint: &Checkpoint,
        config: &ThinkerConfig,
        params: &B,
        embed_tokens: &Arc<B::Table>,
    ) -> Result<Self, LoadError> {
        let thinker = ThinkerNet::load(&Loader::new(checkpoint, params), Arc::clone(embed_tokens), config)?;
        let nets = ThinkerNets {
            params: params.clone(),
            thinker: Arc::new(thinker),
        };
        Ok(Self {
            nets: Box::new(nets),
            limits: limits(config),
        })
    }

    /// A thinker with a cache of its own; the weights are shared.
    ///
    /// # Errors
    /// [`ModelError`] if the cache cannot be had.
    pub fn thinker(&self, kv: KvOptions) -> Result<Thinker, ModelError> {
        self.nets.thinker(kv)
    }

    /// Properties of the thinker.
    pub fn limits(&self) -> &ThinkerLimits {
        &self.limits
    }
}

/// Checks the checkpoint's tensors against the thinker that its configuration describes.
pub(crate) fn check(checkpoint: &Checkpoint, config: &ThinkerConfig) -> Result<(), LoadError> {
    let dry = Loader::new(checkpoint, &DryRun);
    nets(&dry, config)?;
    dry.finish()
}

/// Loads the thinker with its embedding.
pub(crate) fn nets<P: Params>(l: &Loader<'_, P>, config: &ThinkerConfig) -> Result<ThinkerNet<P>, LoadError> {
    let embed_tokens = thinker::embed_tokens(l, config.vocab, config.stack.hidden)?;
    ThinkerNet::load(l, embed_tokens, config)
}

pub(crate) fn limits(config: &ThinkerConfig) -> ThinkerLimits {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    ThinkerLimits {
        max_positions: count(config.max_positions),
        vocab: count(config.vocab),
        hidden: count(config.stack.hidden),
        audio_start: config.audio.start,
        audio_end: config.audio.end,
        audio_pad: config.audio.pad,
    }
}
