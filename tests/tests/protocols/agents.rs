//! The agents in `client/examples/agents`, without microphones and loudspeakers: a hundred turns, some of them interrupted,
//! and nothing is left.

use omni_tests::{FakeScript, TestServer, python};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/examples/agents");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/python/src");
const TURNS: &str = "100";

/// Runs an agent against a server with scripted answers. Returns its output, unless its framework is missing.
async fn run(client: &str, script: &str) -> Option<(TestServer, String)> {
    let model = FakeScript {
        speaks_words: true,
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(model, &[]).await;
    let address = server.app.address().to_string();
    let said = python(client, client, script, &[EXAMPLES, PACKAGE, &address, TURNS]).await?;
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    let admission = server.app.orchestrator().admission();
    server
        .until("every permit is back", || admission.free() == 64)
        .await;
    Some((server, said))
}

/// Every fifth turn is an answer without end, which the next turn interrupts.
const LOOP: &str = r#"
import asyncio, gc, sys
sys.path[:0] = sys.argv[1:3]
from omni_speech import AsyncClient, Turn
from voice_loop import VoiceLoop

address, turns = sys.argv[3], int(sys.argv[4])

class Script:
    """Hears half of what comes, at once."""

    async def begin(self, rate):
        self.samples, self.heard = 0, asyncio.Event()

    async def play(self, samples):
        self.samples += len(samples) // 2
        self.heard.set()

    async def end(self):
        pass

    async def stop(self):
        return self.samples // 2

async def main():
    speaker = Script()
    async with AsyncClient(address, timeout=300) as omni:
        async with omni.converse(spoken=True, max_lead=1.0) as conversation:
            loop = VoiceLoop(conversation, speaker)

            async def said():
                for turn in range(turns):
                    forever = turn % 5 == 3
                    yield "forever" if forever else "say Fine, thank you."
                    await asyncio.sleep(0)
                    await speaker.heard.wait()
                    if not forever:
                        await loop._speaking

            await asyncio.wait_for(loop.run(said()), 300)
            whole = sum(kept == "Fine, thank you." for kept in loop.kept)
            print(len(loop.kept), len(loop.first_audio), whole)
        del loop, conversation
    # What gRPC has to tidy up is done in tasks of its own.
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0.01)
    gc.collect()
    print(sum(isinstance(thing, Turn) for thing in gc.get_objects()))

asyncio.run(main())
"#;

#[tokio::test]
async fn the_loop_without_a_framework_answers_and_can_be_interrupted() {
    let Some((server, said)) = run("omni", LOOP).await else {
        return;
    };
    let lines: Vec<_> = said.lines().collect();
    let [.., turns, left] = lines[..] else {
        panic!("{said}");
    };
    assert_eq!((turns, left), ("100 100 80", "0"), "{said}");
    server.chats_over(100).await;
    server.stop().await;
}

/// Audio input: half a second of a tone, and a pause. Of every fifth answer only its first half is heard when the
/// user speaks again.
const EARS: &str = r#"
import array, asyncio, math, sys
sys.path[:0] = sys.argv[1:3]
from omni_speech import AsyncClient
from voice_loop import FRAME, INPUT_RATE, VoiceLoop, turns

