"""The `llm` command: a prompt, a schema, and a tool."""

import os
import subprocess
import tempfile
from pathlib import Path

NEEDS = "llm"

_MODEL = """- model_id: outrider
  model_name: outrider
  api_base: {url}
  api_key: none
  supports_tools: true
  supports_schema: true
"""


def _run(url: str, *arguments: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        Path(home, "extra-openai-models.yaml").write_text(_MODEL.format(url=url), encoding="utf-8")
        ran = subprocess.run(
            ["llm", "-m", "outrider", "-o", "max_tokens", "150", *arguments],
            env={**os.environ, "LLM_USER_PATH": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip())
    return ran.stdout.strip()


TEXT = {
    "prompt": lambda url: _run(url, "Write a Python function that doubles a number."),
    "prompt, not streamed": lambda url: _run(url, "--no-stream", "Write a Python function that doubles a number."),
}
DATA = {
    "--schema": lambda url: _run(url, "--schema", "name, age int", "Paula is 31."),
    "--tool": lambda url: _run(url, "--tool", "llm_version", "--chain-limit", "2", "Which version is this?"),
}
