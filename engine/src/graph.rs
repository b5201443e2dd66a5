//! Which stages a model family has and what passes between them, as plain data.
//!
//! A family declares one [`StageGraph`]. Settings, pools, edges, metric ids, processes and the wiring of a request are built from
//! it; nothing else names a stage. [`StageGraph::check`] says what is wrong with one.

use std::borrow::Cow;
use std::fmt;

/// The stages of a model family and the edges between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageGraph {
    /// As a deploy file names it.
    pub family: &'static str,
    /// The place of a stage in this list is its id in metrics, so stages that not every checkpoint has come last, or first where
    /// dashboards know them there.
    pub stages: Cow<'static, [StageNode]>,
    /// In any order.
    pub edges: Cow<'static, [StageEdge]>,
}

/// A stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageNode {
    /// Its name in settings, metrics, traces and errors.
    pub name: &'static str,
    /// The engine that runs it.
    pub kind: StageKind,
    /// Whether sequences share the KV blocks of common prefixes.
    pub shares_prefixes: bool,
}

/// Which engine runs a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageKind {
    /// [`ArEngine`](crate::ArEngine): a KV cache, one output per sequence and step.
    Autoregressive,
    /// [`ChunkEngine`](crate::ChunkEngine): a stateful decoder of streams.
    Chunk,
    /// [`OneShotEngine`](crate::OneShotEngine): whole requests.
    OneShot,
}

/// What passes from one stage to another, or between a stage and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageEdge {
    /// The writer.
    pub from: Port,
    /// The reader.
    pub to: Port,
    /// What passes.
    pub payload: PayloadKind,
    /// How.
    pub delivery: Delivery,
}

/// An end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// The session that serves the caller.
    Session,
    /// The stage of that name.
    Stage(&'static str),
}

impl Port {
    /// The stage, unless it is the session.
    #[must_use]
    pub fn stage(self) -> Option<&'static str> {
        match self {
            Self::Session => None,
            Self::Stage(name) => Some(name),
        }
    }
}

/// What passes an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    /// A conversation as the model reads it.
    Prompt,
    /// Tokens of text.
    Text,
    /// Codec frames.
    Frames,
    /// Samples.
    Audio,
    /// Samples of a recording, whole.
    Recording,
    /// What an encoder makes of a recording, whole.
    Embedding,
}

impl fmt::Display for PayloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prompt => "prompts",
            Self::Text => "text",
            Self::Frames => "codec frames",
            Self::Audio => "audio",
            Self::Recording => "recordings",
            Self::Embedding => "embeddings",
        })
    }
}

/// How a payload is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Whole, before the reader's first step: it is a part of the reader's request.
    Whole,
    /// Item by item while both ends work. The output of an item is complete when the reader has so many items behind it, or when the
    /// stream has ended.
    Stream {
        /// Items of look-ahead; 0 where an item alone decides its output.
        look_ahead: u32,
    },
}

impl Delivery {
    /// Item by item, each for itself.
    pub const STREAM: Self = Self::Stream { look_ahead: 0 };

