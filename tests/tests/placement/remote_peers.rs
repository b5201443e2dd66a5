//! Invalid peers, and connections that end at the wrong time: each has an error of its own, and none harms the
//! process.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use omni_engine::ChunkConfig;
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    LinkError, PREFIX, Peer, RemoteParts, StageTransport, VERSION, WireError, called, edge, remote_stage,
};
use omni_pipeline::request::{ContextRow, SpeechRequest};
use omni_pipeline::stage::{Changes, End, JobRefused, Recv, ReplicaId, ReplicaState, ReplicaStatus};
use omni_proto::stage::v1;
use omni_proto::stage::v1::end::Reason;
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::item::Payload;
use omni_proto::stage::v1::open::Request;
use omni_proto::stage::v1::{
    Audio, DecodeRequest, End as EndMessage, Frame, Heartbeat, Hello, Item, Open, Ready, Stop, Tokens,
};
use omni_tests::{
    FakeScript, FakeSpeech, Make, SETTINGS, code2wav_stage, decode_job, host, restart_after, speech_job,
    speech_request, stage_names,
};
use prost::Message as _;

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest silence of a process while it loads.
const LOADING: Duration = Duration::from_millis(50);

fn status(stage: &'static str, changes: Changes) -> ReplicaStatus {
    ReplicaStatus::new(stage, ReplicaId(0), restart_after(PATIENCE), changes)
}

fn hello_of_version(version: u32) -> Vec<u8> {
    let stage = "talker".to_owned();
    let settings = Vec::new();
    frame(
        0,
        Body::Hello(Hello {
            version,
            stage,
            settings,
            sender: String::new(),
        }),
    )
}

