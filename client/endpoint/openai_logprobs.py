"""OpenAI's objects for the log-probabilities of tokens, of chats and of completions. Pure."""

from collections.abc import Sequence
from typing import Any

from client.endpoint.answer_parsers.pieces import ScoredToken


def in_chat(scored: Sequence[ScoredToken]) -> dict[str, Any] | None:
    """None without any, as of text that the target has not verified."""
    if not scored:
        return None
    return {
        "content": [
            {**_token(each.spelling, each.logp), "top_logprobs": [_token(*likely) for likely in each.top]}
            for each in scored
        ],
        "refusal": None,
    }


def in_completion(scored: Sequence[ScoredToken]) -> dict[str, Any] | None:
    """None without any."""
    if not scored:
        return None
    return {
        "tokens": [_name(each.spelling) for each in scored],
        "token_logprobs": [each.logp for each in scored],
        "top_logprobs": [
            {_name(spelling): logp for spelling, logp in (*each.top, (each.spelling, each.logp))} for each in scored
        ],
        "text_offset": [each.start for each in scored],
    }


def _token(spelling: bytes, logp: float) -> dict[str, Any]:
    return {"token": _name(spelling), "logprob": logp, "bytes": list(spelling)}


def _name(spelling: bytes) -> str:
    """As OpenAI's completions have it: text, or the bytes of a part of a character."""
    try:
        return spelling.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelling)
