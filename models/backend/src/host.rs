//! Tensors in the memory of the host, as stored or as a recipe, and rows that stay in their file.

mod recipe;
#[cfg(unix)]
mod rows;
mod staging;
mod tensor;

pub use recipe::{Recipe, Uniform};
#[cfg(unix)]
pub use rows::{FileRows, FileStamp};
pub use staging::{KeptPages, Pages, pages};
pub use tensor::{DType, HostTensor, Reordering};
