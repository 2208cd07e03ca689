"""What torch's variable-length attention computes, in plain torch. What it does not write is not a number."""

from itertools import pairwise

import torch


class Varlen:
    """`varlen_attn` of torch, sequence by sequence. It counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        query_offsets: torch.Tensor,
        key_offsets: torch.Tensor,
        most_queries: int,
        most_keys: int,
        *,
        scale: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        assert query_offsets.dtype == key_offsets.dtype == torch.int32
        assert query.shape[1] == key.shape[1], "releases of torch differ in how they are told of fewer heads of keys"
        results = torch.full((*query.shape[:2], value.shape[2]), torch.nan, dtype=query.dtype, device=query.device)
        # As the kernel has them, whatever it attends in.
        exact = torch.promote_types(query.dtype, torch.float32)
        log_sums = torch.full((query.shape[1], query.shape[0]), torch.nan, dtype=exact, device=query.device)
        sequences = zip(pairwise(query_offsets.tolist()), pairwise(key_offsets.tolist()), strict=True)
        for (first, stop), (start, end) in sequences:
            if first == stop:
                continue
            assert stop - first <= most_queries
            assert 0 < end - start <= most_keys
            k, v = key[start:end], value[start:end]
            scores = torch.einsum("qhd,khd->hqk", query[first:stop], k).to(exact) * scale
            log_sums[:, first:stop] = scores.logsumexp(-1)
            results[first:stop] = torch.einsum("hqk,khv->qhv", scores.softmax(-1).to(v.dtype), v)
        return results, log_sums
