"""A conversation that the server remembers, with answers that can be interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

import grpc
from typing_extensions import Self

from omni_speech import _settings
from omni_speech._errors import of_call
from omni_speech._received import ReceivedAnswer
from omni_speech.v1 import chat_pb2, common_pb2


class Turn(ReceivedAnswer):
    """One answer of a conversation: its words (`str`) and, if it is spoken, pieces of 16-bit samples (`bytes`)."""

    def __init__(self, conversation: Conversation, ready: chat_pb2.ChatSessionReady) -> None:
        super().__init__()
        self._conversation = conversation
        self._interrupted = False
        self._configured(ready)

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        return self

    async def __anext__(self) -> str | bytes:
        while self._outcome is None and not self._interrupted:
            if (piece := await self._more()) is not None and not self._interrupted:
                return piece
        raise StopAsyncIteration

    async def _more(self) -> str | bytes | None:
        async with self._conversation._reading:
            # Another task may have read the end meanwhile.
            return self._take(await self._conversation._next()) if self._outcome is None else None

    async def interrupt(self, played_samples: int | None = None) -> str:
        """Stops it, also while another task iterates over it, which then comes to its end. `played_samples` says how much of a
        spoken answer was heard; gives the text of that, which is what the conversation keeps. Without, all that was sent counts
        as heard.
        """
        over = self._outcome is not None
        if over and played_samples is None:
            return self.kept_text
        self._interrupted = True
        await self._conversation._write(
            chat_pb2.ConverseRequest(interrupt=chat_pb2.Interrupt(played_samples=played_samples))
        )
        while self._outcome is None:
            await self._more()
        stopped = not over and self.outcome.finish_reason == common_pb2.FINISH_REASON_INTERRUPTED
        if not stopped and played_samples is not None and self.kept_text:
            # The server was ahead of the listener: what it keeps is cut afterwards.
            self._kept = await self._conversation._cut()
        return self.kept_text


class Conversation:
    """An open conversation; `async with` opens and closes it."""

    def __init__(self, config: chat_pb2.ChatConfig, open_call: Callable[[], Any]) -> None:
        self._config = config
        self._open = open_call
        self._call: Any = None
        self._ready = chat_pb2.ChatSessionReady()
        self._turn: Turn | None = None
        self._reading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._call = self._open()
        await self._write(chat_pb2.ConverseRequest(config=self._config))
        self._ready = (await self._next()).ready
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.cancel()

    async def say(self, text: str) -> Turn:
        """What the user says next; gives the answer. An answer that was not taken to its end is interrupted."""
        await self._interrupt()
        await self._write(chat_pb2.ConverseRequest(message=_settings.message("user", text)))
        return await self._respond(chat_pb2.ConverseRequest(respond=chat_pb2.CreateResponse()))

    async def listen(self, samples: bytes) -> None:
        """More of what the user says aloud, 16-bit samples of one channel at 16,000 Hz, for a model that hears. The user may speak while
        an answer is heard.
        """
        await self._write(chat_pb2.ConverseRequest(input_audio=chat_pb2.InputAudio(data=samples)))

    async def answer(self) -> Turn:
        """The user has said all; gives the answer to what was listened to."""
        await self._interrupt()
        return await self._respond(chat_pb2.ConverseRequest(commit=chat_pb2.CommitInput(respond=True)))

    async def _interrupt(self) -> None:
        if self._turn is not None and self._turn._outcome is None:
            await self._turn.interrupt()

    async def _respond(self, request: chat_pb2.ConverseRequest) -> Turn:
        await self._write(request)
        self._turn = Turn(self, self._ready)
        return self._turn

    async def _write(self, request: chat_pb2.ConverseRequest) -> None:
        try:
            await self._call.write(request)
        except asyncio.InvalidStateError:
            # The call is over: what ended it says more, and stands behind what was not read yet.
            async with self._reading:
                while True:
                    await self._next()
        except grpc.RpcError as error:
            raise of_call(error) from None

    async def _next(self) -> chat_pb2.ConverseResponse:
        try:
            message = await self._call.read()
        except grpc.RpcError as error:
            raise of_call(error) from None
        if not isinstance(message, chat_pb2.ConverseResponse):
            raise RuntimeError("the conversation is over")
        return message

    async def _cut(self) -> chat_pb2.ChatMessage:
        async with self._reading:
            while (message := await self._next()).WhichOneof("event") != "message_cut":
                pass
        return message.message_cut.message
