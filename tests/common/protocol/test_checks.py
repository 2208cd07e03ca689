"""Checks of a client's Draws and sampling settings; each fault is one clear sentence."""

import math
from dataclasses import replace

import pytest

from common.protocol.checks import check_nodes, check_settings
from common.protocol.constraint import Grammar
from common.protocol.errors import PeerError
from common.protocol.messages import LEAST_LOGP, Constraint, Draw, FailureCode, GrownNode, Settings
from common.protocol.rules import RULES
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.tree import FIRST_SERVER_NODE_ID
from tests.common.protocol.fakes import VOCAB, terms

TERMS = terms(vocab_size=400)
DRAW = Draw((1, 2, 3), (7, 2, 1))
OTHER = Draw((3, 4), (1, 1))


def group(tokens, draw, parent=0, first=1):
    return [GrownNode(first + index, parent, token, -1.0, draw) for index, token in enumerate(tokens)]


def test_groups_that_make_sense_pass():
    check_nodes([*group([3, 1], DRAW), *group([2], replace(DRAW, weights=(1, 1, 1)), 1, 3)], TERMS)
    check_nodes([*group([1, 1, 2], None), *group([1], DRAW, 2, 4)], TERMS)
    check_nodes([*group([2, 1], DRAW), *group([5], None, first=3), *group([3, 4], OTHER, first=4)], TERMS)
    check_nodes(group([0, 255], Draw(tuple(range(256)), (1,) * 256)), TERMS)
    check_nodes(group([1], Draw((1, 2), (2**31 - 1, 1))), TERMS)


@pytest.mark.parametrize("logp", [-800.0, -100.1, 0.001, math.inf, -math.inf, math.nan])
def test_a_log_probability_out_of_bounds_breaks_the_protocol(logp):
    check_nodes([GrownNode(1, 0, 1, 0.0), GrownNode(2, 1, 1, LEAST_LOGP)], TERMS)
    with pytest.raises(PeerError, match=r"node 1 has the log-probability .*; it must lie in -100 to 0"):
        check_nodes([GrownNode(1, 0, 1, logp)], TERMS)


def test_ids_that_are_the_servers_own_are_refused_and_all_others_are_not():
    check_nodes([GrownNode(FIRST_SERVER_NODE_ID - 1, 0, 1, -1.0)], TERMS)
    with pytest.raises(PeerError, match=f"node id {FIRST_SERVER_NODE_ID} is too large"):
        check_nodes([GrownNode(1, 0, 1, -1.0), GrownNode(FIRST_SERVER_NODE_ID, 1, 1, -1.0)], TERMS)


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (group([1, 4], DRAW), "the children of node 0 cannot have been drawn as their Draws say"),
        (group([1, 1], DRAW), "the children of node 0 cannot have been drawn as their Draws say"),
        ([*group([1], DRAW), *group([1], None, first=2)], "the children of node 0 cannot have been drawn as their"),
        ([*group([4], OTHER), *group([4], DRAW, first=2)], "the children of node 0 cannot have been drawn as their"),
        ([*group([1], DRAW), *group([2], Draw((2,), (0,)), first=2)], "a Draw has a weight below 1"),
        (group([1], Draw((), ())), "a Draw has 0 tokens and 0 weights"),
        (group([1], Draw((1, 2), (1,))), "a Draw has 2 tokens and 1 weights"),
        (group([1], Draw((1,), (1, 2))), "a Draw has 1 tokens and 2 weights"),
        (group([1], Draw(tuple(range(257)), (1,) * 257)), "a Draw has 257 tokens and 257 weights"),
        (group([1], Draw((1, 2, 1), (1, 1, 1))), "a Draw repeats a token or names one outside the vocabulary"),
        (group([1], Draw((1, 400), (1, 1))), "a Draw repeats a token or names one outside the vocabulary"),
        (group([1], Draw((1, 2), (1, 0))), "a Draw has a weight below 1 or too large ones"),
        (group([1], Draw((1, 2), (2**31, 1))), "a Draw has a weight below 1 or too large ones"),
    ],
    ids=[
        "not in its Draw",
        "drawn twice",
        "drawn and picked",
        "drawn from another",
        "the second Draw",
        "empty",
        "short of weights",
        "short of tokens",
        "too long",
        "too many aliases",
        "outside the vocabulary",
        "no weight",
        "too much weight",
    ],
)
def test_a_draw_that_makes_no_sense_breaks_the_protocol(nodes, sentence):
    with pytest.raises(PeerError, match=sentence) as caught:
        check_nodes(nodes, TERMS)
    assert caught.value.code is FailureCode.PROTOCOL


def test_every_group_of_a_grow_is_looked_at():
    with pytest.raises(PeerError, match="the children of node 2"):
        check_nodes([*group([1, 2], DRAW), *group([0], DRAW, 2, 3)], TERMS)


_BIAS = "logit-bias names tokens in ascending order, each once, at most 1024"


