"""The category `stories`: short tales of a hero, a wish, an obstacle, a helper and an end, as the prompt asks.

What may live here: the story grammar. It may not know other categories or how answers are judged.

What the prompt leaves open is decided by what it says (`by`), so that one prompt has one story.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from training.demo.talks.lexicon import COLOURS, Person, person
from training.demo.talks.talk import Talk, a, by, capital

KINDS = (
    "mouse", "fox", "owl", "bear", "rabbit", "dragon", "girl", "boy", "robot", "frog", "cat", "hedgehog", "knight",
    "duck", "giant", "sailor", "baker", "snail",
)  # fmt: skip
TRAITS = ("brave", "shy", "clever", "lazy", "kind", "curious", "small", "proud", "hungry", "cheerful", "careful", "old")
TRAIT_LINES = {
    "brave": "{They} was not afraid of the dark.",
    "shy": "{They} seldom spoke to anybody.",
    "clever": "{They} knew the answer to every riddle.",
    "lazy": "{They} liked to sleep until noon.",
    "kind": "{They} shared every meal with the birds.",
    "curious": "{They} asked questions all day long.",
    "small": "{They} could hide under a single leaf.",
    "proud": "{They} never asked anybody for help.",
    "hungry": "{They} thought of food from morning to night.",
    "cheerful": "{They} sang while {they} worked.",
    "careful": "{They} looked twice before every step.",
    "old": "{They} had seen more winters than anybody else.",
}
HOMES = {
    "forest": "under the roots of an oak",
    "village": "in a house with a green roof",
    "castle": "at the top of a cold tower",
    "island": "in a hut of driftwood",
    "mountain": "in a cave above the clouds",
    "farm": "behind the old barn",
    "harbour": "in a boat that never sailed",
    "city": "on the roof of a tall house",
    "valley": "beside a slow river",
    "desert": "in the shade of one palm tree",
}


@dataclass(frozen=True)
class Wish:
    """What a hero wants: the words after "wanted", the reason, and what it is like once the hero has it."""

    want: str
    why: str
    have: str


WISHES = tuple(
    Wish(*row)
    for row in (
        ("to find a golden key", "because it opened a door that nobody had ever opened", "the golden key"),
        ("to see the sea", "because {they} had only heard of it in songs", "the sight of the sea"),
        ("to learn to fly", "because the stars looked so near", "the gift of flying"),
        ("to bake the biggest cake", "because it was a birthday soon", "the biggest cake"),
        ("to find a friend", "because the evenings were long and quiet", "a true friend"),
        ("to catch the moon", "because it shone so softly", "a piece of moonlight"),
        ("to win the great race", "because everybody said {they} was too slow", "the silver cup"),
        ("to bring home a lost lamb", "because its mother cried all night", "the lost lamb"),
        ("to plant a garden", "because nothing had grown there for years", "a garden full of flowers"),
        ("to play the violin", "because music made the snow melt", "the song of the violin"),
        ("to find the blue flower", "because it could heal the sick king", "the blue flower"),
        ("to build a bridge", "because the river kept the two towns apart", "a strong bridge"),
        ("to ring the great bell", "because nobody had heard it for a hundred years", "the sound of the bell"),
        ("to read the old book", "because it held the name of every star", "the secret of the book"),
    )
)


@dataclass(frozen=True)
class Obstacle:
    """The obstacle: what it is, what happens, and how it is overcome with help."""

    what: str
    happens: str
    overcome: str


OBSTACLES = tuple(
    Obstacle(*row)
    for row in (
        (
            "a storm",
            "But a storm came up and the path was gone.",
            "They waited under a rock until the storm was tired.",
        ),
        ("a deep river", "But a deep river lay across the way.", "They tied logs together and crossed the river."),
        ("a locked gate", "But the gate was locked, and the wall was high.", "They dug a small tunnel under the gate."),
        (
            "a grumpy troll",
            'But a grumpy troll shouted: "Nobody may pass!"',
            "They told the troll a joke until the troll laughed and stepped aside.",
        ),
        ("a thick fog", "But thick fog hid every tree.", "They followed the sound of the water through the fog."),
        ("a steep hill", "But the hill was steep and full of stones.", "They climbed the hill slowly, hand in hand."),
        ("a dark cave", "But the way led through a dark cave.", "They lit a small lamp and walked through the cave."),
        ("a broken cart", "But the cart broke and a wheel rolled away.", "They found the wheel and mended the cart."),
        ("a hungry wolf", "But a hungry wolf sat on the path.", "They gave the wolf some bread, and it let them go."),
        ("a lost map", "But the wind took the map away.", "They drew a new map in the sand."),
    )
)
WHERE = {"island": "on the island", "mountain": "on the mountain", "farm": "on the farm"}
ITEMS = (
    "rope",
    "lantern",
    "whistle",
    "blanket",
    "basket",
    "umbrella",
    "drum",
    "candle",
    "hat",
    "spoon",
    "coat",
    "mirror",
)
HELPERS = (
    "a wise crow", "an old woman", "a tiny beetle", "a friendly whale", "a wandering tailor", "a white horse",
    "a quiet child", "a lonely ghost", "a singing fish", "a young wizard", "a blind miller", "a red squirrel",
)  # fmt: skip
OFFERS = (
    '"I know the way," said {h}. "Come with me."',
    'There {hero} met {H}. "Do not cry," said {h}. "Two can do more than one."',
    '{h} had heard everything. "I will help you," {h} said, "if you are my friend."',
    'Just then {H} came along and asked: "What is the matter, {hero}?"',
)
ENDS = {
    "happy": (
        "In the end {hero} had {have}, and the whole {place} danced.",
        "At last {hero} held {have} and laughed until the sun went down.",
        "So {hero} got {have}, and {helper} stayed for supper.",
        "{hero} came back to the {place} with {have}, and nobody had ever been so happy there.",
    ),
    "sad": (
        "But it was too late, and {hero} never found {have}. The {place} was quiet that night.",
        "In the end {helper} had to leave, and {hero} went home to the {place} without {have}.",
        "{hero} lost {have} on the way back, and only the memory was left.",
    ),
    "surprising": (
        "Then {hero} saw that {have} had been at home {where} all the time.",
        "And who was {helper}? It was the king of the {place}, and he gave {hero} {have}.",
        "When {hero} woke up, it had all been a dream, but {have} lay on the pillow.",
    ),
}
MORALS = {
    "brave": "Courage grows when it is shared.",
    "shy": "One kind word can open a heart.",
    "clever": "A good plan is better than strong arms.",
    "lazy": "Those who get up find something.",
    "kind": "Kindness always comes back.",
    "curious": "Those who ask find the way.",
    "small": "Nobody is too small to do great things.",
    "proud": "It is no shame to ask for help.",
    "hungry": "Shared bread tastes best.",
    "cheerful": "A song makes every road shorter.",
    "careful": "Slow steps also reach the goal.",
    "old": "It is never too late to begin.",
}
ASKS = (
    "Tell me a story about {name}, {kind} who wants {wish}.",
    "Write a story about {kind} named {name} who lives {where}.",
    "Tell me a {end} story about {name}, {kind}.",
    "Write a short tale in which {name}, {kind}, meets {helper}.",
    "I would like a story about {kind} called {name} and {obstacle}.",
    "Please tell me about {name}, {kind} from the {place} who wants {wish}.",
    "Write a story with a {end} ending. The hero is {name}, {kind}, and {helper} helps.",
    "Story time! {name} is {kind} {where} and must get past {obstacle}.",
    "Tell me about {name}, {kind} who takes {an_item} along and meets {helper}.",
    "A story with {an_item}, please. {name} is {kind} who lives {where}.",
    "Make up a story: hero {name}, {kind}; place {place}; wish {wish}; obstacle {obstacle}.",
)
EXTRAS = ("", "", "", "End with a moral.", "Keep it short.", "Give it a title.")
OPENINGS = (
    "Once upon a time there was {kind} named {name}. {They} lived {home} {where}.",
    "{Where}, {home}, lived {kind} called {name}.",
    "Long ago, {kind} named {name} lived {where}, {home}.",
    "Have you heard of {name}? {They} was {kind} and lived {home} {where}.",
)
STARTS = (
    "One morning {name} packed {an_item} and set out.",
    "So one day {name} took {an_item}, said goodbye and left the {place}.",
    "{name} did not wait any longer and started at dawn, with nothing but {an_item}.",
    "When the snow was gone, {name} put {an_item} into {their} bag and went on the way.",
)
DOUBTS = (
    "{name} sat down and sighed.",
    "{name} tried three times, but it was no use.",
    "{name} thought of the {place} and almost turned back.",
    '"What shall I do now?" asked {name}.',
)
USES = (
    "The {item} was of great use.",
    "Without the {item} they could not have done it.",
    "How glad {name} was to have the {item}!",
    "And who carried the {item}? {Helper} did.",
)
THANKS = (
    '"Thank you," said {name} to {helper} and gave away the {item}.',
    "{name} never forgot {helper}.",
    "From that day on {name} and {helper} were friends.",
    "The {item} still hangs on the wall {where}.",
)


@dataclass(frozen=True)
class Plot:
    """Everything that happens in one story."""

    hero: Person
    kind: str
    trait: str
    place: str
    wish: Wish
    obstacle: Obstacle
    helper: str
    end: str
    item: str


def draw_plot(rng: Random, ask: str) -> Plot:
    """What the prompt will name is random; kind and trait decide the rest."""
    hero, kind, trait = person(rng), rng.choice(KINDS), rng.choice(TRAITS)
    if kind in ("girl", "boy"):
        kind = "girl" if hero.they == "she" else "boy"
    return Plot(
        hero,
        kind,
        trait,
        rng.choice(tuple(HOMES)) if "{place}" in ask or "{where}" in ask else by(tuple(HOMES), kind, "place"),
        rng.choice(WISHES) if "{wish}" in ask else by(WISHES, trait, "wish"),
        rng.choice(OBSTACLES) if "{obstacle}" in ask else by(OBSTACLES, kind, "obstacle"),
        rng.choice(HELPERS) if "{helper}" in ask else by(HELPERS, trait, "helper"),
        rng.choice(tuple(ENDS)) if "{end}" in ask else "happy",
        f"{rng.choice(COLOURS)} {rng.choice(ITEMS)}" if "{an_item}" in ask else item_of(trait, kind),
    )


def where(place: str) -> str:
    return WHERE.get(place, f"in the {place}")


def item_of(trait: str, kind: str) -> str:
    return f"{by(COLOURS, kind, 'colour')} {by(ITEMS, trait, 'item')}"


def tell(plot: Plot, extra: str) -> str:
    hero, name, place = plot.hero, plot.hero.name, plot.place
    the_helper = "the " + plot.helper.split(" ", 1)[1]
    words = {
        "name": name,
        "hero": name,
        "they": hero.they,
        "They": capital(hero.they),
        "their": hero.their,
        "kind": a(f"{plot.trait} {plot.kind}"),
        "place": place,
        "home": HOMES[place],
        "where": where(place),
        "Where": capital(where(place)),
        "item": plot.item,
        "an_item": a(plot.item),
        "helper": the_helper,
        "Helper": capital(the_helper),
        "have": plot.wish.have,
    }
    want = f"{name} wanted {plot.wish.want}, {plot.wish.why}."
    short = extra == "Keep it short."
    offer = by(OFFERS, the_helper)
    if "{H}" not in offer:
        offer = by(("Then {H} came by. ", "Behind a bush sat {H}. "), plot.trait, "met") + offer
    offer = offer.format(h=the_helper, H=plot.helper, hero=name).replace(". the ", ". The ")
    lines = [by(OPENINGS, plot.kind, "opening"), TRAIT_LINES[plot.trait], want]
    lines += [plot.obstacle.happens] if short else [by(STARTS, place, "start"), plot.obstacle.happens]
    lines += [offer, plot.obstacle.overcome] if short else [by(DOUBTS, place, "doubt"), offer, plot.obstacle.overcome]
    if not short:
        lines.append(by(USES, plot.obstacle.what))
    lines.append(by(ENDS[plot.end], plot.wish.want))
    if plot.end == "happy" and not short:
        lines.append(by(THANKS, the_helper, "thanks"))
    text = " ".join(line if line is offer else line.format(**words) for line in lines)
    if extra == "End with a moral.":
        text += f"\n\nThe moral: {MORALS[plot.trait]}"
    if extra == "Give it a title.":
        text = f"**{name} and {the_helper}**\n\n{text}"
    return text


def make(rng: Random) -> Talk:
    """A request for a story, and the story."""
    ask = rng.choice(ASKS)
    plot = draw_plot(rng, ask)
    extra = rng.choice(EXTRAS)
    prompt = ask.format(
        name=plot.hero.name,
        kind=a(f"{plot.trait} {plot.kind}"),
        wish=plot.wish.want,
        place=plot.place,
        end=plot.end,
        helper=plot.helper,
        obstacle=plot.obstacle.what,
        an_item=a(plot.item),
        where=where(plot.place),
    )
    return Talk("tale", ((f"{prompt} {extra}".strip(), tell(plot, extra)),))
