"""Client of Omni: streaming speech and conversations over gRPC.

    from omni_speech import Client

    with Client("127.0.0.1:50051") as omni:
        omni.speak("Hello there.").save("hello.wav")

`AsyncClient` is the same for asyncio. Messages and stubs of the whole API are in `omni_speech.v1`, and clients have the stubs as
`speech_service`, `chat_service`, `catalog_service` and `voice_service`.
"""

from omni_speech._aio import AsyncAnswer, AsyncClient, AsyncSpeech
from omni_speech._conversation import Conversation, Turn
from omni_speech._errors import (
    AuthenticationError,
    DeadlineError,
    InvalidRequestError,
    OmniError,
    OverloadedError,
    UnavailableError,
)
from omni_speech._settings import ChatOptions, Message, SpeechOptions
from omni_speech._sync import Answer, Client, Speech

__all__ = [
    "Answer",
    "AsyncAnswer",
    "AsyncClient",
    "AsyncSpeech",
    "AuthenticationError",
    "ChatOptions",
    "Client",
    "Conversation",
    "DeadlineError",
    "InvalidRequestError",
    "Message",
    "OmniError",
    "OverloadedError",
    "Speech",
    "SpeechOptions",
    "Turn",
    "UnavailableError",
]
