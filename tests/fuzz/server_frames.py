"""Frames that a server may send next: mostly valid ones, often at the wrong time, sometimes of the largest size."""

import math
from collections.abc import Callable, Sequence
from random import Random

import torch

from common.codec import encode
from common.protocol.client_session import ClientSession
from common.protocol.messages import StateRequest
from common.protocol.transitions import ClientState
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.mutation import STRINGS, U64, number

WANTED = StateRequest("thoughts", layers=2)

TOP_LOGPROBS = (0, 3)
"""How many of the likeliest tokens an answer may ask for."""

SHAPES = {"lsa": (16,), "hidden": (40,), "kv": (2, 2, 8)}
"""Of one position, by kind."""

_PAYLOADS = {
    (kind, count): encode(torch.linspace(-1, 1, count * torch.Size(shape).numel()).view(count, *shape), WANTED.dtype)
    for kind, shape in SHAPES.items()
    for count in (1, 2, 5)
}


def server_frame(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    """`session` is the client's own; it has begun."""
    if session.state is ClientState.OPENING and rng.random() < 0.7:
        return pb.ServerFrame(opened=pb.Opened(session=session.id))
    drawn = rng.random()
    if drawn < 0.0005:
        return rng.choice(_GIANTS)(session, vocab_size, rng)
    return next(make for share, make in _KINDS if drawn < share)(session, vocab_size, rng)


def _opened(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    return pb.ServerFrame(opened=pb.Opened(session=rng.choice((session.id, *STRINGS))))


def _commit(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    known = session.tree.tokens
    start = number(rng, len(known) - rng.choice((0, 0, 0, 1, 3)))
    fresh = rng.choices(range(vocab_size), k=rng.choice((0, 1, 1, 2, 3, 8)))
    if rng.random() < 0.02:
        fresh.append(number(rng, vocab_size))
    tokens = [*known[start:], *fresh]
    return pb.ServerFrame(
        commit=pb.Commit(
            turn=number(rng, session.turn),
            start=start,
            tokens=tokens,
            seen=number(rng, session.tree.last_id, U64),
            **_logprobs(len(tokens), session, vocab_size, rng),
        )
    )


def _logprobs(tokens: int, session: ClientSession, vocab_size: int, rng: Random) -> dict[str, Sequence[float]]:
    """Of so many tokens: usually as the answer asks for."""
    most = session._settings.top_logprobs if rng.random() < 0.98 else rng.choice((None, *TOP_LOGPROBS))
    if most is None:
        return {}
    rows = tokens if rng.random() < 0.98 else rng.choice((0, 1, tokens + 1))
    likeliest = [token for _ in range(rows) for token in rng.sample(range(vocab_size), most)]
    logps = [-rng.random() * 9 if rng.random() < 0.999 else rng.choice((1.0, math.nan, -math.inf)) for _ in likeliest]
    return {"logp": [-1.0] * rows, "top_token": likeliest, "top_logp": logps}


def _state(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    (kind, count), payload = rng.choice(list(_PAYLOADS.items()))
    return pb.ServerFrame(
        state=pb.State(
            turn=number(rng, session.turn),
            start=number(rng, rng.randrange(max(1, session.tree.frontier - count + 1))),
            count=number(rng, count),
            kind=kind if rng.random() < 0.97 else rng.choice(STRINGS),
            dtype=WANTED.dtype if rng.random() < 0.97 else rng.choice(("float16", "int4", *STRINGS)),
            shape=[number(rng, each) for each in (count, *SHAPES[kind])],
            payload=payload,
        )
    )


def _finished(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    reason = rng.choice(("stop", "length", "cancelled", rng.choice(STRINGS)))
    finished = pb.Finished(turn=number(rng, session.turn), frontier=number(rng, session.tree.frontier), reason=reason)
    return pb.ServerFrame(finished=finished)


def _failed(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    code = rng.choice(("overloaded", "internal", "version", rng.choice(STRINGS)))
    failed = pb.Failed(code=code, message=rng.choice(STRINGS), retry_after_ms=number(rng, 0))
    return pb.ServerFrame(failed=failed)


def _pong(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    return pb.ServerFrame(pong=pb.Pong(number=number(rng, 1)))


_KINDS: tuple[tuple[float, Callable[[ClientSession, int, Random], pb.ServerFrame]], ...] = (
    *((0.05, _opened), (0.55, _commit), (0.85, _state), (0.91, _finished), (0.93, _failed), (1.0, _pong)),
)
"""Each with the share of frames up to and including it."""


def _giant_commit(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    commit = pb.Commit(turn=session.turn, start=session.tree.frontier, tokens=[1] * rng.choice((1000, 1_000_000)))
    return pb.ServerFrame(commit=commit)


def _giant_state(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    shape = rng.choice(([1, 1 << 20], [1, 1 << 31], [U64 >> 32] * 3, [1] * 1_000_000, [1, 2, 2, 1 << 18]))
    kind, size = ("kv" if len(shape) == 4 else "lsa"), rng.choice((10, 1_000_000, 2_000_000))
    state = pb.State(turn=session.turn, count=1, kind=kind, dtype=WANTED.dtype, shape=shape, payload=bytes(size))
    return pb.ServerFrame(state=state)


def _giant_words(session: ClientSession, vocab_size: int, rng: Random) -> pb.ServerFrame:
    fill = "\x1b[2J" * 700_000
    return rng.choice(
        (
            pb.ServerFrame(failed=pb.Failed(code="internal", message=fill)),
            pb.ServerFrame(finished=pb.Finished(turn=session.turn, reason=fill)),
            pb.ServerFrame(opened=pb.Opened(session=fill)),
            pb.ServerFrame(state=pb.State(turn=session.turn, kind=fill)),
        )
    )


_GIANTS = (_giant_commit, _giant_state, _giant_words)