    /// Items that the reader needs behind one.
    #[must_use]
    pub fn look_ahead(self) -> u32 {
        match self {
            Self::Whole => 0,
            Self::Stream { look_ahead } => look_ahead,
        }
    }
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphError {
    /// Two stages have one name.
    Twice(&'static str),
    /// An edge leads to or from a stage that is not there.
    Unknown(&'static str),
    /// A stage takes or gives nothing.
    Unconnected(&'static str),
    /// A stage's inputs depend on its own outputs.
    Circle(&'static str),
    /// No stage gives audio to the session, or several do.
    Audio(usize),
    /// An edge has a delivery that its reader cannot take: a one-shot stage takes no streams, and only a chunk stage looks ahead.
    Delivery(StageEdge),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => write!(f, "stage {name} is declared twice"),
            Self::Unknown(name) => write!(f, "an edge names stage {name}, which is not declared"),
            Self::Unconnected(name) => write!(f, "stage {name} has no input or no output"),
            Self::Circle(name) => write!(f, "stage {name} waits for its own output"),
            Self::Audio(count) => write!(f, "{count} stages give audio to the session, expected 1"),
            Self::Delivery(edge) => write!(f, "{edge:?}: its reader does not take this delivery"),
        }
    }
}

impl std::error::Error for GraphError {}

impl StageGraph {
    /// The stage of that name.
    #[must_use]
    pub fn stage(&self, name: &str) -> Option<&StageNode> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// The stages that write `payload` for `reader`.
    pub fn writers(&self, reader: Port, payload: PayloadKind) -> impl Iterator<Item = &StageNode> {
        let edges = self.edges.iter();
        let edges = edges.filter(move |edge| edge.to == reader && edge.payload == payload);
        edges.filter_map(|edge| self.stage(edge.from.stage()?))
    }

    /// The stages that take `payload` from `writer`.
    pub fn readers(&self, writer: Port, payload: PayloadKind) -> impl Iterator<Item = &StageNode> {
        let edges = self.edges.iter();
        let edges = edges.filter(move |edge| edge.from == writer && edge.payload == payload);
        edges.filter_map(|edge| self.stage(edge.to.stage()?))
    }

    /// The stages that a sequence of speech passes, from the one that reads text to the one that gives audio.
    #[must_use]
    pub fn speech(&self) -> Vec<&StageNode> {
        let mut path: Vec<_> = self.writers(Port::Session, PayloadKind::Audio).take(1).collect();
        // A graph without circles ends; one with circles is refused by `check`, and must not hang it.
        while let Some(first) = path.first()
            && let Some(before) = self.writers(Port::Stage(first.name), PayloadKind::Frames).next()
            && path.len() < self.stages.len()
        {
            path.insert(0, before);
        }
        path
    }

    /// The stage that answers conversations.
    #[must_use]
    pub fn answers(&self) -> Option<&StageNode> {
        self.readers(Port::Session, PayloadKind::Prompt).next()
    }

    /// The stage that encodes recordings for `reader`.
    #[must_use]
    pub fn encoder(&self, reader: &str) -> Option<&StageNode> {
        let reader = self.stage(reader)?;
        self.writers(Port::Stage(reader.name), PayloadKind::Embedding)
            .next()
    }

    /// The edge by which `reader` takes items of another stage one by one.
    #[must_use]
    pub fn upstream(&self, reader: &str) -> Option<&StageEdge> {
        self.edges.iter().find(|edge| {
            edge.to.stage() == Some(reader)
                && edge.from != Port::Session
                && matches!(edge.delivery, Delivery::Stream { .. })
        })
    }

    /// The stages that speech needs: those that it passes, and those whose outputs are parts of their requests.
    #[must_use]
    pub fn speech_only(&self) -> Self {
        let mut kept: Vec<_> = self.speech().iter().map(|stage| stage.name).collect();
        let encoders: Vec<_> = kept.iter().filter_map(|name| self.encoder(name)).collect();
        kept.extend(encoders.iter().map(|stage| stage.name));
        self.only(|stage| kept.contains(&stage.name))
    }

    /// The stages that `keep` keeps, and the edges between them.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&StageNode) -> bool) -> Self {
        let stages: Vec<_> = self.stages.iter().copied().filter(keep).collect();
        let there = |port: Port| {
            port.stage()
                .is_none_or(|name| stages.iter().any(|stage| stage.name == name))
        };
        let edges = self.edges.iter().copied();
        Self {
            family: self.family,
            edges: edges.filter(|edge| there(edge.from) && there(edge.to)).collect(),
            stages: stages.into(),
        }
    }

    /// Checks it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), GraphError> {
        for (at, stage) in self.stages.iter().enumerate() {
            if self.stages[..at].iter().any(|other| other.name == stage.name) {
                return Err(GraphError::Twice(stage.name));
            }
            let ends =
                |end: fn(&StageEdge) -> Port| self.edges.iter().any(|e| end(e).stage() == Some(stage.name));
            if !ends(|edge| edge.from) || !ends(|edge| edge.to) {
                return Err(GraphError::Unconnected(stage.name));
            }
            if self.is_reached(stage.name, stage.name, self.stages.len()) {
                return Err(GraphError::Circle(stage.name));
            }
        }
        for edge in &*self.edges {
            for name in [edge.from, edge.to].into_iter().filter_map(Port::stage) {
                self.stage(name).ok_or(GraphError::Unknown(name))?;
            }
            self.check_delivery(edge)?;
        }
        match self.writers(Port::Session, PayloadKind::Audio).count() {
            1 => Ok(()),
            count => Err(GraphError::Audio(count)),
        }
    }

    fn check_delivery(&self, edge: &StageEdge) -> Result<(), GraphError> {
        let Some(reader) = edge.to.stage().and_then(|name| self.stage(name)) else {
            return Ok(());
        };
        let fits = match edge.delivery {
            Delivery::Whole => reader.kind != StageKind::Chunk,
            Delivery::Stream { look_ahead: 0 } => reader.kind != StageKind::OneShot,
            Delivery::Stream { .. } => reader.kind == StageKind::Chunk,
        };
        match fits {
            true => Ok(()),
            false => Err(GraphError::Delivery(*edge)),
        }
    }

    /// Whether what `from` gives comes to `to` over at most so many stages.
    fn is_reached(&self, from: &str, to: &str, stages: usize) -> bool {
        let next = self.edges.iter().filter(|edge| edge.from.stage() == Some(from));
        stages > 0
            && next
                .filter_map(|edge| edge.to.stage())
                .any(|name| name == to || self.is_reached(name, to, stages - 1))
    }
}

#[cfg(test)]
mod tests;
