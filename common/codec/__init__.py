"""Encodes tensors as bytes and decodes them: draft state in few bits, for the wire and for experiments.

May know torch, the numbers of `common.protocol.draft_state` and the error families. May not know sessions, kinds of
state or links.
"""

from common.codec.payload import compress, decode, encode, pack

__all__ = ["compress", "decode", "encode", "pack"]
