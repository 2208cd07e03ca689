"""The store that the replicas of a fleet share, in Redis or Valkey: who they are, and the levels of their quotas.

One script does an exchange in one step and by the store's own clock. It may not know what records and buckets mean.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from common.protocol.errors import MisuseError
from server.fleet.fleet import EXPIRY_S, Exchanged, StoreError
from server.sessions.quotas import BucketUse

TIMEOUT_S = 1.0
FORGET_S = 120.0
"""After so long it is forgotten too what of its use was counted. Of what it could not hand in for longer, only a
minute's worth and what is owed count anyway."""

# In one hash slot, so that a cluster can hold them too.
_REPLICAS, _COUNTED, _QUOTAS = "{outrider}:replicas", "{outrider}:counted", "{outrider}:quotas"

_EXCHANGE = """
local said, time = cjson.decode(ARGV[1]), redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local function since(at) return math.max(0, now - at) end
local known = next(said.uses) and redis.call('HGET', KEYS[2], said.id)
local counted = known and cjson.decode(known) or {}
for name, use in pairs(said.uses) do
  local kept = redis.call('HGET', KEYS[3], name)
  local level, used, total = use.level, use.used, use.total
  if counted[name] then
    used = math.max(0, total - counted[name])
    total = math.max(total, counted[name])
  end
  counted[name] = total
  if kept then
    local before = cjson.decode(kept)
    level = math.min(use.per_minute, before.level + since(before.at) * use.per_minute / 60)
    level = level - math.min(use.most, used)
  end
  redis.call('HSET', KEYS[3], name, cjson.encode({at = now, level = level, per_minute = use.per_minute}))
end
if next(said.uses) then
  redis.call('HSET', KEYS[2], said.id, cjson.encode(counted))
end
redis.call('HSET', KEYS[1], said.id, cjson.encode({at = now, record = said.record}))
local members, levels = {}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local member = cjson.decode(all[i + 1])
  -- If the store's clock was set back, a time that is ahead is as old as it is ahead.
  local silent = math.abs(now - member.at)
  if silent > said.forget_s then
    redis.call('HDEL', KEYS[1], all[i])
    redis.call('HDEL', KEYS[2], all[i])
  elseif silent <= said.expiry_s then
    members[all[i]] = member.record
  end
end
all = redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  local kept = cjson.decode(all[i + 1])
  local level = kept.level + since(kept.at) * kept.per_minute / 60
  if level >= kept.per_minute then
    redis.call('HDEL', KEYS[3], all[i])
  else
    levels[all[i]] = level
  end
end
return cjson.encode({members = members, levels = levels})
"""
"""A bucket that the store does not know, because it has restarted, begins at the level that the replica knows; one that
is full is not kept. What was counted of a replica is kept as long as it is known, so that nothing counts twice if
a reply is lost; it is read and written for the one that asks only, because it grows with its clients."""


class RedisStore:
    def __init__(self, url: str):
        """Dials nothing. Raises MisuseError for what is no URL of a store."""
        try:
            self._redis: Redis = Redis.from_url(
                url,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),  # the next exchange comes soon, and knows more
                decode_responses=True,
            )
            parts = urlsplit(url)
            if not parts.hostname:
                raise ValueError
            self.name = f"{parts.hostname}:{parts.port or 6379}"
        except ValueError as error:
            raise MisuseError(
                "--fleet-store names no store; write redis://HOST:PORT/0, or rediss:// for TLS"
            ) from error
        self._exchange = self._redis.register_script(_EXCHANGE)

    async def exchange(self, member: str, record: str, uses: Mapping[str, BucketUse]) -> Exchanged:
        """As `FleetStore`."""
        said = {"id": member, "record": record, "expiry_s": EXPIRY_S, "forget_s": FORGET_S}
        said |= {"uses": {name: asdict(use) | {"most": use.most} for name, use in uses.items()}}
        try:
            reply = json.loads(await self._exchange(keys=[_REPLICAS, _COUNTED, _QUOTAS], args=[json.dumps(said)]))
            return Exchanged(_texts(reply["members"]), {str(name): float(x) for name, x in reply["levels"].items()})
        except (RedisError, OSError, TimeoutError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unusable(error) from error

    async def leave(self, member: str) -> None:
        """As `FleetStore`; the connection ends."""
        try:
            async with self._redis.pipeline() as both:
                both.hdel(_REPLICAS, member)
                both.hdel(_COUNTED, member)
                await both.execute()
        except (RedisError, OSError, TimeoutError) as error:
            raise self._unusable(error) from error
        finally:
            await self._redis.aclose()

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(f"the store at {self.name} cannot be used ({_first_line(error)})")


def _texts(found: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in found.items()}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
