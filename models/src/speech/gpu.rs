//! Reports of a GPU's work for a model.

use omni_backend::{GpuFigures, TellFallback};

use super::SpeechModel;

impl SpeechModel {
    /// Work given to the GPU so far by everything that this model computes; `None` if no GPU computes.
    pub fn gpu_figures(&self) -> Option<GpuFigures> {
        self.nets.gpu_figures()
    }

    /// Takes the reasons why steps were launched without a graph since the last call; a bounded number.
    pub fn take_gpu_fallbacks(&self) -> Vec<String> {
        self.nets.take_gpu_fallbacks()
    }

    /// Calls `to` for each such step from now on, on the computing threads. Once per model: a second listener is
    /// ignored.
    pub fn tell_gpu_fallbacks(&self, to: TellFallback) {
        self.nets.tell_gpu_fallbacks(to);
    }
}