address, count = sys.argv[3], int(sys.argv[4])
tone = array.array("h", [int(8000 * math.sin(n / 5)) for n in range(INPUT_RATE // 2)]).tobytes()
silence = bytes(INPUT_RATE * 2)

class Script:
    """Plays at once what comes, but for what it is told to play slowly."""

    slow = False

    async def begin(self, rate):
        self.samples, self.heard, self.stopped = 0, asyncio.Event(), asyncio.Event()

    async def play(self, samples):
        self.samples += len(samples) // 2
        self.heard.set()

    async def end(self):
        if self.slow:
            await self.stopped.wait()

    async def stop(self):
        self.stopped.set()
        return self.samples // 2

async def main():
    speaker = Script()
    async with AsyncClient(address, timeout=300) as omni:
        async with omni.converse(spoken=True) as conversation:
            loop = VoiceLoop(conversation, speaker)

            async def frames():
                yield bytes(FRAME)
                for turn in range(count):
                    sound = tone + silence
                    for at in range(0, len(sound), FRAME):
                        yield sound[at : at + FRAME]
                    # The pause was long enough: this turn is answered.
                    speaker.slow = turn % 5 == 3
                    await asyncio.sleep(0)
                    await speaker.heard.wait()
                    if not speaker.slow:
                        await loop._speaking

            await asyncio.wait_for(loop.run(turns(frames())), 300)
            whole = [kept for kept in loop.kept if kept.endswith("]")]
            print()
            print(len(loop.kept), len(whole), len(set(whole)), whole[0])

asyncio.run(main())
"#;

#[tokio::test]
async fn the_loop_without_a_framework_hears_and_is_interrupted_by_what_it_hears() {
    let Some((server, said)) = run("omni", EARS).await else {
        return;
    };
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("100 80 1 You said: ["), "{said}");
    server.chats_over(100).await;
    server.stop().await;
}

const LIVEKIT: &str = r#"
import asyncio, sys
sys.path[:0] = sys.argv[1:2]
from livekit.agents import Agent
from livekit.agents.voice import io
from livekit_agent import INSTRUCTIONS, agent_session

address, turns = sys.argv[3], int(sys.argv[4])

class Sink(io.AudioOutput):
    """Plays at once what comes; of what is cut short, half was heard."""

    def __init__(self):
        super().__init__(label="sink", capabilities=io.AudioOutputCapabilities(pause=False))
        self.samples, self.pending, self.heard = 0, 0.0, asyncio.Event()

    async def capture_frame(self, frame):
        await super().capture_frame(frame)
        self.samples += frame.samples_per_channel
        self.pending += frame.duration
        self.heard.set()

    def played(self, share):
        if self.pending:
            played, self.pending = self.pending * share, 0.0
            self.on_playback_finished(playback_position=played, interrupted=share < 1)

    def flush(self):
        super().flush()
        self.played(1)

    def clear_buffer(self):
        self.played(0.5)

async def main():
    session = agent_session(f"http://{address}/v1")
    session.output.audio = sink = Sink()
    await session.start(Agent(instructions=INSTRUCTIONS))
    interrupted = 0
    for turn in range(turns):
        forever, before = turn % 5 == 3, sink.samples
        sink.heard.clear()
        speech = session.generate_reply(user_input="forever" if forever else "say Fine, thank you.")
        if forever:
            await sink.heard.wait()
            await session.interrupt()
        await speech.wait_for_playout()
        assert sink.samples > before, turn
        interrupted += speech.interrupted
    messages = [item for item in session.history.items if item.type == "message" and item.role == "assistant"]
    print(len(messages), interrupted, sum("".join(m.content) == "Fine, thank you." for m in messages))
    await session.aclose()
    print(len(asyncio.all_tasks()))

asyncio.run(main())
"#;

#[tokio::test]
async fn a_livekit_agent_answers_and_can_be_interrupted() {
    let Some((server, said)) = run("livekit", LIVEKIT).await else {
        return;
    };
    let lines: Vec<_> = said.lines().collect();
    // An answer interrupted before any of it was heard is no message.
    let [turns, left] = lines[..] else {
        panic!("{said}");
    };
    assert!(turns.ends_with(" 20 80") && left == "1", "{said}");
    server.stop().await;
}

const PIPECAT: &str = r#"
import asyncio, sys
sys.path[:0] = sys.argv[1:2]
from loguru import logger
logger.remove()
from pipecat.frames.frames import EndFrame, ErrorFrame, InterruptionFrame, TTSAudioRawFrame, TTSStoppedFrame
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.workers.runner import WorkerRunner
from pipecat_bot import SAMPLE_RATE, bot, say

address, turns = sys.argv[3], int(sys.argv[4])

class Sink(FrameProcessor):
    """Plays at once what comes."""

    def __init__(self):
        super().__init__()
        self.bytes, self.errors, self.interruptions = 0, 0, 0
        self.heard, self.stopped = asyncio.Event(), asyncio.Event()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            assert frame.sample_rate == SAMPLE_RATE and len(frame.audio) % 2 == 0
            self.bytes += len(frame.audio)
            self.heard.set()
        elif isinstance(frame, TTSStoppedFrame):
            self.stopped.set()
        elif isinstance(frame, InterruptionFrame):
            self.interruptions += 1
        elif isinstance(frame, ErrorFrame):
            self.errors += 1
        await self.push_frame(frame, direction)

async def main():
    sink = Sink()
    worker, context = bot(sink, f"http://{address}/v1")

    async def talk():
        for turn in range(turns):
            forever = turn % 5 == 3
            sink.heard.clear()
            sink.stopped.clear()
            await say(worker, "forever" if forever else "say Fine, thank you.")
            await asyncio.wait_for(sink.heard.wait(), 60)
            if not forever:
                await asyncio.wait_for(sink.stopped.wait(), 60)
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), talk())
    said = [message for message in context.get_messages()]
    users = sum(message["role"] == "user" for message in said)
    whole = sum(message["content"] == "Fine, thank you." for message in said)
    print(users, sink.interruptions, sink.errors, whole)
    print(len(asyncio.all_tasks()))

asyncio.run(main())
"#;

#[tokio::test]
async fn a_pipecat_bot_answers_and_can_be_interrupted() {
    let Some((server, said)) = run("pipecat", PIPECAT).await else {
        return;
    };
    assert_eq!(said.lines().collect::<Vec<_>>(), ["100 100 0 80", "1"]);
    server.stop().await;
}
