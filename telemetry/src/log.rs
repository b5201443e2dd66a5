//! Ways out as text for people and for log shippers.
//!
//! [`LogSink`] writes one line per update in TorchServe's format; [`StatsLog`] writes vLLM's line per interval, and
//! tables of requests and edges, from the same records that the instruments take.

mod line;
mod sink;
mod stats;
mod table;

pub(crate) use line::without_lines;
pub use line::{LineFormat, with_request};
pub use sink::{LogSink, LogWriter};
pub use stats::{EngineLog, LogLine, StatsLog, Throughput};
