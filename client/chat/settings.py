"""What a person may change with /set: the options of answers, of the time without a server and of the screen.

Pure. The command line says what there is, of which type and what for; no conversation is known here.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import UnionType
from typing import Any, get_args, get_type_hints

from client.answering import AnswerOptions
from client.options.answers import AnswerFlags, ConversationFlags
from client.options.display import ScreenFlags
from client.options.outages import OfflineFlags
from client.private.spans import has_marks
from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError

_DEFAULT = "default"
_FOR_THE_WHOLE_CHAT = ("policy",)
_SWITCH = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class ChatSettings:
    answer: AnswerFlags = field(default_factory=AnswerFlags)
    offline: OfflineFlags = field(default_factory=OfflineFlags)
    screen: ScreenFlags = field(default_factory=ScreenFlags)
    conversation: ConversationFlags = field(default_factory=ConversationFlags)


@dataclass(frozen=True, slots=True)
class ChatSetting:
    """A field of one part of the settings; `kind`, `least` and `most` are its option's type and bounds."""

    name: str
    help: str
    part: str
    field: str
    kind: type
    least: float
    most: float
    default: Any

    def of(self, settings: ChatSettings) -> Any:
        return getattr(getattr(settings, self.part), self.field)

    def put(self, settings: ChatSettings, value: Any) -> ChatSettings:
        part = replace(getattr(settings, self.part), **{self.field: value})
        return replace(settings, **{self.part: part})


def changed(settings: ChatSettings, name: str, text: str) -> ChatSettings:
    """The settings with a setting as the text has it. Raises MisuseError for an unknown one, and for a text that cannot
    be its value; whether all settings go together is for their options to say."""
    setting = find_setting(name)
    if has_marks(text):
        raise MisuseError("a setting may go to the server, so it cannot hold private text")
    return setting.put(settings, setting.default if text == _DEFAULT else _READERS[setting.kind](setting, text))


def find_setting(name: str) -> ChatSetting:
    """Raises MisuseError for an unknown name."""
    known = SETTINGS.get(name.replace("_", "-").lower())
    if known is None:
        raise MisuseError(f"there is no setting '{name}'; {did_you_mean(name, SETTINGS) or '/set lists them'}")
    return known


def value_of(setting: ChatSetting, settings: ChatSettings, options: AnswerOptions) -> str:
    """As a person reads it; `options` are what the settings mean now."""
    value = setting.of(settings)
    match setting.field:
        case "rule" if value is None:
            return f"{options.rule} (by the temperature)"
        case "seed" if value is None:
            return "fresh" if options.seed is None else f"{options.seed} (fresh)"
        case "idle" if not value:
            return "the server's own"
        case "system" if not value:
            return "none"
        case "stop":
            return " ".join(json.dumps(each, ensure_ascii=False) for each in value or ()) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _whole(setting: ChatSetting, text: str) -> int:
    try:
        return int(_bounded(setting, int(text)))
    except ValueError:
        raise MisuseError(f"{setting.name} is a whole number, not '{text}'") from None


def _number(setting: ChatSetting, text: str) -> float:
    try:
        return _bounded(setting, float(text))
    except ValueError:
        raise MisuseError(f"{setting.name} is a number, not '{text}'") from None


def _bounded(setting: ChatSetting, value: float) -> float:
    if setting.least > -math.inf and not value >= setting.least:  # which no number is that is none
        raise MisuseError(f"{setting.name} must be at least {setting.least:g}, not {value:g}")
    if value > setting.most:
        raise MisuseError(f"{setting.name} must be at most {setting.most}, not {value}")
    return value


def _switch(setting: ChatSetting, text: str) -> bool:
    if text not in _SWITCH:
        raise MisuseError(f"{setting.name} is {' or '.join(_SWITCH)}, not '{text}'")
    return _SWITCH[text]


def _texts(setting: ChatSetting, text: str) -> list[str]:
    """One text as it stands, or any number in double quotes, which may hold \\n."""
    if not text.startswith('"'):
        return [text]
    texts, decoder = [], json.JSONDecoder()
    try:
        while text:
            one, end = decoder.raw_decode(text)
            texts.append(str(one))
            text = text[end:].lstrip()
    except ValueError:
        raise MisuseError(f'{setting.name} is one text, or several as in "\\n\\n" "THE END"') from None
    return texts


_READERS: Mapping[type, Callable[[ChatSetting, str], Any]] = {
    bool: _switch,
    float: _number,
    int: _whole,
    str: lambda setting, text: text,
    list[str]: _texts,
}


def _settings_of(part: str, request: type) -> list[ChatSetting]:
    hints = get_type_hints(request, include_extras=True)
    return [_setting(part, each.name, each.default, *get_args(hints[each.name])) for each in fields(request)]


def _setting(part: str, name: str, default: Any, hint: Any, option: Any) -> ChatSetting:
    kind = get_args(hint)[0] if isinstance(hint, UnionType) else hint
    least = -math.inf if option.min is None else option.min
    most = math.inf if option.max is None else option.max
    return ChatSetting(name.replace("_", "-"), option.help, part, name, kind, least, most, default)


_ALL = [
    *_settings_of("answer", AnswerFlags),
    *_settings_of("offline", OfflineFlags),
    *_settings_of("screen", ScreenFlags),
    *_settings_of("conversation", ConversationFlags),
]
SETTINGS = {each.name: each for each in _ALL if each.field not in _FOR_THE_WHOLE_CHAT}
