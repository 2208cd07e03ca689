"""Published equations of decoder layers in plain torch, one sequence at a time: what our layers are compared with."""

import torch

# Shape letters: T queries, S sources, E features, H heads, D their size.


def rms(x, weight, epsilon):
    return x * (x.pow(2).mean(-1, keepdim=True) + epsilon).rsqrt() * weight


def turned(heads, positions, base):
    """`heads [T, H, D]` turned at `positions [T]`, as Llama pairs the two halves of a head."""
    half = heads.shape[-1] // 2
    angles = positions.double()[:, None] * base ** (-torch.arange(half).double() / half)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    low, high = heads[..., :half], heads[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def attended(queries, keys, values, sees):
    """`[T, H * D]` of `queries [T, H, D]`, `keys` and `values [S, K, D]`; `sees [T, S]`."""
    shared = queries.shape[1] // keys.shape[1]
    found = []
    for head in range(queries.shape[1]):
        scores = queries[:, head] @ keys[:, head // shared].T / queries.shape[-1] ** 0.5
        weights = torch.where(sees, scores, -torch.inf).softmax(-1).nan_to_num(0.0)
        found.append(weights @ values[:, head // shared])
    return torch.cat(found, -1)


def heads(x, weight, dim):
    return (x @ weight.T).unflatten(-1, (-1, dim))


def swiglu(x, gate, up, down):
    opened = x @ gate.T
    return (opened * opened.sigmoid() * (x @ up.T)) @ down.T
