//! Stages of a model family and the edges between them, as plain data.
//!
//! A family declares one [`StageGraph`]. Settings, pools, edges, metric ids, processes and the wiring of a request are
//! built from it; nothing else names a stage. [`StageGraph::check`] says what is wrong with one.

use std::borrow::Cow;
use std::fmt;

/// The stages of a model family and the edges between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageGraph {
    /// As a deploy file names it.
    pub family: &'static str,
    /// The index of a stage in this list is its id in metrics, so stages that not every checkpoint has come last, or
    /// first where dashboards know them there.
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
    /// Shares the KV blocks of common prefixes between sequences.
    pub shares_prefixes: bool,
}

/// Engine that runs a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageKind {
    /// [`ArEngine`](crate::ArEngine): a KV cache, one output per sequence and step.
    Autoregressive,
    /// [`ChunkEngine`](crate::ChunkEngine): a stateful decoder of streams.
    Chunk,
    /// [`OneShotEngine`](crate::OneShotEngine): whole requests.
    OneShot,
}

/// Edge from one stage to another, or between a stage and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageEdge {
    /// The writer.
    pub from: Port,
    /// The reader.
    pub to: Port,
    /// Type of the items.
    pub payload: PayloadKind,
    /// Delivery of the items.
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
    pub fn stage(self) -> Option<&'static str> {
        match self {
            Self::Session => None,
            Self::Stage(name) => Some(name),
        }
    }
}

/// Type of the items on an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    /// A conversation as the model reads it.
    Prompt,
    /// Tokens of text.
    Text,
    /// Codec frames.
    Frames,
    /// Frames of continuous values, a row of numbers each.
    Latents,
    /// Samples.
    Audio,
    /// Samples of a recording, whole.
    Recording,
    /// Output of an encoder for a whole recording.
    Embedding,
}

impl PayloadKind {
    /// True if it is always a part of its reader's request.
    fn is_whole(self) -> bool {
        matches!(self, Self::Prompt | Self::Recording | Self::Embedding)
    }

    /// True if one stage of speech passes it to the next.
    fn is_frames(self) -> bool {
        matches!(self, Self::Frames | Self::Latents)
    }
}

impl fmt::Display for PayloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prompt => "prompts",
            Self::Text => "text",
            Self::Frames => "codec frames",
            Self::Latents => "latents",
            Self::Audio => "audio",
            Self::Recording => "recordings",
            Self::Embedding => "embeddings",
        })
    }
}

/// Delivery of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Whole, before the reader's first step: it is a part of the reader's request.
    Whole,
    /// Item by item while both ends work. The output of an item is complete when the reader has `look_ahead` items
    /// behind it, or when the stream has ended.
    Stream {
        /// Items of look-ahead; 0 where an item alone decides its output, [`u32::MAX`] where all items do: such an
        /// output is complete at the end of the stream.
        look_ahead: u32,
    },
}

impl Delivery {
    /// Item by item, without look-ahead.
    pub const STREAM: Self = Self::Stream { look_ahead: 0 };

    /// Items that the reader needs behind one.
    pub fn look_ahead(self) -> u32 {
        match self {
            Self::Whole => 0,
            Self::Stream { look_ahead } => look_ahead,
        }
    }
}

impl fmt::Display for StageEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.payload, self.from, self.to)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => f.write_str("the session"),
            Self::Stage(name) => write!(f, "stage {name}"),
        }
    }
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Autoregressive => "autoregressive",
            Self::Chunk => "chunk",
            Self::OneShot => "one-shot",
        })
    }
}

