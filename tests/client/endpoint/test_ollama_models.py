"""Models in Ollama's shape: what is known of a target, and nothing that only its server knows."""

from datetime import UTC, datetime, timedelta

from client.endpoint.ollama_models import OllamaModel

DIGEST = "0123456789abcdef" * 4
MODEL = OllamaModel("outrider", "big-7b", DIGEST, "qwen3", 4096)
DETAILS = {
    "parent_model": "",
    "format": "safetensors",
    "family": "qwen3",
    "families": ["qwen3"],
    "parameter_size": "",
    "quantization_level": "",
}
IDENTITY = {"name": "outrider", "model": "outrider", "size": 0, "digest": DIGEST, "details": DETAILS}


def test_a_model_is_listed_with_its_digest_and_details():
    assert MODEL.listed("now") == {**IDENTITY, "modified_at": "now"}


def test_a_model_is_loaded_for_ever():
    told = MODEL.loaded()
    # The `ollama` command says "Forever" of what is more than 20 years away.
    assert datetime.fromisoformat(told.pop("expires_at")) > datetime.now(UTC) + timedelta(days=100 * 365)
    assert told == {**IDENTITY, "size_vram": 0, "context_length": 4096}


def test_a_model_is_shown_with_its_architecture_context_and_capabilities():
    assert MODEL.shown("now", "{{ messages }}", ["completion", "tools"]) == {
        "modified_at": "now",
        "parameters": "num_ctx 4096",
        "template": "{{ messages }}",
        "details": DETAILS,
        "model_info": {
            "general.architecture": "qwen3",
            "general.basename": "big-7b",
            "qwen3.context_length": 4096,
        },
        "capabilities": ["completion", "tools"],
    }
