"""A LiveKit agent that answers with Omni: the language model and the voice are one server.

    pip install livekit-agents livekit-plugins-openai
    python client/examples/agents/livekit_agent.py console        # in the terminal; `dev` and `start` join rooms of a LiveKit server

OMNI_BASE_URL and OMNI_API_KEY say where the server is. It recognises no speech: for a microphone, give the session an `stt` and a
`vad` of another provider. What is written is answered as it is.
"""

from __future__ import annotations

import os

from livekit.agents import Agent, AgentServer, AgentSession, JobContext, cli
from livekit.plugins import openai

INSTRUCTIONS = "You answer in one or two short sentences that sound natural when they are spoken."


def agent_session(base_url: str, api_key: str = "none", voice: str = "alloy") -> AgentSession[None]:
    """A session whose answers are thought and spoken by the server at `base_url`, which ends in /v1."""
    return AgentSession(
        llm=openai.LLM(base_url=base_url, api_key=api_key),
        # Samples need no decoder, and the first of them are heard soonest.
        tts=openai.TTS(base_url=base_url, api_key=api_key, voice=voice, response_format="pcm"),
    )


server = AgentServer()


@server.rtc_session()
async def entrypoint(context: JobContext) -> None:
    """Joins a room."""
    url = os.environ.get("OMNI_BASE_URL", "http://127.0.0.1:50051/v1")
    session = agent_session(url, os.environ.get("OMNI_API_KEY", "none"))
    await session.start(agent=Agent(instructions=INSTRUCTIONS), room=context.room)
    await session.say("Hello. What would you like to know?")


if __name__ == "__main__":
    cli.run_app(server)