/// Reason why a graph cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphError {
    /// Two stages have one name.
    Twice(&'static str),
    /// An edge leads to or from a stage that is not there.
    Unknown(&'static str, StageEdge),
    /// A stage takes or gives nothing.
    Unconnected(&'static str),
    /// A stage's inputs depend on its own outputs.
    Circle(&'static str),
    /// Not exactly one stage gives audio to the session.
    Audio(Vec<&'static str>),
    /// Several edges bring a reader the same payload from one writer, or lead to several stages of which one does the
    /// work.
    Several(Vec<StageEdge>),
    /// A stage both answers conversations and speaks.
    Parts(&'static str),
    /// A stage of this kind cannot be at this end of the edge.
    Kind(StageNode, StageEdge),
    /// Whole delivery of a payload that must come item by item, or the other way round, or a look-ahead of a reader
    /// other than a chunk stage.
    Delivery(StageEdge),
    /// No request passes the edge.
    Unused(StageEdge),
    /// An edge that requests pass is not declared.
    Missing(StageEdge),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => write!(f, "stage {name} is declared twice"),
            Self::Unknown(name, edge) => write!(f, "{edge}: there is no stage {name}"),
            Self::Unconnected(name) => write!(f, "stage {name} has no input or no output"),
            Self::Circle(name) => write!(f, "stage {name} waits for its own output"),
            Self::Audio(names) if names.is_empty() => {
                f.write_str("no stage gives audio to the session, expected one")
            }
            Self::Audio(names) => write!(
                f,
                "the stages [{}] give audio to the session, expected one",
                names.join(", ")
            ),
            Self::Several(edges) => {
                let edges: Vec<_> = edges.iter().map(StageEdge::to_string).collect();
                write!(
                    f,
                    "there are {}, expected one of these edges",
                    edges.join(" and ")
                )
            }
            Self::Parts(name) => write!(
                f,
                "stage {name} takes prompts and speaks, expected a stage for each"
            ),
            Self::Kind(stage, edge) => write!(
                f,
                "{edge}: stage {} is {}, expected {} stage",
                stage.name,
                stage.kind,
                kinds(edge.payload, edge.from == Port::Stage(stage.name))
            ),
            Self::Delivery(edge) => {
                let expected = match edge.payload {
                    payload if payload.is_whole() => "whole",
                    PayloadKind::Text => {
                        "a stream without look-ahead, or whole where a one-shot stage reads it"
                    }
                    _ => "a stream, with a look-ahead only where a chunk stage reads frames",
                };
                write!(
                    f,
                    "{edge}: the delivery is {:?}, expected {expected}",
                    edge.delivery
                )
            }
            Self::Unused(edge) => write!(f, "{edge}: no request passes this edge"),
            Self::Missing(edge) => write!(f, "the edge for {edge} is missing"),
        }
    }
}

impl std::error::Error for GraphError {}

impl StageGraph {
    /// The stage of that name.
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
    pub fn speech(&self) -> Vec<&StageNode> {
        let mut path: Vec<_> = self.writers(Port::Session, PayloadKind::Audio).take(1).collect();
        // A graph without circles ends; one with circles is refused by `check`, and must not hang it.
        while let Some(first) = path.first()
            && let Some(edge) = self.frames_to(first.name)
            && let Some(before) = edge.from.stage().and_then(|name| self.stage(name))
            && path.len() < self.stages.len()
        {
            path.insert(0, before);
        }
        path
    }

    /// The edge by which a stage of speech reads the frames of the one before it.
    fn frames_to(&self, reader: &str) -> Option<&StageEdge> {
        let mut edges = self.edges.iter();
        edges.find(|edge| edge.to.stage() == Some(reader) && edge.payload.is_frames())
    }

    /// Payloads that pass between the stages of [`speech`](Self::speech), in order: one fewer than these.
    pub fn passed(&self) -> impl Iterator<Item = PayloadKind> {
        let readers = self.speech().into_iter().skip(1);
        readers.filter_map(|reader| Some(self.frames_to(reader.name)?.payload))
    }

    /// Returns true if the stage that speaks gets its text as a whole.
    pub fn takes_whole_text(&self) -> bool {
        let first = self.speech().first().map(|stage| stage.kind);
        first == Some(StageKind::OneShot)
    }

    /// The stage that answers conversations.
    pub fn answers(&self) -> Option<&StageNode> {
        self.readers(Port::Session, PayloadKind::Prompt).next()
    }

    /// The stage that encodes recordings for `reader`.
    pub fn encoder(&self, reader: &str) -> Option<&StageNode> {
        let reader = self.stage(reader)?;
        self.writers(Port::Stage(reader.name), PayloadKind::Embedding)
            .next()
    }

    /// Returns true if the stage encodes recordings.
    pub fn encodes(&self, name: &str) -> bool {
        let mut edges = self.edges.iter();
        edges.any(|edge| edge.from.stage() == Some(name) && edge.payload == PayloadKind::Embedding)
    }

    /// The edge by which `reader` takes items of another stage one by one.
    pub fn upstream(&self, reader: &str) -> Option<&StageEdge> {
        self.edges.iter().find(|edge| {
            edge.to.stage() == Some(reader)
                && edge.from != Port::Session
                && matches!(edge.delivery, Delivery::Stream { .. })
        })
    }

    /// The stages that speech needs: those that it passes, and those whose outputs are parts of their requests.
    pub fn speech_only(&self) -> Self {
        let mut kept: Vec<_> = self.speech().iter().map(|stage| stage.name).collect();
        let encoders: Vec<_> = kept.iter().filter_map(|name| self.encoder(name)).collect();
        kept.extend(encoders.iter().map(|stage| stage.name));
        self.only(|stage| kept.contains(&stage.name))
    }

    /// The part of the graph with the stages that `keep` accepts, and the edges between them.
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

    /// Checks that every request can be run: each kind of request that is accepted has all its stages, and every
    /// stage and every edge is used by some request.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), GraphError> {
        self.check_stages()?;
        let path = self.checked_speech()?;
        let prompts = self.edges_of(|edge| edge.payload == PayloadKind::Prompt && edge.from == Port::Session);
        let answers = one_of(&prompts)?.and_then(|edge| edge.to.stage());
        if let Some(name) = answers.filter(|name| path.contains(name)) {
            return Err(GraphError::Parts(name));
        }
        let parts = Parts { path, answers };
        for edge in &*self.edges {
            self.check_edge(edge, &parts)?;
        }
        for edge in parts.needed() {
            let same = |other: &StageEdge| {
                (other.from, other.to, other.payload) == (edge.from, edge.to, edge.payload)
            };
            if !self.edges.iter().any(same) {
                return Err(GraphError::Missing(edge));
            }
        }
        Ok(())
    }

    /// Checks the names of stages, and that all are connected.
    fn check_stages(&self) -> Result<(), GraphError> {
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
                self.stage(name).ok_or(GraphError::Unknown(name, *edge))?;
            }
        }
        Ok(())
    }

    /// Names of [`StageGraph::speech`], if there is only one path.
    fn checked_speech(&self) -> Result<Vec<&'static str>, GraphError> {
        let audio: Vec<_> = self.writers(Port::Session, PayloadKind::Audio).collect();
        if audio.len() != 1 {
            return Err(GraphError::Audio(audio.iter().map(|stage| stage.name).collect()));
        }
        Ok(self.speech().iter().map(|stage| stage.name).collect())
    }

    fn check_edge(&self, edge: &StageEdge, parts: &Parts) -> Result<(), GraphError> {
        let of = |port: Port| port.stage().and_then(|name| self.stage(name));
        for (stage, writes) in [(of(edge.from), true), (of(edge.to), false)] {
            if let Some(stage) = stage.filter(|stage| !is_kind_of(stage.kind, edge.payload, writes)) {
                return Err(GraphError::Kind(*stage, *edge));
            }
        }
        let reader = of(edge.to).map(|stage| stage.kind);
        // A one-shot stage reads no stream.
        let whole_text = edge.payload == PayloadKind::Text && reader == Some(StageKind::OneShot);
        let fits = match edge.delivery {
            Delivery::Whole => edge.payload.is_whole() || whole_text,
            Delivery::Stream { look_ahead } => {
                let looks = edge.payload.is_frames() && reader == Some(StageKind::Chunk);
                !edge.payload.is_whole() && !whole_text && (look_ahead == 0 || looks)
            }
        };
        if !fits {
            return Err(GraphError::Delivery(*edge));
        }
        // The text of an answer goes by the session, with or without a declared edge to the stage that speaks.
        if edge.payload != PayloadKind::Text {
            let frames = edge.payload.is_frames();
            let same = |other: PayloadKind| other == edge.payload || frames && other.is_frames();
            one_of(&self.edges_of(|other| other.to == edge.to && same(other.payload)))?;
        }
        if parts.pass(edge) {
            Ok(())
        } else {
            Err(GraphError::Unused(*edge))
        }
    }

    fn edges_of(&self, which: impl Fn(&StageEdge) -> bool) -> Vec<StageEdge> {
        self.edges.iter().copied().filter(|edge| which(edge)).collect()
    }

    /// Returns true if the output of `from` reaches `to` over at most `stages` edges.
    fn is_reached(&self, from: &str, to: &str, stages: usize) -> bool {
        let next = self.edges.iter().filter(|edge| edge.from.stage() == Some(from));
        stages > 0
            && next
                .filter_map(|edge| edge.to.stage())
                .any(|name| name == to || self.is_reached(name, to, stages - 1))
    }
}

