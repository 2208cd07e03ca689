"""Checks every field of a frame before it is used. Each error is one plain sentence with a code.

It may know the terms that a server offers, and no session.
"""

import math
from collections.abc import Iterable, Sequence

from common.protocol.constraint import Grammar, check_length
from common.protocol.draft_state import DIMENSIONS, WIRE_DTYPES, max_bytes
from common.protocol.errors import PeerError
from common.protocol.idle import IDLE_POLICIES
from common.protocol.logprobs import LEAST_LOGPROB, MAX_TOP_LOGPROBS, TokenLogprobs
from common.protocol.messages import (
    LEAST_LOGP,
    PROTOCOL_VERSION,
    Commit,
    Draw,
    Extend,
    FailureCode,
    GrownNode,
    Open,
    Settings,
    State,
    StateRequest,
)
from common.protocol.plain import LONGEST_NAME, is_plain, plain
from common.protocol.rules import RULES
from common.protocol.sampling import rule_fault
from common.protocol.terms import Terms
from common.protocol.tree import FIRST_SERVER_NODE_ID

SESSION_NAME_LENGTHS = range(16, 65)
_MAX_STOP_STRINGS = 16
_MAX_STOP_BYTES = 512  # of all: as many tokens are detokenised for each that is committed
_MAX_DRAWN_FROM = 256  # tokens of one Draw
_MAX_WEIGHT = 1 << 31  # of all tokens of a Draw together
_MAX_STATE_NUMBERS = 1 << 20  # of one State frame, so that a small payload cannot unfold into a large array

_MAX_AXES = 1 + max(DIMENSIONS.values())


def check_commit(commit: Commit, tokens: Sequence[int], prompt_length: int, room: int, vocab_size: int) -> int:
    """How many of a Commit's tokens the client has already, of whose sequence `tokens` are known and `room` may follow.
    Raises PeerError for a Commit that does not fit them."""
    if not prompt_length <= commit.start <= len(tokens):
        raise PeerError(f"a Commit starts at {commit.start}, but {len(tokens)} tokens are known")
    known = len(tokens) - commit.start
    if len(commit.tokens) > known + room:
        more = len(commit.tokens) - known
        raise PeerError(f"a Commit brings {more} more tokens, but the answer has room for {room}")
    if not commit.tokens or not all(0 <= token < vocab_size for token in commit.tokens):
        raise PeerError("a Commit is empty or carries a token outside the vocabulary")
    if tuple(tokens[commit.start : commit.start + len(commit.tokens)]) != commit.tokens[:known]:
        raise PeerError(f"a Commit changes tokens at {commit.start} that were final")
    return known


def check_logprobs(commit: Commit, settings: Settings, vocab_size: int) -> None:
    """Checks the log-probabilities of a Commit to an answer of these settings. Raises PeerError."""
    if settings.top_logprobs is None:
        if commit.logprobs:
            raise PeerError("a Commit carries log-probabilities that were not asked for")
        return
    if len(commit.logprobs) != len(commit.tokens):
        raise PeerError(
            f"a Commit of {len(commit.tokens)} tokens carries {len(commit.logprobs)} log-probabilities; "
            "if the server is of an older release, ask without them"
        )
    count = min(settings.top_logprobs, vocab_size)
    if not all(_is_possible(row, count, vocab_size) for row in commit.logprobs):
        raise PeerError(f"a Commit carries log-probabilities that cannot be those of a token and the {count} likeliest")


def _is_possible(row: TokenLogprobs, count: int, vocab_size: int) -> bool:
    logps = [row.logp, *(logp for _, logp in row.top)]
    are_tokens = len({token for token, _ in row.top if 0 <= token < vocab_size}) == count == len(row.top)
    return are_tokens and all(LEAST_LOGPROB <= logp <= 0 for logp in logps)


def check_open(opened: Open, terms: Terms) -> None:
    if opened.version != PROTOCOL_VERSION:
        raise PeerError(
            f"the client speaks protocol version {opened.version} and this server {PROTOCOL_VERSION}; "
            "upgrade the older of the two",
            FailureCode.VERSION,
        )
    if opened.fingerprint != terms.fingerprint:
        raise PeerError(
            "the client's bundle belongs to another target; fetch this server's with `outrider pull`",
            FailureCode.MODEL,
        )
    printable = opened.session.isascii() and opened.session.isprintable()
    if len(opened.session) not in SESSION_NAME_LENGTHS or not printable:
        raise PeerError("a session's name must be 16 to 64 printable ASCII characters", FailureCode.INVALID)
    check_prompt(opened.prompt_length, terms)
    check_sequence(opened.tokens, terms)
    if not 0 < opened.prompt_length <= len(opened.tokens):
        raise PeerError(f"prompt_length {opened.prompt_length} does not fit {len(opened.tokens)} tokens")
    check_settings(opened.settings, terms)
    if opened.state is not None:
        _check_state_request(opened.state, terms)


