"""Models in Ollama's shape: what is known of a target, and nothing that only its server knows."""

from client.endpoint.ollama_models import OllamaModel

DIGEST = "0123456789abcdef" * 4
MODEL = OllamaModel("outrider", DIGEST, "qwen3")
IDENTITY = {
    "name": "outrider",
    "model": "outrider",
    "size": 0,
    "digest": DIGEST,
    "details": {
        "parent_model": "",
        "format": "safetensors",
        "family": "qwen3",
        "families": ["qwen3"],
        "parameter_size": "",
        "quantization_level": "",
    },
}


def test_a_model_is_listed_with_its_digest_and_details():
    assert MODEL.listed("now") == {**IDENTITY, "modified_at": "now"}
