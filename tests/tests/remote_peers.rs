//! Peers that are not what they should be, and connections that end where they should not: every one is told from the others,
//! and none harms the process that spoke to it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use omni_engine::SeqId;
use omni_server::clock::Clock;
use omni_server::config::deploy::Restart;
use omni_server::connector::{
    HEADER_LEN, Launch, LinkError, Peer, RemoteParts, VERSION, WireError, called, edge, remote_stage,
};
use omni_server::stage::{
    CancelFlag, Changes, Code2WavJob, ContextRow, End, JobRefused, ReplicaId, ReplicaState, Sampling, Seat,
    StageProgress, Taken, TalkerJob, TalkerRequest,
};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a process may say nothing while it loads.
const LOADING: Duration = Duration::from_millis(50);

fn seat(changes: Changes) -> Seat {
    let restart = Restart {
        first_delay: PATIENCE,
        max_delay: PATIENCE,
        healthy_after: PATIENCE,
    };
    Seat::new(ReplicaId(0), restart, changes)
}

fn hello_of_version(version: u16) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    bytes[..4].copy_from_slice(b"OMNI");
    bytes[4..6].copy_from_slice(&version.to_le_bytes());
    bytes[6] = 1;
    bytes
}

/// A frame of `kind` that carries `payload`.
fn frame(kind: u8, seq: u64, number: u32, units: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = hello_of_version(VERSION);
    bytes[6] = kind;
    bytes[8..16].copy_from_slice(&seq.to_le_bytes());
    bytes[16..20].copy_from_slice(&number.to_le_bytes());
    bytes[20..24].copy_from_slice(&units.to_le_bytes());
    bytes[40..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend(payload);
    bytes
}

const READY: u8 = 2;
const ITEM: u8 = 5;

fn greeting(stage: &str) -> Vec<u8> {
    let length = stage.len() as u32;
    let payload = [&length.to_le_bytes()[..], stage.as_bytes(), &[0; 4]].concat();
    frame(1, 0, 0, 0, &payload)
}

/// What becomes of a replica whose other side sends this and is then closed.
fn fate_with(peer_says: Vec<u8>) -> String {
    struct Nobody;
    impl Peer for Nobody {
        fn end(self: Box<Self>, _patience: Duration) -> String {
            "nobody was there".to_owned()
        }
    }
    let launch = Box::new(move || {
        let (here, mut there) = UnixStream::pair()?;
        there.write_all(&peer_says)?;
        Ok((here, Box::new(Nobody) as Box<dyn Peer>))
    });
    fate_of(launch)
}

/// What becomes of a replica with such an other side.
fn fate_of(launch: Launch) -> String {
    let seat = seat(Changes::default());
    let parts = RemoteParts {
        launch,
        settings: Vec::new(),
        mailbox: 1,
        load_timeout: LOADING,
    };
    let (_handle, body) = remote_stage::<TalkerJob>(parts, seat.clone(), Clock::start());
    body.run();
    match seat.state() {
        ReplicaState::Failed { message } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_of_another_version_is_refused_by_both_sides_with_both_versions() {
    let (theirs, ours) = (VERSION + 1, VERSION);
    let expected = format!("version {theirs} of the encoding, expected version {ours}");
    let (mut peer, host) = UnixStream::pair().unwrap();
    peer.write_all(&hello_of_version(theirs)).unwrap();
    let error = called(host, Clock::start()).unwrap_err();
    assert!(
        matches!(&error, LinkError::Wire(WireError::Version { .. })) && error.to_string().contains(&expected),
        "{error}"
    );
    // It was told which version is spoken here.
    let mut answer = [0; HEADER_LEN];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..7], hello_of_version(ours)[..7]);

    let fate = fate_with(hello_of_version(theirs));
    assert!(fate.contains(&expected), "{fate}");
}

#[test]
fn a_connection_cut_within_a_frame_is_told_from_one_that_was_closed() {
    for (sent, expected) in [
        (0, "closed by the other process"),
        (HEADER_LEN - 1, "cut off within a frame after 43 bytes"),
    ] {
        let fate = fate_with(hello_of_version(VERSION)[..sent].to_vec());
        assert!(fate.contains(expected), "{fate}");
    }
}

/// The process was started, and is stuck as a whole while it loads its model.
#[test]
fn a_host_that_falls_silent_while_it_loads_is_given_up() {
    let launch = Box::new(|| {
        let (here, mut there) = UnixStream::pair()?;
        there.write_all(&greeting("talker"))?;
        let silent = std::thread::spawn(move || {
            // Until it is hung up on.
            let _ = there.read_to_end(&mut Vec::new());
        });
        Ok((here, Box::new(Misbehaving(silent)) as Box<dyn Peer>))
    });
    let fate = fate_of(launch);
    assert!(
        fate.starts_with("the other process has said nothing for 50ms while it was loading its model"),
        "{fate}"
    );
}

/// What is in line for a process is counted by nobody: what it does not read waits in the mailbox.
#[test]
fn jobs_for_a_host_that_reads_nothing_wait_where_they_are_bounded() {
    let (hang_up, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(Some(held));
    let launch = Box::new(move || {
        let (here, mut there) = UnixStream::pair()?;
        let ready = frame(READY, 0, 0, 0, &[]);
        there.write_all(&[greeting("talker"), ready].concat())?;
        let held = held.lock().expect("nobody panics").take();
        let deaf = std::thread::spawn(move || {
            let _ = held.map(|held| held.recv());
            drop(there);
        });
        Ok((here, Box::new(Misbehaving(deaf)) as Box<dyn Peer>))
    });
    let changes = Changes::default();
    let parts = RemoteParts {
        launch,
        settings: Vec::new(),
        mailbox: 4,
        load_timeout: PATIENCE,
    };
    let (stage, body) = remote_stage::<TalkerJob>(parts, seat(changes), Clock::start());
    let thread = std::thread::spawn(move || body.run());
    // Of a megabyte each: many more than the connection takes.
    let row = ContextRow::Heard(vec![0.0; 1 << 18].into());
    let mut kept = Vec::new();
    let mut job = |seq: u64| {
        let (tokens_in, tokens) = edge(2, None, Some(stage.wake().clone()));
        let (frames_in, frames) = edge(2, Some(stage.wake().clone()), None);
        let (finished, done) = tokio::sync::oneshot::channel();
        kept.push((tokens_in, frames, done));
        TalkerJob {
            seq: SeqId(seq),
            request: TalkerRequest {
                voice: "alto".to_owned(),
                language: None,
                sampling: Sampling::default(),
                seed: 0,
                context: Some(vec![row.clone()].into()),
                thought: false,
            },
            tokens: Box::new(tokens),
            max_frames: 1,
            frames: Box::new(frames_in),
            cancel: CancelFlag::default(),
            progress: StageProgress::default(),
            finished,
        }
    };
    let (mut taken, mut full) = (0, 0);
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
    let mut hello = hello_of_version(VERSION);
    hello[40] = 8;
    hello.extend([0; 8]);
    peer.write_all(&hello).unwrap();
    let mut called = called(host, Clock::start()).unwrap();
    called.stage = "talker".to_owned();
    called.answer().unwrap();
    called.refuse("the checkpoint is empty").unwrap();
    let mut said = Vec::new();
    peer.read_to_end(&mut said).unwrap();
    let fate = fate_with(said);
    assert!(fate.starts_with("the checkpoint is empty"), "{fate}");
}

#[test]
fn what_comes_before_its_time_is_refused() {
    let early = [greeting("talker"), frame(ITEM, 1, 0, 1, &[0; 8])].concat();
    let fate = fate_with(early);
    assert!(fate.contains("it sent Item, expected that it is ready"), "{fate}");
    let fate = fate_with(frame(READY, 0, 0, 0, &[]));
    assert!(fate.contains("it sent Ready, expected its greeting"), "{fate}");
}

#[test]
fn a_frame_that_promises_more_than_is_allowed_is_refused_before_it_comes() {
    let mut hello = hello_of_version(VERSION);
    hello[40..].copy_from_slice(&u32::MAX.to_le_bytes());
    let fate = fate_with(hello);
    assert!(
        fate.contains("a payload of 4294967295 bytes, the limit is"),
        "{fate}"
    );
}

/// Greets, and says `said` when a stream was opened.
fn misbehave(mut socket: UnixStream, said: &[u8]) -> std::io::Result<()> {
    let ready = frame(READY, 0, 0, 0, &[]);
    socket.write_all(&[greeting("code2wav"), ready].concat())?;
    // Its greeting, and the stream.
    for _ in 0..2 {
        let mut header = [0; HEADER_LEN];
        socket.read_exact(&mut header)?;
        let length = u32::from_le_bytes(header[40..].try_into().expect("4 bytes"));
        socket.read_exact(&mut vec![0; length as usize])?;
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

/// How stream 5, which has room for two frames, ends when the other side says this.
async fn end_with(said: Vec<u8>) -> End {
    let launch = Box::new(move || {
        let (here, there) = UnixStream::pair()?;
        let said = said.clone();
        let peer = std::thread::spawn(move || misbehave(there, &said).expect("it is listened to"));
        Ok((here, Box::new(Misbehaving(peer)) as Box<dyn Peer>))
    });
    let parts = RemoteParts {
        launch,
        settings: Vec::new(),
        mailbox: 1,
        load_timeout: LOADING,
    };
    let (stage, body) = remote_stage::<Code2WavJob>(parts, seat(Changes::default()), Clock::start());
    let thread = std::thread::spawn(move || body.run());
    let wake = stage.wake();
    let (_frames_in, frames) = edge(2, None, Some(wake.clone()));
    let (audio_in, mut audio) = edge(2, Some(wake.clone()), None);
    let job = Code2WavJob {
        seq: SeqId(5),
        frames: Box::new(frames),
        audio: Box::new(audio_in),
        cancel: CancelFlag::default(),
        progress: StageProgress::default(),
    };
    stage.submit(job).expect("it takes jobs");
    let end = loop {
        match tokio::time::timeout(PATIENCE, audio.next())
            .await
            .expect("an answer")
        {
            Taken::Item(_) => {}
            Taken::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    drop(stage);
    thread.join().expect("it does not panic");
    end
}

#[tokio::test]
async fn items_that_must_not_be_sent_end_the_connection_and_say_what_was_wrong() {
    let item = |number, units, frames: u32| frame(ITEM, 5, number, units, &frames.to_le_bytes());
    let cases = [
        (item(1, 1, 1), "item 1 came, expected item 0"),
        (item(0, 1, 2), "item 0 of 2 units was sent as one of 1"),
        (
            item(0, 1 << 20, 1 << 20),
            "item 0 has 1048576 units, the limit is 65536",
        ),
        (
            [item(0, 1, 1), item(1, 1, 1), item(2, 1, 1)].concat(),
            "item 2 came without credit",
        ),
        (
            frame(ITEM, 5, 0, 1, &[1, 0]),
            "a piece of audio ends after 2 bytes, expected 4",
        ),
        (frame(99, 5, 0, 1, &[]), "the kind of a frame is 99"),
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
