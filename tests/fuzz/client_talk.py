"""What a client may say next, as frames: mostly what fits, often at the wrong time, sometimes far too much of it."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.chance import FRACTIONS, STRINGS, U64, number

_RULES = ("greedy", "greedy", "coupled", "speculative", "typical")
_IDLE = ("", "eager", "patient", "auto", "assist", "lockstep", "colocated")


@dataclass(slots=True)
class Talk:
    """What a client knows of its session and of the server."""

    session: str
    fingerprint: str
    vocab_size: int
    context: int
    draft: str  # one that needs draft state
    turn: int = 0
    tokens: tuple[int, ...] = (1,)
    frontier: int = 1
    last_id: int = 0
    states: int = 0  # frames that have come
    finished: bool = False


def opening(talk: Talk, dice: Random) -> pb.ClientFrame:
    """An Open that a server takes."""
    talk.tokens = tuple(_tokens(talk, dice, dice.randrange(1, 24)))
    talk.frontier = len(talk.tokens)
    return pb.ClientFrame(
        open=pb.Open(
            version=PROTOCOL_VERSION,
            fingerprint=talk.fingerprint,
            session=talk.session,
            turn=talk.turn,
            tokens=talk.tokens,
            prompt_length=len(talk.tokens),
            settings=_settings(dice),
            state=pb.StateRequest(draft=talk.draft, layers=1, dtype="int8") if dice.random() < 0.6 else None,
        )
    )


def client_frame(talk: Talk, dice: Random) -> pb.ClientFrame:
    chance = dice.random()
    if chance < 0.0005:
        return dice.choice(_GIANTS)(talk, dice)
    if talk.finished and chance < 0.5:
        return _extend(talk, dice)
    return next(make for share, make in _KINDS if chance < share)(talk, dice)


def _open(talk: Talk, dice: Random) -> pb.ClientFrame:
    tokens = _tokens(talk, dice, number(dice, len(talk.tokens), 500))
    return pb.ClientFrame(
        open=pb.Open(
            version=number(dice, PROTOCOL_VERSION),
            fingerprint=talk.fingerprint if dice.random() < 0.95 else dice.choice(STRINGS),
            session=talk.session if dice.random() < 0.8 else dice.choice(STRINGS),
            turn=number(dice, talk.turn),
            tokens=tokens,
            prompt_length=number(dice, len(tokens)),
            settings=_settings(dice),
            state=_state_request(talk, dice),
        )
    )


def _extend(talk: Talk, dice: Random) -> pb.ClientFrame:
    tokens = _tokens(talk, dice, dice.choice((0, 1, 3, 20, 399, 600)))
    extend = pb.Extend(
        turn=number(dice, talk.turn + 1), keep=number(dice, talk.frontier), tokens=tokens, settings=_settings(dice)
    )
    return pb.ClientFrame(extend=extend)


def _grow(talk: Talk, dice: Random) -> pb.ClientFrame:
    return _grow_of(talk, dice, dice.choice((0, 1, 1, 2, 3, 3, 5, 8, 17, 45, 70)))


def _grow_of(talk: Talk, dice: Random, count: int) -> pb.ClientFrame:
    ids = [number(dice, talk.last_id + 1), *(number(dice, 1) for _ in range(count - 1))][:count]
    grow = pb.Grow(
        turn=number(dice, talk.turn),
        frontier=number(dice, talk.frontier),
        id=ids,
        parent=[0 if dice.random() < 0.4 else dice.randrange(1, index + 2) for index in range(count)],
        token=_tokens(talk, dice, count),
        logp=[-dice.random() if dice.random() < 0.98 else dice.choice(FRACTIONS) for _ in range(count)],
    )
    if dice.random() < 0.2:
        for _ in range(dice.randrange(1, 4)):
            tokens = sorted(set(_tokens(talk, dice, dice.choice((1, 3, 8, 300)))))
            weights = [number(dice, 100) for _ in tokens]
            grow.draw.append(pb.Draw(node=number(dice, dice.randrange(max(1, count))), token=tokens, weight=weights))
    talk.last_id = min(talk.last_id + sum(ids), U64) if sum(ids) < 1000 else talk.last_id
    return pb.ClientFrame(grow=grow)


def _unlikely_chain(talk: Talk, dice: Random) -> pb.ClientFrame:
    """Well-formed, each node below the one before and hardly possible, so that probabilities of paths underflow."""
    count = dice.choice((1, 2, 10, 40, 60))
    grow = pb.Grow(
        turn=talk.turn,
        frontier=talk.frontier,
        id=[talk.last_id + 1, *[1] * (count - 1)],
        parent=[int(index > 0) for index in range(count)],
        token=dice.choices(range(talk.vocab_size), k=count),
        logp=[dice.choice((-3.0, -30.0, -100.0, -100.0, -800.0))] * count,
    )
    talk.last_id += count
    return pb.ClientFrame(grow=grow)


def _ack(talk: Talk, dice: Random) -> pb.ClientFrame:
    return pb.ClientFrame(ack=pb.Ack(turn=number(dice, talk.turn), frontier=number(dice, talk.frontier)))


def _cancel(talk: Talk, dice: Random) -> pb.ClientFrame:
    return pb.ClientFrame(cancel=pb.Cancel(turn=number(dice, talk.turn)))


def _state_ack(talk: Talk, dice: Random) -> pb.ClientFrame:
    return pb.ClientFrame(state_ack=pb.StateAck(frames=number(dice, talk.states)))


def _ping(talk: Talk, dice: Random) -> pb.ClientFrame:
    return pb.ClientFrame(ping=pb.Ping(number=number(dice, 0)))


def _settings(dice: Random) -> pb.Settings:
    settings = pb.Settings(
        max_new_tokens=number(dice, dice.choice((0, 5, 40, 300))), rule=dice.choice(_RULES), idle=dice.choice(_IDLE)
    )
    if dice.random() < 0.1:
        settings.stop.extend(dice.choices(STRINGS, k=dice.choice((1, 2, 16, 17))))
    if dice.random() < 0.5:
        settings.sampling.temperature = 0.0 if settings.rule == "greedy" else 0.7
        settings.sampling.top_p = settings.sampling.repetition_penalty = 1.0
        settings.sampling.seed = dice.randrange(U64)
    return settings


def _state_request(talk: Talk, dice: Random) -> pb.StateRequest | None:
    if dice.random() < 0.5:
        return None
    draft = talk.draft if dice.random() < 0.9 else dice.choice(STRINGS)
    dtype = "int8" if dice.random() < 0.9 else dice.choice(STRINGS)
    return pb.StateRequest(draft=draft, layers=number(dice, 1), dtype=dtype, later=dice.random() < 0.2)


def _tokens(talk: Talk, dice: Random, count: int) -> list[int]:
    tokens = dice.choices(range(talk.vocab_size), k=count)
    if count and dice.random() < 0.02:
        tokens[dice.randrange(count)] = number(dice, talk.vocab_size)
    return tokens


_KINDS: tuple[tuple[float, Callable[[Talk, Random], pb.ClientFrame]], ...] = (
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

# Close to all that a message may hold. What a server makes of them must take no longer.


def _giant_prompt(talk: Talk, dice: Random) -> pb.ClientFrame:
    frame = _open(talk, dice)
    frame.open.tokens.extend([1] * dice.choice((1000, 100_000, 1_000_000)))
    frame.open.prompt_length = len(frame.open.tokens)
    return frame


def _giant_turn(talk: Talk, dice: Random) -> pb.ClientFrame:
    frame = _extend(talk, dice)
    frame.extend.turn, frame.extend.keep = talk.turn + 1, 0
    frame.extend.tokens.extend([1] * 1_000_000)
    return frame


def _giant_tree(talk: Talk, dice: Random) -> pb.ClientFrame:
    return _grow_of(talk, dice, dice.choice((64, 512, 4096, 4097, 50_000)))


def _giant_group(talk: Talk, dice: Random) -> pb.ClientFrame:
    frame = _grow_of(talk, dice, 64)
    many = list(range(4096))
    frame.grow.draw.extend(pb.Draw(node=index, token=many, weight=[1] * 4096) for index in range(60))
    return frame


def _giant_names(talk: Talk, dice: Random) -> pb.ClientFrame:
    frame = _open(talk, dice)
    fill = "\x1b" * 250_000
    frame.open.session, frame.open.settings.rule, frame.open.state.draft = fill, fill, fill
    frame.open.settings.stop.extend([""] * 100_000)
    return frame


_GIANTS = (_giant_prompt, _giant_turn, _giant_tree, _giant_group, _giant_names)
