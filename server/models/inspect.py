"""`outriderd drafts inspect`: what the directory of a draft model holds, what target it was made for, and whether it
fits one.

It reads configurations and, of draft models, weights; of a target's weights the fingerprint alone. It may not know how
findings are shown.
"""

from collections import Counter
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from common.draft_kinds import KIND_KEY, DraftKind, DraftParts
from common.draft_models.directory import EXPORTER_WEIGHTS, FINGERPRINT_KEY, DraftFacts, read_draft_kind
from common.draft_models.layouts import LAYOUTS, recognise
from common.draft_models.measured_acceptance import TRIMMED_KEY, read_measured_acceptance
from common.draft_models.state_codec import StateCodec, codec_of
from common.draft_models.vocabulary import KEPT_TOKENS
from common.draft_models.weight_files import draft_weight_files
from common.models.errors import CheckpointError
from common.models.families import check_causal_lm
from common.models.source import CONFIG, checkpoint_directory, read_json, weight_files
from common.programs.findings import Finding
from common.protocol.errors import MisuseError
from server.models.bundles import checkpoint_name
from server.models.draft_models import network_of
from server.models.fit import check_fit, read_target

_OURS = "ours, as `outrider-train` writes it"
_CAUSAL_LM = "a causal language model, as transformers saves it"


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """What a file says of a tensor before its numbers; `dtype` in safetensors' words, such as BF16."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DraftReport:
    """What a directory holds. `target` is a name or a fingerprint as its files have it, None where they name none.
    `trimmed_from` names the draft that had the whole head, None where none was trimmed after training; `codec` is what
    its state passes through, None for nothing."""

    kind: DraftKind
    layout: str
    facts: DraftFacts
    tensors: dict[str, TensorHeader]
    target: str | None
    accept_lengths: dict[int, float]
    trimmed_from: str | None
    codec: StateCodec | None

    @property
    def parameters(self) -> int:
        """Numbers in all tensors, maps of a vocabulary left out."""
        return sum(prod(each.shape) for each in self.tensors.values() if each.dtype not in ("I64", "BOOL"))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Of most numbers first."""
        counted: Counter[str] = Counter()
        for each in self.tensors.values():
            counted[each.dtype] += prod(each.shape)
        return tuple(dtype for dtype, _ in counted.most_common())


def inspect_draft(draft: str) -> DraftReport:
    """Reads a draft model's directory or hub id. Raises CheckpointError where it holds none, or one that is broken or
    incomplete."""
    directory = checkpoint_directory(draft, with_weights=True)
    kind, config = read_draft_kind(directory), read_json(directory / CONFIG)
    layout = None if KIND_KEY in config else recognise(directory)
    if kind.parts is DraftParts.CAUSAL_LM:
        facts, title = _facts_of_causal_lm(directory, config), _CAUSAL_LM
    else:
        facts, title = network_of(kind).read_facts(directory), "" if layout is None else layout.title
    tensors = _headers(directory, "" if layout is None else layout.prefix)
    if KEPT_TOKENS in tensors:
        facts = replace(facts, proposable=prod(tensors[KEPT_TOKENS].shape))
    return DraftReport(
        kind=kind,
        layout=_OURS if KIND_KEY in config else title,
        facts=facts,
        tensors=tensors,
        target=_named_target(config),
        accept_lengths={depth: each.accept_length for depth, each in read_measured_acceptance(directory).items()},
        trimmed_from=str(config[TRIMMED_KEY]) if TRIMMED_KEY in config else None,
        codec=codec_of(config),
    )


