//! Vocoder at the other end of a socket: output equals the local stage's, and streams do not disturb each other.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{ChunkConfig, CodecFrame, SeqId};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    Attach, EdgeMeter, EdgeReader, EdgeWriter, Hop, PREFIX, Place, RemoteParts, TransferStamps, edge,
    metered_edge, remote_stage,
};
use omni_pipeline::item::{AudioPiece, Item};
use omni_pipeline::stage::{
    CancelFlag, Changes, EdgeSender as _, End, Notifier, Recv, ReplicaId, ReplicaState, ReplicaStatus,
    StageBody, StageHandle, StageProgress,
};
use omni_tests::{
    Chunks, FAKE_SAMPLES_PER_FRAME, FakeScript, FakeSpeech, Make, RemoteStage, SETTINGS, code2wav_stage,
    decode_job, host, restart, restart_after, stage_names,
};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

fn backend(script: FakeScript) -> Arc<FakeSpeech> {
    Arc::new(FakeSpeech::new(script))
}

pub(super) fn code2wav(
    script: FakeScript,
    max_streams: u32,
    status: ReplicaStatus,
) -> (StageHandle, StageBody) {
    let config = ChunkConfig {
        max_streams,
        ..ChunkConfig::new(Duration::from_millis(40))
    };
    code2wav_stage(backend(script), (16, config), PATIENCE, status)
}

async fn remote_code2wav(script: FakeScript, max_streams: u32) -> RemoteStage {
    RemoteStage::start(move |status| code2wav(script.clone(), max_streams, status)).await
}

pub(super) fn status(changes: Changes) -> ReplicaStatus {
    ReplicaStatus::new("code2wav", ReplicaId(0), restart_after(PATIENCE), changes)
}

fn frame(spoken: char) -> CodecFrame {
    CodecFrame(Box::new([u32::from(spoken), 7]))
}

/// The session's side of a stream.
pub(super) struct Stream {
    frames: Option<Box<EdgeWriter>>,
    audio: EdgeReader,
    cancel: CancelFlag,
    progress: StageProgress,
}

impl Stream {
    /// A job for a stage, between edges of these capacities.
    pub(super) fn open(seq: u64, stage: &StageHandle, frames: u32, audio: u32) -> Self {
        let wake = stage.wake();
        let frames = edge(frames, None, Some(wake.clone()));
        let audio = edge(audio, Some(wake.clone()), None);
        Self::between(seq, stage, frames, audio)
    }

    fn between(
        seq: u64,
        stage: &StageHandle,
        (frames_in, frames): (EdgeWriter, EdgeReader),
        (audio_in, audio): (EdgeWriter, EdgeReader),
    ) -> Self {
        let stream = Self {
            frames: Some(Box::new(frames_in)),
            audio,
            cancel: CancelFlag::default(),
            progress: StageProgress::default(),
        };
        let mut job = decode_job(seq, frames, audio_in);
        job.cancel = stream.cancel.clone();
        job.progress = stream.progress.clone();
        stage.submit(job).expect("it takes jobs");
        stream
    }

    pub(super) fn speak(&mut self, text: &str) {
        let frames = self.frames.as_mut().expect("it is open");
        for spoken in text.chars() {
            frames.put(frame(spoken).into(), 1).unwrap();
        }
    }

    pub(super) fn finish(&mut self) {
        self.frames.take().expect("it is open").end(End::Stop);
    }

    pub(super) async fn next(&mut self) -> Recv<AudioPiece> {
        let next = tokio::time::timeout(PATIENCE, self.audio.next());
        match next.await.expect("an answer") {
            Recv::Item(Item::Audio(piece)) => Recv::Item(piece),
            Recv::Item(other) => panic!("{other:?}"),
            Recv::Empty => Recv::Empty,
            Recv::End(end) => Recv::End(end),
            Recv::Gone => Recv::Gone,
        }
    }

    /// Samples up to the end, and the end.
    pub(super) async fn rest(&mut self) -> (Vec<f32>, End) {
        let mut samples = Vec::new();
        loop {
            match self.next().await {
                Recv::Item(piece) => samples.extend(piece.samples),
                Recv::End(end) => return (samples, end),
                other => panic!("{other:?} after {} samples", samples.len()),
            }
        }
    }
}

