"""Tensors to bytes and back: draft state in few bits, for the wire and for the laboratory.

May know torch, the numbers of `common.protocol.draft_state` and the error families. May not know sessions, kinds of
state or links.
"""

from common.codec.payload import decode, encode

__all__ = ["decode", "encode"]
