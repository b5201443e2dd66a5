"""What a program without asyncio gets."""

import io
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

import omni_speech
from omni_speech import Client, InvalidRequestError, OmniError
from omni_speech.v1 import common_pb2

TEXT = "Hello there. How are you?"


def test_a_text_becomes_a_file_whose_header_has_its_length(omni: Client, tmp_path: Path) -> None:
    path = tmp_path / "hello.wav"
    omni.speak(TEXT).save(path)
    with wave.open(str(path)) as file:
        assert file.getnchannels() == 1
        assert file.getsampwidth() == 2
        assert file.getnframes() * 2 + 44 == path.stat().st_size


def test_pieces_are_whole_samples_and_make_the_audio_of_the_text(omni: Client) -> None:
    speech = omni.speak(TEXT, seed=7)
    pieces = list(speech)
    assert len(pieces) > 1
    assert all(piece and len(piece) % 2 == 0 for piece in pieces)
    assert sum(map(len, pieces)) == speech.samples * 2
    assert b"".join(pieces) == omni.speak(TEXT, seed=7).read()
    assert speech.outcome.finish_reason == common_pb2.FINISH_REASON_STOP
    assert speech.outcome.seed == 7


def test_words_that_come_one_by_one_are_spoken_as_the_whole_text_is(omni: Client) -> None:
    def words() -> Iterator[str]:
        yield from ["Hello ", "there. ", "How ", "are you?"]

    assert omni.speak(words(), seed=7).read() == omni.speak(TEXT, seed=7).read()


def test_an_error_of_the_words_is_the_callers_own(omni: Client) -> None:
    def words() -> Iterator[str]:
        yield "Hello there. "
        raise LookupError("the language model is gone")

    with pytest.raises(LookupError, match="language model"):
        omni.speak(words()).read()


def test_the_rate_is_the_one_that_was_asked_for(omni: Client) -> None:
    speech = omni.speak(TEXT, sample_rate=8000)
    with pytest.raises(RuntimeError, match="not known yet"):
        _ = speech.sample_rate
    assert speech.start().sample_rate == 8000
    out = io.BytesIO()
    speech.save(out)
    out.seek(0)
    with wave.open(out) as file:
        assert file.getframerate() == 8000


def test_speech_that_is_cancelled_ends_and_the_connection_goes_on(omni: Client) -> None:
    speech = omni.speak(TEXT)
    next(speech)
    speech.cancel()
    with pytest.raises(OmniError):
        speech.read()
    assert omni.speak(TEXT).read()


def test_a_voice_that_does_not_exist_is_named_with_its_field(omni: Client) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        omni.speak(TEXT, voice="zz").read()
    assert refused.value.reason == "VOICE_NOT_FOUND"
    assert refused.value.field == "config.voice"
    assert "zz" in refused.value.message


def test_every_voice_that_is_listed_speaks(omni: Client) -> None:
    voices = omni.voices()
    assert [voice.is_default for voice in voices].count(True) == 1
    for voice in voices:
        assert omni.speak("Hello.", voice=voice.id).read()
    assert omni.models()[0].id == voices[0].models[0]


def test_an_answer_is_written_and_spoken(omni: Client) -> None:
    written = omni.chat("ab", seed=7)
    text = written.read()
    assert text and text == written.text == written.kept_text
    spoken = omni.chat([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "ab"}], spoken=True)
    pieces = list(spoken)
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == spoken.text
    assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) == spoken.samples * 2 > 0


def test_a_role_that_does_not_exist_is_refused_before_it_is_sent(omni: Client) -> None:
    with pytest.raises(ValueError, match="robot"):
        omni.chat([{"role": "robot", "content": "ab"}])  # type: ignore[typeddict-item]


def test_a_call_that_takes_too_long_is_a_deadline_error(address: str) -> None:
    with Client(address, timeout=1e-6) as impatient, pytest.raises(omni_speech.DeadlineError):
        impatient.speak(TEXT).read()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with Client("127.0.0.1:1", timeout=10) as lost, pytest.raises(omni_speech.UnavailableError):
        lost.voices()


def test_keeping_a_voice_is_refused_by_a_model_that_imitates_none(omni: Client) -> None:
    with pytest.raises(OmniError) as refused:
        omni.create_voice("mine", b"RIFF", consent="my own")
    assert refused.value.reason
    with pytest.raises(OmniError):
        omni.delete_voice("mine")


def test_a_text_is_explained_as_it_would_be_spoken(omni: Client) -> None:
    explained = omni.explain(TEXT)
    assert [TEXT[segment.char_start : segment.char_end].strip() for segment in explained.segments] == ["Hello there.", "How are you?"]
    assert explained.segments[0].words
    with pytest.raises(InvalidRequestError):
        omni.explain(TEXT, voice="nobody")
