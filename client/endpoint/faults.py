"""Errors in the shape that OpenAI's clients read, or Ollama's. Pure."""

from dataclasses import dataclass
from typing import Any

from common.protocol.plain import LONGEST_LINE, plain

OLLAMA_FOLDER = "/api/"
"""Paths of Ollama's API."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`status` is HTTP's; `parameter` names what of the body is meant, `also` another that the message speaks of;
    `retry_after` is in seconds."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    parameter: str | None = None
    code: str | None = None
    retry_after: int | None = None
    also: str | None = None

    def body(self) -> dict[str, Any]:
        parameter = None if self.parameter is None else plain(self.parameter)
        message = plain(self.message, LONGEST_LINE)
        return {"error": {"message": message, "type": self.kind, "param": parameter, "code": self.code}}

    def body_at(self, path: str) -> dict[str, Any]:
        """As the API of the path has it: OpenAI's, or Ollama's."""
        body = self.body()
        return {"error": body["error"]["message"]} if path.startswith(OLLAMA_FOLDER) else body

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class FaultError(Exception):
    """A request is answered with this fault."""

    def __init__(self, fault: Fault):
        super().__init__(fault.message)
        self.fault = fault


def wrong(parameter: str | None, message: str, code: str | None = None) -> FaultError:
    """Something in the body that its sender can fix."""
    return FaultError(Fault(400, message, parameter=parameter, code=code))


def no_such_path(path: str) -> Fault:
    """For the many other paths of OpenAI's API, or Ollama's."""
    there = "chat/completions, completions, responses and models are, all below /v1"
    if path.startswith(OLLAMA_FOLDER):
        there = "chat, generate, tags, ps, show and version are, all below /api"
    return Fault(404, f"there is no {path} here; {there}")


def no_embeddings() -> Fault:
    return Fault(
        404,
        "there are no embeddings here: the target writes text; ask an endpoint that runs an embedding model",
        code="unsupported_endpoint",
    )


def busy(retry_after: int) -> FaultError:
    return FaultError(
        Fault(429, "too many requests wait already; come back later", "rate_limit_error", None, "busy", retry_after)
    )


def unreachable(retry_after: int) -> FaultError:
    return FaultError(Fault(503, "the server is out of reach", "server_error", None, "server_unreachable", retry_after))


def shutting_down() -> Fault:
    return Fault(503, "outrider serve was stopped before this answer was whole", "server_error", None, "stopped")


def refused(message: str, retry_after: int, *, over_quota: bool) -> Fault:
    """The server accepts no more from anybody now, or from this client."""
    if over_quota:
        return Fault(429, message, "rate_limit_error", None, "over_quota", retry_after)
    return Fault(503, message, "server_error", None, "refused", retry_after)


def internal(error: Exception) -> Fault:
    """A defect of this endpoint."""
    message = f"this endpoint failed: {str(error) or type(error).__name__}"
    return Fault(500, message, "server_error", None, "internal")


def broken_off(message: str) -> Fault:
    """An answer that failed after it had begun, or before."""
    return Fault(502, message, "server_error", None, "answer_broke_off")
