"""The demo's training mixture as a file that every draft recipe reads.

What may live here: writing conversations as JSONL `messages`. It may not know how they are made, nor tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from training.demo.corpus import Conversation, Corpus
from training.demo.public_data import Turns


def write_conversations(out: Path, seed: int, public: Mapping[str, list[Turns]], count: int) -> None:
    """Writes `count` conversations of the mixture, drawn by `seed`; the same call writes the same file."""
    with out.open("w", encoding="utf-8") as file:
        for conversation in islice(Corpus(seed, dict(public)).conversations(0), count):
            file.write(json.dumps({"messages": messages(conversation)}, ensure_ascii=False) + "\n")


def messages(conversation: Conversation) -> list[dict[str, str]]:
    """Roles and contents, the system message first where there is one."""
    said = [("system", conversation.system)] if conversation.system else []
    for ask, answer in conversation.turns:
        said += [("user", ask), ("assistant", answer)]
    return [{"role": role, "content": content} for role, content in said]
