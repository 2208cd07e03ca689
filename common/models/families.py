"""Which model families run here. Adding one means adding its row and a row to the tests' families."""

from common.models.errors import CheckpointError

SUPPORTED = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
"""`model_type` of the configuration -> the family's name. All share one module layout."""


def check_family(model_type: str) -> None:
    """Raises `CheckpointError` for a family that is not supported."""
    if model_type not in SUPPORTED:
        names = ", ".join(SUPPORTED.values())
        raise CheckpointError(f"the model type '{model_type}' is not supported; use one of: {names}.")
