//! The clients of others, unmodified: OpenAI's libraries and agent SDKs, LiveKit's and Pipecat's realtime classes.

use std::fs;

use omni_tests::{Authority, FakeScript, TestServer, node, python};

use super::over;

async fn hearing() -> TestServer {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    TestServer::fake(script, &[]).await
}

/// Output of a Python script that talks to a server that hears.
async fn said(client: &str, package: &str, script: &str) -> Option<String> {
    let server = hearing().await;
    let base = format!("{}/v1", server.app.address());
    let said = python(client, package, script, &[&base]).await;
    over(&server).await;
    server.stop().await;
    said
}

const OPENAI_PYTHON: &str = r#"
import asyncio, base64, sys
from openai import AsyncOpenAI

async def response(connection):
    audio, words, text = 0, "", ""
    async for event in connection:
        if event.type == "response.output_audio.delta":
            audio += len(base64.b64decode(event.delta))
        elif event.type == "response.output_audio_transcript.delta":
            words += event.delta
        elif event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "error":
            return event.error.code
        elif event.type == "response.done":
            assert event.response.usage.total_tokens > 0
            return event.response.status, audio > 0, words, text

async def main():
    client = AsyncOpenAI(base_url=f"http://{sys.argv[1]}", api_key="none")
    async with client.realtime.connect(model="gpt-realtime") as connection:
        created = await connection.recv()
        print(created.type, created.session.audio.input.turn_detection.type)
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        print((await connection.recv()).session.output_modalities)
        async def say(text, **more):
            content = [{"type": "input_text", "text": text}]
            await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
            await connection.response.create(**more)
        await say("say Hello there.")
        print(*await response(connection))
        await say("say Aloud.", response={"output_modalities": ["audio"]})
        print(*await response(connection))
        await say("recite")
        print(*await response(connection))
        await connection.response.cancel()
        print(await response(connection))
        await connection.session.update(session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        await connection.input_audio_buffer.append(audio=base64.b64encode(bytes(24000)).decode())
        await connection.input_audio_buffer.commit()
        await connection.response.create()
        print(*await response(connection))

asyncio.run(main())
"#;

#[tokio::test]
async fn openais_python_library_talks() {
    let Some(said) = said("realtime", "openai[realtime]", OPENAI_PYTHON).await else {
        return;
    };
    let lines: Vec<_> = said.lines().collect();
    let recited =
        "user:say Hello there.|assistant:Hello there.|user:say Aloud.|assistant:Aloud.|user:recite|";
    assert_eq!(
        lines[..6],
        [
            "session.created server_vad",
            "['text']",
            "completed False  Hello there.",
            "completed True Aloud. ",
            &format!("completed False  {recited}"),
            "response_cancel_not_active"
        ]
    );
    assert!(lines[6].starts_with("completed False  You said: ["), "{said}");
}

const AGENTS_PYTHON: &str = r#"
import asyncio, sys
from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner
from agents.tracing import set_tracing_disabled

set_tracing_disabled(True)

@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    print("called with", city)
    return f"rain in {city}"

async def main():
    agent = RealtimeAgent(name="omni", instructions="Be brief.", tools=[weather])
    settings = {
        "model_name": "gpt-realtime",
        "voice": "alloy",
    }
    runner = RealtimeRunner(agent)
    url = f"ws://{sys.argv[1]}/realtime?model=gpt-realtime"
    session = await runner.run(model_config={"url": url, "api_key": "none", "initial_model_settings": settings})
    async with session:
        async def turn(text, ends=1):
            await session.send_message(text)
            audio = 0
            async for event in session:
                if event.type == "audio":
                    audio += len(event.audio.data)
                elif event.type == "error":
                    raise RuntimeError(event.error)
                elif event.type == "agent_end":
                    ends -= 1
                    if ends == 0:
                        return audio > 0
        print(await turn("say Hello there."))
        await turn("recite")
        call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
        print(await turn("say " + call, ends=2))
        await session.send_message("forever")
        heard = False
        async for event in session:
            if event.type == "audio" and not heard:
                heard = True
                await session.interrupt()
            elif event.type == "error":
                raise RuntimeError(event.error)
            elif event.type == "agent_end":
                break
        print(await turn("say Fine."))
        for item in session._history:
            if item.type == "message" and item.role == "assistant":
                print(item.status, *(part.transcript for part in item.content if part.type == "audio"))

asyncio.run(main())
"#;

#[tokio::test]
async fn openais_agents_in_python_speak_call_functions_and_are_interrupted() {
    let Some(said) = said("openai-agents", "openai-agents", AGENTS_PYTHON).await else {
        return;
    };
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..4], ["True", "called with Oslo", "True", "True"], "{said}");
    assert_eq!(lines[4], "completed Hello there.", "{said}");
    // Turn detection that is not offered costs no instructions.
    assert!(lines[5].starts_with("completed system:Be brief."), "{said}");
    assert!(
        lines.contains(&"completed You said: <result rain in Oslo>"),
        "{said}"
    );
    assert_eq!(lines.last(), Some(&"completed Fine."), "{said}");
}

