"""An answer's Markdown as a terminal shows it, if that loses nothing of the answer.

Knows Markdown and rich, and no conversation. Imported only if there is an answer to render.
"""

import re
from collections import Counter
from collections.abc import Sequence
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.syntax import Syntax
from rich.theme import Theme

from common.protocol.plain import printable

_THEME = Theme({"markdown.code": "cyan"})
_STYLE = r"\x1b\[[\d;]*m"
_PADDING = re.compile(rf"(?: |{_STYLE})+$", re.MULTILINE)


def rendered(text: str, console: Console) -> str | None:
    """The text as whole lines for the console; None if it has indented lines that a paragraph would not keep so, as
    code without a fence has, or if letters or digits would be lost or displaced: of a picture, of a reference that
    nothing refers to, of a table too wide for the console."""
    text = printable(text)
    # What looks like HTML is text, and rich would leave it out.
    tokens = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table").parse(text)
    if any(_is_indented(token, text) or _has_picture(token) for token in tokens):
        return None
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"  # an answer's lines are its own
    document = _Document(text, code_theme="ansi_dark", hyperlinks=False)
    document.parsed = tokens
    with console.use_theme(_THEME), console.capture() as capture:
        console.print(document)
    lines = capture.get()
    if _has_lost(text, tokens, lines):
        return None
    # Spaces up to the edge would become lines of their own once the terminal is narrower.
    return _PADDING.sub(lambda end: "".join(re.findall(_STYLE, end[0])), lines)


class _Code(CodeBlock):
    """Begins in the first column, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True)


class _Document(Markdown):
    elements = Markdown.elements | {"fence": _Code, "code_block": _Code}


def _has_lost(text: str, tokens: Sequence[Token], lines: str) -> bool:
    """Whether fewer of any letter or digit are shown, but for the name of a fence's language."""
    languages = (token.info for token in tokens if token.type == "fence")
    return bool(_letters(unescape(text)) - _letters("".join(languages)) - _letters(re.sub(_STYLE, "", lines)))


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


def _has_picture(token: Token) -> bool:
    """rich writes a picture's name before the line that it is in."""
    return any(child.type == "image" for child in token.children or ())


def _is_indented(token: Token, text: str) -> bool:
    if token.type != "paragraph_open" or token.level or token.map is None:
        return False
    first, end = token.map
    return any(line[:1].isspace() for line in text.split("\n")[first:end])
