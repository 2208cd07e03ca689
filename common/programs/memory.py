"""Recognises errors that mean that memory ran out, by class and text. It imports no library that raises them."""

TOO_LITTLE_MEMORY = "there is too little memory; end other programs, or choose a smaller model or dtype"

_TORCHS_CLASS = "OutOfMemoryError"
_SAID = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "memory allocation",
    "out of memory",
    "failed to map segment",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this error, or one that it was raised from, means that memory ran out."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or type(seen).__name__ == _TORCHS_CLASS:
            return True
        if any(each in str(seen).lower() for each in _SAID):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
