"""What is written as GGUF is the checkpoint: transformers, which reads GGUF itself, computes the same from it."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from common.models.checkpoint import load_causal_lm
from common.protocol.errors import MisuseError
from netem.experiments.others.gguf_file import interleaved, write_gguf
from tests.families import make_checkpoint
from tests.netem.experiments.others.models import make_llama

gguf = pytest.importorskip("gguf", reason="the lab's extra brings gguf")


def test_transformers_computes_the_same_from_the_file(tmp_path):
    checkpoint = make_llama(tmp_path / "target", seed=1)
    write_gguf(checkpoint, tmp_path / "target.gguf")
    read = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="target.gguf", dtype=torch.float32).eval()
    tokens = torch.tensor([[5, 9, 3, 9, 7]])
    with torch.no_grad():
        torch.testing.assert_close(read(tokens).logits, load_causal_lm(checkpoint)(tokens).logits)


def test_the_tokenizer_is_in_the_file_with_its_ids(tmp_path):
    write_gguf(make_llama(tmp_path / "target", seed=1), tmp_path / "target.gguf")
    fields = gguf.GGUFReader(tmp_path / "target.gguf").fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    assert len(tokens) == 300
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == gguf.TokenType.CONTROL]
    assert special == tokens[:2]
    assert fields["tokenizer.ggml.eos_token_id"].contents() == 0
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"


def test_rows_of_a_head_are_neighbours_that_were_halves_apart():
    halves = torch.arange(8.0).reshape(8, 1)
    assert interleaved(halves, 2).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_what_llama_cpp_could_not_read_is_refused(tmp_path):
    with pytest.raises(MisuseError, match="family llama"):
        write_gguf(make_checkpoint(tmp_path / "other", "qwen2"), tmp_path / "other.gguf")
    with pytest.raises(MisuseError, match="no name for the tokenizer"):
        write_gguf(make_checkpoint(tmp_path / "bytes", "llama"), tmp_path / "bytes.gguf")
