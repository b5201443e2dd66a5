"""Where the server is, and what every call brings along."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"


@dataclass(frozen=True)
class Endpoint:
    """An address, and how to speak to it."""

    address: str
    api_key: str | None
    tls: bool
    root_certificates: bytes | None
    timeout: float | None

    @property
    def target(self) -> str:
        """What a channel is opened to: `http://` and `https://` may precede the address."""
        return self.address.removeprefix("https://").removeprefix("http://").rstrip("/")

    @property
    def credentials(self) -> grpc.ChannelCredentials | None:
        encrypted = self.tls or self.root_certificates is not None or self.address.startswith("https://")
        return grpc.ssl_channel_credentials(self.root_certificates) if encrypted else None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        # By the call and not by its credentials, which gRPC sends over TLS alone.
        return (("authorization", f"Bearer {self.api_key}"),) if self.api_key else ()

    def within(self, timeout: float | None) -> float | None:
        """The time of a call: its own, or the client's."""
        return self.timeout if timeout is None else timeout
