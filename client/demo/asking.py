"""One prompt, one whole answer: the way in which everything that compares answers asks. Knows no processes."""

from collections.abc import Sequence

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.assembly import Client
from client.errors import BrokenOffError, DemoError
from client.text import chat_tokens
from common.drafters.drafter import Drafter


def ignore_tokens(committed: Sequence[int], provisional: Sequence[int]) -> None:
    """Nobody looks at the answer as it comes."""


async def ask(
    client: Client, prompt: str, options: AnswerOptions, drafter: Drafter | None, watch: TokenListener = ignore_tokens
) -> Answer:
    """The answer to a person's prompt, on a session of its own.

    Raises BrokenOffError where it is not whole, DemoError where the drafter failed: either would be compared as if
    it were the system's work.
    """
    return await ask_tokens(client, prompt_tokens(client, prompt), options, drafter, watch)


async def ask_tokens(
    client: Client,
    tokens: Sequence[int],
    options: AnswerOptions,
    drafter: Drafter | None,
    watch: TokenListener = ignore_tokens,
) -> Answer:
    """The same for a prompt that is tokens already."""
    async with client.converse(options.policy, drafter, options.pace) as conversation:
        answer = await conversation.answer(tokens, options.settings(), watch)
    if answer.failure:
        raise BrokenOffError(answer.failure)
    if answer.note:
        raise DemoError(answer.note)
    return answer


def prompt_tokens(client: Client, prompt: str) -> list[int]:
    return chat_tokens(client.tokenizer, [{"role": "user", "content": prompt}])
