"""`outrider run`: one prompt, one answer."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from client.answering import AnswerOptions
from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.link.offline import OfflineOptions, ignore_wait
from client.link.stream import Access
from client.local_serve.messages import Declined
from client.local_serve.request import loaded_here_line
from client.one_answer import answer, prompt_of
from client.terminal.outcome import show_outcome
from client.terminal.progress import download_bar
from client.terminal.render import LiveRenderer, SilentRenderer, renderer_for, unreached_line, waiting_line
from client.text import Question
from common.address import written
from common.programs.console import PlainConsole


async def run(
    access: Access,
    choice: DraftChoice,
    cache: Path | None,
    question: Question,
    options: AnswerOptions,
    offline: OfflineOptions,
    loaded: Callable[[], None],
    declined: Declined | None,
    *,
    as_json: bool,
) -> None:
    """Shows the answer as it is committed, or prints one JSON object when it is over; `loaded` is called before
    anything is shown. `declined` is why no running `outrider serve` answers, None where none was asked.

    Raises BrokenOffError after showing what was committed.
    """
    notes = PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
    async with client_for(access, choice, cache, download_bar, drafts=options.policy.drafts) as client:
        client.require_rule(options.rule)
        client.require_idle(options.idle)
        asked = prompt_of(client, question)
        drafter = client.load_drafter() if options.policy.drafts else None
        loaded()
        if declined is not None and declined.reason and drafter is not None:
            notes.print(loaded_here_line(declined), markup=False)
        if not client.was_reached:
            draft = None if drafter is None else client.draft
            unreached = unreached_line(written(access.addresses), draft, client.hung_up_by)
            notes.print(unreached, style="dim", markup=False)
        renderer = SilentRenderer() if as_json else renderer_for(PlainConsole(), time.monotonic)
        converse = client.converse(options.policy, drafter, options.pace, offline)

        def tell_wait(seconds: float) -> None:
            notes.print(waiting_line(seconds), style="dim", markup=False)

        # A live answer bears the mark of a lost link all the time.
        on_wait = ignore_wait if isinstance(renderer, LiveRenderer) else tell_wait
        outcome = await answer(client, converse, asked, options, renderer, on_wait=on_wait)
        show_outcome(outcome, notes, as_json=as_json)
