"""The learnt codec of a draft model's state: how many numbers of a token travel, and in which dtype.

The server's half of the draft ends in an encoder to so many numbers, and the client's half reads them in its first
matrix, which is the decoder. Both are trained with the draft, on numbers as coarse as they travel. A codec of another
version is another pair of networks or another arithmetic, so none but ours is run.

What may live here: facts of a codec and how a draft's configuration holds them. It may not know networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json
from common.protocol.draft_state import DEFAULT_DTYPE, WIRE_DTYPES

VERSION = 1
CODEC_KEY = "codec"


@dataclass(frozen=True, slots=True)
class StateCodec:
    """`width`: numbers of a token that travel; `dtype`: one of `WIRE_DTYPES`, for which it was trained. Together they
    are its rate."""

    width: int
    dtype: str
    version: int = VERSION


def codec_of(config: Mapping[str, Any]) -> StateCodec | None:
    """The codec in a draft's configuration, None where its state travels as it is made. Raises CheckpointError for one
    of another version, and for one that cannot be."""
    content = config.get(CODEC_KEY)
    if content is None:
        return None
    try:
        codec = StateCodec(int(content["width"]), str(content["dtype"]), int(content["version"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _broken() from error
    if codec.version != VERSION:
        raise CheckpointError(
            f"the draft model's state is in version {codec.version} of the learnt codec, and this side knows version "
            f"{VERSION} alone; use the same version of Outrider on both sides"
        )
    if codec.width < 1 or codec.dtype not in WIRE_DTYPES:
        raise _broken()
    return codec


def read_state_dtype(directory: Path) -> str:
    """The dtype in which the state of the draft in `directory` is meant to travel; one without a configuration needs
    none. Raises CheckpointError as `codec_of` does, and where the configuration cannot be read."""
    config = directory / CONFIG
    codec = codec_of(read_json(config)) if config.is_file() else None
    return DEFAULT_DTYPE if codec is None else codec.dtype


def _broken() -> CheckpointError:
    return CheckpointError("the codec in the draft model's configuration is broken; fetch or train it again.")