def check_extend(extend: Extend, turn: int, sequence: Sequence[int], terms: Terms) -> tuple[int, ...]:
    """The prompt that it makes of the session's `sequence`, behind the answer of that `turn`."""
    if extend.turn != turn + 1:
        raise PeerError(f"an Extend begins turn {extend.turn}, but the next turn is {turn + 1}")
    if not 0 <= extend.keep <= len(sequence):
        raise PeerError(f"an Extend keeps {extend.keep} of {len(sequence)} tokens")
    tokens = (*sequence[: extend.keep], *extend.tokens)
    check_prompt(len(tokens), terms)
    check_sequence(tokens, terms)
    check_settings(extend.settings, terms)
    return tokens


def _check_state_request(request: StateRequest, terms: Terms) -> None:
    if not is_plain(request.draft):
        raise PeerError(f"a draft's name must be 1 to {LONGEST_NAME} printable characters", FailureCode.INVALID)
    if request.dtype not in WIRE_DTYPES:
        raise _unknown("dtype of draft state", request.dtype, WIRE_DTYPES)
    terms.state_kinds(request)


def check_sequence(tokens: Sequence[int], terms: Terms) -> None:
    if not tokens:
        raise PeerError("the sequence is empty; send at least one token", FailureCode.INVALID)
    if len(tokens) > terms.context:
        raise PeerError(f"{len(tokens)} tokens exceed the target's context of {terms.context}", FailureCode.INVALID)
    if not all(0 <= token < terms.vocab_size for token in tokens):
        raise PeerError(f"a token id lies outside the target's vocabulary of {terms.vocab_size}", FailureCode.INVALID)


def check_prompt(length: int, terms: Terms) -> None:
    fault = prompt_fault(length, terms.context)
    if fault:
        raise PeerError(fault, FailureCode.INVALID)


def prompt_fault(length: int, context: int) -> str:
    """Why a prompt of so many tokens cannot be answered; empty where it can."""
    if length < context:
        return ""
    # Apps know by OpenAI's words that they have to shorten a conversation.
    return (
        f"the prompt has {length} tokens, but this model's maximum context length is {context} tokens, its answer "
        "included; shorten the prompt"
    )


def check_settings(settings: Settings, terms: Terms | None = None) -> None:
    """Without `terms`, as far as that is possible without a target's."""
    if settings.rule not in RULES:
        raise _unknown("rule", settings.rule, RULES)
    if settings.idle and settings.idle not in IDLE_POLICIES:
        raise _unknown("idle policy", settings.idle, IDLE_POLICIES)
    sampling_fault = rule_fault(settings.rule, settings.sampling)
    if sampling_fault:
        raise PeerError(sampling_fault, FailureCode.INVALID)
    biased = [token for token, _ in settings.sampling.logit_bias]
    if terms is not None and max(biased, default=0) >= terms.vocab_size:
        raise PeerError(
            f"logit-bias names token {biased[-1]}, outside the target's vocabulary of {terms.vocab_size}",
            FailureCode.INVALID,
        )
    _check_constraint(settings, terms)
    if settings.top_logprobs is not None and not 0 <= settings.top_logprobs <= MAX_TOP_LOGPROBS:
        raise PeerError(
            f"top_logprobs {settings.top_logprobs} must be a number from 0 to {MAX_TOP_LOGPROBS}", FailureCode.INVALID
        )
    if settings.max_new_tokens < 0:
        raise PeerError("max_new_tokens must be at least 0", FailureCode.INVALID)
    if len(settings.stop) > _MAX_STOP_STRINGS:
        raise PeerError(f"at most {_MAX_STOP_STRINGS} stop strings are allowed", FailureCode.INVALID)
    if not all(settings.stop):
        raise PeerError("a stop string must have at least 1 character", FailureCode.INVALID)
    if len("".join(settings.stop).encode()) > _MAX_STOP_BYTES:
        raise PeerError(f"stop strings may have at most {_MAX_STOP_BYTES} bytes together", FailureCode.INVALID)


