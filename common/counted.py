"""Numbers of things and of bytes in words, such as `1 token`, `2,000 tokens`, `1.5 GB`. Nothing else may live here."""

_UNITS = {"GB": 10**9, "MB": 10**6, "kB": 10**3}


def counted(count: int, thing: str) -> str:
    """With a plural's s."""
    things = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{count:,} {thing if count == 1 else things}"


def format_bytes(size: float) -> str:
    """A size in bytes as text for people, in the largest unit of which it is at least a tenth."""
    for name, unit in _UNITS.items():
        if size >= unit / 10:
            return f"{size / unit:,.1f} {name}"
    return f"{size:.0f} bytes"
