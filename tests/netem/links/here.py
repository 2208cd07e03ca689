"""What this machine can do, found by trying: marks for tests that need it."""

import asyncio

import pytest

from netem.links.backends import TUN, why_not

_WHY_NO_TUN = asyncio.run(why_not(TUN))
needs_tun = pytest.mark.skipif(_WHY_NO_TUN is not None, reason=str(_WHY_NO_TUN))
