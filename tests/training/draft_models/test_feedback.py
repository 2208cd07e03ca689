"""Each step of feedback attends as the row does that a drafter computes so many positions behind the newest state."""

import pytest
import torch

from training.draft_models.feedback import FeedbackAttention

ROWS, COLUMNS, SIZE, STEPS = 2, 5, 8, 4


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
def test_a_row_attends_to_the_first_steps_rows_up_to_it_and_to_its_own_of_all_steps_since(heads, kv_heads):
    torch.manual_seed(0)
    attention, keys, values = FeedbackAttention(), [], []
    for step in range(STEPS):
        queries = torch.randn(ROWS, heads, COLUMNS, SIZE)
        keys.append(torch.randn(ROWS, kv_heads, COLUMNS, SIZE))
        values.append(torch.randn(ROWS, kv_heads, COLUMNS, SIZE))
        found = attention(queries, keys[-1], values[-1]).view(ROWS, COLUMNS, heads, SIZE)
        for row in range(ROWS):
            for column in range(COLUMNS):
                for head in range(heads):
                    of = head // (heads // kv_heads)
                    seen = [(0, each) for each in range(column + 1)] + [(later, column) for later in range(1, step + 1)]
                    own_keys, own_values = (
                        torch.stack([held[at][row, of, each] for at, each in seen]) for held in (keys, values)
                    )
                    weights = (own_keys @ queries[row, head, column] / SIZE**0.5).softmax(0)
                    torch.testing.assert_close(found[row, column, head], weights @ own_values)
