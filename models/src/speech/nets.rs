//! Networks of one checkpoint, erased over the backend.

use std::sync::{Arc, OnceLock};

use candle_core::{DType as CandleType, Device};
use omni_backend::host::KeptPages;
use omni_backend::{Backend, Candle, Cpu, GpuFigures, Params, Precision, TellFallback};
use omni_engine::ModelError;

use super::options::{DType, Kernels, LoadOptions, Parts};
use crate::audio_encoder::AudioEncoder;
use crate::checkpoint::{Checkpoint, LoadError, Problem};
use crate::code2wav::{self, Code2Wav, Code2WavNet};
use crate::config::{AudioConfig, PromptFormat, SpeechConfig, ThinkerConfig};
use crate::loader::Loader;
use crate::talker::{self, KvOptions, Talker, TalkerNet};
use crate::thinker;
use crate::thinker_model::ThinkerModel;
#[cfg(any(feature = "cuda", feature = "emulator"))]
use omni_backend::Gpu;

/// Checkpoints with the tensors of the speech path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// Those of the talker and of the code predictor.
    pub(crate) talker: &'a Checkpoint,
    /// Those of the vocoder.
    pub(crate) code2wav: &'a Checkpoint,
}

/// The networks once for each of `options`: at once where the processor computes, so that some are packed while others
/// are read.
pub(super) fn all_nets(
    sources: Sources<'_>,
    config: &SpeechConfig,
    options: &[LoadOptions],
) -> Result<Vec<Box<dyn AnyNets>>, LoadError> {
    let _pages = KeptPages::keep();
    let load = |options| any_nets(sources, config, options);
    if options.iter().any(|options| options.kernels != Kernels::Auto) {
        return options.iter().copied().map(load).collect();
    }
    std::thread::scope(|scope| {
        let load = &load;
        let start = |&options: &LoadOptions| scope.spawn(move || load(options));
        let threads: Vec<_> = options.iter().map(start).collect();
        let loaded = threads.into_iter().map(|thread| match thread.join() {
            Ok(loaded) => loaded,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        loaded.collect()
    })
}

/// Networks for a backend.
fn any_nets(
    sources: Sources<'_>,
    config: &SpeechConfig,
    options: LoadOptions,
) -> Result<Box<dyn AnyNets>, LoadError> {
    let candle = |device, dtype| {
        let nets = Nets::load(sources, config, Candle::new(device, dtype), options.parts)?;
        Ok(Box::new(nets) as Box<dyn AnyNets>)
    };
    match (options.kernels, options.dtype) {
        #[cfg(feature = "cuda")]
        (Kernels::Cuda { device, graphs }, _) => {
            let device = omni_gpu::Cuda::open(device).map_err(|e| machine(e.to_string()))?;
            gpu(sources, config, device, options, graphs)
        }
        #[cfg(not(feature = "cuda"))]
        (Kernels::Cuda { .. }, _) => Err(machine("this build has no kernels for NVIDIA devices".into())),
        #[cfg(feature = "emulator")]
        (Kernels::Emulated { graphs }, _) => {
            gpu(sources, config, omni_gpu::Emulated::default(), options, graphs)
        }
        #[cfg(feature = "emulator")]
        (Kernels::EmulatedLate, _) => gpu(sources, config, omni_gpu::Emulated::late(), options, true),
        (Kernels::Auto, DType::F32) => {
            let nets = Nets::load(sources, config, Cpu::new(options.weights), options.parts)?;
            Ok(Box::new(nets))
        }
        (_, dtype) => candle(Device::Cpu, candle_type(dtype)),
    }
}

fn candle_type(dtype: DType) -> CandleType {
    match dtype {
        DType::F32 => CandleType::F32,
        DType::Bf16 => CandleType::BF16,
        DType::F16 => CandleType::F16,
    }
}

fn machine(reason: String) -> LoadError {
    LoadError::one(Problem::Machine { reason })
}

/// The networks on a GPU.
#[cfg(any(feature = "cuda", feature = "emulator"))]
fn gpu<D: omni_gpu::Device>(
    sources: Sources<'_>,
    config: &SpeechConfig,
    device: D,
    options: LoadOptions,
    graphs: bool,
) -> Result<Box<dyn AnyNets>, LoadError> {
    let float = match options.dtype {
        DType::F32 => omni_gpu::Float::F32,
        DType::Bf16 => omni_gpu::Float::Bf16,
        DType::F16 => return Err(machine("a GPU computes in f32 or bf16, not in f16".into())),
    };
    let gpu = Gpu::new(device, float, graphs);
    Ok(Box::new(Nets::load(sources, config, gpu, options.parts)?))
}

struct Nets<P: Params> {
    params: P,
    /// Talker and thinker share it.
    embed_tokens: OnceLock<Arc<P::Table>>,
    talker: Option<Arc<TalkerNet<P>>>,
    code2wav: Option<Arc<Code2WavNet<P>>>,
}

impl<P: Params> Nets<P> {
    fn load(sources: Sources<'_>, config: &SpeechConfig, params: P, parts: Parts) -> Result<Self, LoadError> {
        let loader = Loader::new(sources.talker, &params);
        let embed_tokens = OnceLock::new();
        let talker = if parts.talker {
            let (table, talker) = talker_net(&loader, config)?;
            let _ = embed_tokens.set(table);
            Some(Arc::new(talker))
        } else {
            None
        };
        let code2wav = if parts.code2wav {
            let params = params.with_least(Precision::Stored);
            let loader = Loader::new(sources.code2wav, &params);
            Some(Arc::new(Code2WavNet::load(&loader, &config.code2wav)?))
        } else {
            None
        };
        Ok(Self {
            params,
            embed_tokens,
            talker,
            code2wav,
        })
    }
}

fn not_loaded(part: &str) -> ModelError {
    ModelError::Compute(format!("the {part} of this model was not loaded"))
}

/// The networks that speak, and how their replicas are made.
pub(super) trait SpeechNets: Send + Sync {
    fn talker(&self, newline: u32, kv: KvOptions) -> Result<Talker, ModelError>;
    fn code2wav(&self) -> Result<Code2Wav, ModelError>;
}

/// Networks of a conversation, loaded on demand.
pub(super) trait ConversationNets: Send + Sync {
    fn thinker(&self, checkpoint: &Checkpoint, config: &ThinkerConfig) -> Result<ThinkerModel, LoadError>;
    fn audio_encoder(&self, checkpoint: &Checkpoint, config: &AudioConfig)
    -> Result<AudioEncoder, LoadError>;
}

/// Reports of a GPU's work for the networks.
pub(super) trait GpuReports: Send + Sync {
    fn gpu_figures(&self) -> Option<GpuFigures>;
    fn take_gpu_fallbacks(&self) -> Vec<String>;
    fn tell_gpu_fallbacks(&self, to: TellFallback);
}

/// The networks over any backend.
pub(super) trait AnyNets: SpeechNets + ConversationNets + GpuReports {}

impl<N: SpeechNets + ConversationNets + GpuReports> AnyNets for N {}

impl<B: Backend> SpeechNets for Nets<B> {
    fn talker(&self, newline: u32, kv: KvOptions) -> Result<Talker, ModelError> {
        let net = self.talker.clone().ok_or_else(|| not_loaded("talker"))?;
        let replica = self.params.urgent_replica()?;
        let core = talker::Core::new(replica, net, newline, kv)?;
        Ok(Talker(Box::new(core)))
    }

    fn code2wav(&self) -> Result<Code2Wav, ModelError> {
        let net = self.code2wav.clone().ok_or_else(|| not_loaded("vocoder"))?;
        let params = self.params.with_least(Precision::Stored);
        let core = code2wav::Core::new(params.replica()?, net)?;
        Ok(Code2Wav(Box::new(core)))
    }
}

impl<B: Backend> ConversationNets for Nets<B> {
    fn thinker(&self, checkpoint: &Checkpoint, config: &ThinkerConfig) -> Result<ThinkerModel, LoadError> {
        let _pages = KeptPages::keep();
        let embed_tokens = match self.embed_tokens.get() {
            Some(table) => Arc::clone(table),
            None => {
                let loader = Loader::new(checkpoint, &self.params);
                let table = thinker::embed_tokens(&loader, config.vocab, config.stack.hidden)?;
                Arc::clone(self.embed_tokens.get_or_init(|| table))
            }
        };
        ThinkerModel::load(checkpoint, config, &self.params, &embed_tokens)
    }

    fn audio_encoder(
        &self,
        checkpoint: &Checkpoint,
        config: &AudioConfig,
    ) -> Result<AudioEncoder, LoadError> {
        let _pages = KeptPages::keep();
        AudioEncoder::load(checkpoint, config, &self.params.with_least(Precision::Stored))
    }
}

impl<B: Backend> GpuReports for Nets<B> {
    fn gpu_figures(&self) -> Option<GpuFigures> {
        self.params.figures()
    }

    fn take_gpu_fallbacks(&self) -> Vec<String> {
        self.params.take_fallbacks()
    }

    fn tell_gpu_fallbacks(&self, to: TellFallback) {
        self.params.tell_fallbacks(to);
    }
}

/// Loads all that speaking needs; the loaders may be one.
pub(crate) fn nets<P: Params>(
    talker: &Loader<'_, P>,
    code2wav: &Loader<'_, P>,
    config: &SpeechConfig,
) -> Result<(TalkerNet<P>, Code2WavNet<P>), LoadError> {
    let (_, talker) = talker_net(talker, config)?;
    Ok((talker, Code2WavNet::load(code2wav, &config.code2wav)?))
}

fn talker_net<P: Params>(
    l: &Loader<'_, P>,
    config: &SpeechConfig,
) -> Result<(Arc<P::Table>, TalkerNet<P>), LoadError> {
    let talker = &config.talker;
    let embed_tokens = match talker.prompt {
        PromptFormat::Qwen3Omni => thinker::embed_tokens(l, talker.text_vocab, talker.text_hidden)?,
        PromptFormat::Qwen3Tts(_) => Arc::new(l.table(
            "talker.model.text_embedding.weight",
            talker.text_vocab,
            talker.text_hidden,
        )?),
    };
    let net = TalkerNet::load(
        l,
        Arc::clone(&embed_tokens),
        config.text,
        talker,
        &config.predictor,
    )?;
    Ok((embed_tokens, net))
}
