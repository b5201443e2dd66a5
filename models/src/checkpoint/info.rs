//! What is known of a tensor of a checkpoint before it is read.

use omni_backend::host::{DType, Recipe};

/// Place, type and shape of a tensor.
#[derive(Debug, Clone)]
pub(crate) struct TensorInfo {
    pub(crate) file: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(super) content: Content,
}

/// Source of a tensor's elements.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// These bytes of its file.
    Stored { begin: u64, end: u64 },
    /// They are made.
    Made(Recipe),
}

impl TensorInfo {
    /// A tensor that is made; `file` is what messages name as its file.
    pub(crate) fn made(file: String, shape: Vec<usize>, recipe: Recipe) -> Self {
        Self {
            file,
            dtype: DType::Bf16,
            shape,
            content: Content::Made(recipe),
        }
    }
}
