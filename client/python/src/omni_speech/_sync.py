"""The client for programs without asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

import grpc
from typing_extensions import Self, Unpack

from omni_speech import _settings
from omni_speech._channel import DEFAULT_ADDRESS, Endpoint
from omni_speech._errors import of_call
from omni_speech._received import Path, ReceivedAnswer, ReceivedSpeech, wav
from omni_speech._settings import ChatOptions, Message, SpeechOptions
from omni_speech.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    chat_pb2,
    chat_pb2_grpc,
    speech_pb2,
    speech_pb2_grpc,
    voice_pb2,
    voice_pb2_grpc,
)

M = TypeVar("M")
A = TypeVar("A")


class _Stream(Generic[M]):
    """The messages of a call; its errors are `OmniError`."""

    def __init__(self, call: Any) -> None:
        # An iterator of messages that is a grpc.Call, too.
        self._call = call
        self.fault: BaseException | None = None

    def next(self) -> M | None:
        try:
            message: M = next(self._call)
        except StopIteration:
            return None
        except grpc.RpcError as error:
            raise self.fault or of_call(error) from None
        return message

    def cancel(self) -> None:
        self._call.cancel()


class Speech(ReceivedSpeech):
    """Audio of one text: an iterator of pieces of 16-bit samples, as they are made."""

    def __init__(self, stream: _Stream[Any]) -> None:
        super().__init__()
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while (message := self._stream.next()) is not None:
            if (piece := self._take(message)) is not None:
                return piece
        raise StopIteration

    def start(self) -> Self:
        """Waits until the server has taken the request; `sample_rate` is known then."""
        if not self._rate and (message := self._stream.next()) is not None:
            self._take(message)
        return self

    def read(self) -> bytes:
        """All audio that is left."""
        return b"".join(self)

    def save(self, file: Path | IO[bytes]) -> None:
        """Writes a WAV file."""
        with wav(file, self.start().sample_rate) as out:
            for piece in self:
                out.writeframes(piece)

    def cancel(self) -> None:
        """Stops it: the server makes no more audio."""
        self._stream.cancel()


class Answer(ReceivedAnswer):
    """An answer: an iterator of its words (`str`) and, if it is spoken, of pieces of 16-bit samples (`bytes`)."""

    def __init__(self, stream: _Stream[Any]) -> None:
        super().__init__()
        self._stream = stream

    def __iter__(self) -> Iterator[str | bytes]:
        return self

    def __next__(self) -> str | bytes:
        while (message := self._stream.next()) is not None:
            if (piece := self._take(message)) is not None:
                return piece
        raise StopIteration

    def read(self) -> str:
        """The whole text."""
        for _ in self:
            pass
        return self.text

    def save(self, file: Path | IO[bytes]) -> str:
        """Writes the audio that is left as a WAV file; gives the whole text."""
        pieces = [piece for piece in self if isinstance(piece, bytes)]
        with wav(file, self.sample_rate) as out:
            for piece in pieces:
                out.writeframes(piece)
        return self.text

    def cancel(self) -> None:
        """Stops it."""
        self._stream.cancel()


class Client:
    """A connection to a server. `timeout` bounds every call, in seconds, unless a call has its own.

    `tls` trusts the authorities of the system, `root_certificates` (PEM) those in it.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        api_key: str | None = None,
        tls: bool = False,
        root_certificates: bytes | None = None,
        timeout: float | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self._endpoint = endpoint = Endpoint(address, api_key, tls, root_certificates, timeout)
        credentials = endpoint.credentials
        self._channel = channel = (
            grpc.secure_channel(endpoint.target, credentials, list(options))
            if credentials
            else grpc.insecure_channel(endpoint.target, list(options))
        )
        self.speech_service = speech_pb2_grpc.SpeechServiceStub(channel)
        self.chat_service = chat_pb2_grpc.ChatServiceStub(channel)
        self.catalog_service = catalog_pb2_grpc.CatalogServiceStub(channel)
        self.voice_service = voice_pb2_grpc.VoiceServiceStub(channel)

    def speak(self, text: str | Iterable[str], *, timeout: float | None = None, **options: Unpack[SpeechOptions]) -> Speech:
        """Speaks a text, or pieces of one as they come (the words of a language model)."""
        config, time = _settings.speech_config(options), self._endpoint.within(timeout)
        if isinstance(text, str):
            request = speech_pb2.SynthesizeRequest(config=config, text=text)
            call = self.speech_service.Synthesize(request, timeout=time, metadata=self._endpoint.metadata)
            return Speech(_Stream[speech_pb2.SynthesizeResponse](call))
        stream: _Stream[speech_pb2.SpeakResponse] = _Stream(None)
        requests = _requests(config, text, stream)
        stream._call = self.speech_service.Speak(requests, timeout=time, metadata=self._endpoint.metadata)
        return Speech(stream)

    def chat(
        self, messages: str | Sequence[Message], *, timeout: float | None = None, **options: Unpack[ChatOptions]
    ) -> Answer:
        """Answers a question, or a conversation, oldest turn first. The server remembers nothing of it."""
        request = chat_pb2.GenerateRequest(config=_settings.chat_config(options), messages=_settings.messages(messages))
        time = self._endpoint.within(timeout)
        call = self.chat_service.Generate(request, timeout=time, metadata=self._endpoint.metadata)
        return Answer(_Stream[chat_pb2.GenerateResponse](call))

    def voices(self, *, model: str = "", language: str = "", timeout: float | None = None) -> list[catalog_pb2.Voice]:
        """The voices that `speak` takes."""
        found: list[catalog_pb2.Voice] = []
        request = catalog_pb2.ListVoicesRequest(model=model, language=language)
        while True:
            page = self._call(self.catalog_service.ListVoices, request, timeout)
            found.extend(page.voices)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    def explain(
        self, text: str, *, model: str = "", voice: str = "", language: str = "", timeout: float | None = None
    ) -> speech_pb2.ExplainResponse:
        """What `text` becomes before it is spoken: the segments and words that the model is given, and what is left out."""
        config = speech_pb2.SpeechConfig(model=model, voice=voice, language=language)
        request = speech_pb2.ExplainRequest(config=config, text=text)
        answer: speech_pb2.ExplainResponse = self._call(self.speech_service.Explain, request, timeout)
        return answer

    def models(self, *, timeout: float | None = None) -> list[catalog_pb2.Model]:
        """The models that are served."""
        return list(self._call(self.catalog_service.ListModels, catalog_pb2.ListModelsRequest(), timeout).models)

    def create_voice(
        self, name: str, recording: bytes, *, consent: str, transcript: str = "", description: str = "", timeout: float | None = None
    ) -> voice_pb2.KeptVoice:
        """Keeps the voice of a recording (WAV, FLAC or Ogg Opus); `consent` says that, and how, the speaker agreed."""
        request = _settings.new_voice(name, recording, consent, transcript, description)
        return self._call(self.voice_service.CreateVoice, request, timeout).voice

    def design_voice(self, name: str, design: str, *, description: str = "", timeout: float | None = None) -> voice_pb2.KeptVoice:
        """Keeps a voice that words describe."""
        request = voice_pb2.CreateVoiceRequest(name=name, design=design, description=description)
        return self._call(self.voice_service.CreateVoice, request, timeout).voice

    def delete_voice(self, name: str, *, timeout: float | None = None) -> None:
        """Deletes one of the caller's voices."""
        self._call(self.voice_service.DeleteVoice, voice_pb2.DeleteVoiceRequest(name=name), timeout)

    def _call(self, method: Callable[..., A], request: Any, timeout: float | None) -> A:
        try:
            return method(request, timeout=self._endpoint.within(timeout), metadata=self._endpoint.metadata)
        except grpc.RpcError as error:
            raise of_call(error) from None

    def close(self) -> None:
        """Closes the connection; calls that are open end."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _requests(
    config: speech_pb2.SpeechConfig, pieces: Iterable[str], stream: _Stream[Any]
) -> Iterator[speech_pb2.SpeakRequest]:
    """The requests of a call. gRPC takes them on a thread of its own, where an error of `pieces` would be lost."""
    yield speech_pb2.SpeakRequest(config=config)
    try:
        said = False
        for piece in pieces:
            said = True
            yield speech_pb2.SpeakRequest(text=speech_pb2.TextChunk(text=piece))
        if not said:  # A finish alone ends no utterance, and so is not answered.
            yield speech_pb2.SpeakRequest(text=speech_pb2.TextChunk())
    except Exception as error:
        stream.fault = error
        raise
    yield speech_pb2.SpeakRequest(finish=speech_pb2.FinishUtterance())
