"""common.draft_models.layers: masked attention of grouped heads is what it is for each head alone."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from common.draft_models.layers import full_attention, masked_attention

ROWS, HEADS, KV_HEADS, QUERIES, SOURCES, DIM = 3, 6, 2, 4, 9, 8
MASKS = {
    "of each row": (ROWS, 1, 1, SOURCES),
    "of all rows": (1, SOURCES),
    "of each query": (QUERIES, SOURCES),
    "of each query of each row": (ROWS, 1, QUERIES, SOURCES),
    "of each head": (ROWS, HEADS, 1, SOURCES),
}


def given():
    generator = torch.Generator().manual_seed(0)
    shapes = (ROWS, HEADS, QUERIES, DIM), (ROWS, KV_HEADS, SOURCES, DIM), (ROWS, KV_HEADS, SOURCES, DIM)
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


def mask_of(*shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[-1] = False  # sees nothing
    return mask


def one_by_one(mask, queries, keys, values):
    mask, found = mask.expand(ROWS, HEADS, QUERIES, SOURCES), []
    for row, query in ((row, query) for row in range(ROWS) for query in range(QUERIES)):
        for head in range(HEADS):
            seen, shared = mask[row, head, query], head // (HEADS // KV_HEADS)
            scores = keys[row, shared, seen] @ queries[row, head, query] / DIM**0.5
            found.append(scores.softmax(0) @ values[row, shared, seen])
    return torch.stack(found).view(ROWS, QUERIES, HEADS * DIM)


@pytest.mark.parametrize("shape", MASKS.values(), ids=MASKS)
def test_each_query_gets_what_it_sees_and_so_do_gradients(shape):
    mask, tensors = mask_of(*shape), given()
    found, expected = masked_attention(mask)(*tensors), one_by_one(mask, *tensors)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(
        torch.autograd.grad((found * weights).sum(), tensors), torch.autograd.grad((expected * weights).sum(), tensors)
    )


def test_full_attention_is_that_of_a_mask_that_hides_nothing():
    mask, tensors = torch.ones(1, SOURCES, dtype=torch.bool), given()
    torch.testing.assert_close(full_attention(*tensors), one_by_one(mask, *tensors))


def test_where_all_queries_of_a_row_see_the_same_no_keys_or_values_are_repeated():
    kept = []
    queries, keys, values = given()
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        masked_attention(mask_of(ROWS, 1, 1, SOURCES))(queries, keys, values)
    large = [each for each in kept if each.shape[-2:] == (SOURCES, DIM)]
    assert large
    assert all(each.numel() == keys.numel() for each in large)
