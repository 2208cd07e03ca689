"""The models that this endpoint answers with, by the names that requests give.

It may not know HTTP, nor how an answer is made.
"""

from collections.abc import Mapping, Sequence

from client.endpoint.faults import Fault, FaultError
from client.endpoint.service import Service

ALIAS = "outrider"
"""A model name that stands for the first model, whatever it is."""


class ServedModels:
    def __init__(self, services: Sequence[Service]):
        """One for each model; the first is the default."""
        self.default = services[0]
        self._services = {service.model: service for service in services}
        self._services.setdefault(ALIAS, self.default)

    @property
    def by_name(self) -> Mapping[str, Service]:
        """All models; one may have two names."""
        return self._services

    @property
    def contexts(self) -> dict[str, int]:
        """The names of all models, each with the tokens of its longest sequence."""
        return {name: service.context for name, service in self._services.items()}

    def find(self, name: str) -> Service:
        """Raises FaultError for a model that there is not."""
        if name not in self._services:
            known = " or ".join(f"'{known}'" for known in self.contexts)
            message = f"the model '{name}' is not served here; ask for {known}"
            raise FaultError(Fault(404, message, parameter="model", code="model_not_found"))
        return self._services[name]
