"""Questions to the scripted page, and what it answers."""

from client.endpoint.faults import wrong
from client.link.link_state import LinkState
from tests.client.endpoint.scripted_page import Update, Wait

MARKDOWN = """\
# Shadows

A *shadow* is where **light** does not reach, see [its page](https://en.wikipedia.org/wiki/Shadow).

## In Python

```python
def longest(words: list[str]) -> str:
    # The first of the longest ones.
    return max(words, key=len, default="")
```

1. Call `longest(["a", "bcd"])`.
2. It says:
   - `bcd`, if there is one
   - nothing for `<b>no words</b>`

| word | letters |
| --- | --- |
| a | 1 |
| bcd | 3 |

> Nothing is *decided* before it is confirmed.
"""

FIRST_CODE = MARKDOWN.index("    return")

SCRIPTS = {
    "Show me Markdown.": [
        Update(MARKDOWN[:FIRST_CODE], MARKDOWN[FIRST_CODE : FIRST_CODE + 90]),
        Wait(),
        Update(MARKDOWN[FIRST_CODE:]),
    ],
    "Tell me a story.": [
        Update("Once upon a time there was", " a fox who ran away from home", others=(" an owl", " a hare that sat")),
        Update(" a fox", " who ran away from home", carried=2, others=(" that was old", ", and a lantern")),
        LinkState.OFFLINE,
        Update("", " who ran away from home and never came back"),
        Wait(),
        LinkState.ONLINE,
        Update(" who lived", " in a wood, all alone", carried=1, others=(" there",)),
        Wait(),
        Update(" in a wood.", carried=2),
    ],
    "Hi! What is a shadow? Answer in one sentence.": [Update("Where light", " does not"), Update(" does not reach.")],
    "Think first.": [
        Update("\n"),
        Update("<think>\n# Plan\n\nFirst *this*.\n\nThen", " that.\n</think>\n\nSo it is"),
        Wait(),
        Update(" that.\n</think>\n\n## Answer\n\nSo it", " is not."),
        Wait(),
        Update(" is."),
    ],
    "Hello?": [Update("Hello.")],
    "And you?": [Update("", "Me"), Update("I as well.")],
    "Fail.": [Update("This much", " came"), wrong("messages", "the server has no room left; ask again later")],
}
