"""The table of `beside-others`: speeds by link, and what broken links leave. Knows what was heard; starts nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from statistics import median
from typing import Any

from client.answer import OFFLINE
from client.stats import per
from common.protocol.messages import FinishReason
from common.stated_costs import STATED
from netem.experiments.experiment import Report
from netem.experiments.others.heard import Heard, without_end
from netem.experiments.others.outages import FOR_GOOD, BrokenAnswer
from netem.experiments.others.systems import LLAMA_DRAFTED, OTHERS
from netem.experiments.references import Reference, verdict
from netem.experiments.speed.costs import OVERHEADS, VIRTUAL_COSTS
from netem.links.profiles import find_profile

HEADINGS = (
    "link",
    "system",
    "tokens/s",
    f"against {LLAMA_DRAFTED}",
    "first token",
    "passes/token",
    "drafted levels/token",
    "the target's own answers",
    "tokens/s at stated costs",
)

_MS = 1000.0
_SAME = "identical"

ByLink = Mapping[str, Mapping[str, Sequence[Heard]]]
"""Answers by link, then by system, in the order of the prompts."""


@dataclass(frozen=True)
class Measured:
    """own: at each system's own speed. stated: Outrider's at the stated costs. broken: by system. sweep: llama.cpp's
    tokens per second by how many it drafts for a pass. references: of the prompts, in their order."""

    own: ByLink
    stated: ByLink
    broken: Mapping[str, Sequence[BrokenAnswer]]
    sweep: Mapping[int, float]
    references: Sequence[Reference]
    end_tokens: frozenset[int]

    def verdict(self, reference: Reference, heard: Heard) -> str:
        """Whether an answer is transformers' own, end tokens aside."""
        expected = replace(reference, answer=without_end(reference.answer, self.end_tokens))
        return verdict(expected, without_end(heard.tokens, self.end_tokens))

    def is_wrong(self, reference: Reference, heard: Heard) -> bool:
        """Whether an answer is not transformers' own, or, where it was broken off, does not begin as that does."""
        is_whole = heard.end in (FinishReason.END, FinishReason.LENGTH)
        received = without_end(heard.tokens, self.end_tokens)
        expected = without_end(reference.answer, self.end_tokens)
        if not is_whole:
            expected = expected[: len(received)]
        return verdict(replace(reference, answer=expected), received) == "different"

    def tokens(self, heard: Heard) -> int:
        """Of an answer's text."""
        return len(without_end(heard.tokens, self.end_tokens))


def computed_seconds(heard: Heard, link: str) -> float:
    """What an answer takes at the stated costs that is decoded at the server, from that server's own counts: passes and
    drafted levels one after the other, and one round trip."""
    profile = find_profile(link)
    rows_ms = (heard.passes + heard.drafted) * STATED.token_ms
    passes_ms = max(heard.passes * STATED.pass_ms, rows_ms)
    return (profile.up.delay_ms + profile.down.delay_ms + passes_ms + heard.drafted * STATED.server_level_ms) / _MS


def make_report(
    measured: Measured, new_tokens: int, cut_after: int, read_timeout_s: float, llama_version: str
) -> Report:
    links = {link: {name: _result(measured, link, name) for name in answers} for link, answers in measured.own.items()}
    outages = [_outage(measured, name, each) for name, answers in measured.broken.items() for each in answers]
    swept = ", ".join(f"{most}: {speed:.0f}" for most, speed in measured.sweep.items())
    return Report(
        title="Beside llama.cpp's server and transformers' assisted generation",
        headings=HEADINGS,
        rows=[_row(link, name, result) for link, of in links.items() for name, result in of.items()],
        remarks=(
            f"{len(measured.references)} held-out prompts of all kinds, at most {new_tokens} tokens each, greedy, in "
            "float32, streamed; systems took turns prompt by prompt, each on its own tun link; Outrider's share one "
            "server, the others have one each. No server keeps K/V of one prompt for the next. tokens/s are medians "
            "over answers, from request to end; 'against' is the median of ratios prompt by prompt. Connections are "
            "open before each request; HTTP's are closed after 5 s without one, and who asks later waits a round trip "
            "more. Of Outrider's drafted levels the client's count, not those that its server drafts for `auto`.",
            f"llama.cpp: {llama_version}. Its draft model and transformers' is `independent`, at the server; llama.cpp "
            f"drafts as many tokens for a pass as are fastest here without a link (tokens/s by their number: {swept}).",
            "At their own speed nothing is waited for but this machine. The target has 5 million parameters, and a "
            "pass of it takes llama.cpp's kernels much less than ours, whose cost is Python's; with a target whose "
            "passes take long, passes per token decide. Both ends of every system share two cores.",
            f"At stated costs {STATED.in_words}; a level drafted at the server {STATED.server_level_ms:.2f} ms. Of "
            "systems that decode at the server this is computed from their own counts of passes and drafted tokens, "
            "plus one round trip without jitter or loss; Outrider's are on the virtual clock, where "
            f"{OVERHEADS}. There tokens/s are those of all answers over the seconds of all.",
            f"Outages on 4g, all packets lost from {cut_after} tokens on; clients wait {read_timeout_s:.0f} s for the "
            "next token, as Outrider's do by default (OpenAI's client would wait for 600 s).",
            *(_outage_in_words(name, lasted, outages) for name in measured.broken for lasted in _lengths(outages)),
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "links": {link: {"systems": of} for link, of in links.items()},
            "outages": outages,
            "llama_draft_tokens_per_second": {str(most): speed for most, speed in measured.sweep.items()},
            "llama_version": llama_version,
        },
        faults=_faults(links, measured),
    )


