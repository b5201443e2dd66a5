"""What a program with asyncio gets."""

import asyncio
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from omni_speech import AsyncClient, Client, InvalidRequestError, OmniError, Turn
from omni_speech.v1 import common_pb2

TEXT = "Hello there. How are you?"
T = TypeVar("T")


def run(address: str, work: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with AsyncClient(address, timeout=60) as omni:
            return await work(omni)

    return asyncio.run(main())


def test_both_clients_get_the_same_audio(address: str, omni: Client) -> None:
    async def speak(client: AsyncClient) -> bytes:
        return await client.speak(TEXT, seed=7).read()

    assert run(address, speak) == omni.speak(TEXT, seed=7).read()


def test_a_text_becomes_a_file(address: str, tmp_path: Path) -> None:
    async def speak(client: AsyncClient) -> None:
        await client.speak(TEXT, sample_rate=16000).save(tmp_path / "hello.wav")

    run(address, speak)
    with wave.open(str(tmp_path / "hello.wav")) as file:
        assert file.getframerate() == 16000
        assert file.getnframes() > 0


def test_words_are_spoken_while_they_come(address: str) -> None:
    async def speak(client: AsyncClient) -> None:
        heard = asyncio.Event()

        async def words() -> AsyncIterator[str]:
            yield "Hello there. "
            # The rest is not written before the first sentence is heard.
            await heard.wait()
            yield "How are you?"

        speech = client.speak(words(), seed=7)
        pieces = []
        async for piece in speech:
            heard.set()
            pieces.append(piece)
        assert b"".join(pieces) == await client.speak(TEXT, seed=7).read()

    run(address, speak)


def test_an_error_of_the_words_is_the_callers_own(address: str) -> None:
    async def speak(client: AsyncClient) -> None:
        async def words() -> AsyncIterator[str]:
            yield "Hello there. "
            raise LookupError("the language model is gone")

        with pytest.raises(LookupError, match="language model"):
            await client.speak(words()).read()

    run(address, speak)


def test_speech_that_is_cancelled_ends_with_an_error_and_its_task_goes_on(address: str) -> None:
    async def speak(client: AsyncClient) -> None:
        speech = client.speak(TEXT)
        async for _ in speech:
            speech.cancel()
            break
        with pytest.raises(OmniError):
            await speech.read()
        assert await client.speak(TEXT).read()

    run(address, speak)


def test_utterances_are_spoken_side_by_side(address: str) -> None:
    async def speak(client: AsyncClient) -> None:
        heard = await asyncio.gather(*(client.speak(TEXT, seed=7).read() for _ in range(4)))
        assert len(set(heard)) == 1

    run(address, speak)


def test_a_refusal_has_its_reason_and_field(address: str) -> None:
    async def speak(client: AsyncClient) -> None:
        with pytest.raises(InvalidRequestError) as refused:
            await client.speak(TEXT, voice="zz").read()
        assert (refused.value.reason, refused.value.field) == ("VOICE_NOT_FOUND", "config.voice")
        with pytest.raises(InvalidRequestError):
            await client.speak(TEXT, speed=9.0).start()

    run(address, speak)


def test_a_conversation_remembers_and_answers_turn_by_turn(address: str) -> None:
    async def talk(client: AsyncClient) -> None:
        async with client.converse(spoken=True, seed=7) as conversation:
            for said in ["ab", "cd"]:
                turn = await conversation.say(said)
                pieces = [piece async for piece in turn]
                assert any(isinstance(piece, bytes) for piece in pieces)
                assert turn.kept_text == turn.text != ""
        assert (await client.chat("ab").read()) != ""
        assert {voice.id for voice in await client.voices()}
        assert (await client.models())[0].ready

    run(address, talk)


def test_an_answer_that_is_interrupted_keeps_what_was_heard(address: str) -> None:
    async def talk(client: AsyncClient) -> None:
        async with client.converse(spoken=True) as conversation:
            turn = await conversation.say("ab")
            async for piece in turn:
                if isinstance(piece, bytes):
                    break
            assert await turn.interrupt(played_samples=0) == ""
            assert turn.outcome.finish_reason in (
                common_pb2.FINISH_REASON_INTERRUPTED,
                # It was shorter than the server is quick.
                common_pb2.FINISH_REASON_STOP,
            )
            # One that is left alone is interrupted by what is said next.
            await conversation.say("cd")
            last = await conversation.say("ef")
            assert "".join([piece async for piece in last if isinstance(piece, str)]) == last.text != ""

    run(address, talk)


def test_an_answer_can_be_interrupted_while_another_task_hears_it(address: str) -> None:
    async def talk(client: AsyncClient) -> None:
        async with client.converse(spoken=True) as conversation:
            for played in [0, None, 1 << 30]:
                turn = await conversation.say("ab")
                heard = asyncio.Event()

                async def listen(turn: Turn = turn, heard: asyncio.Event = heard) -> None:
                    async for _ in turn:
                        heard.set()

                listening = asyncio.create_task(listen())
                await heard.wait()
                kept = await turn.interrupt(played)
                await listening
                assert turn.text.startswith(kept.rstrip())
                assert kept == turn.kept_text
                # Once more: it is over, and what is kept can only become less.
                assert len(await turn.interrupt(0)) <= len(kept)

    run(address, talk)


def test_a_model_that_cannot_hear_says_so(address: str) -> None:
    async def talk(client: AsyncClient) -> None:
        async with client.converse(spoken=True) as conversation:
            with pytest.raises(OmniError) as refused:
                await conversation.listen(bytes(32_000))
                turn = await conversation.answer()
                async for _ in turn:
                    pass
            assert refused.value.reason

    run(address, talk)


def test_what_a_conversation_is_refused_for_is_said_where_it_is_opened(address: str) -> None:
    async def talk(client: AsyncClient) -> None:
        with pytest.raises(InvalidRequestError) as refused:
            async with client.converse(voice="zz", spoken=True):
                pass
        assert refused.value.reason == "VOICE_NOT_FOUND"

    run(address, talk)
