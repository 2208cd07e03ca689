"""Messages typed on a terminal that can do more than print: several lines, history, search, completion.

Knows keys, and no conversation. Importing it imports prompt_toolkit.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from client.chat.completion import CommandCompleter
from client.chat.history import KeptHistory, history_file
from client.chat.lines import LEAVING
from client.chat.multiline import CONTINUATION, TypedMessage, as_message, is_open

Run = Callable[[Coroutine[Any, Any, str]], str]


class Editor:
    """As `Lines` has it; `run` runs a coroutine to its end."""

    keys = (
        ("Enter", "sends"),
        ("Alt-Enter", 'begins a new line, as does \\ at the end of one; """ quotes several'),
        ("Tab", "completes commands, settings and files"),
        ("Ctrl-R", "searches what was typed, in earlier chats too"),
        ("Ctrl-C", "stops an answer, or clears the line; twice leaves"),
    )

    def __init__(self, run: Run):
        self._run = run
        self._hint = ""
        self._session = self._new_session()

    def ask(self, prompt: str, *, private: bool) -> TypedMessage | None:
        history = self._session.history
        assert isinstance(history, KeptHistory)
        history.private = private
        self._hint = ""
        try:
            return as_message(self._run(self._session.prompt_async([("bold", prompt)])))
        except EOFError:
            return None

    def forget(self) -> None:
        self._session = self._new_session()

    def _new_session(self) -> PromptSession[str]:
        return PromptSession(
            history=KeptHistory(history_file()),
            multiline=True,
            key_bindings=self._keys(),
            completer=CommandCompleter(),
            complete_while_typing=Condition(_types_a_command),
            rprompt=lambda: [("italic", self._hint)],
            prompt_continuation=lambda width, number, wrapped: " " * width,
            enable_suspend=True,
        )

    def _keys(self) -> KeyBindings:
        keys, at_message = KeyBindings(), has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=at_message)
        def send_or_continue(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if is_open(buffer.text):
                buffer.newline(copy_margin=False)
            elif buffer.document.is_cursor_at_the_end and buffer.text.endswith(CONTINUATION):
                buffer.delete_before_cursor()
                buffer.newline(copy_margin=False)
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=at_message)
        def continue_(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add("c-c", filter=at_message)
        @keys.add("<sigint>", filter=at_message)
        def clear_or_leave(event: KeyPressEvent) -> None:
            if event.is_repeat:
                event.app.exit(exception=EOFError)
                return
            event.current_buffer.reset()
            self._hint = LEAVING

        @keys.add("<any>", filter=at_message & Condition(lambda: bool(self._hint)))
        def insert(event: KeyPressEvent) -> None:
            self._hint = ""
            event.current_buffer.insert_text(event.data)

        return keys


def _types_a_command() -> bool:
    return get_app().current_buffer.text.startswith("/")
