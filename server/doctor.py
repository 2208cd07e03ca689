"""`outriderd doctor`: what could keep a server from starting or its clients from coming, each with what fixes it.

It loads no weights, and writes nothing but what the hub's client keeps of a checkpoint's small files.
"""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import grpc
import torch
import typer

from common.cache import cache_directory
from common.certificate import read_pem
from common.draft_kinds import DraftKind
from common.models.checkpoint import load_config, load_tokenizer
from common.models.errors import CheckpointError, HubError
from common.models.fingerprint import fingerprint
from common.models.fp8_blocks import check_whole_blocks
from common.models.quantised import method_of, why_not
from common.models.shipped import draft_checkpoint, shipped_family
from common.models.source import CONFIG, checkpoint_directory, read_json, weight_files
from common.models.tensor_parallel import check_parts
from common.programs.configuration import Program
from common.programs.findings import Finding, is_well, show
from common.programs.machine import PACKAGES, check_clock, check_device, check_folder, check_packages, check_python
from common.programs.settings import check_settings
from common.protocol.errors import MisuseError
from common.rpc.credentials import readable_by_others
from server.models.bundles import checkpoint_name
from server.models.fit import TargetFiles, check_fit, target_directory
from server.models.generation import describe_unapplied, unapplied
from server.models.memory_needed import REMEDY, MemoryNeeded, memory_needed, sum_needed
from server.models.state_needs import state_needs
from server.options import AccessOptions, TargetOptions
from server.rank_info import check_devices
from server.security.access import open_port, port_credentials
from server.security.tokens import read_tokens

_OF_A_SERVER = ("grpcio-reflection", "prometheus-client")
_TAIL_BYTES = 4 * 10**9  # of a target of 8 B parameters, at the deepest N of a draft


async def doctor(
    context: typer.Context,
    program: Program,
    target: TargetOptions,
    access: Callable[[], AccessOptions],
    *,
    as_json: bool,
) -> bool:
    """Prints a line for each check; whether all is well. `access` may raise MisuseError."""
    now = datetime.now(UTC)
    findings = [
        check_python(),
        check_packages((*PACKAGES, *_OF_A_SERVER)),
        check_clock(now.timestamp()),
        *check_settings(context, program, os.environ),
        check_device(target.device, target.dtype),
        check_folder("cache", cache_directory(), _TAIL_BYTES if target.drafts else 0, "set OUTRIDER_CACHE to another"),
        *await _check_access(access, now),
        *_check_models(target),
    ]
    show(findings, as_json=as_json)
    return is_well(findings)


async def _check_access(options: Callable[[], AccessOptions], now: datetime) -> list[Finding]:
    try:
        access = options()
        credentials = port_credentials(access)
        tokens = read_tokens(access.token_file, access.tokens_file)
    except MisuseError as error:
        return [Finding("access", "clients cannot be let in so", str(error))]
    findings = [_check_certificate(access, now), Finding("tokens", "asked for" if tokens else "none asked for")]
    for path in readable_by_others(access.token_file, access.tokens_file, access.key):
        detail = f"others on this machine can read the secret in {path}"
        findings.append(Finding("secrets", detail, f"run `chmod 600 {path}`", is_minor=True))
    server = grpc.aio.server()
    try:
        where = open_port(server, access.listen, credentials)
        findings.append(Finding("port", f"{where} is free"))
    except MisuseError as error:
        findings.append(Finding("port", "outriderd cannot listen", str(error)))
    finally:
        await server.stop(None)
    return findings


def _check_certificate(access: AccessOptions, now: datetime) -> Finding:
    if access.certificate is None:
        return Finding("tls", "off: clients speak plain text")
    certificate = read_pem(access.certificate.read_bytes())
    names = ", ".join(certificate.names) or "no host"
    detail = f"{access.certificate} is for {names}, valid until {certificate.end:%Y-%m-%d}"
    fix = "make another with `outriderd certs`"
    if now < certificate.begin:
        return Finding("tls", f"{detail}, but only from {certificate.begin:%Y-%m-%d}", f"set this clock, or {fix}")
    if now > certificate.end or not certificate.names:
        return Finding("tls", detail, fix)
    return Finding("tls", detail, fix if certificate.ends_soon(now) else "", is_minor=True)


