"""The server that is tested against: `OMNI_TEST_ADDRESS` says where it listens."""

import os
from collections.abc import Iterator

import pytest

from omni_speech import Client


@pytest.fixture
def address() -> str:
    address = os.environ.get("OMNI_TEST_ADDRESS")
    if not address:
        pytest.skip("OMNI_TEST_ADDRESS names no server")
    return address


@pytest.fixture
def omni(address: str) -> Iterator[Client]:
    with Client(address, timeout=60) as client:
        yield client
