"""Imports modules that import transformers, where a program has begun without it. Nothing else may live here."""

import importlib
from threading import Lock
from types import ModuleType

_IMPORTING = Lock()


def import_alone(module: str) -> ModuleType:
    """That module, imported by one thread at a time.

    Packages of transformers put another object into their own place among the modules at the end of their import. A
    thread that waited for another's import gets what was there before, which lacks their names.
    """
    with _IMPORTING:
        return importlib.import_module(module)
