"""One prompt and its one answer: what `outrider run` does, wherever the drafter was loaded.

Knows conversations, private prompts and how answers look. It may not know consoles or sockets.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from client.answer import OFFLINE, Answer
from client.answering import AnswerOptions
from client.assembly import Client
from client.conversation import Conversation
from client.link.link_log import LinkLog
from client.link.link_state import LinkState
from client.link.offline import WaitListener, ignore_wait
from client.link.reconnecting_stream import LinkListener, ignore_link_changes
from client.private.spans import SplitPrompt
from client.stops import before_stop
from client.terminal.outcome import Outcome
from client.terminal.render import (
    AnswerView,
    Renderer,
    kept_line,
    lossy_line,
    private_line,
    provisional_line,
    stats_line,
)
from client.text import (
    IncrementalText,
    Question,
    before_answer,
    chat_prompt,
    check_characters,
    most_characters,
    raw_prompt,
    system_messages,
)


def prompt_of(client: Client, question: Question) -> SplitPrompt:
    """Raises MisuseError for what cannot be a prompt."""
    tokenizer, context, text = client.tokenizer, client.description.context, question.prompt
    characters = len(text) + len(question.system)
    if characters > context:  # what is shorter fits, and a large vocabulary takes long to look through
        check_characters(characters, most_characters(tokenizer, context), context)
    if question.raw:
        return raw_prompt(tokenizer, text)
    return chat_prompt(tokenizer, [*system_messages(question.system), {"role": "user", "content": text}])


async def answer(
    client: Client,
    converse: AbstractAsyncContextManager[Conversation],
    prompt: SplitPrompt,
    options: AnswerOptions,
    renderer: Renderer,
    on_link_change: LinkListener = ignore_link_changes,
    on_wait: WaitListener = ignore_wait,
) -> Outcome:
    """Shows the answer on `renderer` as it is committed; `on_link_change` is called when the link changes, and
    `on_wait` when the server is waited for before any of the text is there.

    Raises OutriderError if no answer comes.
    """
    before = before_answer(client.tokenizer, prompt)
    view = AnswerView(client.tokenizer, renderer, client.description.end_tokens, options.stop, before=before)
    log = LinkLog(time.monotonic)

    def link_changed(state: LinkState) -> None:
        log(state)
        on_link_change(state)
        view.link_changed(state)

    async with converse as conversation:

        def waits(seconds: float) -> None:
            if not conversation.session.answer:
                on_wait(seconds)

        if prompt.private is None:
            conversation.on_wait = waits
        router, unconfirmed = client.privacy_router(conversation), tuple[int, ...]()
        try:
            given = await router.answer(prompt, options.settings(), view, link_changed)
            unconfirmed = given.provisional
        finally:
            view.end(unconfirmed)
    return _outcome(client, before, given, options, log)


def _outcome(client: Client, before: Sequence[int], given: Answer, options: AnswerOptions, log: LinkLog) -> Outcome:
    decoded = IncrementalText(client.tokenizer, client.description.end_tokens, before=before)
    # Stop strings and characters may lie across the seam, and decoders look at what stands before a token.
    committed = text = decoded.commit(given.tokens)
    provisional: list[int] = []
    for token in given.provisional:
        if before_stop(text, options.stop) != text:
            break
        provisional.append(token)
        text += decoded.commit([token])
    text = before_stop(text + decoded.flush(), options.stop)
    seam = len(committed) if provisional else len(text)
    result = {
        "text": text[:seam],
        "token_ids": list(given.tokens),
        "provisional_text": text[seam:],
        "provisional_token_ids": provisional,
        "finish_reason": given.finish_reason,
        "private": given.private,
        "link": log.as_list(),
        "seed": options.seed,
        "lossy": given.is_lossy(by_rule=options.lossy),
        "stats": given.stats.as_dict(),
    }
    stats: list[str] = []
    if not given.private and given.tokens:
        stats.append(stats_line(given.stats, options.seed))
        if options.lossy:
            stats.append(lossy_line(options.rule))
    notes: list[str] = []
    if given.private:
        notes.append(private_line(len(provisional), given.stats))
    elif provisional or given.finish_reason == OFFLINE:
        notes.append(provisional_line(len(provisional)))
    if given.stats.unverified_tokens:
        notes.append(kept_line(given.stats.unverified_tokens))
    if given.note:
        notes.append(given.note)
    return Outcome(result, tuple(stats), tuple(notes), given.failure)
