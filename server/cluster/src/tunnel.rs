//! Tunnel: a connection of `omni.stage.v1` through a stream of Dynamo's runtime.
//!
//! Front end and stage, or two stages, each have one end of a socket pair, as for a process on the same machine. The
//! bytes of the other ends pass as chunks of one bidirectional stream. Both directions are bounded, so a slow reader
//! pauses its writer.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream as Socket;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dynamo_runtime::component::Instance;
use dynamo_runtime::engine::{AsyncEngine, AsyncEngineContextProvider as _, DataStream};
use dynamo_runtime::error::DynamoError;
use dynamo_runtime::pipeline::context::Context;
use dynamo_runtime::pipeline::network::egress::addressed_router::AddressedPushRouter;
use dynamo_runtime::pipeline::{ManyIn, ManyOut, RequestStream, ResponseStream};
use dynamo_runtime::protocols::maybe_error::MaybeError;
use futures::StreamExt as _;
use omni_pipeline::connector::{Connected, Dial, LinkError, Peer, StageTransport};
use omni_server::app::{Caller, StageListener};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::card::Identity;

/// Most bytes of a chunk: usually one read of a socket.
const CHUNK: usize = 64 << 10;

/// Bytes on their way to a stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToStage {
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

/// Bytes on their way back, or the reason there are no more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToFrontend {
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
    #[serde(default)]
    error: Option<DynamoError>,
}

impl MaybeError for ToFrontend {
    fn from_err(err: impl std::error::Error + 'static) -> Self {
        Self {
            bytes: Vec::new(),
            error: Some(DynamoError::from(
                Box::new(err) as Box<dyn std::error::Error + 'static>
            )),
        }
    }

    fn err(&self) -> Option<DynamoError> {
        self.error.clone()
    }
}

/// The bytes that `reader` gives, chunk by chunk, until it ends.
fn chunks<T: Send + 'static>(
    reader: impl AsyncRead + Unpin + Send + 'static,
    wrap: fn(Vec<u8>) -> T,
) -> DataStream<T> {
    let state = (reader, vec![0; CHUNK]);
    Box::pin(futures::stream::unfold(
        state,
        move |(mut reader, mut bytes)| async move {
            match reader.read(&mut bytes).await {
                Ok(0) | Err(_) => None,
                Ok(count) => Some((wrap(bytes[..count].to_vec()), (reader, bytes))),
            }
        },
    ))
}

/// The stage's side.
#[derive(Debug)]
pub struct StageTunnel {
    listener: StageListener,
    identity: Arc<Identity>,
    gave_up: Arc<Notify>,
}

impl StageTunnel {
    /// Tunnels to `listener`. `gave_up` is notified when a connection ends because the replica died or hangs.
    pub fn new(listener: StageListener, identity: Identity, gave_up: Arc<Notify>) -> Self {
        Self {
            listener,
            identity: Arc::new(identity),
            gave_up,
        }
    }
}

#[async_trait]
impl AsyncEngine<ManyIn<ToStage>, ManyOut<ToFrontend>, anyhow::Error> for StageTunnel {
    async fn generate(&self, input: ManyIn<ToStage>) -> anyhow::Result<ManyOut<ToFrontend>> {
        let context = input.context();
        let (stream, _) = input.into_parts();
        let mut stream = stream
            .take()
            .ok_or_else(|| anyhow::anyhow!("the stream of a connection was taken already"))?;
        let (here, there) = Socket::pair()?;
        here.set_nonblocking(true)?;
        let (reader, mut writer) = UnixStream::from_std(here)?.into_split();
        let listener = self.listener.clone();
        let identity = Arc::clone(&self.identity);
        let gave_up = Arc::clone(&self.gave_up);
        // It ends when the other end of its socket does.
        std::thread::Builder::new()
            .name("connection".to_owned())
            .spawn(
                move || match listener.serve(there, |greeting| identity.refuses_greeting(greeting)) {
                    Ok(Caller::FrontEnd) => tracing::info!("front end disconnected"),
                    Ok(Caller::Stage(stage, None)) => tracing::info!(stage, "stage disconnected"),
                    Ok(Caller::Stage(stage, Some(error))) => {
                        tracing::warn!(stage, %error, "stage disconnected: connection failed");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "front end disconnected: connection failed");
                        if matches!(error, LinkError::Peer(_)) {
                            gave_up.notify_one();
                        }
                    }
                },
            )?;
        tokio::spawn(async move {
            while let Some(ToStage { bytes }) = stream.next().await {
                if writer.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            let _ = writer.shutdown().await;
        });
        let replies = chunks(reader, |bytes| ToFrontend { bytes, error: None });
        Ok(ResponseStream::new(replies, context))
    }
}

