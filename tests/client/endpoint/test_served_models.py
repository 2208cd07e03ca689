"""The names by which requests choose a model."""

from types import SimpleNamespace
from typing import Any

import pytest

from client.endpoint.faults import FaultError
from client.endpoint.openai_responses import model_list
from client.endpoint.served_models import ServedModels


def models(**contexts: int) -> Any:
    return ServedModels([SimpleNamespace(model=name, context=size) for name, size in contexts.items()])  # type: ignore


def test_every_model_is_listed_with_its_context_and_one_name_stands_for_the_first() -> None:
    served = models(llama=4096, qwen=8192)
    assert served.contexts == {"llama": 4096, "qwen": 8192, "outrider": 4096}
    assert served.find("outrider") is served.find("llama") is served.default
    assert served.find("qwen").context == 8192
    listed = model_list(served.contexts, 17)["data"]
    assert [(each["id"], each["max_model_len"]) for each in listed] == list(served.contexts.items())


def test_an_unknown_model_is_told_with_those_that_there_are() -> None:
    with pytest.raises(FaultError) as refused:
        models(llama=4096, qwen=8192).find("gpt")
    fault = refused.value.fault
    assert (fault.status, fault.parameter, fault.code) == (404, "model", "model_not_found")
    assert fault.message == "the model 'gpt' is not served here; ask for 'llama' or 'qwen' or 'outrider'"


def test_a_model_may_be_called_as_the_name_for_the_first() -> None:
    served = models(llama=4096, outrider=8192)
    assert served.find("outrider").context == 8192