def _result(measured: Measured, link: str, name: str) -> dict[str, Any]:
    answers, rivals = measured.own[link][name], measured.own[link][LLAMA_DRAFTED]
    speeds, rival_speeds = ([per(measured.tokens(each), each.seconds) for each in of] for of in (answers, rivals))
    stated = measured.stated[link].get(name)
    if stated is None:
        at_stated = [(each, computed_seconds(each, link)) for each in answers]
    else:
        at_stated = [(each, each.seconds) for each in stated]
    tokens = sum(map(measured.tokens, answers))
    pairs = zip(measured.references, answers, strict=True)
    return {
        "tokens_per_second": median(speeds),
        "against_llama_draft": median(per(own, rival) for own, rival in zip(speeds, rival_speeds, strict=True)),
        "ttft_seconds": median(each.first_s for each in answers),
        "passes_per_token": per(sum(each.passes for each in answers), tokens),
        "drafted_levels_per_token": per(sum(each.drafted for each in answers), tokens),
        "verdicts": dict(Counter(measured.verdict(reference, each) for reference, each in pairs)),
        "stated_tokens_per_second": per(
            sum(measured.tokens(each) for each, _ in at_stated), sum(seconds for _, seconds in at_stated)
        ),
        "stated_is_computed": stated is None,
        "errors": _broken_off(answers),
    }


def _row(link: str, name: str, result: Mapping[str, Any]) -> list[str]:
    verdicts = result["verdicts"]
    return [
        link,
        name,
        f"{result['tokens_per_second']:.1f}",
        f"{result['against_llama_draft']:.2f}x",
        f"{_MS * result['ttft_seconds']:.0f} ms",
        f"{result['passes_per_token']:.2f}",
        f"{result['drafted_levels_per_token']:.2f}",
        f"{verdicts.get(_SAME, 0)} of {sum(verdicts.values())}",
        f"{result['stated_tokens_per_second']:.1f}{' computed' if result['stated_is_computed'] else ''}",
    ]


def _outage(measured: Measured, name: str, broken: BrokenAnswer) -> dict[str, Any]:
    """`seconds` of an outage is None for one that lasts for good; times since the cut are None where the answer had
    ended before it."""
    heard, had_ended = broken.heard, isnan(broken.cut_s)
    return {
        "system": name,
        "seconds": None if broken.lasted_s == FOR_GOOD else broken.lasted_s,
        "tokens_before": broken.had,
        "tokens": measured.tokens(heard),
        "tokens_of_the_whole": len(without_end(broken.reference.answer, measured.end_tokens)),
        "provisional": heard.shown,
        "silent_seconds": None if had_ended else broken.silent_s,
        "ended_after_seconds": None if had_ended else broken.ended_s,
        "end": heard.end,
        "error": heard.error,
        "verdict": measured.verdict(broken.reference, heard),
    }


def _lengths(outages: Sequence[Mapping[str, Any]]) -> list[float | None]:
    return list(dict.fromkeys(each["seconds"] for each in outages))


def _outage_in_words(name: str, lasted: float | None, outages: Sequence[Mapping[str, Any]]) -> str:
    """One sentence for the answers of a system whose link was gone for so long."""
    here = [each for each in outages if each["system"] == name and each["seconds"] == lasted]
    # What was on its way when the link was cut still arrives.
    same = [each for each in here if each["verdict"] == _SAME]
    before = [each for each in same if (each["ended_after_seconds"] or 0.0) < (lasted or FOR_GOOD)]
    whole = [each for each in same if each not in before]
    words = [f"{len(whole)} of {len(here)} answers went on and are the target's own"]
    if before:
        words.append(f"{len(before)} had left the server whole before the cut")
    if whole:
        words.append(f"silent for {median(each['silent_seconds'] for each in whole):.1f} s")
    for each in (each for each in here if each["verdict"] != _SAME):
        had = f"{each['tokens']} of {each['tokens_of_the_whole']} tokens"
        shown = f" and {each['provisional']} provisional ones" if each["provisional"] else ""
        says = each["error"] or each["end"]
        after = each["ended_after_seconds"]
        when = "before the cut" if after is None else f"after {after:.1f} s"
        words.append(f"one ended {when} with {had}{shown} ('{says}')")
    return f"{name}, {'gone for good' if lasted is None else f'{lasted:g} s'}: {'; '.join(words)}."


def _outage_length(seconds: float) -> str:
    return "for good" if seconds == FOR_GOOD else f"for {seconds:g} s"


def _broken_off(answers: Sequence[Heard]) -> list[str]:
    """Why answers over whole links are not; those that ended without their server have no error."""
    return [each.error or each.end for each in answers if each.error or each.end == OFFLINE]


def _faults(links: Mapping[str, Mapping[str, Any]], measured: Measured) -> list[str]:
    """Why the run does not count: answers that broke off over whole links, or are ours and not the target's."""
    results = [(link, name, of) for link, each in links.items() for name, of in each.items()]
    faults = [f"{name} on {link}: {error}" for link, name, of in results for error in of["errors"]]
    faults += [
        f"{name} on {link} gave other answers than the target's"
        for link, of in measured.own.items()
        for name, answers in of.items()
        if name not in OTHERS and any(map(measured.is_wrong, measured.references, answers))
    ]
    for link, of in measured.stated.items():
        for name, answers in of.items():
            faults += [f"at stated costs: {error}" for error in _broken_off(answers)]
            if any(map(measured.is_wrong, measured.references, answers)):
                faults.append(f"{name} on {link} at stated costs gave other answers than the target's")
    faults += [
        f"{name}, cut {_outage_length(each.lasted_s)}, gave other tokens than the target's"
        for name, answers in measured.broken.items()
        if name not in OTHERS
        for each in answers
        if measured.is_wrong(each.reference, each.heard)
    ]
    return faults
