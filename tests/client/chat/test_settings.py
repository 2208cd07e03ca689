"""What /set takes, and that it refuses what the command line refuses."""

import pytest

from client.chat.settings import SETTINGS, ChatSettings, changed, find_setting, value_of
from client.options.answers import AnswerFlags
from client.options.outages import OfflineFlags
from client.private.spans import BEGIN, END
from common.protocol.errors import MisuseError

WISHES = ChatSettings()


def test_every_option_of_answers_and_of_the_time_offline_can_be_set():
    assert set(SETTINGS) == {
        *("max-new-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "rule", "stop"),
        *("idle", "offline-limit", "offline-wait", "on-reconnect", "markdown", "system"),
    }
    assert all(each.help for each in SETTINGS.values())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.7", 0.7),
        ("top-k", "40", 40),
        ("TOP_K", "40", 40),
        ("seed", "7", 7),
        ("seed", "default", None),
        ("rule", "typical", "typical"),
        ("stop", "THE END", ["THE END"]),
        ("stop", r'"\n\n" "a \"b\""', ["\n\n", 'a "b"']),
        ("stop", "default", None),
        ("offline-limit", "0", 0),
        ("on-reconnect", "keep", "keep"),
        ("markdown", "off", False),
    ],
)
def test_a_setting_is_read_as_its_option_is(name, text, value):
    settings = changed(ChatSettings(AnswerFlags(seed=3, stop=["x"])), name, text)
    assert find_setting(name).of(settings) == value


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("temprature", "1", "no setting 'temprature'; did you mean temperature?"),
        ("policy", "cloud", "no setting 'policy'"),
        ("temperature", "hot", "temperature is a number, not 'hot'"),
        ("top-k", "1.5", "top-k is a whole number"),
        ("max-new-tokens", "0", "max-new-tokens must be at least 1"),
        ("max-new-tokens", "5000000000", "max-new-tokens must be at most 2147483647"),
        ("offline-wait", "-1", "offline-wait must be at least 0"),
        ("offline-wait", "nan", "offline-wait must be at least 0"),
        ("markdown", "maybe", "markdown is on or off"),
        ("stop", '"a', "stop is one text, or several"),
        ("stop", f"{BEGIN}a{END}", "cannot hold private text"),
    ],
)
def test_what_cannot_be_its_value_is_misuse(name, text, says):
    with pytest.raises(MisuseError, match=says):
        changed(WISHES, name, text)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("temperature", "1000", "temperature must be 0 or lie in"),
        ("top-p", "0", "top-p must lie in"),
        ("rule", "luck", "greedy, coupled, speculative, typical"),
        ("stop", '""', "a stop string must have"),
        ("on-reconnect", "perhaps", "verify or keep"),
    ],
)
def test_what_does_not_go_together_is_refused_in_the_command_lines_words(name, text, says):
    settings = changed(WISHES, name, text)
    with pytest.raises(MisuseError, match=says):
        settings.answer.options(), settings.offline.options()


def test_a_rule_follows_the_temperature_unless_it_was_set():
    warm = changed(WISHES, "temperature", "0.7")
    assert warm.answer.options().rule == "coupled"
    assert changed(warm, "temperature", "0").answer.options().rule == "greedy"
    with pytest.raises(MisuseError, match="samples nothing"):
        changed(changed(WISHES, "rule", "greedy"), "temperature", "0.7").answer.options()


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("temperature", "0.70", "0.7"),
        ("rule", "default", "greedy (by the temperature)"),
        ("rule", "greedy", "greedy"),
        ("seed", "default", "fresh"),
        ("seed", "7", "7"),
        ("stop", "default", "none"),
        ("stop", r'"\n" "b"', r'"\n" "b"'),
        ("idle", "default", "the server's own"),
        ("markdown", "off", "off"),
    ],
)
def test_values_are_shown_as_they_would_be_typed_or_in_words(name, text, shown):
    settings = changed(WISHES, name, text)
    assert value_of(find_setting(name), settings, settings.answer.options()) == shown


def test_a_seed_that_was_drawn_is_shown():
    settings = ChatSettings(AnswerFlags(temperature=1.0), OfflineFlags())
    options = settings.answer.options()
    assert value_of(SETTINGS["seed"], settings, options) == f"{options.seed} (fresh)"
