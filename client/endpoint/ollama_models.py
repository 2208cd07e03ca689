"""The models that are served, as Ollama tells of them. Pure.

What only the server knows of a target, as its size and precision, is 0 or empty. It may not know services or HTTP.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A target by one of its names: its fingerprint, and its architecture, empty if that is not known."""

    name: str
    digest: str
    family: str

    def listed(self, created: str) -> dict[str, Any]:
        return {**self._identity(), "modified_at": created}

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
