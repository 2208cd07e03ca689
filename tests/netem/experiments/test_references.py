"""What `generate` is left to choose by itself."""

from pathlib import Path

from common.models.checkpoint import load_causal_lm
from netem.experiments.references import SAMPLINGS, reference_answer, sampled_answer
from tests.families import make_checkpoint

PROMPT = [7, 11, 45, 7, 11]


def test_no_reference_has_the_penalties_that_a_checkpoint_asks_for(tmp_path: Path) -> None:
    model = load_causal_lm(make_checkpoint(tmp_path, "llama"))

    def references(ends: tuple[int, ...]) -> list[tuple[int, ...]]:
        greedy = reference_answer(model, PROMPT, ends, 8)
        return [greedy.answer, sampled_answer(model, PROMPT, ends, SAMPLINGS[0], 8).answer]

    own = references((0,))
    model.generation_config.suppress_tokens = sorted({token for answer in own for token in answer})
    assert references((0,)) == own
    assert references(()) == own, "a target may name no end token"