/// The edge, if there are no several.
fn one_of(edges: &[StageEdge]) -> Result<Option<&StageEdge>, GraphError> {
    match edges {
        [] => Ok(None),
        [edge] => Ok(Some(edge)),
        several => Err(GraphError::Several(several.to_vec())),
    }
}

/// An edge in the form in which it has to be declared, without a look-ahead.
fn edge_of(from: Port, to: Port, payload: PayloadKind) -> StageEdge {
    StageEdge {
        from,
        to,
        payload,
        delivery: if payload.is_whole() {
            Delivery::Whole
        } else {
            Delivery::STREAM
        },
    }
}

/// Returns true if a stage of that kind writes, or else reads, such a payload.
fn is_kind_of(kind: StageKind, payload: PayloadKind, writes: bool) -> bool {
    match (payload, writes) {
        (PayloadKind::Recording, _) | (PayloadKind::Embedding, true) => kind == StageKind::OneShot,
        (PayloadKind::Prompt, _) | (PayloadKind::Text, true) => kind == StageKind::Autoregressive,
        (PayloadKind::Frames | PayloadKind::Latents | PayloadKind::Audio, false) => {
            kind != StageKind::OneShot
        }
        (PayloadKind::Frames | PayloadKind::Latents | PayloadKind::Audio, true)
        | (PayloadKind::Text | PayloadKind::Embedding, false) => true,
    }
}

