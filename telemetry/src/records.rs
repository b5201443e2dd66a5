//! Events of the components: plain values, one struct per event that has more than one of them. The instruments and the
//! log publisher consume the same records.

use std::time::Duration;

/// A replica of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// Id of the stage.
    pub stage: u32,
    /// Id of the replica within its stage.
    pub replica: u32,
}

impl Replica {
    /// Stands for no replica of that stage: what none of them did is counted in a series of its own (`replica="none"`).
    pub fn none(stage: u32) -> Self {
        Self {
            stage,
            replica: u32::MAX,
        }
    }

    /// The values of `stage` and `replica`.
    pub(crate) fn ids(self) -> (String, String) {
        let replica = match self.replica {
            u32::MAX => "none".to_owned(),
            id => id.to_string(),
        };
        (self.stage.to_string(), replica)
    }

    /// The value of `engine`, which the recorder takes apart.
    pub(crate) fn engine(self) -> String {
        let (stage, replica) = self.ids();
        format!("{stage}/{replica}")
    }
}

/// An end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeEnd {
    /// The calls' side of the pipeline, where text comes in and audio goes out.
    Session,
    /// A replica of a stage.
    Replica(Replica),
}

impl EdgeEnd {
    /// The values of the labels `*_stage` and `*_replica`.
    pub(crate) fn ids(self) -> (String, String) {
        match self {
            Self::Session => ("session".to_owned(), "0".to_owned()),
            Self::Replica(replica) => replica.ids(),
        }
    }
}

impl From<Replica> for EdgeEnd {
    fn from(replica: Replica) -> Self {
        Self::Replica(replica)
    }
}

/// The work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageKind {
    /// One token after the other.
    Llm,
    /// All of its input at once.
    Generation,
}

impl StageKind {
    /// The value of the label `stage_type`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Generation => "generation",
        }
    }
}

/// The reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureReason {
    /// The caller cancelled it, or its deadline passed.
    ClientAbort,
    /// The caller went away.
    ClientDisconnect,
    /// A stage failed.
    StageError,
    /// Anything else.
    Unknown,
    /// The caller asked for something that cannot be served.
    ClientError,
    /// A quota of the caller's was used up on the way.
    Quota,
    /// There was no room for it on the way.
    Overload,
    /// An operator ended it.
    Operator,
    /// Its session reached a limit of time.
    SessionLimit,
    /// The server ended.
    Shutdown,
}

impl FailureReason {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::ClientAbort,
        Self::ClientDisconnect,
        Self::StageError,
        Self::Unknown,
        Self::ClientError,
        Self::Quota,
        Self::Overload,
        Self::Operator,
        Self::SessionLimit,
        Self::Shutdown,
    ];

    /// The value of the label `reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::ClientAbort => "client_abort",
            Self::ClientDisconnect => "client_disconnect",
            Self::StageError => "stage_error",
            Self::Unknown => "unknown",
            Self::ClientError => "client_error",
            Self::Quota => "quota",
            Self::Overload => "overload",
            Self::Operator => "operator",
            Self::SessionLimit => "session_limit",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Naturally.
    Stop,
    /// At a limit.
    Length,
    /// It was going round in circles.
    Repetition,
    /// Otherwise.
    Failed(FailureReason),
}

/// One stage's share in a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageRecord {
    /// The replica that it ran on.
    pub replica: Replica,
    /// Kind of the stage.
    pub kind: StageKind,
    /// From hand-over to its last output, if that was measured.
    pub generation: Option<Duration>,
    /// Tokens or frames that went in.
    pub tokens_in: u64,
    /// Tokens or frames that came out.
    pub tokens_out: u64,
}

/// A whole request, once, when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestRecord {
    /// Its id, for the log only.
    pub id: String,
    /// Its end.
    pub outcome: RequestOutcome,
    /// From arrival to its end, without waits for its caller's text.
    pub latency: Duration,
    /// From admission to hand-over to the first stage, if it got that far.
    pub queue_wait: Option<Duration>,
    /// Waits for its caller's text, if a caller wrote it.
    pub text_wait: Option<Duration>,
    /// The stages that worked on it, first one first.
    pub stages: Vec<StageRecord>,
}

/// The audio that the listener of a request got, once, when it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AudioRecord {
    /// Samples per channel handed to the transport.
    pub frames: u64,
    /// Samples per second.
    pub sample_rate: u32,
    /// From hand-over to the last output of the last stage, without waits for the caller and the listener.
    pub generation: Duration,
    /// Worst lateness of a chunk for a player without a buffer; none if nothing was heard, or all of it was handed over
    /// at once.
    pub worst_underrun: Option<Duration>,
    /// Root mean square of what the model made, as a share of full scale; none if it was not asked.
    pub level: Option<f64>,
    /// True if the request ended naturally.
    pub complete: bool,
}

/// The cause of inaudible audio of a request that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// The model made no audible sound.
    Model,
    /// Its text had nothing to speak.
    NothingSpeakable,
    /// Its caller asked for a volume at which nothing is left.
    Volume,
}

impl Silence {
    pub(crate) const ALL: [(Self, &'static str); 3] = [
        (Self::Model, "model"),
        (Self::NothingSpeakable, "nothing_speakable"),
        (Self::Volume, "volume"),
    ];
}

/// One message over one edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopRecord {
    /// Encoded size in bytes.
    pub size: u64,
    /// The sender's part: encoding and hand-over.
    pub tx: Duration,
    /// From the end of sending to the start of receiving.
    pub in_flight: Duration,
    /// The receiver's part: taking and decoding.
    pub rx: Duration,
}

/// The scheduler of a replica after a step. What concerns the prefix cache is since the record before.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SchedulerRecord {
    /// Requests in the running batch.
    pub running: u64,
    /// Requests that wait for room.
    pub waiting_for_capacity: u64,
    /// Requests that wait for something else.
    pub deferred: u64,
    /// Share of KV blocks in use, 0 to 1.
    pub kv_usage: f64,
    /// Requests whose prompts were looked up in the prefix cache.
    pub prefix_requests: u64,
    /// Tokens looked up there.
    pub prefix_queries: u64,
    /// Tokens found there.
    pub prefix_hits: u64,
}

/// Contents of the outputs of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IterationRecord {
    /// Prompts of the requests that gave their first output, cached tokens included.
    pub prompt_tokens: u64,
    /// Prompt tokens whose KV was there already.
    pub cached_tokens: u64,
    /// New tokens (or codec frames).
    pub new_tokens: u64,
}

/// The reason why an engine is done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// It said so itself.
    Stop,
    /// It reached a limit.
    Length,
    /// It was aborted.
    Abort,
    /// It failed.
    Error,
    /// It was repeating itself.
    Repetition,
}

impl FinishReason {
    /// Every reason.
    pub const ALL: [Self; 5] = [
        Self::Stop,
        Self::Length,
        Self::Abort,
        Self::Error,
        Self::Repetition,
    ];

    /// The value of the label `finished_reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
            Self::Error => "error",
            Self::Repetition => "repetition",
        }
    }
}

/// A request as one engine saw it, when that is done with it. Intervals that it never reached are missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinishedRequest {
    /// The reason.
    pub reason: FinishReason,
    /// From arrival at the edge to now.
    pub latency: Duration,
    /// Time of the engine's clock.
    pub intervals: crate::timeline::Intervals,
    /// Its prompt, cached tokens included.
    pub prompt_tokens: u64,
    /// Prompt tokens whose KV was there already.
    pub cached_tokens: u64,
    /// The limit on new tokens, if one was set.
    pub max_tokens: Option<u64>,
}
