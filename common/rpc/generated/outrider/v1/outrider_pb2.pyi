from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("version", "release", "model", "fingerprint", "vocab_size", "context", "max_nodes", "end_tokens", "rules", "idle_policies", "bundles", "quantised", "models", "load", "replicas", "logprobs", "numerics")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    END_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    IDLE_POLICIES_FIELD_NUMBER: _ClassVar[int]
    BUNDLES_FIELD_NUMBER: _ClassVar[int]
    QUANTISED_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    NUMERICS_FIELD_NUMBER: _ClassVar[int]
    version: int
    release: str
    model: str
    fingerprint: str
    vocab_size: int
    context: int
    max_nodes: int
    end_tokens: _containers.RepeatedScalarFieldContainer[int]
    rules: _containers.RepeatedScalarFieldContainer[str]
    idle_policies: _containers.RepeatedScalarFieldContainer[str]
    bundles: _containers.RepeatedCompositeFieldContainer[Bundle]
    quantised: _containers.RepeatedCompositeFieldContainer[Bundle]
    models: _containers.RepeatedScalarFieldContainer[str]
    load: float
    replicas: _containers.RepeatedScalarFieldContainer[str]
    logprobs: bool
    numerics: str
    def __init__(self, version: _Optional[int] = ..., release: _Optional[str] = ..., model: _Optional[str] = ..., fingerprint: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context: _Optional[int] = ..., max_nodes: _Optional[int] = ..., end_tokens: _Optional[_Iterable[int]] = ..., rules: _Optional[_Iterable[str]] = ..., idle_policies: _Optional[_Iterable[str]] = ..., bundles: _Optional[_Iterable[_Union[Bundle, _Mapping]]] = ..., quantised: _Optional[_Iterable[_Union[Bundle, _Mapping]]] = ..., models: _Optional[_Iterable[str]] = ..., load: _Optional[float] = ..., replicas: _Optional[_Iterable[str]] = ..., logprobs: _Optional[bool] = ..., numerics: _Optional[str] = ...) -> None: ...

class Bundle(_message.Message):
    __slots__ = ("id", "draft", "kind", "files", "weights")
    ID_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    draft: str
    kind: str
    files: _containers.RepeatedCompositeFieldContainer[BundleFile]
    weights: str
    def __init__(self, id: _Optional[str] = ..., draft: _Optional[str] = ..., kind: _Optional[str] = ..., files: _Optional[_Iterable[_Union[BundleFile, _Mapping]]] = ..., weights: _Optional[str] = ...) -> None: ...

