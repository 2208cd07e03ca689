"""What a draft model's weights take is known from headers, by depth and mode."""

from pathlib import Path

import pytest

from common.bundle import TAIL_FOLDER
from common.draft_models.memory import Headers, needed_bytes, read_headers
from common.draft_models.tail import write_tail
from common.models.source import WEIGHTS
from common.weight_only.modes import AS_IS, INT4, INT8
from common.weight_only.needs import number_bytes
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = make_checkpoint(tmp_path_factory.mktemp("target"), "llama")
    directory = make_moa_draft(tmp_path_factory.mktemp("models") / "moa", target, (0, 1))
    write_tail(target, 1, directory / TAIL_FOLDER)
    return directory


def test_layers_and_weights_count(bundle: Path) -> None:
    def needed(layers: int, weights: str, dtype: str = "float32") -> int:
        return needed_bytes(headers_of(bundle), "moa", layers, weights, number_bytes(dtype))

    assert needed(0, AS_IS) < needed(1, AS_IS)
    assert needed(0, INT4) < needed(0, INT8) < needed(0, AS_IS, "bfloat16") < needed(0, AS_IS)


def test_the_depth_that_needs_most_counts_where_none_is_chosen(bundle: Path) -> None:
    needed = [needed_bytes(headers_of(bundle), "moa", layers, AS_IS, 4) for layers in (0, 1, None)]
    assert needed[2] == max(needed)


def test_files_that_cannot_be_read_have_no_tensors(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no header")
    headers = read_headers([tmp_path / "broken"], [tmp_path / "missing"])
    assert headers == {"broken": {}, f"{TAIL_FOLDER}/missing": {}}
    assert needed_bytes(headers, "moa", 0, AS_IS, 4) == 0


def headers_of(bundle: Path) -> Headers:
    return read_headers([bundle / WEIGHTS], [bundle / TAIL_FOLDER / WEIGHTS])