def test_a_bias_of_a_token_that_the_target_does_not_have_is_refused():
    asked = how(logit_bias=((VOCAB - 1, 1.0), (VOCAB, 1.0)))
    check_settings(asked)
    with pytest.raises(PeerError, match=f"names token {VOCAB}, outside the target's vocabulary of {VOCAB}"):
        check_settings(asked, terms())


def test_a_constraint_that_cannot_be_compiled_is_refused_before_anything_changes():
    asked = Settings(5, constraint=Constraint(Grammar.REGEX, "("))
    check_settings(asked)
    with pytest.raises(PeerError, match="not supported here"):
        check_settings(asked, terms())


def how(rule="coupled", **sampling):
    return Settings(5, rule, sampling=Sampling(**{"temperature": 1.0, **sampling}))


@pytest.mark.parametrize("rule", RULES)
def test_sampling_that_makes_sense_passes(rule):
    check_settings(Settings(5, rule, sampling=LIKELIEST))
    check_settings(how(rule, temperature=0.0, top_k=3, top_p=0.5, min_p=1.0, repetition_penalty=0.5, seed=2**64 - 1))
    if rule != "greedy":
        check_settings(how(rule, temperature=100.0, top_p=1e-9, min_p=0.0))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (how(temperature=-0.5), "temperature must be 0 or lie in [0.01, 100], not -0.5"),
        (how(temperature=100.5), "temperature must be 0 or lie in [0.01, 100], not 100.5"),
        (how(temperature=math.nan), "temperature must be 0 or lie in [0.01, 100], not nan"),
        (how(temperature=math.inf), "temperature must be 0 or lie in [0.01, 100], not inf"),
        (how(temperature=1e-45), "temperature must be 0 or lie in [0.01, 100], not 1e-45"),
        (how(top_k=-1), "top-k must be a number of tokens, or 0 to keep all, not -1"),
        (how(top_k=2**31), "top-k must be a number of tokens, or 0 to keep all, not 2147483648"),
        (how(top_p=0.0), "top-p must lie in (0, 1], not 0"),
        (how(top_p=1.5), "top-p must lie in (0, 1], not 1.5"),
        (how(top_p=math.nan), "top-p must lie in (0, 1], not nan"),
        (how(min_p=-0.1), "min-p must lie in [0, 1], not -0.1"),
        (how(min_p=1.1), "min-p must lie in [0, 1], not 1.1"),
        (how(min_p=math.nan), "min-p must lie in [0, 1], not nan"),
        (how(repetition_penalty=0.0), "repetition-penalty must lie in [0.01, 100], 1 for none, not 0"),
        (how(repetition_penalty=-1.0), "repetition-penalty must lie in [0.01, 100], 1 for none, not -1"),
        (how(repetition_penalty=math.inf), "repetition-penalty must lie in [0.01, 100], 1 for none, not inf"),
        (how(repetition_penalty=math.nan), "repetition-penalty must lie in [0.01, 100], 1 for none, not nan"),
        (how(presence_penalty=100.5), "presence-penalty must lie in [-100, 100], 0 for none, not 100.5"),
        (how(frequency_penalty=math.nan), "frequency-penalty must lie in [-100, 100], 0 for none, not nan"),
        (how(logit_bias=((1, math.inf),)), "logit-bias must lie in [-100, 100], 0 for none, not inf"),
        (how(logit_bias=((2, 1.0), (1, 1.0))), _BIAS),
        (how(logit_bias=((2, 1.0), (2, 1.0))), _BIAS),
        (how(logit_bias=((-1, 1.0),)), _BIAS),
        (how(logit_bias=tuple((token, 1.0) for token in range(1025))), _BIAS),
        (
            Settings(5, constraint=Constraint("xml", "")),
            "unknown grammar 'xml'; this server knows json_schema, regex, lark",
        ),
        (
            Settings(5, constraint=Constraint(Grammar.LARK, "x" * 12289)),
            "the constraint has 12289 characters, more than the 12288 allowed; shorten it",
        ),
        (how(seed=-1), "seed must be a whole number of 64 bits, not -1"),
        (how(seed=2**64), "seed must be a whole number of 64 bits, not 18446744073709551616"),
        (
            how("greedy", temperature=0.5),
            "the rule greedy samples nothing, but the temperature is 0.5; "
            "choose coupled, speculative or typical, or temperature 0",
        ),
        (how("greedy", temperature=0.0, top_p=0.0), "top-p must lie in (0, 1], not 0"),
        (how("whim"), "unknown rule 'whim'; this server knows greedy, coupled, speculative, typical"),
    ],
)
def test_sampling_that_makes_no_sense_is_refused_in_one_sentence(settings, sentence):
    with pytest.raises(PeerError) as caught:
        check_settings(settings)
    assert str(caught.value) == sentence
    assert caught.value.code is FailureCode.INVALID
