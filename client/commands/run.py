"""`outrider run`: one prompt, one answer."""

import json
import time
from pathlib import Path

import typer
from rich.console import Console

from client.answering import AnswerOptions
from client.assembly import DraftChoice, client_for
from client.errors import BrokenOffError
from client.link import Access
from client.progress import download_bar
from client.render import AnswerView, NoPaper, lossy_line, paper_for, stats_line
from client.stops import before_stop
from client.text import chat_tokens, decode, raw_tokens


async def run(
    access: Access,
    choice: DraftChoice,
    cache: Path | None,
    prompt: str,
    options: AnswerOptions,
    *,
    raw: bool,
    as_json: bool,
) -> None:
    """Shows the answer as it is committed, or prints one JSON object when it is over.

    Raises BrokenOffError after showing what was committed.
    """
    async with client_for(access, choice, cache, download_bar) as client:
        client.require_rule(options.rule)
        tokenizer = client.tokenizer
        tokens = raw_tokens(tokenizer, prompt) if raw else chat_tokens(tokenizer, [{"role": "user", "content": prompt}])
        drafter = client.load_drafter() if options.policy.drafts else None
        paper = NoPaper() if as_json else paper_for(Console(), time.monotonic)
        view = AnswerView(tokenizer, paper, options.stop)
        async with client.converse(options.policy, drafter, options.pace) as conversation:
            try:
                answer = await conversation.answer(tokens, options.settings(), view)
            finally:
                view.end()
    if as_json:
        result = {
            "text": before_stop(decode(tokenizer, answer.tokens), options.stop),
            "token_ids": list(answer.tokens),
            "finish_reason": answer.finish_reason,
            "seed": options.seed,
            "lossy": options.lossy,
            "stats": answer.stats.as_dict(),
        }
        typer.echo(json.dumps(result))
    else:
        typer.echo(stats_line(answer.stats, options.seed), err=True)
        if options.lossy:
            typer.echo(lossy_line(options.rule), err=True)
    if answer.note:
        typer.echo(answer.note, err=True)
    if answer.failure:
        raise BrokenOffError(answer.failure)
