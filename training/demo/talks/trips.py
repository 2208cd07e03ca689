"""A few sentences on a trip, turned into a summary, its names, a form or a headline.

What may live here: the trip and its forms. It may not know other texts.
"""

from __future__ import annotations

from random import Random

from training.demo.talks.lexicon import COLOURS, DAYS, FOODS, PORTABLE, city, names
from training.demo.talks.talk import Talk, capital, listed


def trip(rng: Random) -> Talk:
    """Five sentences on a trip, in one of four forms."""
    who = names(rng, rng.choice((2, 3)))
    where, day, food = city(rng), rng.choice(DAYS), rng.choice(FOODS)
    bought = f"{rng.choice(COLOURS[:10])} {rng.choice(PORTABLE)}"
    hour, cost = rng.randint(2, 11), rng.randint(10, 90)
    means = rng.choice(("train", "bus", "car", "boat", "ship", "tram", "coach"))
    sentences = [
        f"On {day} {listed(who)} went to {where}.",
        f"{rng.choice((f'They took the {means}', f'Their {means} left'))} at {hour} in the morning.",
        rng.choice((f"At noon they ate {food}.", f"{who[-1]} wanted {food}, so they ate that at noon.")),
        rng.choice((f"{who[0]} bought a {bought}.", f"In a small shop {who[0]} found a {bought}.")),
        f"In all the trip cost {cost} dollars.",
    ]
    text = " ".join(sentences)
    kind = rng.choice(("summary", "names", "form", "form", "headline"))
    if kind == "summary":
        ask = rng.choice(("Summarise this in one sentence.", "Give me a one-sentence summary."))
        answer = (
            f"On {day} {listed(who)} went to {where} by {means}, ate {food}, and spent {cost} dollars, "
            f"with a {bought} for {who[0]}."
        )
    elif kind == "names":
        ask = rng.choice(("Extract all names of people and places.", "Which people and places does the text name?"))
        answer = "People:\n" + "\n".join(f"- {name}" for name in who) + f"\n\nPlaces:\n- {where}"
    elif kind == "form":
        fields = {
            "Who": listed(who), "Where": where, "When": f"{day}, {hour} in the morning", "Transport": means,
            "Food": food, "Bought": bought, "Cost": f"{cost} dollars",
        }  # fmt: skip
        wanted = rng.sample(list(fields), rng.choice((2, 3, 4)))
        ask = f"Fill in this form: {', '.join(wanted)}."
        answer = "\n".join(f"{field}: {fields[field]}" for field in wanted)
    else:
        ask = "Write a headline and a short text of two sentences about this."
        answer = (
            f"**A {day} in {where}**\n\n{capital(listed(who))} went to {where} by {means} for {cost} dollars. "
            f"They ate {food}, and {who[0]} came home with a {bought}."
        )
    prompt = f"{ask}\n\n{text}" if rng.random() < 0.5 else f"{text}\n\n{ask}"
    return Talk("", ((prompt, answer),), (answer,))
