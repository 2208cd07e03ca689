"""A number of things in words, such as `1 token` and `2,000 tokens`. Nothing else may live here."""


def counted(count: int, thing: str) -> str:
    """With a plural's s."""
    things = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{count:,} {thing if count == 1 else things}"
