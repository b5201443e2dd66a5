"""What the messages of a stream tell, whatever brings them."""

from __future__ import annotations

import os
import wave
from typing import IO, Union

from omni_speech._errors import of_status
from omni_speech.v1 import chat_pb2, common_pb2, speech_pb2

SpeechMessage = Union[speech_pb2.SpeakResponse, speech_pb2.SynthesizeResponse]
ChatMessage = Union[chat_pb2.ConverseResponse, chat_pb2.GenerateResponse]
Path = Union[str, "os.PathLike[str]"]


class Received:
    """What is known of speech so far."""

    def __init__(self) -> None:
        self._rate = 0
        self._outcome: common_pb2.Outcome | None = None
        self.warnings: list[common_pb2.Warning] = []
        """What the server warned of, so far."""
        self.samples = 0
        """Samples that have come."""

    @property
    def sample_rate(self) -> int:
        """Samples per second; known as soon as the first piece or `start()` has returned."""
        if not self._rate:
            raise RuntimeError("the sample rate is not known yet: take a piece first, or call start()")
        return self._rate

    @property
    def outcome(self) -> common_pb2.Outcome:
        """How it ended: usage, timings, the seed. Known when all pieces have been taken."""
        if self._outcome is None:
            raise RuntimeError("the outcome is not known yet: take all pieces first")
        return self._outcome

    def _audio(self, data: bytes, count: int) -> bytes:
        self.samples += count
        return data

    def _end(self, outcome: common_pb2.Outcome) -> None:
        self._outcome = outcome
        if outcome.finish_reason == common_pb2.FINISH_REASON_ERROR:
            raise of_status(outcome.error)


class ReceivedSpeech(Received):
    """Of an utterance."""

    def _take(self, message: SpeechMessage) -> bytes | None:
        kind = message.WhichOneof("event")
        if kind == "audio":
            return self._audio(message.audio.data, message.audio.sample_count)
        if kind == "ready":
            self._rate = message.ready.resolved.output.format.sample_rate_hz
        elif kind == "warning":
            self.warnings.append(message.warning)
        elif kind == "done":
            self._end(message.done.outcome)
        return None


class ReceivedAnswer(Received):
    """Of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        """Its words, so far."""
        self._kept: chat_pb2.ChatMessage | None = None

    @property
    def kept_text(self) -> str:
        """What the conversation keeps of it: of an answer that was interrupted, the words that were heard."""
        if self._kept is None:
            raise RuntimeError("what is kept is not known yet: take all pieces first")
        return "".join(part.text for part in self._kept.parts)

    def _take(self, message: ChatMessage) -> str | bytes | None:
        kind = message.WhichOneof("event")
        if kind == "text":
            self.text += message.text.text
            return message.text.text
        if kind == "audio":
            return self._audio(message.audio.data, message.audio.sample_count)
        if kind == "ready":
            self._configured(message.ready)
        elif kind == "warning":
            self.warnings.append(message.warning)
        elif kind in ("done", "response_done"):
            done = message.done if isinstance(message, chat_pb2.GenerateResponse) else message.response_done
            self._kept = done.message
            self._end(done.outcome)
        return None

    def _configured(self, ready: chat_pb2.ChatSessionReady) -> None:
        self._rate = ready.resolved.output_audio.format.sample_rate_hz


def wav(file: Path | IO[bytes], rate: int) -> wave.Wave_write:
    """A WAV file that is open for samples. Its header has the true length when it is closed."""
    out = wave.open(os.fspath(file) if isinstance(file, os.PathLike) else file, "wb")
    out.setnchannels(1)
    out.setsampwidth(2)
    out.setframerate(rate)
    return out
