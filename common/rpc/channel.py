"""gRPC settings of connections, the same at both ends: keepalive, message sizes, no compression.

Payloads are compressed before they get here, so gRPC's own compression stays off. A server cuts off a client that
pings faster than it permits, so both ends' intervals stand side by side.
"""

from typing import Any

import grpc

MAX_FROM_CLIENT_BYTES = 1024 * 1024
"""Enough for an Open with 349,000 tokens of a vocabulary of up to 2 million, which take 3 bytes each: longer sequences
can be neither sent at once nor resumed."""

MAX_FROM_SERVER_BYTES = 4 * 1024 * 1024

_MAX_STREAMS = 256  # of one connection

_CLIENT_PING_MS = 20_000
_SERVER_PING_MS = 60_000
_PERMITTED_PING_MS = 10_000
_PING_TIMEOUT_MS = 20_000

_HANDSHAKE_MS = 10_000
"""The time within which a connection must complete TLS and HTTP/2; gRPC's default of two minutes would let a silent
peer hold it that long."""

_IDLE_MS = 120_000  # for which a connection without a call is kept

UNREAD_BYTES = 64 * 1024
"""The bytes of a call that a client may send before the server reads from it, and the window then opens."""

METADATA_BYTES = 8 * 1024  # of a call: a bearer token, and what gRPC itself says

NO_COMPRESSION = grpc.Compression.NoCompression

NO_HTTP_PROXY: tuple[str, Any] = ("grpc.enable_http_proxy", 0)

_SHARED: tuple[tuple[str, Any], ...] = (
    ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_metadata_size", METADATA_BYTES),
    # gRPC refuses at random between the two sizes, so there is only one.
    ("grpc.absolute_max_metadata_size", METADATA_BYTES),
)

CONNECTING_MS = "grpc.min_reconnect_backoff_ms"

CLIENT_OPTIONS: tuple[tuple[str, Any], ...] = (
    *_SHARED,
    ("grpc.max_send_message_length", MAX_FROM_CLIENT_BYTES),
    ("grpc.max_receive_message_length", MAX_FROM_SERVER_BYTES),
    ("grpc.keepalive_time_ms", _CLIENT_PING_MS),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # For how long a connection is being made, even where its channel was closed: it keeps its socket so long.
    (CONNECTING_MS, 10_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Two clients in one process have separate connections.
    ("grpc.use_local_subchannel_pool", 1),
)

SERVER_OPTIONS: tuple[tuple[str, Any], ...] = (
    *_SHARED,
    ("grpc.max_send_message_length", MAX_FROM_SERVER_BYTES),
    ("grpc.max_receive_message_length", MAX_FROM_CLIENT_BYTES),
    ("grpc.max_concurrent_streams", _MAX_STREAMS),
    ("grpc.keepalive_time_ms", _SERVER_PING_MS),
    ("grpc.http2.min_ping_interval_without_data_ms", _PERMITTED_PING_MS),
    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
    ("grpc.http2.settings_timeout", _HANDSHAKE_MS),
    ("grpc.max_connection_idle_ms", _IDLE_MS),
    # Otherwise the window grows with the bandwidth, to megabytes that each call may send unread.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    # A port in use is an error, not a port to share.
    ("grpc.so_reuseport", 0),
)

INCOMING_CONNECTIONS = "grpc.max_allowed_incoming_connections"
"""The server option for the most open connections."""
