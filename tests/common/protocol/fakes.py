"""A target without a model: a pure function of the sequence, and the answer that it gives alone."""

import zlib
from collections.abc import Sequence

from common.protocol.draft_state import StateKind, raw_bytes
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, Settings, StateRequest
from common.protocol.terms import Terms

VOCAB = 6
END = 0


def detokenise(tokens: Sequence[int]) -> str:
    return "".join("eabcde"[token] for token in tokens)


def next_token(tokens: Sequence[int], salt: int) -> int:
    """The target's choice after `tokens`; an end token about once in thirty."""
    value = zlib.crc32(bytes(tokens), salt)
    return END if value % 31 == 0 else 1 + value // 31 % (VOCAB - 1)


def terms(idle: str = "eager", **changes: object) -> Terms:
    values = {
        "fingerprint": "f" * 64,
        "vocab_size": VOCAB,
        "context": 256,
        "end_tokens": frozenset({END}),
        "detokenise": detokenise,
        "idle": idle,
        "run_ahead": 16,
        "max_nodes": 64,
        "state_kinds": state_kinds,
    }
    return Terms(**{**values, **changes})  # type: ignore[arg-type]


REQUEST = StateRequest("a draft", layers=2)


def state_kinds(request: StateRequest) -> Sequence[StateKind]:
    """So large that a few positions fill a frame."""
    if request.draft != REQUEST.draft:
        raise PeerError(f"this server has no draft '{request.draft}'", FailureCode.INVALID)
    return (StateKind("lsa", (512,)), StateKind("kv", (request.layers, 2, 256)))


def state_payload(kind: StateKind, tokens: Sequence[int], start: int, count: int) -> bytes:
    """State that depends on the kind and, as a target's does, on every token up to its own position."""
    size = raw_bytes("int8", (1, *kind.shape))
    ends = range(start + 1, start + count + 1)
    return b"".join(zlib.crc32(bytes(tokens[:end]), len(kind.name)).to_bytes(size, "big") for end in ends)


def decode_alone(tokens: Sequence[int], settings: Settings, salt: int, context: int = 256) -> list[int]:
    """The target's own answer, token by token: the truth that every interleaving must reproduce."""
    answer: list[int] = []
    while len(answer) < settings.max_new_tokens and len(tokens) + len(answer) < context:
        answer.append(next_token([*tokens, *answer], salt))
        if answer[-1] == END or any(string in detokenise(answer) for string in settings.stop):
            break
    return answer
