"""Frames that a client may send next: mostly valid ones, often at the wrong time, sometimes of the largest size."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.mutation import FRACTIONS, STRINGS, U64, number

_RULES = ("greedy", "greedy", "coupled", "speculative", "typical")
_IDLE = ("", "eager", "patient", "auto", "assist", "lockstep", "colocated")


@dataclass(slots=True)
class ClientView:
    """What a client knows of its session and of the server."""

    session: str
    fingerprint: str
    vocab_size: int
    context: int
    draft: str  # a draft model that needs draft state
    turn: int = 0
    tokens: tuple[int, ...] = (1,)
    frontier: int = 1
    last_id: int = 0
    states: int = 0  # frames received so far
    finished: bool = False


def opening(view: ClientView, rng: Random) -> pb.ClientFrame:
    """An Open that a server accepts."""
    view.tokens = tuple(_tokens(view, rng, rng.randrange(1, 24)))
    view.frontier = len(view.tokens)
    return pb.ClientFrame(
        open=pb.Open(
            version=PROTOCOL_VERSION,
            fingerprint=view.fingerprint,
            session=view.session,
            turn=view.turn,
            tokens=view.tokens,
            prompt_length=len(view.tokens),
            settings=_settings(rng),
            state=pb.StateRequest(draft=view.draft, layers=1, dtype="int8") if rng.random() < 0.6 else None,
        )
    )


def client_frame(view: ClientView, rng: Random) -> pb.ClientFrame:
    drawn = rng.random()
    if drawn < 0.0005:
        return rng.choice(_GIANTS)(view, rng)
    if view.finished and drawn < 0.5:
        return _extend(view, rng)
    return next(make for share, make in _KINDS if drawn < share)(view, rng)


def _open(view: ClientView, rng: Random) -> pb.ClientFrame:
    tokens = _tokens(view, rng, number(rng, len(view.tokens), 500))
    return pb.ClientFrame(
        open=pb.Open(
            version=number(rng, PROTOCOL_VERSION),
            fingerprint=view.fingerprint if rng.random() < 0.95 else rng.choice(STRINGS),
            session=view.session if rng.random() < 0.8 else rng.choice(STRINGS),
            turn=number(rng, view.turn),
            tokens=tokens,
            prompt_length=number(rng, len(tokens)),
            settings=_settings(rng),
            state=_state_request(view, rng),
        )
    )


def _extend(view: ClientView, rng: Random) -> pb.ClientFrame:
    tokens = _tokens(view, rng, rng.choice((0, 1, 3, 20, 399, 600)))
    extend = pb.Extend(
        turn=number(rng, view.turn + 1), keep=number(rng, view.frontier), tokens=tokens, settings=_settings(rng)
    )
    return pb.ClientFrame(extend=extend)


def _grow(view: ClientView, rng: Random) -> pb.ClientFrame:
    return _grow_of(view, rng, rng.choice((0, 1, 1, 2, 3, 3, 5, 8, 17, 45, 70)))


def _grow_of(view: ClientView, rng: Random, count: int) -> pb.ClientFrame:
    ids = [number(rng, view.last_id + 1), *(number(rng, 1) for _ in range(count - 1))][:count]
    grow = pb.Grow(
        turn=number(rng, view.turn),
        frontier=number(rng, view.frontier),
        id=ids,
        parent=[0 if rng.random() < 0.4 else rng.randrange(1, index + 2) for index in range(count)],
        token=_tokens(view, rng, count),
        logp=[-rng.random() if rng.random() < 0.98 else rng.choice(FRACTIONS) for _ in range(count)],
    )
    if rng.random() < 0.2:
        for _ in range(rng.randrange(1, 4)):
            tokens = sorted(set(_tokens(view, rng, rng.choice((1, 3, 8, 300)))))
            weights = [number(rng, 100) for _ in tokens]
            grow.draw.append(pb.Draw(node=number(rng, rng.randrange(max(1, count))), token=tokens, weight=weights))
    view.last_id = min(view.last_id + sum(ids), U64) if sum(ids) < 1000 else view.last_id
    return pb.ClientFrame(grow=grow)


def _unlikely_chain(view: ClientView, rng: Random) -> pb.ClientFrame:
    """A well-formed chain of nodes so improbable that the probabilities of its paths underflow."""
    count = rng.choice((1, 2, 10, 40, 60))
    grow = pb.Grow(
        turn=view.turn,
        frontier=view.frontier,
        id=[view.last_id + 1, *[1] * (count - 1)],
        parent=[int(index > 0) for index in range(count)],
        token=rng.choices(range(view.vocab_size), k=count),
        logp=[rng.choice((-3.0, -30.0, -100.0, -100.0, -800.0))] * count,
    )
    view.last_id += count
    return pb.ClientFrame(grow=grow)


def _ack(view: ClientView, rng: Random) -> pb.ClientFrame:
    return pb.ClientFrame(ack=pb.Ack(turn=number(rng, view.turn), frontier=number(rng, view.frontier)))


def _cancel(view: ClientView, rng: Random) -> pb.ClientFrame:
    return pb.ClientFrame(cancel=pb.Cancel(turn=number(rng, view.turn)))


def _state_ack(view: ClientView, rng: Random) -> pb.ClientFrame:
    return pb.ClientFrame(state_ack=pb.StateAck(frames=number(rng, view.states)))


def _ping(view: ClientView, rng: Random) -> pb.ClientFrame:
    return pb.ClientFrame(ping=pb.Ping(number=number(rng, 0)))


def _settings(rng: Random) -> pb.Settings:
    settings = pb.Settings(
        max_new_tokens=number(rng, rng.choice((0, 5, 40, 300))), rule=rng.choice(_RULES), idle=rng.choice(_IDLE)
    )
    if rng.random() < 0.1:
        settings.stop.extend(rng.choices(STRINGS, k=rng.choice((1, 2, 16, 17))))
    if rng.random() < 0.5:
        settings.sampling.temperature = 0.0 if settings.rule == "greedy" else 0.7
        settings.sampling.top_p = settings.sampling.repetition_penalty = 1.0
        settings.sampling.seed = rng.randrange(U64)
    return settings


def _state_request(view: ClientView, rng: Random) -> pb.StateRequest | None:
    if rng.random() < 0.5:
        return None
    draft = view.draft if rng.random() < 0.9 else rng.choice(STRINGS)
    dtype = "int8" if rng.random() < 0.9 else rng.choice(STRINGS)
    return pb.StateRequest(draft=draft, layers=number(rng, 1), dtype=dtype, later=rng.random() < 0.2)


def _tokens(view: ClientView, rng: Random, count: int) -> list[int]:
    tokens = rng.choices(range(view.vocab_size), k=count)
    if count and rng.random() < 0.02:
        tokens[rng.randrange(count)] = number(rng, view.vocab_size)
    return tokens


_KINDS: tuple[tuple[float, Callable[[ClientView, Random], pb.ClientFrame]], ...] = (
    *(
        (0.01, _open),
        (0.03, _extend),
        (0.53, _grow),
        (0.63, _unlikely_chain),
        (0.79, _ack),
        (0.81, _cancel),
        (0.93, _state_ack),
        (1.0, _ping),
    ),
)
"""Each with the share of frames up to and including it."""

# Close to the largest that a message may hold. A server must not take longer over them than over other frames.


def _giant_prompt(view: ClientView, rng: Random) -> pb.ClientFrame:
    frame = _open(view, rng)
    frame.open.tokens.extend([1] * rng.choice((1000, 100_000, 1_000_000)))
    frame.open.prompt_length = len(frame.open.tokens)
    return frame


def _giant_turn(view: ClientView, rng: Random) -> pb.ClientFrame:
    frame = _extend(view, rng)
    frame.extend.turn, frame.extend.keep = view.turn + 1, 0
    frame.extend.tokens.extend([1] * 1_000_000)
    return frame


def _giant_tree(view: ClientView, rng: Random) -> pb.ClientFrame:
    return _grow_of(view, rng, rng.choice((64, 512, 4096, 4097, 50_000)))


def _giant_group(view: ClientView, rng: Random) -> pb.ClientFrame:
    frame = _grow_of(view, rng, 64)
    many = list(range(4096))
    frame.grow.draw.extend(pb.Draw(node=index, token=many, weight=[1] * 4096) for index in range(60))
    return frame


def _giant_names(view: ClientView, rng: Random) -> pb.ClientFrame:
    frame = _open(view, rng)
    fill = "\x1b" * 250_000
    frame.open.session, frame.open.settings.rule, frame.open.state.draft = fill, fill, fill
    frame.open.settings.stop.extend([""] * 100_000)
    return frame


_GIANTS = (_giant_prompt, _giant_turn, _giant_tree, _giant_group, _giant_names)
