"""JSON in a text that grows is read as in one that has ended, and decoded once."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.endpoint.answer_parsers import growing_json
from client.endpoint.answer_parsers.answer_format import SYNTAXES
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.growing_json import GrowingJson, read_json
from tests.client.endpoint.answer_parsers.feeding import call, parsed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\{}[] é\n'), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TEXTS = VALUES.map(json.dumps) | st.text(st.sampled_from('{}[]",:\\ 1ax'), max_size=12)


@given(st.sampled_from(["", " ", "\n "]), TEXTS, TEXTS)
@settings(max_examples=80)
def test_it_is_read_as_soon_as_it_is_whole(blanks, text, more):
    grown, reader = f"{blanks}{text}{more}", GrowingJson()
    for end in range(len(grown) + 1):
        assert reader.read(grown[:end], 0) == read_json(grown[:end], 0)


def test_another_place_is_read_anew():
    reader = GrowingJson()
    assert reader.read("[1] [", 0) == ([1], 3)
    assert reader.read("[1] [2]", 3) == ([2], 7)
    assert reader.read("[}", 0) is None


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [("hermes", "<tool_call>", "</tool_call>"), ("llama3-json", "", ""), ("mistral", "[TOOL_CALLS]", "")],
)
def test_a_long_call_is_not_decoded_again_for_each_token(name, begin, end, monkeypatch):
    class Counting(json.JSONDecoder):
        decoded = 0

        def raw_decode(self, s, idx=0):
            self.decoded += 1
            return super().raw_decode(s, idx)

    decoder = Counting(strict=False)
    monkeypatch.setattr(growing_json, "_DECODER", decoder)
    arguments = json.dumps({"rows": [{"html": "</tool_call> {}"}] * 50})
    text = f'{begin}{{"name": "add", "arguments": {arguments}}}{end}'
    assert parsed(CallParser(SYNTAXES[name](), {"add"}, lambda: "id"), text) == [call("add", arguments)]
    assert decoder.decoded <= 2 + len(end)
