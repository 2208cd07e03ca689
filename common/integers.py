"""Types of many whole numbers. Nothing else may live here."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

Integers = Sequence[int] | IntArray
"""In any sequence; arrays are the cheapest where there are many."""
