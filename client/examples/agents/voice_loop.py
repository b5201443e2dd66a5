"""A voice agent without a framework: what you write or say is answered aloud, and what you write or say meanwhile interrupts it.

    pip install ./clients/python
    python client/examples/agents/voice_loop.py                       # reads the terminal, plays with aplay
    python client/examples/agents/voice_loop.py --listen              # records with arecord, for a model that hears
    python client/examples/agents/voice_loop.py --player 'ffplay -nodisp -autoexit -f s16le -ar {rate} -ch_layout mono -'

The server keeps the conversation, and of an answer that was interrupted the words that were heard.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import math
import shlex
import sys
import time
from collections.abc import AsyncIterator
from typing import Protocol

from omni_speech import AsyncClient, Conversation, OmniError, Turn


# Of what models hear.
INPUT_RATE = 16_000
# The microphone's frames: 20 ms.
FRAME = INPUT_RATE // 50 * 2


class Speaker(Protocol):
    """Where answers are heard."""

    async def begin(self, rate: int) -> None:
        """An answer begins, of 16-bit samples of one channel."""

    async def play(self, samples: bytes) -> None:
        """More of it."""

    async def end(self) -> None:
        """Returns when all of it was heard."""

    async def stop(self) -> int:
        """Stops at once; gives how many samples were heard."""


class Player:
    """A program that plays what it reads."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._rate = 0
        self._sent = 0
        self._since = 0.0

    async def begin(self, rate: int) -> None:
        words = shlex.split(self._command.format(rate=rate))
        quiet = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet
        )
        self._rate, self._sent = rate, 0

    async def play(self, samples: bytes) -> None:
        assert self._process and self._process.stdin
        if self._sent == 0:
            self._since = time.monotonic()
        self._sent += len(samples) // 2
        self._process.stdin.write(samples)
        await self._process.stdin.drain()

    async def end(self) -> None:
        assert self._process and self._process.stdin
        self._process.stdin.close()
        await self._process.wait()

    async def stop(self) -> int:
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        played = (time.monotonic() - self._since) * self._rate if self._sent else 0
        return min(self._sent, int(played))


class VoiceLoop:
    """Answers what is said, one turn after the other; what is said while an answer is heard interrupts it."""

    def __init__(self, conversation: Conversation, speaker: Speaker) -> None:
        self._conversation = conversation
        self._speaker = speaker
        self._turn: Turn | None = None
        self._speaking: asyncio.Task[None] | None = None
        self.first_audio: list[float] = []
        """Of every answer that was heard, the seconds from what was said to its first audio."""
        self.kept: list[str] = []
        """What the conversation keeps of every answer."""

    async def run(self, said: AsyncIterator[str | bytes | None]) -> None:
        """Until nothing more is said, and the last answer was heard. A `str` is all that the user says; `bytes` are a piece of speech,
        of which None is the end.
        """
        listening = False
        async for piece in said:
            if not listening:
                await self.interrupt()
            listening = isinstance(piece, bytes)
            if isinstance(piece, bytes):
                await self._conversation.listen(piece)
                continue
            asked = time.monotonic()
            answer = self._conversation.answer() if piece is None else self._conversation.say(piece)
            self._turn = await answer
            self._speaking = asyncio.create_task(self._speak(self._turn, asked))
        await self._finish()

    async def interrupt(self) -> None:
        """Ends the answer that is being heard, if there is one."""
        if self._turn is None or self._speaking is None:
            return
        if not self._speaking.done():
            heard = await self._speaker.stop()
            await self._turn.interrupt(heard)
        await self._finish()

    async def _speak(self, turn: Turn, asked: float) -> None:
        await self._speaker.begin(turn.sample_rate)
        try:
            async for piece in turn:
                if isinstance(piece, str):
                    print(piece, end="", flush=True)
                    continue
                if turn.samples * 2 == len(piece):
                    self.first_audio.append(time.monotonic() - asked)
                await self._speaker.play(piece)
            await self._speaker.end()
        except (BrokenPipeError, ConnectionResetError):
            # The player was stopped.
            pass
        print(flush=True)

    async def _finish(self) -> None:
        if self._speaking is None or self._turn is None:
            return
        await self._speaking
        self.kept.append(self._turn.kept_text)
        self._speaking = self._turn = None


async def lines() -> AsyncIterator[str | bytes | None]:
    """What is written on the terminal."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line.strip() or "Go on."


async def microphone(command: str) -> AsyncIterator[bytes]:
    """The frames that a program records."""
    process = await asyncio.create_subprocess_exec(*shlex.split(command), stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    try:
        while True:
            yield await process.stdout.readexactly(FRAME)
    except asyncio.IncompleteReadError:
        pass
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def turns(
    frames: AsyncIterator[bytes], level: float = 500.0, pause: float = 0.6
) -> AsyncIterator[str | bytes | None]:
    """Speech in these frames, and None behind a pause of so many seconds. Speech is what is louder than `level` (the mean of
    samples up to 32,767): for a room that is not quiet, a detector of voices does better.
    """
    speaking, quiet, before = False, 0.0, b""
    async for frame in frames:
        samples = array.array("h", frame)
        loud = math.sqrt(sum(sample * sample for sample in samples) / max(1, len(samples))) >= level
        quiet = 0.0 if loud else quiet + len(samples) / INPUT_RATE
        if loud and not speaking:
            speaking = True
            # The beginning of a word is not as loud as the rest of it.
            yield before + frame
        elif speaking and quiet < pause:
            yield frame
        elif speaking:
            speaking = False
            yield None
        before = frame
    if speaking:
        yield None


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:50051")
    parser.add_argument("--api-key")
    parser.add_argument("--voice", default="")
    parser.add_argument("--instructions", default="")
    parser.add_argument("--player", default="aplay -q -t raw -f S16_LE -c 1 -r {rate} -")
    parser.add_argument("--listen", action="store_true", help="hear what you say instead of reading what you write")
    parser.add_argument("--recorder", default=f"arecord -q -t raw -f S16_LE -c 1 -r {INPUT_RATE}")
    options = parser.parse_args()
    said = turns(microphone(options.recorder)) if options.listen else lines()
    async with AsyncClient(options.address, api_key=options.api_key) as omni:
        # A second ahead is enough for a player, and bounds what an interruption throws away.
        async with omni.converse(
            spoken=True, voice=options.voice, instructions=options.instructions, max_lead=1.0
        ) as conversation:
            await VoiceLoop(conversation, Player(options.player)).run(said)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    except OmniError as error:
        sys.exit(f"error: {error}")