def _check_models(options: TargetOptions) -> list[Finding]:
    if not options.targets:
        return [Finding("target", "none is known", "name one with --target, in the configuration or the environment")]
    findings, targets, cache_tokens = list[Finding](), list[TargetFiles](), list[int]()
    for request in options.targets:
        try:
            target = _find_target(request.checkpoint, options)
        except (MisuseError, HubError) as error:
            findings.append(Finding("target", f"{request.checkpoint} cannot be served", str(error)))
            continue
        config = read_json(target.directory / CONFIG)
        family, method = config["model_type"], method_of(config) or "plain"
        known = target.fingerprint[:12] if target.fingerprint else "known once its weights are here"
        name = request.name or checkpoint_name(request.checkpoint)
        findings.append(Finding("target", f"{name}, {family}, {method} weights, fingerprint {known}"))
        if fields := unapplied(target.directory):
            findings.append(Finding("generation", describe_unapplied(name, fields)))
        if target.fingerprint:
            targets.append(target)
            cache_tokens.append(request.cache_tokens)
    if not targets:
        return findings
    drafts, absent = _find_drafts(options)
    fits = {draft: [_fit(draft, target) for target in targets] for draft in drafts}
    needed = []
    for number, (target, tokens) in enumerate(zip(targets, cache_tokens, strict=True)):
        own = [draft for draft, fit in fits.items() if isinstance(fit[number], DraftKind)]
        needs = state_needs(own, load_config(target.directory).num_hidden_layers)
        placed = options.device, options.dtype, tokens, options.quantise
        needed.append(memory_needed(target.directory, *placed, needs, options.rank_info.ranks))
    findings.append(_check_memory(sum_needed(needed)))
    return [*findings, *(_check_draft(draft, targets, fit) for draft, fit in fits.items()), *absent]


def _find_drafts(options: TargetOptions) -> tuple[list[str], list[Finding]]:
    """The draft models' directories or hub ids, and a finding for each that is not there."""
    checkpoints = [request.checkpoint for request in options.targets]
    if not options.drafts:
        families = [shipped_family(checkpoint) for checkpoint in checkpoints]
        return [str(draft) for family in families if family for draft in family.drafts], []
    found, absent = list[str](), list[Finding]()
    for draft in options.drafts:
        try:
            checkpoint = draft_checkpoint(draft, checkpoints)
            checkpoint_directory(checkpoint, with_weights=False)
            found.append(checkpoint)
        except (CheckpointError, HubError) as error:
            absent.append(Finding("draft", f"{draft} cannot be read", str(error)))
    return found, absent


def _find_target(checkpoint: str, options: TargetOptions) -> TargetFiles:
    """Raises MisuseError where anything about the checkpoint stands in the way."""
    directory = target_directory(checkpoint, with_weights=False)
    config = read_json(directory / CONFIG)
    parsed = load_config(directory)
    if options.rank_info.ranks > 1:
        check_devices(options.rank_info, options.device, torch.cuda.device_count())
        check_parts(parsed, options.rank_info.ranks, method_of(config) or options.quantise)
    fault = why_not(config, options.quantise, options.device)
    if fault:
        raise CheckpointError(fault)
    try:
        weight_files(directory)
        known = fingerprint(directory)
    except CheckpointError:
        # A hub id's weights are fetched when it is served.
        if Path(checkpoint).expanduser().is_dir() or shipped_family(checkpoint):
            raise
        known = ""
    if known:
        check_whole_blocks(directory, config, options.device)
    return TargetFiles(directory, load_tokenizer(directory), known)


def _check_memory(needed: MemoryNeeded) -> Finding:
    """Of all targets: they share the device."""
    return Finding("memory", str(needed), "" if needed.fits else REMEDY, is_minor=needed.weights_fit)


def _fit(draft: str, target: TargetFiles) -> DraftKind | str:
    """The kind of a draft model that fits the target, else the first reason why it does not."""
    try:
        return check_fit(draft, target)
    except (MisuseError, HubError) as error:
        return str(error)


def _check_draft(draft: str, targets: Sequence[TargetFiles], fits: Sequence[DraftKind | str]) -> Finding:
    """Whether the draft model fits one of the targets, else why not the first. `fits` has what `_fit` says of each."""
    name = checkpoint_name(draft)
    for target, fit in zip(targets, fits, strict=True):
        if isinstance(fit, DraftKind):
            fitting = "the target" if len(targets) == 1 else checkpoint_name(str(target.directory))
            return Finding("draft", f"{name} ({fit.name}) fits {fitting}")
    which = "this target" if len(targets) == 1 else "any of these targets"
    return Finding("draft", f"{name} cannot draft for {which}", str(fits[0]))
