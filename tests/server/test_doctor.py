"""`outriderd doctor` names each real fault of a server's options and how to fix it."""

import json
import shutil
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from netem.experiments.family_checkpoints import make_family_checkpoint
from server import cli
from server import doctor as doctor_module
from server.models import memory_needed
from server.models.memory_needed import sum_needed
from server.security.certificates import issue
from tests.drafts import make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint
from tests.other_families import GEMMA_4
from tests.quantised import make_fp8


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("target"), "llama")


@pytest.fixture
def doctor(monkeypatch, capsys):
    """Runs the command; returns whether all is well, and the findings by subject (the last one of several drafts)."""

    def run(*arguments: str | Path, before: tuple[str | Path, ...] = ()) -> tuple[bool, dict[str, dict[str, str]]]:
        monkeypatch.setattr(sys, "argv", ["outriderd", *map(str, before), "doctor", "--json", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = json.loads(capsys.readouterr().out)
        assert told["ok"] == (ended.value.code in (0, None))
        return told["ok"], {finding["subject"]: finding for finding in told["findings"]}

    return run


def test_a_server_without_faults(doctor, target, tmp_path):
    draft = make_moa_draft(tmp_path / "moa", target)
    made = issue(tmp_path / "certs", ["gpu.example"], [], 90, datetime.now(UTC))
    tls = ("--tls-cert", made.server.certificate, "--tls-key", made.server.key)
    well, findings = doctor("--target", target, "--draft", draft, "--listen", "0.0.0.0:0", *tls, "--dtype", "bfloat16")
    assert well
    assert "llama, plain weights, fingerprint" in findings["target"]["detail"]
    assert "K/V for 32,768 tokens" in findings["memory"]["detail"]
    assert findings["draft"]["detail"] == "moa (moa) fits the target"
    assert "is for gpu.example, valid until" in findings["tls"]["detail"]


def test_a_target_whose_layers_differ(doctor, tmp_path):
    target = make_family_checkpoint(tmp_path, GEMMA_4)
    well, findings = doctor("--target", target, "--listen", "127.0.0.1:0", "--cache-tokens", 1000)
    assert well
    # In two layers two heads of 8 numbers, in the others one of 24, for keys and values in float32.
    assert "0.6 MB of K/V for 1,000 tokens" in findings["memory"]["detail"]


def test_settings_of_a_target_that_no_answer_gets(doctor, target, tmp_path):
    _, findings = doctor("--target", target, "--listen", "127.0.0.1:0")
    assert "generation" not in findings
    asking = shutil.copytree(target, tmp_path / "asking")
    (asking / "generation_config.json").write_text('{"repetition_penalty": 1.1, "suppress_tokens": [3]}')
    well, findings = doctor("--target", asking, "--listen", "127.0.0.1:0")
    assert well
    assert "repetition_penalty, suppress_tokens of asking's" in findings["generation"]["detail"]


def test_the_demo_and_its_drafts(doctor):
    well, findings = doctor("--target", "demo", "--listen", "127.0.0.1:0")
    assert well
    assert findings["draft"]["detail"] == "independent (independent) fits the target"


def test_a_port_in_use(doctor, target):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, findings = doctor("--target", target, "--listen", f"127.0.0.1:{listener.getsockname()[1]}")
    assert "name another with --listen" in findings["port"]["fix"]


def test_certificates_that_do_not_serve(doctor, target, tmp_path):
    now = datetime.now(UTC)
    old = issue(tmp_path / "old", ["a.example"], [], 5, now - timedelta(days=10)).server
    soon = issue(tmp_path / "soon", ["a.example"], [], 5, now).server
    of_client = issue(tmp_path / "client", [], ["ann"], 90, now).clients[0]
    asked = ("--target", target, "--listen", "0.0.0.0:0")
    says = {
        old: ("fail", "make another with `outriderd certs`"),
        soon: ("warn", "make another with `outriderd certs`"),
        of_client: ("fail", "make another with `outriderd certs`"),
    }
    for pair, (verdict, fix) in says.items():
        _, findings = doctor(*asked, "--tls-cert", pair.certificate, "--tls-key", pair.key)
        assert (findings["tls"]["verdict"], findings["tls"]["fix"]) == (verdict, fix)
    _, findings = doctor(*asked, "--tls-cert", old.certificate, "--tls-key", soon.key)
    assert "no matching PEM certificate" in findings["access"]["fix"]
    _, findings = doctor(*asked)
    assert "open to other machines" in findings["access"]["fix"]


def test_targets_that_cannot_be_served(doctor, target, tmp_path):
    foreign = Path(shutil.copytree(target, tmp_path / "foreign"))
    config = json.loads((foreign / "config.json").read_text())
    (foreign / "config.json").write_text(json.dumps(config | {"model_type": "sparrow"}))
    packed = Path(shutil.copytree(target, tmp_path / "packed"))
    settings = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    (packed / "config.json").write_text(json.dumps(config | settings))
    bare = Path(shutil.copytree(target, tmp_path / "bare"))
    (bare / "model.safetensors").unlink()
    for directory, says in ((foreign, "the model type 'sparrow' in"), (packed, "GPTQ"), (bare, "has no weights")):
        well, findings = doctor("--target", directory, "--listen", "127.0.0.1:0")
        assert not well
        assert says in findings["target"]["fix"]
    _, findings = doctor("--target", make_fp8(tmp_path / "fp8", target), "--quantize", "int8")
    assert "is quantised already (fp8)" in findings["target"]["fix"]
    wide = make_fp8(tmp_path / "blocks", make_checkpoint(tmp_path / "wide", "llama", hidden=192))
    well, findings = doctor("--target", wide, "--listen", "127.0.0.1:0")
    assert not well
    assert "in blocks of 128 by 128, into which" in findings["target"]["fix"]


def test_what_does_not_fit_into_memory(doctor, target, monkeypatch):
    _, findings = doctor("--target", target, "--cache-tokens", "999999999999", "--listen", "127.0.0.1:0")
    assert findings["memory"]["verdict"] == "warn"
    assert "lower --cache-tokens" in findings["memory"]["fix"]
    monkeypatch.setattr(memory_needed, "free_memory_bytes", lambda device: 1000)
    _, findings = doctor("--target", target, "--listen", "127.0.0.1:0")
    assert findings["memory"]["verdict"] == "fail"


def test_targets_share_the_memory_and_each_needs_what_its_own_drafts_do(doctor, target, tmp_path, monkeypatch):
    qwen3 = make_checkpoint(tmp_path / "qwen3", "qwen3")
    asked = ("--listen", "127.0.0.1:0", "--cache-tokens", "1000")

    def counted(*arguments: str | Path) -> list[float]:
        sums = []
        monkeypatch.setattr(doctor_module, "sum_needed", lambda needed: sums.append(sum_needed(needed)) or sums[-1])
        doctor(*arguments, *asked)
        (total,) = sums
        return [total.weights, total.key_values, total.hidden_states]

    eagle = make_eagle_draft(tmp_path / "eagle", qwen3)
    one, other = counted("--target", target), counted("--target", qwen3)
    drafting = counted("--target", qwen3, "--draft", eagle)
    assert drafting[2] > other[2] == 0
    both = counted("--target", target, "--target", qwen3, "--draft", eagle, "--cache-tokens", "1000")
    assert both == [mine + its for mine, its in zip(one, drafting, strict=True)]


def test_drafts_that_do_not_fit(doctor, target, tmp_path):
    other = make_checkpoint(tmp_path / "other", "llama", seed=9, vocab=280)
    for draft, says in ((make_moa_draft(tmp_path / "moa", other), "was trained for another target"), (other, "tokeni")):
        well, findings = doctor("--target", target, "--draft", draft, "--listen", "127.0.0.1:0")
        assert not well
        assert says in findings["draft"]["fix"]


def test_drafts_that_are_not_there(doctor, target):
    well, findings = doctor("--target", "demo", "--draft", "moa", "--draft", "mao", "--listen", "127.0.0.1:0")
    assert not well
    assert findings["draft"]["detail"] == "mao cannot be read"
    assert "those are moa, " in findings["draft"]["fix"]
    _, findings = doctor("--target", target, "--draft", "no/such/draft", "--listen", "127.0.0.1:0")
    assert findings["draft"]["detail"] == "no/such/draft cannot be read"


def test_a_shipped_draft_goes_by_its_name(doctor):
    well, findings = doctor("--target", "demo", "--draft", "moa", "--listen", "127.0.0.1:0")
    assert (well, findings["draft"]["detail"]) == (True, "moa (moa) fits the target")


def test_a_device_that_is_not_here(doctor, target):
    _, findings = doctor("--target", target, "--device", "cuda:7", "--listen", "127.0.0.1:0")
    assert findings["device"]["verdict"] == "fail"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('targt = "demo"', "there is no option 'targt'; did you mean 'target'?"),
        ("target = ", "is not valid TOML"),
        (None, "cannot be read: No such file"),
        ('target = "demo"\ncache-tokens = "many"', "cache-tokens must be a whole number"),
    ],
)
def test_a_configuration_at_fault_is_told_and_not_that_options_are_missing(doctor, tmp_path, content, says):
    file = tmp_path / "outriderd.toml"
    if content is not None:
        file.write_text(content)
    well, findings = doctor("--listen", "127.0.0.1:0", before=("--config", file))
    assert not well
    assert says in findings["configuration"]["detail"]
    assert "fix the file" in findings["configuration"]["fix"]
    assert findings["port"]["detail"].endswith("is free")


def test_a_server_without_a_target_is_told_to_name_one(doctor):
    well, findings = doctor("--listen", "127.0.0.1:0")
    assert (well, findings["configuration"]["fix"]) == (False, "")
    assert "--target" in findings["target"]["fix"]
