"""Settings as keywords, and the messages that they become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from typing_extensions import Required, TypedDict

from omni_speech.v1 import audio_pb2, chat_pb2, common_pb2, speech_pb2, voice_pb2


class SpeechOptions(TypedDict, total=False):
    """How to speak. What is left out is the server's or the model's to choose."""

    model: str
    voice: str
    language: str
    """BCP-47 tag, like "en-US"."""
    speed: float
    """0.25 to 4; the pitch stays."""
    volume_gain_db: float
    sample_rate: int
    """Of the audio that comes, 8000 to 48000 Hz; the model's own unless it is set."""
    instructions: str
    """How to say it, for models that can be told."""
    non_streaming_mode: bool
    """Whether all of a sentence's text stands in front of its sound (Qwen3-TTS)."""
    seed: int
    """The same seed, text and settings give the same audio."""
    max_lead: float
    """Seconds that the server may run ahead of a listener: bounds what an interruption throws away."""


class Message(TypedDict, total=False):
    """A turn of a conversation."""

    role: Required[Literal["system", "user", "assistant"]]
    content: Required[str]


_ROLES: dict[str, chat_pb2.Role.ValueType] = {
    "system": chat_pb2.ROLE_SYSTEM,
    "user": chat_pb2.ROLE_USER,
    "assistant": chat_pb2.ROLE_ASSISTANT,
}


def _output(options: SpeechOptions) -> audio_pb2.AudioDelivery:
    output = audio_pb2.AudioDelivery(
        format=audio_pb2.AudioFormat(
            encoding=audio_pb2.AUDIO_ENCODING_PCM_S16LE, sample_rate_hz=options.get("sample_rate", 0), channels=1
        )
    )
    if (lead := options.get("max_lead")) is not None:
        output.max_lead.FromNanoseconds(round(lead * 1e9))
    return output


def _sampling(seed: int | None, temperature: float | None = None, max_tokens: int | None = None) -> common_pb2.SamplingParams:
    return common_pb2.SamplingParams(seed=seed, temperature=temperature, max_tokens=max_tokens)


def speech_config(options: SpeechOptions) -> speech_pb2.SpeechConfig:
    return speech_pb2.SpeechConfig(
        model=options.get("model", ""),
        voice=options.get("voice", ""),
        language=options.get("language", ""),
        output=_output(options),
        speed=options.get("speed"),
        volume_gain_db=options.get("volume_gain_db"),
        style_instructions=options.get("instructions", ""),
        non_streaming_mode=options.get("non_streaming_mode"),
        sampling=_sampling(options.get("seed")),
    )


class ChatOptions(TypedDict, total=False):
    """How to answer. What is left out is the server's or the model's to choose."""

    model: str
    instructions: str
    """How the model shall behave (the system prompt)."""
    spoken: bool
    """Speak the answer, too."""
    voice: str
    language: str
    speed: float
    sample_rate: int
    max_lead: float
    temperature: float
    max_tokens: int
    seed: int
    """Repeats words and audio."""
    stop: Sequence[str]
    """The answer ends before the first of these."""


def chat_config(options: ChatOptions) -> chat_pb2.ChatConfig:
    spoken = options.get("spoken", False)
    config = chat_pb2.ChatConfig(
        model=options.get("model", ""),
        instructions=options.get("instructions", ""),
        output_modalities=[chat_pb2.MODALITY_TEXT, *([chat_pb2.MODALITY_AUDIO] if spoken else [])],
        text_sampling=_sampling(options.get("seed"), options.get("temperature"), options.get("max_tokens")),
        stop=options.get("stop", ()),
    )
    if spoken:
        sound: SpeechOptions = {}
        if (rate := options.get("sample_rate")) is not None:
            sound["sample_rate"] = rate
        if (lead := options.get("max_lead")) is not None:
            sound["max_lead"] = lead
        config.output_audio.CopyFrom(_output(sound))
        config.voice, config.language = options.get("voice", ""), options.get("language", "")
        if (speed := options.get("speed")) is not None:
            config.speed = speed
    return config


def message(role: str, content: str) -> chat_pb2.ChatMessage:
    if role not in _ROLES:
        raise ValueError(f"role {role!r} is unknown, expected one of: {', '.join(_ROLES)}")
    return chat_pb2.ChatMessage(role=_ROLES[role], parts=[chat_pb2.ContentPart(text=content)])


def messages(said: str | Sequence[Message]) -> list[chat_pb2.ChatMessage]:
    """One question, or a conversation, oldest turn first."""
    if isinstance(said, str):
        return [message("user", said)]
    return [message(turn["role"], turn["content"]) for turn in said]


def new_voice(name: str, recording: bytes, consent: str, transcript: str, description: str) -> voice_pb2.CreateVoiceRequest:
    sound = voice_pb2.VoiceRecording(
        # Without its words, the speaker's vector alone decides.
        audio=recording,
        transcript=transcript,
        x_vector_only=not transcript,
        consent=consent,
    )
    return voice_pb2.CreateVoiceRequest(name=name, recording=sound, description=description)
