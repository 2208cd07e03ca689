"""One prompt, one whole answer, as all comparisons of systems ask for it. Knows no processes."""

from collections.abc import Sequence

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.assembly import Client
from client.errors import BrokenOffError, DemoError
from client.text import chat_tokens
from common.drafters.drafter import Drafter


def ignore_tokens(committed: Sequence[int], provisional: Sequence[int]) -> None:
    """A listener for callers that want the whole answer alone."""


async def ask(
    client: Client,
    prompt: str,
    options: AnswerOptions,
    drafter: Drafter | None,
    on_tokens: TokenListener = ignore_tokens,
) -> Answer:
    """The answer to a person's prompt, on a session of its own.

    Raises BrokenOffError if it is not whole, DemoError if the drafter failed: either would be compared as if
    it were the system's work.
    """
    return await ask_tokens(client, prompt_tokens(client, prompt), options, drafter, on_tokens)


async def ask_tokens(
    client: Client,
    tokens: Sequence[int],
    options: AnswerOptions,
    drafter: Drafter | None,
    on_tokens: TokenListener = ignore_tokens,
) -> Answer:
    """The same for a prompt that is tokens already."""
    async with client.converse(options.policy, drafter, options.pace) as conversation:
        answer = await conversation.answer(tokens, options.settings(), on_tokens)
    if answer.failure:
        raise BrokenOffError(answer.failure)
    if answer.note:
        raise DemoError(answer.note)
    return answer


def prompt_tokens(client: Client, prompt: str) -> list[int]:
    return chat_tokens(client.tokenizer, [{"role": "user", "content": prompt}])
