"""aider, which writes whole files: it is told to change one."""

from agent import FILE, TOLD, edited

NEEDS = "aider"

_COMMAND = [
    *("aider", "--model", "openai/stand-in", "--edit-format", "whole", "--message", TOLD, "--yes-always"),
    *("--no-auto-commits", "--no-check-update", "--no-show-model-warnings", "--analytics-disable", "--map-tokens", "0"),
    *("--no-show-release-notes", "--no-gitignore", "--no-detect-urls", FILE),
]

EDITS = {
    "a file": lambda url: edited(_COMMAND, {"OPENAI_API_BASE": url, "OPENAI_API_KEY": "none"}, {}),
}