def _check_constraint(settings: Settings, terms: Terms | None) -> None:
    constraint = settings.constraint
    if constraint is None:
        return
    if constraint.grammar not in list(Grammar):
        raise _unknown("grammar", constraint.grammar, list(Grammar))
    check_length(constraint)
    if terms is not None:
        terms.constrain(constraint)


def check_nodes(nodes: Sequence[GrownNode], terms: Terms) -> None:
    if len(nodes) > terms.max_nodes:
        raise PeerError(f"a Grow carries {len(nodes)} nodes, more than the {terms.max_nodes} allowed")
    previous = 0
    for node in nodes:
        if node.id <= previous:
            raise PeerError(f"node ids must strictly increase, but {node.id} follows {previous}")
        previous = node.id
        if node.id >= FIRST_SERVER_NODE_ID:
            raise PeerError(f"node id {node.id} is too large; a session has fewer than {FIRST_SERVER_NODE_ID} nodes")
        if not 0 <= node.token < terms.vocab_size:
            raise PeerError(f"node {node.id} proposes token {node.token}, outside the vocabulary")
        if not LEAST_LOGP <= node.logp <= 0:
            raise PeerError(f"node {node.id} has the log-probability {node.logp}; it must lie in {LEAST_LOGP:g} to 0")
    _check_draws(nodes, terms)


def _check_draws(nodes: Sequence[GrownNode], terms: Terms) -> None:
    """Checks each Draw for consistency. Whether its tokens were really sampled from it cannot be checked, and concerns
    only the client that sent it."""
    if all(node.draw is None for node in nodes):
        return
    groups: dict[int, list[GrownNode]] = {}
    for node in nodes:
        groups.setdefault(node.parent, []).append(node)
    for parent, group in groups.items():
        draws = {node.draw for node in group if node.draw is not None}
        for draw in draws:
            _check_draw(draw, terms)
        repeats = draws and len({node.token for node in group}) < len(group)
        if repeats or any(node.draw and node.token not in node.draw.tokens for node in group):
            raise PeerError(f"the children of node {parent} cannot have been drawn as their Draws say")


def _check_draw(draw: Draw, terms: Terms) -> None:
    if not 0 < len(draw.tokens) == len(draw.weights) <= _MAX_DRAWN_FROM:
        raise PeerError(f"a Draw has {len(draw.tokens)} tokens and {len(draw.weights)} weights")
    if len(set(draw.tokens)) < len(draw.tokens) or not all(0 <= token < terms.vocab_size for token in draw.tokens):
        raise PeerError("a Draw repeats a token or names one outside the vocabulary")
    if min(draw.weights) < 1 or sum(draw.weights) > _MAX_WEIGHT:
        raise PeerError("a Draw has a weight below 1 or too large ones")


def check_state(state: State, request: StateRequest | None) -> None:
    """Checks a server's State frame, as far as that is possible without its sequence. Raises PeerError."""
    if request is None:
        raise PeerError("the server sends draft state that was not asked for")
    if state.kind not in DIMENSIONS:
        kind = plain(state.kind)
        raise PeerError(f"the server sends draft state of the kind '{kind}', which this client does not know")
    if state.dtype != request.dtype:
        raise PeerError(f"the server sends draft state in {plain(state.dtype)}, but {request.dtype} was asked for")
    if len(state.shape) > _MAX_AXES:
        raise PeerError(f"the server sends draft state with {len(state.shape)} axes, more than any kind has")
    count, *position = state.shape or (0,)
    if count != state.count or len(position) != DIMENSIONS[state.kind] or min(state.shape, default=0) < 1:
        raise PeerError(f"{state.count} positions of '{state.kind}' cannot have the shape {list(state.shape)}")
    if state.kind == "kv" and position[0] != request.layers:
        raise PeerError(f"the server sends the state of {position[0]} layers, but {request.layers} were asked for")
    if math.prod(state.shape) > _MAX_STATE_NUMBERS or len(state.payload) > max_bytes(state.dtype, state.shape):
        raise PeerError(f"a State frame of {len(state.payload)} bytes for the shape {list(state.shape)} is too large")


def _unknown(what: str, name: str, known: Iterable[str]) -> PeerError:
    names = ", ".join(known)
    return PeerError(f"unknown {what} '{plain(name)}'; this server knows {names}", FailureCode.INVALID)
