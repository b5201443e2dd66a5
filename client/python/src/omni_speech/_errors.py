"""What can go wrong, with the server's reason for it."""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

DETAILS = "grpc-status-details-bin"


class OmniError(Exception):
    """A call, an utterance or an answer failed.

    `reason` is stable and made for programs (`VOICE_NOT_FOUND`), and empty where the server did not say; `field` is the path of the
    field at fault (`config.voice`), or empty; `retry_after` says in how many seconds trying again makes sense, or is None.
    """

    def __init__(self, code: grpc.StatusCode, message: str, details: status_pb2.Status | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = ""
        self.field = ""
        self.retry_after: float | None = None
        self.metadata: dict[str, str] = {}
        for detail in details.details if details else ():
            info, request, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(request) and request.field_violations:
                self.field = request.field_violations[0].field
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.ToTimedelta().total_seconds()

    def __str__(self) -> str:
        return f"{self.message} ({self.reason or self.code.name})"


class InvalidRequestError(OmniError):
    """The request cannot be honoured as it is."""


class AuthenticationError(OmniError):
    """The API key is missing, unknown, or does not open this."""


class OverloadedError(OmniError):
    """The server or a quota of the API key has no room now; see `retry_after`."""


class UnavailableError(OmniError):
    """The server cannot be reached, is loading its model, or is shutting down."""


class DeadlineError(OmniError):
    """The call took longer than its `timeout`."""


_KINDS: dict[grpc.StatusCode, type[OmniError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: InvalidRequestError,
    grpc.StatusCode.ALREADY_EXISTS: InvalidRequestError,
    grpc.StatusCode.UNIMPLEMENTED: InvalidRequestError,
    grpc.StatusCode.UNAUTHENTICATED: AuthenticationError,
    grpc.StatusCode.PERMISSION_DENIED: AuthenticationError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
}
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def _error(code: grpc.StatusCode, message: str, details: status_pb2.Status | None) -> OmniError:
    return _KINDS.get(code, OmniError)(code, message, details)


def of_status(status: status_pb2.Status) -> OmniError:
    """The error in an `Outcome`."""
    return _error(_CODES.get(status.code, grpc.StatusCode.UNKNOWN), status.message, status)


def of_call(error: grpc.RpcError) -> OmniError:
    """The error that ended a call."""
    # Both of grpc's own kinds of calls have these, and its type of the error says so of neither.
    call: Any = error
    details = None
    for name, value in call.trailing_metadata() or ():
        if name == DETAILS:
            details = status_pb2.Status.FromString(value)
    return _error(call.code(), call.details() or "", details)