def describe_draft(name: str, report: DraftReport, *, with_tensors: bool = False) -> list[Finding]:
    """What a report says, for people; `with_tensors` has a line for each tensor."""
    facts = report.facts
    sizes = {
        "hidden size": facts.hidden,
        "vocabulary": facts.vocabulary,
        "layers": facts.layers,
        "at least layers": facts.least_layers or None,
        "numbers of a layer's keys and values": facts.state_width,
    }
    made_for = [report.target, *(f"{what} {size:,}" for what, size in sizes.items() if size is not None)]
    proposable = "all of its target's" if facts.proposable is None else f"{facts.proposable:,}"
    findings = [
        Finding("draft", f"{name}, {report.layout}"),
        Finding("kind", f"{report.kind.name}, {report.kind.title}"),
        Finding(
            "weights",
            f"{report.parameters:,} parameters in {len(report.tensors)} tensors, {', '.join(report.dtypes) or 'none'}",
        ),
        Finding("made for", ", ".join(filter(None, made_for)) or "any target with its tokenizer"),
        Finding("proposes", f"{proposable} tokens"),
    ]
    if report.codec is not None:
        rate = f"{report.codec.width:,} numbers of a token in {report.codec.dtype}, through a learnt codec"
        findings.append(Finding("draft state", rate))
    if report.kind.runs_target_layers:
        findings.append(Finding("runs", f"{', '.join(map(str, facts.depths))} of its target's last layers"))
    if report.accept_lengths:
        lengths = (f"{length:.2f} with {depth}" for depth, length in report.accept_lengths.items())
        measured = (
            "as trained" if report.trimmed_from is None else f"measured as {report.trimmed_from}, before trimming"
        )
        findings.append(Finding("accept length", f"{', '.join(lengths)} of its target's last layers, {measured}"))
    if with_tensors:
        findings += [
            Finding(tensor, f"{header.dtype} {list(header.shape)}") for tensor, header in report.tensors.items()
        ]
    return findings


def describe_fit(draft: str, target: str) -> Finding:
    """Whether the draft model fits a target, else the first reason why not. Raises MisuseError where the target cannot
    be read."""
    files = read_target(target)
    try:
        check_fit(draft, files)
    except MisuseError as error:
        return Finding("target", f"it does not fit {checkpoint_name(target)}", str(error))
    return Finding("target", f"it fits {checkpoint_name(target)}, fingerprint {files.fingerprint[:12]}")


def _facts_of_causal_lm(directory: Path, config: dict[str, Any]) -> DraftFacts:
    """Raises CheckpointError for what is no language model that runs here."""
    if not isinstance(config.get("vocab_size"), int):
        known = ", ".join(layout.title for layout in LAYOUTS)
        raise CheckpointError(
            f"{directory} holds no draft model: none of ours, nor {known}, nor a causal language model; name another "
            "directory"
        )
    check_causal_lm(directory, config)
    weight_files(directory)
    return DraftFacts(proposable=config["vocab_size"])


def _headers(directory: Path, prefix: str) -> dict[str, TensorHeader]:
    """Of a draft's tensors by name; where some begin with `prefix`, all others are the target's. Raises CheckpointError
    where a file is missing or broken."""
    headers: dict[str, TensorHeader] = {}
    of_server = directory / EXPORTER_WEIGHTS
    for file in (*draft_weight_files(directory), *([of_server] if of_server.is_file() else [])):
        try:
            with safe_open(file, framework="pt") as source:
                for name in source.keys():  # noqa: SIM118 - it is no mapping
                    found = source.get_slice(name)
                    headers[name] = TensorHeader(found.get_dtype(), tuple(found.get_shape()))
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{file} cannot be read; fetch or train the draft again") from error
    own = {name: header for name, header in headers.items() if name.startswith(prefix)}
    return own or headers


def _named_target(config: dict[str, Any]) -> str | None:
    """The target's fingerprint where `outrider-train` wrote it, else its name where the publisher did."""
    if FINGERPRINT_KEY in config:
        return f"fingerprint {str(config[FINGERPRINT_KEY])[:12]}"
    speculators = config.get("speculators_config")
    verifier = speculators.get("verifier") if isinstance(speculators, dict) else None
    named = verifier.get("name_or_path") if isinstance(verifier, dict) else config.get("base_model_name_or_path")
    return named if isinstance(named, str) and named else None
