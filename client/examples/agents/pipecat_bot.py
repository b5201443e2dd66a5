"""A Pipecat bot that answers with Omni: the language model and the voice are one server.

    pip install 'pipecat-ai[openai,local]'
    python client/examples/agents/pipecat_bot.py                     # what you write is answered through the loudspeakers

OMNI_BASE_URL and OMNI_API_KEY say where the server is. It recognises no speech: for a microphone, put the `stt` of another
provider behind the transport's input, and a VAD into it. What is written while the bot speaks interrupts it.
"""

from __future__ import annotations

import asyncio
import os
import sys

from pipecat.frames.frames import EndFrame, InterruptionFrame, LLMMessagesAppendFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.workers.runner import WorkerRunner

INSTRUCTIONS = "You answer in one or two short sentences that sound natural when they are spoken."
# What OpenAI's `pcm` has, and the server with it.
SAMPLE_RATE = 24_000


def bot(output: FrameProcessor, base_url: str, api_key: str = "none", voice: str = "alloy") -> tuple[PipelineWorker, LLMContext]:
    """A worker whose answers are thought and spoken by the server at `base_url`, which ends in /v1, and its conversation."""
    context = LLMContext()
    aggregators = LLMContextAggregatorPair(context)
    steps = [
        aggregators.user(),
        OpenAILLMService(
            api_key=api_key, base_url=base_url, settings=OpenAILLMService.Settings(system_instruction=INSTRUCTIONS)
        ),
        OpenAITTSService(api_key=api_key, base_url=base_url, settings=OpenAITTSService.Settings(voice=voice)),
        output,
        aggregators.assistant(),
    ]
    params = PipelineParams(audio_out_sample_rate=SAMPLE_RATE)
    return PipelineWorker(Pipeline(steps), params=params, cancel_on_idle_timeout=False), context


async def say(worker: PipelineWorker, text: str) -> None:
    """What the user says: it interrupts the bot, and is answered."""
    await worker.queue_frame(InterruptionFrame())
    message = {"role": "user", "content": text}
    await worker.queue_frame(LLMMessagesAppendFrame([message], run_llm=True))


async def main() -> None:
    # Needs PyAudio, which nothing else here does.
    from pipecat.transports.local.audio import LocalAudioTransport, LocalAudioTransportParams

    transport = LocalAudioTransport(LocalAudioTransportParams(audio_out_enabled=True))
    url = os.environ.get("OMNI_BASE_URL", "http://127.0.0.1:50051/v1")
    worker, _ = bot(transport.output(), url, os.environ.get("OMNI_API_KEY", "none"))

    async def write() -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            await say(worker, line.strip() or "Go on.")
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), write())


if __name__ == "__main__":
    asyncio.run(main())
