"""The stated limit of the server's memory, as an operator reads it."""

from dataclasses import replace

from server.security.memory_ceiling import Ceiling

CEILING = Ceiling(2 * 10**9, 10**9, 32768, 0, sessions=16, running=12, connections=100, own_drafters=16)


def test_it_says_what_of_the_cache_is_of_no_use():
    assert str(CEILING).endswith("16 drafters of the server's own")
    told = str(replace(CEILING, unused_tokens=100))
    assert told == f"{CEILING}; 100 tokens that were asked for are left out, for these sessions can use no more"
