"""Text that a peer chose, before a person or a log sees it: it must not command a terminal or fill a screen. Pure."""

LONGEST_NAME = 255
"""Characters of what a peer calls a model, a draft or a file."""

_LONGEST_QUOTE = 60


def is_plain(text: str, longest: int = LONGEST_NAME) -> bool:
    """Whether it is at least one character and at most so many, all of them printable."""
    return 0 < len(text) <= longest and text.isprintable()


def plain(text: str, longest: int = _LONGEST_QUOTE) -> str:
    """The text in one line, cut to so many characters, with blanks for what is not printable."""
    head = "".join(each if each.isprintable() else " " for each in text[:longest])
    return head.strip() if len(text) <= longest else f"{head.strip()}…"