/// The kinds of stages that write, or else read, such a payload, in words.
fn kinds(payload: PayloadKind, writes: bool) -> String {
    let all = [
        (StageKind::Autoregressive, "an autoregressive"),
        (StageKind::Chunk, "a chunk"),
        (StageKind::OneShot, "a one-shot"),
    ];
    let kinds = all.iter().filter(|(kind, _)| is_kind_of(*kind, payload, writes));
    let names: Vec<_> = kinds.map(|(_, name)| *name).collect();
    names.join(" or ")
}

/// Roles of stages in requests; the other stages encode recordings.
struct Parts {
    /// Those that speech passes, at least one.
    path: Vec<&'static str>,
    /// The one that answers.
    answers: Option<&'static str>,
}

impl Parts {
    /// Returns true if some request uses an edge whose ends are of the right kinds.
    fn pass(&self, edge: &StageEdge) -> bool {
        let reads = |name| name == self.path[0] || Some(name) == self.answers;
        let answers = |name| Some(name) == self.answers;
        // A recording goes to nothing else, and nothing else is waited for before a request.
        let encodes = |name| !self.path.contains(&name) && !answers(name);
        match (edge.payload, edge.from, edge.to) {
            (PayloadKind::Recording, Port::Session, Port::Stage(to)) => encodes(to),
            (PayloadKind::Embedding, Port::Stage(from), Port::Stage(to)) => encodes(from) && reads(to),
            (PayloadKind::Prompt, Port::Session, Port::Stage(to)) => answers(to),
            (PayloadKind::Text, Port::Session, Port::Stage(to)) => to == self.path[0],
            (PayloadKind::Text, Port::Stage(from), Port::Session) => answers(from),
            (PayloadKind::Text, Port::Stage(from), Port::Stage(to)) => answers(from) && to == self.path[0],
            (PayloadKind::Frames | PayloadKind::Latents, Port::Stage(from), Port::Stage(to)) => {
                self.path.windows(2).any(|pair| pair == [from, to])
            }
            // There is exactly one of these.
            (PayloadKind::Audio, Port::Stage(_), Port::Session) => true,
            _ => false,
        }
    }

    /// Edges that the orchestrator always opens.
    fn needed(&self) -> impl Iterator<Item = StageEdge> {
        let text = edge_of(Port::Session, Port::Stage(self.path[0]), PayloadKind::Text);
        let reply = |name| edge_of(Port::Stage(name), Port::Session, PayloadKind::Text);
        [text].into_iter().chain(self.answers.map(reply))
    }
}

#[cfg(test)]
mod tests;
