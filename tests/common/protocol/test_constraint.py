"""What a grammar keeps of a schema; sessions of constrained answers, whose passes commit tokens that nothing has
computed."""

import json
import math
from typing import Any

from common.protocol.constraint import ONE_WAY_OF_JSON, in_lark
from common.protocol.messages import Ack
from tests.common.protocol.test_server_session import session


def test_run_ahead_stops_behind_forced_tokens_too():
    """A pass may commit more than its rows: what follows the root's choice, and leaves no other."""
    server = session(run_ahead=6)
    for _ in range(9):
        if server.due() < math.inf:
            scheduled = server.plan(64)
            server.complete(scheduled, [4, 5, 6, 7], 1.0)
    assert server.tree.frontier - server.acked == 8
    server.receive(Ack(0, 11), 2.0)
    assert server.due() < math.inf
    assert server.plan(64).chain == (4, 5, 6, 7)


def kept(schema: Any) -> Any:
    """What a rule of a grammar says of the schema."""
    rule, _, text = in_lark("answer", schema).partition(": %json ")
    bare = json.loads(text)
    assert (rule, bare.pop("x-guidance")) == ("answer", dict(ONE_WAY_OF_JSON))
    return bare


def test_a_grammar_has_all_of_a_schema_that_constrains_and_nothing_that_explains():
    noise = {"title": "a", "description": "b", "$comment": "c", "default": 1, "examples": [2]}
    shape = {"type": "integer", "minimum": 0}
    values = {"enum": [{"title": "a value, not an explanation"}], "const": {"default": 1}}
    names = {"title": shape, "default": {"anyOf": [shape, {"type": "null"}]}}
    explained = {"title": {**shape, **noise}, "default": {"anyOf": [{**shape, **noise}, {"type": "null", **noise}]}}
    for holder in ("properties", "patternProperties", "$defs", "definitions"):
        assert kept({**noise, **values, holder: explained}) == {**values, holder: names}


def test_a_schema_is_searched_as_deep_as_grammars_may_go_and_no_deeper():
    """Deeper ones are refused where they are compiled, with a sentence; the search must not fail before."""

    def below(levels: int, step: Any) -> Any:
        schema: Any = {"title": "innermost"}
        for _ in range(levels):
            schema = step(schema)
        return {"not": schema}

    for step in (lambda each: {"not": each}, lambda each: [each], lambda each: {"properties": {"a": each}}):
        assert "innermost" not in json.dumps(kept(below(50, step)))
        assert "innermost" in json.dumps(kept(below(300, step)))
