//! Edges between stages: bounded, never blocking, and waking the other end.
//!
//! An [`edge`] has one writer and one reader. Its capacity is counted in the reader's unit (codec frames, for audio
//! too); a writer that finds no room pauses its sequence and is woken when the reader has freed half of it. Each end
//! notices when the other is dropped. Data passes from worker to worker, or from worker to session, and through
//! nothing else. Every edge is measured, chunk by chunk ([`EdgeMeter`]).
//!
//! A replica may be in another process. Then a proxy takes its jobs here, and a host ([`called`]) recreates them
//! there: both ends of every edge are local, with a socket between them that carries messages of `omni.stage.v1`.

mod forwarder;
mod hold;
mod host;
mod link;
mod local;
mod meter;
pub mod parsers;
mod peers;
mod process;
mod protocol;
mod proxy;
mod rendezvous;
mod replica;
mod stream;
mod wire;

pub use crate::stage::TransferStamps;
pub use host::{EventRouter, HostSession, SharedReplica, called};
pub use link::LinkError;
pub use local::{EdgeReader, EdgeWriter, edge, metered_edge};
pub use meter::{EdgeMeter, EdgeRecord, EdgeSink, Hop, IgnoreEdges, Place};
pub use peers::{Dial, LinkCounts, PeerParts, Peers};
pub use process::{Attach, inherited, spawn_peer};
pub use protocol::{LATEST_LOSS, NETWORK_SILENCE_TIMEOUT, SILENCE_TIMEOUT, StageNames};
pub use replica::{Connected, Peer, RemoteParts, StageTransport, remote_stage};
pub use wire::{MAX_FRAME, PREFIX, VERSION, WireError};