pub(super) async fn sound_of(text: &str) -> Vec<f32> {
    let (stage, body) = code2wav(FakeScript::default(), 4, status(Changes::default()));
    let thread = std::thread::spawn(move || body.run());
    let mut stream = Stream::open(0, &stage, 1_000, 1_000);
    stream.speak(text);
    stream.finish();
    let (samples, end) = stream.rest().await;
    assert_eq!(end, End::Stop);
    drop(stage);
    thread.join().unwrap();
    samples
}

pub(super) fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|sample| sample.to_bits()).collect()
}

#[tokio::test]
async fn audio_is_the_same_as_in_process_however_frames_and_room_come() {
    let text = "streamed equals whole, here as there.";
    let expected = bits(&sound_of(text).await);
    let remote = remote_code2wav(FakeScript::default(), 8).await;
    let chars: Vec<_> = text.chars().collect();
    for (seq, (batch, room)) in [
        (1, 1),
        (1, 1_000),
        (2, 3),
        (5, 2),
        (chars.len(), 1),
        (chars.len(), 1_000),
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = Stream::open(seq as u64, remote.handle(), 64, room);
        let mut samples = Vec::new();
        for part in chars.chunks(batch) {
            stream.speak(&part.iter().collect::<String>());
            // The next frames come only when there is sound of these.
            match stream.next().await {
                Recv::Item(piece) => samples.extend(piece.samples),
                other => panic!("{other:?}"),
            }
        }
        stream.finish();
        let (rest, end) = stream.rest().await;
        samples.extend(rest);
        assert_eq!(end, End::Stop);
        assert!(bits(&samples) == expected, "batches of {batch}, room for {room}");
        assert_eq!(stream.progress.snapshot().outputs as usize, chars.len());
    }
    let host = remote.stop();
    assert!(host.is_ok(), "{host:?}");
}

fn metered(
    from: &'static str,
    to: &'static str,
    chunks: &Chunks,
    notifiers: (Option<Notifier>, Option<Notifier>),
) -> (EdgeWriter, EdgeReader) {
    let place = |stage| Place { stage, replica: None };
    let meter = EdgeMeter {
        hop: Hop {
            seq: SeqId(9),
            from: place(from),
            to: place(to),
        },
        trace: None,
        clock: Clock::start(),
        sink: Arc::new(chunks.clone()),
    };
    metered_edge(64, notifiers.0, notifiers.1, meter)
}

#[tokio::test]
async fn every_chunk_is_stamped_and_its_size_is_that_of_its_frame() {
    let remote = remote_code2wav(FakeScript::default(), 8).await;
    let input = Chunks::default();
    let output = Chunks::default();
    let wake = Some(remote.handle().wake().clone());
    let frames = metered("talker", "code2wav", &input, (None, wake.clone()));
    let audio = metered("code2wav", "session", &output, (wake, None));
    let mut stream = Stream::between(9, remote.handle(), frames, audio);
    stream.speak("a chunk");
    stream.finish();
    let mut pieces = Vec::new();
    while let Recv::Item(piece) = stream.next().await {
        pieces.push(piece);
    }
    drop(stream);
    let _ = remote.stop();

    let (input, into) = input.all();
    let (output, out) = output.all();
    let sizes = |chunks: &[TransferStamps]| chunks.iter().map(|chunk| chunk.bytes).collect::<Vec<_>>();
    // The length in front, sequence and time, and an item with its number and time; what differs from run to run is
    // the times.
    let least = |content: u64| (PREFIX as u64 + content, PREFIX as u64 + content + 64);
    let right = |sizes: Vec<u64>, contents: Vec<u64>| {
        assert_eq!(sizes.len(), contents.len());
        for (size, content) in sizes.into_iter().zip(contents) {
            let (least, most) = least(content);
            assert!(
                (least..most).contains(&size),
                "{size} bytes for {content} of content"
            );
        }
    };
    right(sizes(&input), vec![2; 7]);
    let samples = pieces
        .iter()
        .map(|piece| 4 * u64::from(piece.frames * FAKE_SAMPLES_PER_FRAME));
    right(sizes(&output), samples.collect());
    for chunk in input.iter().chain(&output) {
        let stamps = [chunk.tx_start, chunk.tx_end, chunk.rx_start, chunk.rx_end];
        assert!(stamps.is_sorted() && stamps[0] < stamps[3], "{chunk:?}");
    }
    for (chunks, record) in [(&input, &into), (&output, &out)] {
        let summed: Vec<_> = record
            .iter()
            .map(|record| (record.chunks as usize, record.bytes))
            .collect();
        assert_eq!(summed, [(chunks.len(), sizes(chunks).iter().sum())]);
    }
}

