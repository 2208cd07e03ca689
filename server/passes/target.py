"""The target: verifies the scheduled tokens of all sessions in one pass.

Blocking torch code, called from one worker thread. It may not know sessions or trees, nor how the target is loaded.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

import torch

from common.memory import is_out_of_memory
from common.models.packed import PackedModel
from common.models.tensor_parallel import local_part
from common.protocol.constraint import AnswerConstraint
from common.protocol.errors import PeerError
from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import FailureCode
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.views import TargetChoices
from common.sampling.logit_rows import LogitRows, UnusableLogitsError, logprobs_of
from server.fault_isolation import FatalError, describe_error
from server.passes.batch import ChosenTokens, PassOutcome
from server.refusal import AdmissionRefusedError, RefusalReason

_log = logging.getLogger(__name__)

_UNUSABLE = "the target's logits are not finite, so its checkpoint may be broken; tell the operator"
_FAILED = "the server could not compute this answer; try again"
_LOST = "the target's device has failed and computes nothing any more; start the server again"
_NO_MEMORY = "the server's device has no memory left for this answer; try again later or shorten the prompt"

_MOST_FORCED = 64  # tokens that one pass commits for nothing

_MEMORY_RETRY_S = 1.0
"""Other sessions' passes go on meanwhile, and whatever else uses the device may give memory back."""


class Target:
    def __init__(self, model: PackedModel, is_batch_invariant: bool = False):
        self.model = model
        self.is_batch_invariant = is_batch_invariant

    @property
    def weights_bytes(self) -> int:
        model = self.model.model
        return sum(local_part(tensor).nbytes for tensors in (model.parameters(), model.buffers()) for tensor in tensors)

    @property
    def cache_bytes(self) -> int:
        """Of K/V, and of hidden states where they are kept."""
        return self.model.pool.nbytes

    @torch.inference_mode()
    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        """One pass: for each session the tokens that it commits, none where it does not reach its root. The K/V of the
        nodes on their path lie in the slots behind the chain's then, so that a session's stay in order.

        A pass that fails as a whole is run again for each session alone, so that only the faulty one pays. One for
        which the device has no memory even alone is refused: it stays on lease, and its client may come back. Raises
        FatalError where no pass can succeed any more.
        """
        # Named here so that they can be let go of where the pass fails.
        logits: torch.Tensor | None = None
        target_rows: LogitRows | None = None
        try:
            # In float32, as transformers' own generation loop chooses: ties must fall the same way.
            logits = self.model.forward(scheduled).logits.float()
            likeliest = logits.argmax(-1)
            tokens, finite = torch.stack([likeliest, logits.amax(-1).isfinite().to(likeliest.dtype)]).tolist()
            outcomes: list[PassOutcome] = []
            moved_from: list[int] = []
            moved_to: list[int] = []
            start = 0
            for each in scheduled:
                rows = slice(start, start + len(each.wanted))
                start = rows.stop
                verify_input = each.verify_input
                if verify_input is None:
                    outcomes.append(ChosenTokens(()))
                    continue
                target_rows = LogitRows(verify_input, logits[rows], tokens[rows], finite[rows])
                try:
                    chosen = RULES[verify_input.rule].walk(verify_input, target_rows)
                    if verify_input.constraint is not None and verify_input.top_logprobs is None:
                        chosen += _forced_behind(chosen, each, verify_input, verify_input.constraint)
                except UnusableLogitsError:
                    outcomes.append(self._verify_chain(each, verify_input))
                    continue
                except PeerError as error:  # of its constraint
                    outcomes.append(error)
                    continue
                path = each.path(chosen)
                logprobs: Sequence[TokenLogprobs] = ()
                if verify_input.top_logprobs is not None:
                    walked = [0, *(node + 1 for node in path)][: len(chosen)]
                    logprobs = logprobs_of(logits[rows][walked], chosen, verify_input.top_logprobs)
                choices = TargetChoices(verify_input.frontier, verify_input.tokens, verify_input.parents, tokens[rows])
                outcomes.append(ChosenTokens(chosen, logprobs, choices))
                behind_chain = each.slots[len(each.chain) :]
                moved_from += [int(behind_chain[node]) for node in path]
                moved_to += [int(slot) for slot in behind_chain[: len(path)]]
            self.model.pool.move(moved_from, moved_to)
            return outcomes
        except FatalError:
            raise
        # Whatever torch raises, it concerns this pass and not the server.
        except Exception as error:
            _log.error("a pass of %d sessions failed: %s", len(scheduled), describe_error(error))
            fault = _fault_of(error)
        # Not in the handler: the error holds the frames of the failed pass, and so what it has allocated.
        logits = target_rows = None
        self._check_device()
        if len(scheduled) == 1:
            return [fault]
        return [self.verify([each])[0] for each in scheduled]

    def _check_device(self) -> None:
        """Raises FatalError where it is lost: after some faults, as of its memory or an access outside of it, a GPU
        refuses all that the process asks for until that ends."""
        device = self.model.pool.device
        if device.type != "cuda":  # MPS knows no waiting for one stream
            return
        try:
            # Not of the whole device: another target's thread may be capturing a graph, which that would break.
            torch.accelerator.current_stream(device).synchronize()
        except RuntimeError as error:
            raise FatalError(_LOST) from error

    def _verify_chain(self, scheduled: ScheduledTokens, verify_input: VerifyInput) -> PassOutcome:
        """The outcome without nodes, one of which has spoilt the pass. It is one token, even where a constraint forces
        more: the session would keep the K/V of nodes that carry those, and the spoilt pass wrote them."""
        if len(verify_input.tokens) == 1:
            return _unusable()
        [outcome] = self.verify([_without_nodes(scheduled, verify_input)])
        return replace(outcome, tokens=outcome.tokens[:1]) if isinstance(outcome, ChosenTokens) else outcome


def _forced_behind(
    chosen: list[int], scheduled: ScheduledTokens, verify_input: VerifyInput, constraint: AnswerConstraint
) -> Sequence[int]:
    """The tokens behind those that a pass commits about which the answer's constraint leaves no choice.

    None behind a last token that a node carries: whether that node's K/V are usable is known once its logits are asked
    for, so it has to be the root of the next pass. Nor with log-probabilities, which a pass has to compute.
    """
    if len(scheduled.path(chosen)) == len(chosen):
        return ()
    answer = verify_input.seen[verify_input.prompt_length :]
    return constraint.forced([*answer, *chosen], _MOST_FORCED)


def _fault_of(error: Exception) -> PeerError:
    if is_out_of_memory(error):
        return AdmissionRefusedError(RefusalReason.MEMORY, _NO_MEMORY, _MEMORY_RETRY_S)
    return PeerError(_FAILED, FailureCode.INTERNAL)


def _unusable() -> PeerError:
    return PeerError(_UNUSABLE, FailureCode.INTERNAL)


def _without_nodes(scheduled: ScheduledTokens, verify_input: VerifyInput) -> ScheduledTokens:
    """The chain alone. Attention gives hidden entries weight 0, but 0 times NaN is NaN: a drafted token whose keys or
    values are not finite spoils every row of its segment."""
    root = replace(
        verify_input,
        tokens=verify_input.tokens[:1],
        parents=verify_input.parents[:1],
        draws={},
        deferred=frozenset(),
    )
    return replace(scheduled, verify_input=root, slots=scheduled.slots[: len(scheduled.chain)])
