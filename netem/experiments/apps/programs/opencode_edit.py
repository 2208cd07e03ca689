"""opencode, which calls tools: it is told to change a file."""

import json

from agent import TOLD, edited

NEEDS = "opencode"


def _edit(url: str) -> str:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Outrider",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {"stand-in": {"name": "stand-in", "limit": {"context": 2000, "output": 200}}},
    }
    settings = {
        "provider": {"outrider": provider},
        "model": "outrider/stand-in",
        "small_model": "outrider/stand-in",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"edit": "allow", "bash": "deny"},
    }
    return edited(
        ["opencode", "run", "--model", "outrider/stand-in", TOLD],
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        {"opencode.json": json.dumps(settings)},
    )


EDITS = {"a file": _edit}
