"""Options that several commands share: what they fold into, and what they mean together."""

from pathlib import Path

import pytest

from client.drafting.policies import CLOUD
from client.options import AnswerRequest, Credentials
from common.protocol.errors import MisuseError
from common.protocol.sampling import LIKELIEST, Sampling


def test_prompts_leave_this_machine_in_plain_text_only_when_asked() -> None:
    for elsewhere in ("gpu.example.org:7070", "0.0.0.0:7070", "[::]:7070", "[::ffff:10.0.0.1]:7070"):
        with pytest.raises(MisuseError, match="plain text; use --tls"):
            Credentials(token="secret").access_to(elsewhere)
    assert Credentials(insecure=True).access_to("gpu.example.org:7070").tls is None
    assert Credentials(tls=True).access_to("gpu.example.org:7070").tls is not None
    assert Credentials().access_to("127.0.0.1:7070").tls is None


@pytest.mark.parametrize("file", [None, Path("token")])
def test_an_empty_token_is_refused_rather_than_left_out(file: Path | None) -> None:
    with pytest.raises(MisuseError, match="--token is empty; give"):
        Credentials(token="", token_file=file).access_to("127.0.0.1:7070")


def test_several_replicas_are_one_server_and_none_of_them_is_sent_plain_text() -> None:
    access = Credentials().access_to("127.0.0.1:7070,127.0.0.1:7071")
    assert [each.port for each in access.addresses] == [7070, 7071]
    with pytest.raises(MisuseError, match=r"travel to gpu\.example\.org:7070 in plain text"):
        Credentials().access_to("127.0.0.1:7070,gpu.example.org:7070")


def test_an_answer_is_greedy_unless_asked_otherwise():
    asked = AnswerRequest().options()
    assert (asked.rule, asked.sampling, asked.stop, asked.seed) == ("greedy", LIKELIEST, (), None)


def test_every_wish_arrives():
    request = AnswerRequest(9, 0.5, 4, 0.9, 0.1, 1.2, 77, "speculative", ["a", "b"], "eager", "cloud")
    asked = request.options(pace=0.25)
    assert asked.sampling == Sampling(0.5, 4, 0.9, 0.1, 1.2, 77)
    assert (asked.policy, asked.max_new_tokens, asked.rule) == (CLOUD, 9, "speculative")
    assert (asked.stop, asked.idle, asked.pace) == (("a", "b"), "eager", 0.25)


def test_what_is_drawn_gets_a_seed_of_63_bits_that_is_fresh_each_time():
    drawn = [AnswerRequest(temperature=0.5).options() for _ in range(32)]
    assert {asked.rule for asked in drawn} == {"coupled"}
    seeds = {asked.sampling.seed for asked in drawn}
    assert len(seeds) == 32
    assert 1 << 50 < max(seeds) < 1 << 63
    assert AnswerRequest(temperature=0.5, seed=0).options().seed == 0


def test_a_stop_string_that_is_no_text_is_refused():
    with pytest.raises(MisuseError, match="a stop string is not valid text"):
        AnswerRequest(stop=["\udcff"]).options()
