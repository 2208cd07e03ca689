"""The law of `speculative`: whether answers through the real client and server are distributed as the target's own."""
