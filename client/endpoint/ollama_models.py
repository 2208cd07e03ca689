"""The models that are served, as Ollama tells of them: in a list, as loaded, and one by one. Pure.

What only the server knows of a target, as its size and precision, is 0 or empty. It may not know services or HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_NEVER = "2300-01-01T00:00:00Z"
"""When a model is unloaded that stays loaded: Ollama names a time as far away."""


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A target by one of its names: its own name and fingerprint, its architecture, empty if that is not known, and the
    tokens of its longest sequence."""

    name: str
    target: str
    digest: str
    family: str
    context: int

    def listed(self, created: str) -> dict[str, Any]:
        return {**self._identity(), "modified_at": created}

    def loaded(self) -> dict[str, Any]:
        return {**self._identity(), "expires_at": _NEVER, "size_vram": 0, "context_length": self.context}

    def shown(self, created: str, template: str, capabilities: Sequence[str]) -> dict[str, Any]:
        return {
            "modified_at": created,
            "parameters": f"num_ctx {self.context}",
            "template": template,
            "details": self._details(),
            "model_info": {
                "general.architecture": self.family,
                "general.basename": self.target,
                f"{self.family}.context_length": self.context,
            },
            "capabilities": capabilities,
        }

    def _identity(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "model": self.name,
            "size": 0,
            "digest": self.digest,
            "details": self._details(),
        }

    def _details(self) -> dict[str, Any]:
        return {
            "parent_model": "",
            "format": "safetensors",  # servers read no other
            "family": self.family,
            "families": [self.family],
            "parameter_size": "",
            "quantization_level": "",
        }
