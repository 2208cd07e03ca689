"""`outrider run`: one prompt, one answer."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import typer

from client.answer import OFFLINE
from client.answering import AnswerOptions
from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.errors import BrokenOffError
from client.link.link_log import LinkLog
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.stream import Access
from client.stops import before_stop
from client.terminal.progress import download_bar
from client.terminal.render import (
    AnswerView,
    SilentRenderer,
    kept_line,
    lossy_line,
    private_line,
    provisional_line,
    renderer_for,
    stats_line,
    unreached_line,
)
from client.text import answer_text, chat_prompt, check_characters, most_characters, raw_prompt
from common.programs.console import PlainConsole


async def run(
    access: Access,
    choice: DraftChoice,
    cache: Path | None,
    prompt: str,
    options: AnswerOptions,
    offline: OfflineOptions,
    loaded: Callable[[], None],
    *,
    raw: bool,
    as_json: bool,
) -> None:
    """Shows the answer as it is committed, or prints one JSON object when it is over; `loaded` is called before
    anything is shown.

    Raises BrokenOffError after showing what was committed.
    """
    notes = PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
    async with client_for(access, choice, cache, download_bar) as client:
        client.require_rule(options.rule)
        client.require_idle(options.idle)
        tokenizer, context = client.tokenizer, client.description.context
        if len(prompt) > context:  # what is shorter fits, and a large vocabulary takes long to look through
            check_characters(len(prompt), most_characters(tokenizer, context), context)
        asked = raw_prompt(tokenizer, prompt) if raw else chat_prompt(tokenizer, [{"role": "user", "content": prompt}])
        drafter = client.load_drafter() if options.policy.drafts else None
        loaded()
        if not client.was_reached:
            unreached = unreached_line(str(access.address), client.manifest.draft, client.hitch)
            notes.print(unreached, style="dim", markup=False)
        renderer = SilentRenderer() if as_json else renderer_for(PlainConsole(), time.monotonic)
        view = AnswerView(tokenizer, renderer, options.stop)
        log = LinkLog(time.monotonic)

        def heard(state: LinkState) -> None:
            log(state)
            view.link_changed(state)

        async with client.converse(options.policy, drafter, options.pace, offline) as conversation:
            router, unconfirmed = client.privacy_router(conversation), tuple[int, ...]()
            try:
                answer = await router.answer(asked, options.settings(), view, heard)
                unconfirmed = answer.provisional
            finally:
                view.end(unconfirmed)
    if as_json:
        result = {
            "text": before_stop(answer_text(tokenizer, answer.tokens), options.stop),
            "token_ids": list(answer.tokens),
            "provisional_text": answer_text(tokenizer, answer.provisional),
            "provisional_token_ids": list(answer.provisional),
            "finish_reason": answer.finish_reason,
            "private": answer.private,
            "link": log.as_list(),
            "seed": options.seed,
            "lossy": options.lossy or answer.accepted_unverified > 0,
            "stats": answer.stats.as_dict(),
        }
        typer.echo(json.dumps(result))
    elif not answer.private and answer.tokens:
        notes.print(stats_line(answer.stats, options.seed), markup=False)
        if options.lossy:
            notes.print(lossy_line(options.rule), markup=False)
    if answer.private:
        notes.print(private_line(len(answer.provisional), answer.stats), markup=False)
    elif answer.provisional or answer.finish_reason == OFFLINE:
        notes.print(provisional_line(len(answer.provisional)), markup=False)
    if answer.accepted_unverified:
        notes.print(kept_line(answer.accepted_unverified), markup=False)
    if answer.note:
        notes.print(answer.note, markup=False)
    if answer.failure:
        raise BrokenOffError(answer.failure)