const LIVEKIT: &str = r#"
import asyncio, sys
import aiohttp
from livekit import rtc
from livekit.agents import llm
from livekit.plugins.openai.realtime import RealtimeModel

async def spoken(generation):
    async for message in generation.message_stream:
        async def words():
            return "".join([piece async for piece in message.text_stream])
        async def sound():
            return sum([frame.samples_per_channel async for frame in message.audio_stream])
        text, samples = await asyncio.gather(words(), sound())
        return message.message_id, text, samples

async def main():
    errors = []
    async with aiohttp.ClientSession() as http:
        model = RealtimeModel(
            base_url=f"http://{sys.argv[1]}", api_key="none", voice="alloy", http_session=http,
        )
        session = model.session()
        session.on("error", lambda error: errors.append(error))
        await session.update_instructions("Be brief.")

        async def turn(text):
            context = session.chat_ctx.copy()
            context.add_message(role="user", content=text)
            await session.update_chat_ctx(context)
            return await spoken(await session.generate_reply())

        name, text, samples = await turn("say one two three four five six")
        print(text, samples > 0)
        session.truncate(message_id=name, modalities=["audio", "text"], audio_end_ms=500)
        _, text, _ = await turn("recite")
        print(text.startswith("system:Be brief.|user:say one two three four five six|assistant:one"), "six|user:recite" in text)
        context = session.chat_ctx.copy()
        context.add_message(role="user", content="forever")
        await session.update_chat_ctx(context)
        generation = await session.generate_reply()
        async for message in generation.message_stream:
            async for frame in message.audio_stream:
                session.interrupt()
                break
            async for piece in message.text_stream:
                pass
            break
        _, text, _ = await turn("say Fine.")
        print(text)
        frame = rtc.AudioFrame(bytes(48000), 24000, 1, 24000)
        session.push_audio(frame)
        await session.aclose()
        print(errors)

asyncio.run(main())
"#;

#[tokio::test]
async fn livekits_realtime_model_talks_truncates_and_is_interrupted() {
    let Some(said) = said("livekit", "livekit-plugins-openai", LIVEKIT).await else {
        return;
    };
    let expected = ["one two three four five six True", "True False", "Fine.", "[]"];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

const PIPECAT: &str = r#"
import asyncio, sys
from loguru import logger
logger.remove()
from pipecat.frames.frames import EndFrame, ErrorFrame, LLMMessagesAppendFrame, TTSAudioRawFrame, TTSStoppedFrame, TTSTextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

class Sink(FrameProcessor):
    def __init__(self):
        super().__init__()
        self.text, self.bytes, self.errors, self.stopped = "", 0, [], asyncio.Event()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            assert frame.sample_rate == 24000
            self.bytes += len(frame.audio)
        elif isinstance(frame, TTSTextFrame):
            self.text += frame.text
        elif isinstance(frame, TTSStoppedFrame):
            self.stopped.set()
        elif isinstance(frame, ErrorFrame):
            self.errors.append(frame.error)
        await self.push_frame(frame, direction)

async def main():
    properties = events.SessionProperties(
        instructions="Be brief.",
        audio=events.AudioConfiguration(
            input=events.AudioInput(turn_detection=events.TurnDetection()), output=events.AudioOutput(voice="alloy")
        ),
    )
    service = OpenAIRealtimeLLMService(
        api_key="none", base_url=f"ws://{sys.argv[1]}/realtime",
        settings=OpenAIRealtimeLLMService.Settings(model="gpt-realtime", session_properties=properties),
    )
    sink, context = Sink(), LLMContext()
    aggregators = LLMContextAggregatorPair(context)
    steps = [aggregators.user(), service, sink, aggregators.assistant()]
    params = PipelineParams(audio_out_sample_rate=24000, audio_in_sample_rate=24000)
    worker = PipelineWorker(Pipeline(steps), params=params, cancel_on_idle_timeout=False)

    async def talk():
        message = {"role": "user", "content": "say Hello there."}
        await worker.queue_frame(LLMMessagesAppendFrame([message], run_llm=True))
        await asyncio.wait_for(sink.stopped.wait(), 60)
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), talk())
    print(sink.text, sink.bytes > 0, sink.errors)

