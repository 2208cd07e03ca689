"""The report of `sizes`. Pure; it may not know how anything was measured."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from netem.experiments.experiment import Report
from netem.experiments.sizes.rows import CONTEXT, STORED, Row, in_words, ratios

COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "target": lambda row: row.target,
    "draft": lambda row: row.draft,
    "weights": lambda row: row.weights,
    "dtype": lambda row: row.dtype,
    "client, MB": lambda row: _marked(row.client_rss_mb, row.measured),
    "client computed, MB": lambda row: f"{row.client_mb_computed:,.0f}",
    "client peak, MB": lambda row: _or_nothing(row.client_peak_mb, ",.0f"),
    "bundle, MB": lambda row: _marked(row.bundle_mb, row.measured),
    "bundle on the link, s": lambda row: f"{row.bundle_link_s:,.0f}",
    "level, ms": lambda row: _or_nothing(row.level_ms, ".1f"),
    "client ready, s": lambda row: _or_nothing(row.ready_s, ".1f"),
    "server, MB": lambda row: _marked(row.server_rss_mb, row.server_measured),
    "server computed, MB": lambda row: f"{row.server_mb_computed:,.0f}",
    "server peak, MB": lambda row: _or_nothing(row.server_peak_mb, ",.0f"),
    "pass, ms": lambda row: _or_nothing(row.pass_ms, ".0f"),
    "answer": lambda row: row.answer,
}
"""Of a table of rows, by their headings; what was computed in place of a measurement stands in brackets."""


def make_report(rows: Sequence[Row], link: str, backend: str, gpu: str = "") -> Report:
    """gpu: the name of the server's; empty for a server on the CPU."""
    compared = ratios(rows)
    different = [row for row in rows if row.answer == "different"]
    return Report(
        title="Memory and time of both ends for targets in their true shapes",
        headings=tuple(COLUMNS),
        rows=[row_cells(row) for row in rows],
        remarks=(
            f"Random weights, stored in {STORED}, in the published shapes; draft models in the sizes that "
            "`outrider-train` chooses by default. Server and client are processes of their own, with one thread each; "
            f"greedy answers through a chat template cross {link}, emulated by {backend}.",
            "Memory is resident memory after an answer, beyond that of the same process with a target of hardly any "
            f"weights, with K/V for {CONTEXT:,} tokens at both ends. Where a target did not fit, the server's columns "
            "are computed and the client drafted without a server. Computed numbers stand in brackets.",
            "A level adds 6 nodes below 64 tokens without draft state, times 1.25 where the draft needs state (see "
            "client/drafting/depth.py). A pass is over one token. Levels, passes and starts are processor time of one "
            "core, which other programs slow down but do not add to.",
            *([f"The server is on {gpu}: its memory is the GPU's, a pass the time between tokens."] if gpu else []),
            f"Measured over computed memory: clients {in_words(compared['client'])}; servers "
            f"{in_words(compared['server'])}; bundles {in_words(compared['bundle'])}.",
            "An answer is compared with transformers' generate in the same dtype. A near-tie is a first difference "
            "where the two likeliest tokens are as near to each other as rounding in that dtype explains.",
        ),
        results={
            "context": CONTEXT,
            "link": link,
            "backend": backend,
            "gpu": gpu,
            "rows": [row.as_dict() for row in rows],
        },
        faults=[
            f"the answer of {row.target} in {row.dtype} with {row.draft} ({row.weights}) differs from generate's"
            for row in different
        ],
    )


def row_cells(row: Row, headings: Iterable[str] = COLUMNS) -> list[str]:
    return [COLUMNS[heading](row) for heading in headings]


def _marked(megabytes: float, measured: bool) -> str:
    return f"{megabytes:,.0f}" if measured else f"({megabytes:,.0f})"


def _or_nothing(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
