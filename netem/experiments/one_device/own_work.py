"""What the server itself does for a pass, the model's work left out: real sessions and a real target around a model
that computes nothing.

It may know sessions and targets, not streams, links or tables of results.
"""

import time
from dataclasses import dataclass
from statistics import median

import torch
from torch import nn

from common.models.attention_layout import SHORTEST_VIEW, lay_out
from common.models.decoder import CausalDecoder, DecoderConfig, DecoderOutput
from common.models.layer_attention import Scoring, running_attention
from common.models.packed import PackedModel
from common.models.plan import AttentionPlan, PlanLimits, plan_pass
from common.protocol.messages import PROTOCOL_VERSION, Commit, FromServer, Grow, GrownNode, Open, Settings
from common.protocol.terms import Terms
from server.passes.target import Target
from server.sessions.admission import ServingLimits
from server.sessions.sessions import Sessions

_VOCABULARY = 128
"""Few, because what is computed for each row and token of the vocabulary is the model's work."""
_ACCEPTED = 3
"""Nodes of each tree that carry what the target chooses, one below the other."""
_WARM_UP = 30
"""Passes after which costs are known, so that whole trees take part."""
_PASS_S = 0.05
_ANSWER_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class OwnWork:
    """Medians in milliseconds of processor time a pass. `planning_ms`: from the plan of a pass over the packed row and
    the walk of each session's rule to the replies. `packing_ms`: the part of it that depends on the model, the packed
    row with its views, groups and masks."""

    planning_ms: float
    packing_ms: float


def measure_own_work(sessions: int, context: int, rows: int, repetitions: int) -> OwnWork:
    """Of a pass over `sessions` at `context` tokens or a little more, each with a root and `rows` - 1 nodes."""
    bench = _Bench(sessions, context, rows)
    for _ in range(_WARM_UP):
        bench.run_pass()
    planning, packing = zip(*(bench.run_pass() for _ in range(repetitions)), strict=True)
    return OwnWork(median(planning) * 1000, median(packing) * 1000)


class _Bench:
    def __init__(self, sessions: int, context: int, rows: int):
        self._nodes = rows - 1
        slots = sessions * (context + _ANSWER_TOKENS)
        self._limits = PlanLimits(slots, _VOCABULARY, torch.float32, torch.device("cpu"))
        self._target = Target(PackedModel(_NoWork(), slots, backend=_PlansAlone()))
        terms = Terms("none", _VOCABULARY, slots, frozenset(), lambda tokens: "", run_ahead=slots)
        self._sessions = Sessions(terms, ServingLimits(sessions, slots), slots)
        self._clients = [_Client() for _ in range(sessions)]
        self._now = 0.0
        settings = Settings(_ANSWER_TOKENS, idle="eager")
        for number, client in enumerate(self._clients):
            prompt = tuple((number + position) % _VOCABULARY for position in range(context))
            opened = Open(PROTOCOL_VERSION, "none", f"{number:032x}", 0, prompt, context, settings)
            self._sessions.receive(client, opened, self._now)

    def run_pass(self) -> tuple[float, float]:
        """Seconds of the whole, and of the packed row alone."""
        for client in self._clients:
            grown = client.next_tree(self._nodes)
            if grown is not None:
                self._sessions.receive(client, grown, self._now)
        self._now += _PASS_S
        begun = time.process_time()
        batch = self._sessions.plan(self._now)
        assert batch is not None
        outcomes = self._target.verify(batch.scheduled)
        self._now += _PASS_S
        self._sessions.complete(batch, outcomes, self._now)
        whole = time.process_time() - begun
        begun = time.process_time()
        _lay_out(plan_pass(batch.scheduled, self._limits).attention)
        return whole, time.process_time() - begun


class _Client:
    """A listener that proposes a new tree behind each commit."""

    client = ""
    ended = False

    def __init__(self) -> None:
        self._last: Commit | None = None
        self._nodes = 0

    def put(self, message: FromServer) -> None:
        if isinstance(message, Commit):
            self._last = message

    def end(self) -> None:
        self.ended = True

    def next_tree(self, nodes: int) -> Grow | None:
        if self._last is None or not nodes:
            return None
        first = self._nodes + 1
        tokens, grown = [self._last.tokens[-1]], list[GrownNode]()
        for index in range(nodes):
            parent = index if index < _ACCEPTED else index // 3
            tokens.append((_choice(tokens[parent]) + (0 if index < _ACCEPTED else index)) % _VOCABULARY)
            grown.append(GrownNode(first + index, first + parent - 1 if parent else 0, tokens[-1], -0.1))
        self._nodes += nodes
        return Grow(self._last.turn, self._last.start + len(self._last.tokens), tuple(grown))


class _PlansAlone:
    """An attention backend that plans as that of a CPU does, and attends to nothing."""

    def attend(
        self, plan: AttentionPlan, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        _lay_out(plan)
        return query.new_zeros(query.shape[1], 1)


def _lay_out(plan: AttentionPlan) -> None:
    for group in plan.once(lay_out, None, None, SHORTEST_VIEW).groups:
        group.mask(1)


class _NoWork(CausalDecoder):
    """A causal LM whose choice behind a token is a function of that token."""

    def __init__(self) -> None:
        config = DecoderConfig(
            model_type="llama",
            hidden_size=_VOCABULARY,
            intermediate_size=1,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=2,
            vocab_size=_VOCABULARY,
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
            attention_bias=(False, False),
            mlp_bias=False,
            rope_base=1e4,
            rope_scaling=None,
            sliding_windows=(None,),
        )
        super().__init__(config)
        self.model = _NoStack()  # type: ignore[assignment]
        self.lm_head = nn.Identity()  # type: ignore[assignment]


class _NoStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(1)
        self.layers = nn.ModuleList()
        self._logits = torch.eye(_VOCABULARY)[[_choice(token) for token in range(_VOCABULARY)]]

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, use_cache: bool) -> DecoderOutput:
        states = torch.zeros(1, 1, input_ids.shape[1], 2)
        running_attention().attend(0, states, states, states, Scoring(1.0))
        return DecoderOutput(self._logits[input_ids])


def _choice(token: int) -> int:
    return (7 * token + 3) % _VOCABULARY