/// Bytes behind their length.
fn delimited(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

fn frame(sequence: u64, body: Body) -> Vec<u8> {
    let frame = Frame {
        sequence,
        body: Some(body),
        sent: 1,
    };
    delimited(&frame.encode_to_vec())
}

fn ready() -> Vec<u8> {
    frame(0, Body::Ready(Ready {}))
}

fn item(number: u32, payload: Payload) -> Vec<u8> {
    let payload = Some(payload);
    frame(
        5,
        Body::Item(Item {
            number,
            put: 0,
            payload,
        }),
    )
}

fn greeting(stage: &str) -> Vec<u8> {
    let hello = Hello {
        version: VERSION,
        stage: stage.to_owned(),
        settings: Vec::new(),
        sender: String::new(),
    };
    frame(0, Body::Hello(hello))
}

/// Error of a replica whose other side sends this and is then closed.
fn fate_with(peer_says: Vec<u8>) -> String {
    struct NoPeer;
    impl Peer for NoPeer {
        fn end(self: Box<Self>, _patience: Duration) -> String {
            "no peer was there".to_owned()
        }
    }
    let transport = Box::new(move || {
        let (here, mut there) = UnixStream::pair()?;
        there.write_all(&peer_says)?;
        Ok((here, Box::new(NoPeer) as Box<dyn Peer>))
    });
    fate_of(transport)
}

/// Error of a replica with such an other side.
fn fate_of(transport: Box<dyn StageTransport>) -> String {
    let status = status("talker", Changes::default());
    let parts = RemoteParts {
        transport,
        settings: Vec::new(),
        stages: stage_names(),
        mailbox: 1,
        load_timeout: LOADING,
        silence_timeout: PATIENCE,
    };
    let (_handle, body) = remote_stage(parts, status.clone(), Clock::start());
    body.run();
    match status.state() {
        ReplicaState::Failed { message } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_of_another_version_is_refused_by_both_sides_with_both_versions() {
    let theirs = VERSION + 1;
    let ours = VERSION;
    let expected = format!("version {theirs} of the protocol, expected version {ours}");
    let (mut peer, host) = UnixStream::pair().unwrap();
    peer.write_all(&hello_of_version(theirs)).unwrap();
    let error = called(host, stage_names(), Clock::start()).unwrap_err();
    assert!(
        matches!(&error, LinkError::Wire(WireError::Version { .. })) && error.to_string().contains(&expected),
        "{error}"
    );
    // It received the version supported here.
    match read_frame(&mut peer).unwrap().body {
        Some(Body::Hello(hello)) => assert_eq!(hello.version, ours),
        other => panic!("{other:?}"),
    }

    let fate = fate_with(hello_of_version(theirs));
    assert!(fate.contains(&expected), "{fate}");
}

/// Its frames began with a word and the version, not with a length.
#[test]
fn a_peer_from_before_the_messages_is_refused_with_its_version() {
    let expected = format!("version 4 of the protocol, expected version {VERSION}");
    let (mut peer, host) = UnixStream::pair().unwrap();
    let hello = b"OMNI\x04\x00\x01\x00";
    peer.write_all(hello).unwrap();
    let error = called(host, stage_names(), Clock::start())
        .unwrap_err()
        .to_string();
    assert!(error.contains(&expected), "{error}");

    let fate = fate_with(hello.to_vec());
    assert!(fate.contains(&expected), "{fate}");
}

#[test]
fn a_host_sends_heartbeats_with_a_sequence_and_without() {
    let (mut peer, socket) = UnixStream::pair().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let make: Make = Arc::new(|status| {
        let config = ChunkConfig::new(Duration::from_millis(40));
        let model = Arc::new(FakeSpeech::new(FakeScript::default()));
        code2wav_stage(model, (1, config), PATIENCE, status)
    });
    let host = std::thread::spawn(move || host(socket, &make, PATIENCE));
    let hello = Hello {
        version: VERSION,
        stage: "code2wav".to_owned(),
        settings: SETTINGS.to_vec(),
        sender: String::new(),
    };
    peer.write_all(&frame(0, Body::Hello(hello))).unwrap();
    while read_frame(&mut peer).unwrap().body != Some(Body::Ready(Ready {})) {}
    let beats = |peer: &mut UnixStream| {
        for _ in 0..2 {
            while read_frame(peer).unwrap().body != Some(Body::Heartbeat(Heartbeat {})) {}
        }
    };
    beats(&mut peer);
    let open = Open {
        request: Some(Request::Decode(DecodeRequest {
            speech: Some(v1::SpeechRequest {
                speed: 1.0,
                sampling: Some(v1::Sampling::default()),
                ..v1::SpeechRequest::default()
            }),
            payloads: Some(v1::Payloads {
                reads: Some(v1::Payload::Frames.into()),
                gives: v1::Payload::Audio.into(),
            }),
            ..DecodeRequest::default()
        })),
        ..Open::default()
    };
    peer.write_all(&frame(5, Body::Open(open))).unwrap();
    beats(&mut peer);
    drop(peer);
    host.join().expect("it does not panic").expect("it is hung up on");
}

#[test]
fn a_connection_cut_within_a_frame_is_told_from_one_that_was_closed() {
    for (sent, expected) in [
        (0, "closed by the other process"),
        (PREFIX + 3, "cut off within a frame after 7 bytes"),
    ] {
        let fate = fate_with(hello_of_version(VERSION)[..sent].to_vec());
        assert!(fate.contains(expected), "{fate}");
    }
}

/// The process was started, and is stuck as a whole while it loads its model.
#[test]
fn a_host_that_falls_silent_while_it_loads_is_given_up() {
    let transport = Box::new(|| {
        let (here, mut there) = UnixStream::pair()?;
        there.write_all(&greeting("talker"))?;
        let silent = std::thread::spawn(move || {
            // Until it is hung up on.
            let _ = there.read_to_end(&mut Vec::new());
        });
        Ok((here, Box::new(Misbehaving(silent)) as Box<dyn Peer>))
    });
    let fate = fate_of(transport);
    assert!(
        fate.starts_with("the other process has said nothing for 50ms while it was loading its model"),
        "{fate}"
    );
}

/// No counter covers jobs queued for a process: unread ones stay in the mailbox.
#[test]
fn jobs_for_a_host_that_reads_nothing_wait_where_they_are_bounded() {
    let (hang_up, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(Some(held));
    let transport = Box::new(move || {
        let (here, mut there) = UnixStream::pair()?;
        there.write_all(&[greeting("talker"), ready()].concat())?;
        let held = held.lock().expect("no holder panics").take();
        let deaf = std::thread::spawn(move || {
            let _ = held.map(|held| held.recv());
            drop(there);
        });
        Ok((here, Box::new(Misbehaving(deaf)) as Box<dyn Peer>))
    });
    let changes = Changes::default();
    let parts = RemoteParts {
        transport,
        settings: Vec::new(),
        stages: stage_names(),
        mailbox: 4,
        load_timeout: PATIENCE,
        silence_timeout: PATIENCE,
    };
    let (stage, body) = remote_stage(parts, status("talker", changes), Clock::start());
    let thread = std::thread::spawn(move || body.run());
    // Of a megabyte each: many more than the connection takes.
    let row = ContextRow::Hidden(vec![0.0; 1 << 18].into());
    let mut kept = Vec::new();
    let mut job = |seq: u64| {
        let (tokens_in, tokens) = edge(2, None, Some(stage.wake().clone()));
        let (frames_in, frames) = edge(2, Some(stage.wake().clone()), None);
        let (finished, done) = tokio::sync::oneshot::channel();
        kept.push((tokens_in, frames, done));
        let request = SpeechRequest {
            context: Some(vec![row.clone()].into()),
            ..speech_request("alto", 0, 1)
        };
        let mut job = speech_job(seq, request, tokens, frames_in);
        job.finished = Some(finished);
        job
    };
    let mut taken = 0;
    let mut full = 0;
    // A full mailbox that is worked off is not full for half a second.
    while taken < 64 && full < 25 {
        match stage.submit(job(taken)) {
            Ok(()) => (taken, full) = (taken + 1, 0),
            Err(JobRefused::Full { .. }) => {
                full += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(hang_up);
    drop(stage);
    thread.join().expect("it does not panic");
    assert!(taken < 64, "all of them are in line");
}

#[test]
fn a_host_of_another_stage_is_refused() {
    let fate = fate_with(greeting("nose"));
    assert!(fate.contains("\"nose\", expected \"talker\""), "{fate}");
}

#[test]
fn a_host_that_cannot_load_says_why() {
    let (mut peer, host) = UnixStream::pair().unwrap();
    peer.write_all(&hello_of_version(VERSION)).unwrap();
    let mut called = called(host, stage_names(), Clock::start()).unwrap();
    called.answer().unwrap();
    called.refuse("the checkpoint is empty").unwrap();
    let mut said = Vec::new();
    peer.read_to_end(&mut said).unwrap();
    let fate = fate_with(said);
    assert!(fate.starts_with("the checkpoint is empty"), "{fate}");
}

#[test]
fn what_comes_before_its_time_is_refused() {
    let tokens = Payload::Text(Tokens { ids: vec![1] });
    let early = [greeting("talker"), item(0, tokens)].concat();
    let fate = fate_with(early);
    assert!(fate.contains("it sent item, expected ready"), "{fate}");
    let fate = fate_with(ready());
    assert!(fate.contains("it sent ready, expected hello"), "{fate}");
}

#[test]
fn a_frame_that_promises_more_than_is_allowed_is_refused_before_it_comes() {
    let fate = fate_with(u32::MAX.to_be_bytes().to_vec());
    assert!(
        fate.contains("a frame has 4294967295 bytes, the limit is"),
        "{fate}"
    );
}

fn read_frame(socket: &mut UnixStream) -> std::io::Result<Frame> {
    let mut length = [0; PREFIX];
    socket.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut message)?;
    Ok(Frame::decode(&message[..])?)
}

/// Greets, and says `said` when a stream was opened.
fn misbehave(mut socket: UnixStream, said: &[u8]) -> std::io::Result<()> {
    socket.write_all(&[greeting("code2wav"), ready()].concat())?;
    // Its greeting, and the stream.
    for _ in 0..2 {
        read_frame(&mut socket)?;
    }
    socket.write_all(said)?;
    // Until it hangs up, whether or not it has read everything.
    let _ = socket.read_to_end(&mut Vec::new());
    Ok(())
}

struct Misbehaving(JoinHandle<()>);

impl Peer for Misbehaving {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        self.0.join().expect("its script is sound");
        "it has ended".to_owned()
    }
}

/// End of stream 5, which has room for two frames, after the other side sends this.
async fn end_with(said: Vec<u8>) -> End {
    let script = move |there| misbehave(there, &said);
    end_after(PATIENCE, script).await
}

/// End of stream 5 with this other side, which may be silent for `silence_timeout`.
async fn end_after(
    silence_timeout: Duration,
    script: impl Fn(UnixStream) -> std::io::Result<()> + Clone + Send + 'static,
) -> End {
    let transport = Box::new(move || {
        let (here, there) = UnixStream::pair()?;
        let script = script.clone();
        let peer = std::thread::spawn(move || script(there).expect("it is listened to"));
        Ok((here, Box::new(Misbehaving(peer)) as Box<dyn Peer>))
    });
    let parts = RemoteParts {
        transport,
        settings: Vec::new(),
        stages: stage_names(),
        mailbox: 1,
        load_timeout: LOADING,
        silence_timeout,
    };
    let (stage, body) = remote_stage(parts, status("code2wav", Changes::default()), Clock::start());
    let thread = std::thread::spawn(move || body.run());
    let wake = stage.wake();
    let (_frames_in, frames) = edge(2, None, Some(wake.clone()));
    let (audio_in, mut audio) = edge(2, Some(wake.clone()), None);
    let job = decode_job(5, frames, audio_in);
    stage.submit(job).expect("it takes jobs");
    let end = loop {
        match tokio::time::timeout(PATIENCE, audio.next())
            .await
            .expect("an answer")
        {
            Recv::Item(_) => {}
            Recv::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    drop(stage);
    thread.join().expect("it does not panic");
    end
}

#[tokio::test]
async fn a_host_that_has_a_sequence_and_says_nothing_is_given_up() {
    let end = end_after(Duration::from_millis(200), |there| misbehave(there, &[])).await;
    assert!(
        matches!(&end, End::Lost { stage: "code2wav", message } if message.contains("has said nothing for 200ms")),
        "{end:?}"
    );
}

/// A long step gives no items, but its process is alive.
#[tokio::test]
async fn a_host_that_sends_heartbeats_and_no_items_is_waited_for() {
    let end = end_after(Duration::from_secs(2), |mut there| {
        there.write_all(&[greeting("code2wav"), ready()].concat())?;
        for _ in 0..2 {
            read_frame(&mut there)?;
        }
        there.set_read_timeout(Some(Duration::from_millis(100)))?;
        for _ in 0..40 {
            there.write_all(&frame(0, Body::Heartbeat(Heartbeat {})))?;
            // Credit comes, or nothing for a while.
            let _ = there.read(&mut [0; 64]);
        }
        let reason = Some(Reason::Stop(Stop {}));
        there.write_all(&frame(5, Body::End(EndMessage { reason })))?;
        there.set_read_timeout(None)?;
        let _ = there.read_to_end(&mut Vec::new());
        Ok(())
    })
    .await;
    assert_eq!(end, End::Stop);
}

#[tokio::test]
async fn items_that_must_not_be_sent_end_the_connection_and_say_what_was_wrong() {
    let audio = |number, frames| {
        let samples = Vec::new();
        item(
            number,
            Payload::Audio(Audio {
                samples,
                frames,
                codes: Vec::new(),
            }),
        )
    };
    let cases = [
        (audio(1, 1), "item 1 came, expected item 0"),
        (audio(0, 1 << 20), "item 0 has 1048576 units, the limit is 65536"),
        (
            [audio(0, 1), audio(1, 1), audio(2, 1)].concat(),
            "item 2 came without credit",
        ),
        (
            item(0, Payload::Text(Tokens { ids: vec![1] })),
            "an item is text, expected audio",
        ),
        (
            frame(5, Body::Item(Item::default())),
            "an item is absent, expected a payload",
        ),
        (delimited(&[]), "the body of a frame is absent"),
        // A field of one byte that has none.
        (delimited(&[8]), "malformed frame of 1 bytes"),
    ];
    for (said, expected) in cases {
        match end_with(said).await {
            End::Lost {
                stage: "code2wav",
                message,
            } => assert!(message.contains(expected), "{message}, expected {expected}"),
            other => panic!("{other:?}, expected {expected}"),
        }
    }
}
