//! One replica for two connections.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{EventRouter, LinkError, RemoteParts, SharedReplica, called, remote_stage};
use omni_pipeline::stage::{
    Changes, End, Recv, ReplicaState, ReplicaStatus, StageBody, StageHandle, TurnTimeouts,
};
use omni_tests::{FakeScript, SETTINGS, stage_names};

use super::remote_stages::{PATIENCE, Stream, bits, code2wav, sound_of, status};

/// A replica, and what serves its connections.
struct Shared {
    replica: SharedReplica,
    thread: JoinHandle<()>,
}

impl Shared {
    fn start(script: FakeScript) -> Self {
        let changes = Changes::default();
        let router = EventRouter::default();
        let status = status(changes.clone()).observed_by(Arc::new(router.clone()));
        let (stage, body) = code2wav(script, 4, status.clone());
        let timeouts = TurnTimeouts {
            step: PATIENCE,
            load: PATIENCE,
        };
        Self {
            replica: SharedReplica::new(stage, (status, router), changes, (timeouts, Clock::start())),
            thread: std::thread::spawn(move || body.run()),
        }
    }

    /// The near side of a new connection, ready.
    async fn connect(&self) -> Near {
        let replica = self.replica.clone();
        let (hosts, ended) = std::sync::mpsc::channel();
        let transport = move || {
            let (here, there) = UnixStream::pair()?;
            let socket = there.try_clone()?;
            let replica = replica.clone();
            let host = std::thread::spawn(move || {
                let mut session = called(there, stage_names(), Clock::start())?;
                session.answer()?;
                session.serve_shared(&replica)
            });
            let _ = hosts.send((socket, host));
            Ok((here, Box::new(Left) as _))
        };
        let changes = Changes::default();
        let near = status(changes.clone());
        let parts = RemoteParts {
            transport: Box::new(transport),
            settings: SETTINGS.to_vec(),
            stages: stage_names(),
            mailbox: 16,
            load_timeout: PATIENCE,
            silence_timeout: PATIENCE,
        };
        let (handle, body) = remote_stage(parts, near.clone(), Clock::start());
        Near::started(handle, body, near, &changes, ended).await
    }

    fn stop(self) {
        self.replica.stop();
        self.thread.join().expect("the stage does not panic");
    }
}

/// A host that is left to itself.
struct Left;

impl omni_pipeline::connector::Peer for Left {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        "it was left to itself".to_owned()
    }
}

type Host = (UnixStream, JoinHandle<Result<(), LinkError>>);

struct Near {
    handle: StageHandle,
    status: ReplicaStatus,
    thread: JoinHandle<()>,
    socket: UnixStream,
    host: JoinHandle<Result<(), LinkError>>,
}

impl Near {
    async fn started(
        handle: StageHandle,
        body: StageBody,
        status: ReplicaStatus,
        changes: &Changes,
        hosts: std::sync::mpsc::Receiver<Host>,
    ) -> Self {
        let mut changed = changes.follow();
        let thread = std::thread::spawn(move || body.run());
        let ready = async {
            while status.state() != ReplicaState::Ready {
                changed.changed().await.expect("it lives as long as we");
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("it is ready");
        let (socket, host) = hosts.recv().expect("it was connected");
        Self {
            handle,
            status,
            thread,
            socket,
            host,
        }
    }

    fn hang_up(self) -> Result<(), LinkError> {
        self.handle.stop();
        self.thread.join().expect("the near side does not panic");
        self.host.join().expect("the host does not panic")
    }
}

#[tokio::test]
async fn two_connections_speak_with_one_replica_under_the_same_numbers() {
    let shared = Shared::start(FakeScript::default());
    let first = shared.connect().await;
    let second = shared.connect().await;
    assert_eq!(shared.replica.connections(), 2);
    let said = [(&first, "one of them"), (&second, "and another one")];
    let mut streams = said.map(|(near, text)| {
        let mut stream = Stream::open(1, &near.handle, 64, 64);
        stream.speak(text);
        stream.finish();
        stream
    });
    for (stream, (_, text)) in streams.iter_mut().zip(said) {
        let (samples, end) = stream.rest().await;
        assert_eq!((end, bits(&samples)), (End::Stop, bits(&sound_of(text).await)));
    }
    // Each knows of all that the replica did.
    let frames = (said[0].1.len() + said[1].1.len()) as u64;
    for (near, _) in said {
        let told = async {
            while near.status.stats().decode_tokens < frames {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("it is told");
    }
    assert!(first.hang_up().is_ok() && second.hang_up().is_ok());
    shared.stop();
}

#[tokio::test]
async fn a_connection_that_breaks_gives_up_what_it_had_and_the_other_goes_on() {
    let script = FakeScript::default();
    let shared = Shared::start(script);
    let first = shared.connect().await;
    let second = shared.connect().await;
    // Its reader takes nothing, so that it is not over.
    let mut lost = Stream::open(1, &first.handle, 64, 1);
    lost.speak("what will not be heard to its end");
    let mut lives = Stream::open(1, &second.handle, 64, 64);
    lives.speak("what is ");
    assert!(matches!(lives.next().await, Recv::Item(_)));
    first
        .socket
        .shutdown(std::net::Shutdown::Both)
        .expect("it is open");
    lives.speak("heard");
    lives.finish();
    assert_eq!(lives.rest().await.1, End::Stop);
    let emptied = async {
        while shared.replica.stats().running > 0 || shared.replica.connections() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, emptied)
        .await
        .expect("nothing of it is left");
    drop(lost);
    assert!(second.hang_up().is_ok());
    shared.stop();
    first.handle.stop();
    first.thread.join().expect("the near side does not panic");
}
