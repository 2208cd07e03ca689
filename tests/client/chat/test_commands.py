"""Which lines are commands and which go to the model."""

import pytest

from client.chat.commands import COMMANDS, parse_command
from client.chat.multiline import TypedMessage
from common.protocol.errors import MisuseError


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("/HELP ", "help", ""),
        ("/set", "set", ""),
        ("/set  temperature 0.7", "set", "temperature 0.7"),
        ("/save a file.json", "save", "a file.json"),
    ],
)
def test_a_command_is_called_with_its_argument(text, name, argument):
    call = parse_command(TypedMessage(text))
    assert (call.command, call.argument) == (COMMANDS[name], argument)


@pytest.mark.parametrize(
    "said",
    [
        TypedMessage("hello"),
        TypedMessage("/etc/passwd, what is it?"),
        TypedMessage("/help", literal=True),
        TypedMessage("/help\nme"),
        TypedMessage("/"),
    ],
)
def test_what_is_no_command_is_meant_for_the_model(said):
    assert parse_command(said) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/sta", "no command /sta; did you mean /stats?"),
        ("/quti", "did you mean /quit?"),
        ("/xyzzy", "no command /xyzzy; /help lists them"),
        ("/retry now", "/retry takes no argument"),
        ("/save", "say /save FILE"),
        ("/load ", "say /load FILE"),
    ],
)
def test_misuse_says_what_to_type(text, says):
    with pytest.raises(MisuseError, match=says):
        parse_command(TypedMessage(text))
