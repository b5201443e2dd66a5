//! Errors of benchmarks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use omni_client::ClientError;
use tokio::task::JoinError;

/// Error of a benchmark. A failed request is no error here: it is in the result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A connection for the load could not be opened.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A task that made requests panicked.
    #[error("a stream of the benchmark died: {0}")]
    Stream(#[from] JoinError),
    /// A report or a page could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(|error| BenchError::Write {
        path: path.to_owned(),
        error,
    })
}