#[tokio::test]
async fn a_cancelled_stream_gives_its_place_back_at_the_other_end() {
    let script = FakeScript::default();
    let remote = remote_code2wav(script.clone(), 1).await;
    let mut first = Stream::open(1, remote.handle(), 64, 64);
    first.speak("a");
    assert!(matches!(first.next().await, Recv::Item(_)));
    first.cancel.set();
    remote.handle().wake().notify();
    assert_eq!(first.next().await, Recv::Gone);

    // There is one place only.
    let mut second = Stream::open(2, remote.handle(), 64, 64);
    second.speak("b");
    second.finish();
    assert_eq!(second.rest().await.1, End::Stop);
    let decoded = script.code2wav.passed();
    first.speak("never heard");
    let mut third = Stream::open(3, remote.handle(), 64, 64);
    third.speak("c");
    third.finish();
    assert_eq!(third.rest().await.1, End::Stop);
    assert_eq!(
        script.code2wav.passed(),
        decoded + 1,
        "nothing of the first is decoded"
    );
    let _ = remote.stop();
}

#[tokio::test]
async fn a_job_without_a_place_is_told_so() {
    let remote = remote_code2wav(FakeScript::default(), 1).await;
    let mut first = Stream::open(1, remote.handle(), 64, 64);
    first.speak("a");
    assert!(matches!(first.next().await, Recv::Item(_)));
    let mut second = Stream::open(2, remote.handle(), 64, 64);
    assert!(matches!(second.rest().await.1, End::Overloaded(_)));
    let _ = remote.stop();
}

#[tokio::test]
async fn a_slow_reader_pauses_its_own_stream_only() {
    let remote = remote_code2wav(FakeScript::default(), 8).await;
    let text = "x".repeat(400);
    let mut slow = Stream::open(1, remote.handle(), 1_000, 8);
    slow.speak(&text);
    slow.finish();
    assert!(matches!(slow.next().await, Recv::Item(_)));
    for seq in 2..6 {
        let mut brisk = Stream::open(seq, remote.handle(), 1_000, 8);
        brisk.speak(&text);
        brisk.finish();
        assert_eq!(brisk.rest().await.1, End::Stop);
    }
    // Room for 8, 16 on their way to the connection, and each may be overrun by one chunk of 8; plus the one that was
    // read.
    let made = slow.progress.snapshot().outputs;
    assert!(
        made <= 8 + 16 + 2 * 8 + 8,
        "{made} frames were made that no reader took"
    );
    let (samples, end) = slow.rest().await;
    assert_eq!(
        (samples.len() as u32 / FAKE_SAMPLES_PER_FRAME, end),
        (399, End::Stop)
    );
    let _ = remote.stop();
}

#[tokio::test]
async fn upstream_that_fails_or_goes_takes_its_stream_along() {
    let remote = remote_code2wav(FakeScript::default(), 2).await;
    let mut failed = Stream::open(1, remote.handle(), 64, 64);
    let end = End::Failed {
        stage: "talker",
        message: "it lost its voice".to_owned(),
    };
    failed.frames.take().unwrap().end(end.clone());
    assert_eq!(failed.rest().await.1, end);

    let mut gone = Stream::open(2, remote.handle(), 64, 64);
    gone.frames = None;
    assert_eq!(gone.next().await, Recv::Gone);
    let _ = remote.stop();
}

#[tokio::test]
async fn a_connection_that_breaks_loses_what_is_on_it_and_the_next_one_works() {
    let remote = remote_code2wav(FakeScript::default(), 2).await;
    let mut stream = Stream::open(1, remote.handle(), 64, 64);
    stream.speak("a");
    assert!(matches!(stream.next().await, Recv::Item(_)));
    remote.break_connection();
    let (_, end) = stream.rest().await;
    assert!(
        matches!(&end, End::Lost { stage: "code2wav", message } if message.contains("connection")),
        "{end:?}"
    );
    remote
        .until(|remote| remote.starts() == 2 && remote.state() == ReplicaState::Ready)
        .await;
    let mut next = Stream::open(2, remote.handle(), 64, 64);
    next.speak("all is well");
    next.finish();
    assert_eq!(bits(&next.rest().await.0), bits(&sound_of("all is well").await));
    assert_eq!(remote.stats().deaths, 1);
    let host = remote.stop();
    assert!(host.is_ok(), "{host:?}");
}