class BundleFile(_message.Message):
    __slots__ = ("path", "size", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class FetchBundleRequest(_message.Message):
    __slots__ = ("bundle_id", "path", "offset")
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    bundle_id: str
    path: str
    offset: int
    def __init__(self, bundle_id: _Optional[str] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class BundleChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("max_new_tokens", "rule", "stop", "idle", "sampling", "constraint", "top_logprobs")
    MAX_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    max_new_tokens: int
    rule: str
    stop: _containers.RepeatedScalarFieldContainer[str]
    idle: str
    sampling: Sampling
    constraint: Constraint
    top_logprobs: int
    def __init__(self, max_new_tokens: _Optional[int] = ..., rule: _Optional[str] = ..., stop: _Optional[_Iterable[str]] = ..., idle: _Optional[str] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., constraint: _Optional[_Union[Constraint, _Mapping]] = ..., top_logprobs: _Optional[int] = ...) -> None: ...

class Constraint(_message.Message):
    __slots__ = ("grammar", "text")
    GRAMMAR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    grammar: str
    text: str
    def __init__(self, grammar: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    logit_bias: _containers.RepeatedCompositeFieldContainer[LogitBias]
    def __init__(self, temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., seed: _Optional[int] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., logit_bias: _Optional[_Iterable[_Union[LogitBias, _Mapping]]] = ...) -> None: ...

class LogitBias(_message.Message):
    __slots__ = ("token", "bias")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    BIAS_FIELD_NUMBER: _ClassVar[int]
    token: int
    bias: float
    def __init__(self, token: _Optional[int] = ..., bias: _Optional[float] = ...) -> None: ...

class ClientFrame(_message.Message):
    __slots__ = ("open", "extend", "grow", "ack", "cancel", "state_ack", "ping")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    GROW_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    STATE_ACK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    open: Open
    extend: Extend
    grow: Grow
    ack: Ack
    cancel: Cancel
    state_ack: StateAck
    ping: Ping
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ..., grow: _Optional[_Union[Grow, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., state_ack: _Optional[_Union[StateAck, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ("draft", "layers", "dtype", "later")
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    draft: str
    layers: int
    dtype: str
    later: bool
    def __init__(self, draft: _Optional[str] = ..., layers: _Optional[int] = ..., dtype: _Optional[str] = ..., later: _Optional[bool] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("version", "fingerprint", "session", "turn", "tokens", "prompt_length", "settings", "state")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    version: int
    fingerprint: str
    session: str
    turn: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    prompt_length: int
    settings: Settings
    state: StateRequest
    def __init__(self, version: _Optional[int] = ..., fingerprint: _Optional[str] = ..., session: _Optional[str] = ..., turn: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., prompt_length: _Optional[int] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., state: _Optional[_Union[StateRequest, _Mapping]] = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("turn", "keep", "tokens", "settings")
    TURN_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    turn: int
    keep: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    settings: Settings
    def __init__(self, turn: _Optional[int] = ..., keep: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class Grow(_message.Message):
    __slots__ = ("turn", "frontier", "id", "parent", "token", "logp", "draw")
    TURN_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGP_FIELD_NUMBER: _ClassVar[int]
    DRAW_FIELD_NUMBER: _ClassVar[int]
    turn: int
    frontier: int
    id: _containers.RepeatedScalarFieldContainer[int]
    parent: _containers.RepeatedScalarFieldContainer[int]
    token: _containers.RepeatedScalarFieldContainer[int]
    logp: _containers.RepeatedScalarFieldContainer[float]
    draw: _containers.RepeatedCompositeFieldContainer[Draw]
    def __init__(self, turn: _Optional[int] = ..., frontier: _Optional[int] = ..., id: _Optional[_Iterable[int]] = ..., parent: _Optional[_Iterable[int]] = ..., token: _Optional[_Iterable[int]] = ..., logp: _Optional[_Iterable[float]] = ..., draw: _Optional[_Iterable[_Union[Draw, _Mapping]]] = ...) -> None: ...

class Draw(_message.Message):
    __slots__ = ("node", "token", "weight")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    node: int
    token: _containers.RepeatedScalarFieldContainer[int]
    weight: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[int] = ..., token: _Optional[_Iterable[int]] = ..., weight: _Optional[_Iterable[int]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("turn", "frontier")
    TURN_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    turn: int
    frontier: int
    def __init__(self, turn: _Optional[int] = ..., frontier: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: int
    def __init__(self, turn: _Optional[int] = ...) -> None: ...

class StateAck(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: int
    def __init__(self, frames: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class ServerFrame(_message.Message):
    __slots__ = ("opened", "commit", "state", "finished", "failed", "pong")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    commit: Commit
    state: State
    finished: Finished
    failed: Failed
    pong: Pong
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., state: _Optional[_Union[State, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("turn", "start", "tokens", "seen", "logp", "top_token", "top_logp")
    TURN_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    LOGP_FIELD_NUMBER: _ClassVar[int]
    TOP_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGP_FIELD_NUMBER: _ClassVar[int]
    turn: int
    start: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    seen: int
    logp: _containers.RepeatedScalarFieldContainer[float]
    top_token: _containers.RepeatedScalarFieldContainer[int]
    top_logp: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, turn: _Optional[int] = ..., start: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., seen: _Optional[int] = ..., logp: _Optional[_Iterable[float]] = ..., top_token: _Optional[_Iterable[int]] = ..., top_logp: _Optional[_Iterable[float]] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("turn", "start", "count", "kind", "dtype", "shape", "payload")
    TURN_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    turn: int
    start: int
    count: int
    kind: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    payload: bytes
    def __init__(self, turn: _Optional[int] = ..., start: _Optional[int] = ..., count: _Optional[int] = ..., kind: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("turn", "frontier", "reason")
    TURN_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    turn: int
    frontier: int
    reason: str
    def __init__(self, turn: _Optional[int] = ..., frontier: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("code", "message", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retry_after_ms: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...
