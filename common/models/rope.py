"""Rotary positions (Su et al. 2021, arXiv 2104.09864), plain and scaled as configurations name it.

What may live here: reading that part of a configuration, and its frequencies. It may not know models, nor which rows
are turned by them. The operations of all but `yarn` are transformers' in their order, so that results are equal to the
last bit.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import torch

# Shape letters: D head dimension.


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How positions beyond the trained ones are reached. Names and defaults are those of transformers' configurations;
    which fields count depends on `rope_type`: `linear`, `llama3` or `yarn` (Peng et al. 2023, arXiv 2309.00071)."""

    rope_type: str
    factor: float
    original_max_position_embeddings: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError for another type, and for one that lacks its numbers."""
        if self.rope_type not in _SCALED:
            raise ValueError(f"rotary positions are not scaled by '{self.rope_type}' here")
        numbers = [value for value in asdict(self).values() if not isinstance(value, str | bool | None)]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers) or self.factor <= 0:
            raise ValueError("a number of scaled rotary positions is none")
        if not all(getattr(self, name) for name in _NEEDED[self.rope_type]):
            raise ValueError("a number of scaled rotary positions is missing")

    @property
    def magnitude(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.rope_type != "yarn":
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return _yarn_magnitude(self.factor, self.mscale) / _yarn_magnitude(self.factor, self.mscale_all_dim)
        return _yarn_magnitude(self.factor)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What is null counts as left out, as does what is not known. Raises KeyError, TypeError or ValueError where a
        number is missing or none."""
        known = {each.name for each in fields(cls)}
        said = {name: value for name, value in content.items() if name in known and value is not None}
        return cls(**said)


def read_rope(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """The base of the frequencies, and how they are scaled, None for not: from `rope_scaling`, or from
    `rope_parameters`, which newer configurations have instead, with what they leave out from the configuration's top.
    The order is transformers': where both are there, it reads the older name alone.

    `mrope` is not scaled: all its sections agree where there is text alone. Nor is `dynamic`, up to the positions that
    the checkpoint was trained for; beyond, its frequencies are those of the trained ones. Hunyuan's `dynamic` with an
    `alpha` is another: it stretches the base for all positions, in some families alone, unless it is 1.

    Raises KeyError, TypeError or ValueError for what is broken or scaled in another way.
    """
    said = dict(config.get("rope_scaling") or config.get("rope_parameters") or {})
    if any(isinstance(value, Mapping) for value in said.values()):
        raise ValueError("rotary positions differ by the type of a layer")
    base = float(said.get("rope_theta") or config.get("rope_theta") or _BASE)
    said["rope_type"] = said.get("rope_type") or said.get("type") or "default"
    # What the top says of this goes before what is said inside, as Phi 3's configurations need it.
    if _TRAINED in config:
        said[_TRAINED] = config[_TRAINED]
    said.setdefault(_TRAINED, config.get("max_position_embeddings"))
    # Like the base, older configurations have it at their top.
    if any(section.get("partial_rotary_factor") not in (None, 1.0) for section in (config, said)):
        raise ValueError("only a part of each head is turned")
    if said["rope_type"] == "dynamic" and said.get("alpha") not in (None, 0, 1):
        raise ValueError("the base of rotary positions is not stretched by an alpha here")
    return base, None if said["rope_type"] in _PLAIN else RopeScaling.from_json(said)


def inverse_frequencies(base: float, dim: int, scaling: RopeScaling | None = None) -> torch.Tensor:
    """Radians per position, float32 `[D / 2]`."""
    exponents = torch.arange(0, dim, 2, dtype=torch.float) / dim
    plain: torch.Tensor = 1.0 / (base**exponents)
    return plain if scaling is None else _SCALED[scaling.rope_type](plain, base, scaling)


def _linear(plain: torch.Tensor, _: float, scaling: RopeScaling) -> torch.Tensor:
    return plain / scaling.factor


def _llama3(plain: torch.Tensor, _: float, scaling: RopeScaling) -> torch.Tensor:
    factor, low, high = scaling.factor, scaling.low_freq_factor or 0.0, scaling.high_freq_factor or 0.0
    context = scaling.original_max_position_embeddings or 0
    wavelength = 2 * math.pi / plain
    scaled = torch.where(wavelength > context / low, plain / factor, plain)
    smooth = (context / wavelength - low) / (high - low)
    smoothed = (1 - smooth) * scaled / factor + smooth * scaled
    is_medium = ~(wavelength < context / high) * ~(wavelength > context / low)
    return torch.where(is_medium, smoothed, scaled)


def _yarn(plain: torch.Tensor, base: float, scaling: RopeScaling) -> torch.Tensor:
    """Slow frequencies are interpolated, fast ones kept, with a ramp between those that turn `beta_slow` and
    `beta_fast` times in the trained positions."""
    dim = 2 * len(plain)
    turns = (scaling.original_max_position_embeddings or 0) / (2 * math.pi)
    low, high = (
        dim * math.log(turns / rotations) / (2 * math.log(base)) for rotations in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high += 0.001 * (low == high)
    kept = 1 - torch.clamp((torch.arange(len(plain), dtype=torch.float32) - low) / (high - low), 0, 1)
    interpolated = 1.0 / (scaling.factor * (1.0 / plain))
    return interpolated * (1 - kept) + plain * kept


def _yarn_magnitude(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


_BASE = 10_000.0
_TRAINED = "original_max_position_embeddings"
_PLAIN = ("default", "mrope", "dynamic")
_NEEDED = {
    "linear": (),
    "llama3": (_TRAINED, "low_freq_factor", "high_freq_factor"),
    "yarn": (_TRAINED,),
}
_SCALED: Mapping[str, Callable[[torch.Tensor, float, RopeScaling], torch.Tensor]] = {
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
