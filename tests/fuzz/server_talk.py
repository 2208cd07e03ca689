"""What a server may say next, as frames: mostly what fits, often at the wrong time, sometimes far too much of it."""

from collections.abc import Callable
from random import Random

import torch

from common.codec import encode
from common.protocol.client_session import ClientSession
from common.protocol.messages import StateRequest
from common.protocol.transitions import ClientState
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.chance import STRINGS, U64, number

WANTED = StateRequest("thoughts", layers=2)

SHAPES = {"lsa": (16,), "hidden": (40,), "kv": (2, 2, 8)}
"""Of one position, by kind."""

_PAYLOADS = {
    (kind, count): encode(torch.linspace(-1, 1, count * torch.Size(shape).numel()).view(count, *shape), WANTED.dtype)
    for kind, shape in SHAPES.items()
    for count in (1, 2, 5)
}


def server_frame(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    """`session` is the client's own, which has been begun."""
    if session.state is ClientState.OPENING and dice.random() < 0.7:
        return pb.ServerFrame(opened=pb.Opened(session=session.id))
    chance = dice.random()
    if chance < 0.0005:
        return dice.choice(_GIANTS)(session, vocab_size, dice)
    return next(make for share, make in _KINDS if chance < share)(session, vocab_size, dice)


def _opened(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    return pb.ServerFrame(opened=pb.Opened(session=dice.choice((session.id, *STRINGS))))


def _commit(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    known = session.tree.tokens
    start = number(dice, len(known) - dice.choice((0, 0, 0, 1, 3)))
    fresh = dice.choices(range(vocab_size), k=dice.choice((0, 1, 1, 2, 3, 8)))
    if dice.random() < 0.02:
        fresh.append(number(dice, vocab_size))
    tokens = [*known[start:], *fresh]
    return pb.ServerFrame(
        commit=pb.Commit(
            turn=number(dice, session.turn), start=start, tokens=tokens, seen=number(dice, session.tree.last_id, U64)
        )
    )


def _state(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    (kind, count), payload = dice.choice(list(_PAYLOADS.items()))
    return pb.ServerFrame(
        state=pb.State(
            turn=number(dice, session.turn),
            start=number(dice, dice.randrange(max(1, session.tree.frontier - count + 1))),
            count=number(dice, count),
            kind=kind if dice.random() < 0.97 else dice.choice(STRINGS),
            dtype=WANTED.dtype if dice.random() < 0.97 else dice.choice(("float16", "int4", *STRINGS)),
            shape=[number(dice, each) for each in (count, *SHAPES[kind])],
            payload=payload,
        )
    )


def _finished(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    reason = dice.choice(("stop", "length", "cancelled", dice.choice(STRINGS)))
    finished = pb.Finished(turn=number(dice, session.turn), frontier=number(dice, session.tree.frontier), reason=reason)
    return pb.ServerFrame(finished=finished)


def _failed(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    code = dice.choice(("overloaded", "internal", "version", dice.choice(STRINGS)))
    failed = pb.Failed(code=code, message=dice.choice(STRINGS), retry_after_ms=number(dice, 0))
    return pb.ServerFrame(failed=failed)


def _pong(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    return pb.ServerFrame(pong=pb.Pong(number=number(dice, 1)))


_KINDS: tuple[tuple[float, Callable[[ClientSession, int, Random], pb.ServerFrame]], ...] = (
    *((0.05, _opened), (0.55, _commit), (0.85, _state), (0.91, _finished), (0.93, _failed), (1.0, _pong)),
)
"""Each with the share of frames up to and including it."""


def _giant_commit(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    commit = pb.Commit(turn=session.turn, start=session.tree.frontier, tokens=[1] * dice.choice((1000, 1_000_000)))
    return pb.ServerFrame(commit=commit)


def _giant_state(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    shape = dice.choice(([1, 1 << 20], [1, 1 << 31], [U64 >> 32] * 3, [1] * 1_000_000, [1, 2, 2, 1 << 18]))
    kind, size = ("kv" if len(shape) == 4 else "lsa"), dice.choice((10, 1_000_000, 2_000_000))
    state = pb.State(turn=session.turn, count=1, kind=kind, dtype=WANTED.dtype, shape=shape, payload=bytes(size))
    return pb.ServerFrame(state=state)


def _giant_words(session: ClientSession, vocab_size: int, dice: Random) -> pb.ServerFrame:
    fill = "\x1b[2J" * 700_000
    return dice.choice(
        (
            pb.ServerFrame(failed=pb.Failed(code="internal", message=fill)),
            pb.ServerFrame(finished=pb.Finished(turn=session.turn, reason=fill)),
            pb.ServerFrame(opened=pb.Opened(session=fill)),
            pb.ServerFrame(state=pb.State(turn=session.turn, kind=fill)),
        )
    )


_GIANTS = (_giant_commit, _giant_state, _giant_words)