/// A process that the server has not started serves one connection after the other.
#[tokio::test]
async fn a_process_that_is_there_is_attached_to_and_again_after_the_connection_broke() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("code2wav.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (sockets, accepted) = std::sync::mpsc::channel();
    let process = std::thread::spawn(move || {
        let make: Make = Arc::new(|status| code2wav(FakeScript::default(), 2, status));
        for socket in listener.incoming().take(2) {
            let socket = socket.unwrap();
            sockets.send(socket.try_clone().unwrap()).unwrap();
            // How it ended is for the other side to tell.
            let _ = host(socket, &make, PATIENCE);
        }
    });
    let status = ReplicaStatus::new("code2wav", ReplicaId(0), restart(), Changes::default());
    let parts = RemoteParts {
        transport: Box::new(Attach(path)),
        settings: SETTINGS.to_vec(),
        stages: stage_names(),
        mailbox: 16,
        load_timeout: PATIENCE,
        silence_timeout: PATIENCE,
    };
    let (stage, body) = remote_stage(parts, status, Clock::start());
    let thread = std::thread::spawn(move || body.run());

    let mut stream = Stream::open(1, &stage, 64, 64);
    stream.speak("a");
    assert!(matches!(stream.next().await, Recv::Item(_)));
    let socket = accepted.recv().unwrap();
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(matches!(stream.rest().await.1, End::Lost { .. }));

    // Jobs are lost until it is attached again.
    let samples = loop {
        let mut next = Stream::open(2, &stage, 64, 64);
        next.speak("all is well");
        next.finish();
        match next.rest().await {
            (samples, End::Stop) => break samples,
            (_, End::Lost { .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bits(&samples), bits(&sound_of("all is well").await));
    drop(stage);
    thread.join().unwrap();
    process.join().unwrap();
}

#[tokio::test]
async fn a_panic_at_the_other_end_loses_what_is_there_and_begins_anew() {
    let script = FakeScript {
        code2wav_panics_on: Some('#'),
        ..FakeScript::default()
    };
    let remote = remote_code2wav(script, 2).await;
    let mut stream = Stream::open(1, remote.handle(), 64, 64);
    stream.speak("#");
    let (_, end) = stream.rest().await;
    assert!(
        matches!(&end, End::Lost { stage: "code2wav", message } if message.contains("the script says so")),
        "{end:?}"
    );
    remote
        .until(|remote| remote.starts() == 2 && remote.state() == ReplicaState::Ready)
        .await;
    let mut next = Stream::open(2, remote.handle(), 64, 64);
    next.speak("b");
    next.finish();
    assert_eq!(next.rest().await.1, End::Stop);
    let _ = remote.stop();
}

#[tokio::test]
async fn a_step_that_does_not_return_loses_what_is_there_and_begins_anew() {
    let script = FakeScript::default();
    let inner = script.clone();
    let make = move |status| code2wav(inner.clone(), 2, status);
    let remote = RemoteStage::with_step_timeout(Duration::from_millis(200), make).await;
    script.code2wav.close();
    let mut stream = Stream::open(1, remote.handle(), 64, 64);
    stream.speak("a");
    let (_, end) = stream.rest().await;
    assert!(
        matches!(&end, End::Lost { stage: "code2wav", message } if message.contains("has not returned for 200ms")),
        "{end:?}"
    );
    // A process would be killed; this thread is released.
    script.code2wav.open();
    remote
        .until(|remote| remote.starts() == 2 && remote.state() == ReplicaState::Ready)
        .await;
    let mut next = Stream::open(2, remote.handle(), 64, 64);
    next.speak("b");
    next.finish();
    assert_eq!(next.rest().await.1, End::Stop);
    let _ = remote.stop();
}

#[tokio::test]
async fn figures_of_the_other_end_are_known_here_and_survive_its_death() {
    let remote = remote_code2wav(FakeScript::default(), 2).await;
    for (seq, decoded) in [(1, 3), (2, 6)] {
        let mut stream = Stream::open(seq, remote.handle(), 64, 64);
        stream.speak("abc");
        stream.finish();
        assert_eq!(stream.rest().await.1, End::Stop);
        // They come with the next frames.
        let mut nudge = Stream::open(10 + seq, remote.handle(), 64, 64);
        nudge.finish();
        assert_eq!(nudge.rest().await.1, End::Stop);
        assert_eq!(remote.stats().decode_tokens, decoded);
        let starts = remote.starts();
        remote.break_connection();
        remote
            .until(|remote| remote.starts() > starts && remote.state() == ReplicaState::Ready)
            .await;
    }
    assert_eq!(remote.stats().running, 0);
    let _ = remote.stop();
}
