"""A file is known by its content, and a prompt is learned where a sample begins with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.protocol.errors import MisuseError
from training.draft_models.chat import Sample
from training.draft_models.sources import count_learned, read_sources


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")
    sources = read_sources([one, other], None)
    assert [name for name, _ in sources.data] == ["one", "other"]
    assert read_sources([other], one).held_out == sources.data[0]
    other.write_text("1")
    assert read_sources([one, other], None) != sources
    with pytest.raises(MisuseError, match="holds what other of --data does"):
        read_sources([other], one)


def test_a_prompt_is_learned_where_a_sample_begins_with_it() -> None:
    samples = [Sample(np.array(ids, dtype=np.int32), np.ones(len(ids), dtype=bool)) for ids in ([1, 2, 3], [4, 5])]
    prompts = {(1, 2): 1, (1,): 1, (1, 2, 3, 4): 0, (2, 3): 0, (4, 5): 1, (4, 6): 0}
    for prompt, learned in prompts.items():
        assert count_learned([prompt], samples) == learned
    assert count_learned(list(prompts), samples) == 3
    assert count_learned([], samples) == 0