/// Reaches one replica of a stage.
pub struct Tunnel {
    router: Arc<AddressedPushRouter>,
    instance: Instance,
    runtime: Handle,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Tunnel {
    /// To `instance`. Made on a thread of the runtime that carries it.
    pub fn new(router: Arc<AddressedPushRouter>, instance: Instance) -> Self {
        Self {
            router,
            instance,
            runtime: Handle::current(),
        }
    }
}

/// Reaches stages at the addresses that [cards](crate::card::Card::address) have. Called on a thread of the runtime
/// that carries it.
pub fn dial(router: Arc<AddressedPushRouter>) -> Dial {
    let runtime = Handle::current();
    Arc::new(move |address| {
        let instance = serde_json::from_slice(address).map_err(io::Error::other)?;
        let mut tunnel = Tunnel {
            router: Arc::clone(&router),
            instance,
            runtime: runtime.clone(),
        };
        tunnel.connect()
    })
}

impl StageTransport for Tunnel {
    fn connect(&mut self) -> io::Result<Connected> {
        let (here, there) = Socket::pair()?;
        there.set_nonblocking(true)?;
        let router = Arc::clone(&self.router);
        let instance = self.instance.clone();
        let (ends, ended) = oneshot::channel();
        let carrying = self.runtime.spawn(async move {
            let why = match carry(&router, instance, there).await {
                Ok(()) => "the connection to its process was closed".to_owned(),
                Err(error) => format!("the connection to its process: {error:#}"),
            };
            // The replica may not ask.
            let _ = ends.send(why);
        });
        let end = TunnelEnd {
            ended,
            carrying: carrying.abort_handle(),
            runtime: self.runtime.clone(),
        };
        Ok((here, Box::new(end)))
    }
}

/// Carries all bytes of `socket` and of the stage to each other, until one of them ends.
async fn carry(router: &AddressedPushRouter, instance: Instance, socket: Socket) -> anyhow::Result<()> {
    let (reader, mut writer) = UnixStream::from_std(socket)?.into_split();
    let requests = chunks(reader, |bytes| ToStage { bytes });
    let input: ManyIn<ToStage> = Context::new(RequestStream::new(requests));
    let address = instance.transport.address().to_owned();
    let mut replies: ManyOut<ToFrontend> = router.dispatch_bidirectional(instance, address, input).await?;
    while let Some(ToFrontend { bytes, error }) = replies.next().await {
        if let Some(error) = error {
            return Err(error.into());
        }
        writer.write_all(&bytes).await?;
    }
    Ok(())
}

/// The end of a tunnel that the replica holds.
struct TunnelEnd {
    ended: oneshot::Receiver<String>,
    carrying: AbortHandle,
    runtime: Handle,
}

impl Peer for TunnelEnd {
    fn end(self: Box<Self>, patience: Duration) -> String {
        let Self {
            ended,
            carrying,
            runtime,
        } = *self;
        let ended = runtime.block_on(async { tokio::time::timeout(patience, ended).await });
        match ended {
            Ok(Ok(why)) => why,
            _ => {
                carrying.abort();
                "the connection to its process did not end by itself".to_owned()
            }
        }
    }
}