asyncio.run(main())
"#;

#[tokio::test]
async fn pipecats_realtime_service_talks() {
    let Some(said) = said("pipecat", "pipecat-ai", PIPECAT).await else {
        return;
    };
    assert_eq!(said.trim(), "Hello there. True []");
}

const OPENAI_NODE: &str = r#"
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

const client = new OpenAI({ baseURL: `https://${process.argv[2]}`, apiKey: 'none' });
const realtime = new OpenAIRealtimeWS({ model: 'gpt-realtime' }, client);
let audio = 0;
realtime.on('error', (error) => { console.error(error); process.exit(1); });
realtime.on('session.created', () => {
  realtime.send({ type: 'session.update', session: { type: 'realtime', instructions: 'Be brief.' } });
  const content = [{ type: 'input_text', text: 'say Hello there.' }];
  realtime.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
  realtime.send({ type: 'response.create' });
});
realtime.on('response.output_audio.delta', (event) => { audio += Buffer.from(event.delta, 'base64').length; });
realtime.on('response.done', (event) => {
  console.log(event.response.status, event.response.output[0].content[0].transcript, audio > 0);
  realtime.close();
});
"#;

/// Runs a client against an encrypted server, because OpenAI's JavaScript library accepts no other.
async fn encrypted(package: &str, script: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a directory");
    let roots = folder.path().join("roots");
    let authority = Authority::new("ours");
    fs::write(&roots, &authority.certificate).expect("a file");
    let (certificate, private) = authority.server().write(folder.path(), "server");
    let [certificate, private] = [&certificate, &private].map(|path| path.to_str().expect("text"));
    let script_of_model = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(
        script_of_model,
        &["--tls-cert", certificate, "--tls-key", private],
    )
    .await;
    let base = format!("localhost:{}/v1", server.app.address().port());
    let said = node(package, script, Some(&roots), &[&base]).await;
    over(&server).await;
    server.stop().await;
    said
}

#[tokio::test]
async fn openais_javascript_library_talks() {
    let Some(said) = encrypted("openai", OPENAI_NODE).await else {
        return;
    };
    assert_eq!(said.trim(), "completed Hello there. true");
}

const AGENTS_NODE: &str = r#"
import { RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';

const weather = tool({
  name: 'weather',
  description: 'The weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => { console.log('called with', city); return `rain in ${city}`; },
});
const agent = new RealtimeAgent({ name: 'omni', instructions: 'Be brief.', tools: [weather] });
const session = new RealtimeSession(agent, {
  transport: 'websocket',
  model: 'gpt-realtime',
  tracingDisabled: true,
  config: { voice: 'alloy', audio: { input: { turnDetection: { type: 'server_vad' }, transcription: null } } },
});
let audio = 0;
session.on('audio', (event) => { audio += event.data.byteLength; });
session.on('error', (error) => { console.error(error); process.exit(1); });
const ended = () => new Promise((resolve) => session.once('agent_end', (_context, _agent, text) => resolve(text)));
await session.connect({ apiKey: 'none', url: `wss://${process.argv[2]}/realtime?model=gpt-realtime` });
let end = ended();
session.sendMessage('say Hello there.');
console.log(await end, audio > 0);
const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
session.sendMessage(`say ${call}`);
for (let text = ''; !text.includes('rain'); ) { text = await ended(); if (text) console.log(text); }
session.sendMessage('forever');
await new Promise((resolve) => session.once('audio', resolve));
session.interrupt();
await new Promise((resolve) => setTimeout(resolve, 100));
end = ended();
session.sendMessage('say Fine.');
for (let text = await end; ; text = await ended()) { if (text === 'Fine.') { console.log(text); break; } }
session.close();
"#;

#[tokio::test]
async fn openais_agents_in_javascript_speak_call_functions_and_are_interrupted() {
    let Some(said) = encrypted("@openai/agents-realtime", AGENTS_NODE).await else {
        return;
    };
    let lines: Vec<_> = said.lines().collect();
    let expected = [
        "Hello there. true",
        "called with Oslo",
        "You said: <result rain in Oslo>",
        "Fine.",
    ];
    assert_eq!(lines, expected, "{said}");
}
