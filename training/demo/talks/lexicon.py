"""Words that several categories share: people, places, things, jobs, days, and words made up on demand.

What may live here: lists of words, the pronouns that belong to names, and seeded draws from them. It may not know
sentences.

Half of all drawn names and cities are put together from syllables, so that only copying them from the text works.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Person:
    """A name and its pronouns."""

    name: str
    they: str
    their: str
    them: str


WOMEN = (
    "Mia", "Lily", "Anna", "Emma", "Sara", "Nora", "Lucy", "Zoe", "Ella", "Ruth", "Maya", "Ivy", "Clara", "Jane",
    "Alice", "Amina", "Amy", "Astrid", "Aya", "Beatrice", "Bella", "Carla", "Carmen", "Celia", "Chloe", "Daisy",
    "Diana", "Dora", "Edith", "Elena", "Elsa", "Esther", "Eva", "Fatima", "Fiona", "Flora", "Freya", "Gina", "Grace",
    "Greta", "Hana", "Hanna", "Hazel", "Heidi", "Helen", "Ida", "Ines", "Ingrid", "Irene", "Iris", "Jasmine", "Judith",
    "Julia", "Karen", "Kate", "Kira", "Laila", "Lara", "Laura", "Lea", "Leila", "Lena", "Linda", "Lisa", "Lola",
    "Lotte", "Luna", "Lydia", "Mara", "Maria", "Marta", "Mary", "Mila", "Nadia", "Naomi", "Nina", "Olga", "Olivia",
    "Paula", "Petra", "Rita", "Rosa", "Selma", "Silvia", "Sofia", "Stella", "Susan", "Tara", "Tessa", "Tina", "Ursula",
    "Vera", "Viola", "Wanda", "Wilma", "Yara", "Yuki", "Yvonne", "Zara", "Zelda",
)  # fmt: skip
MEN = (
    "Tom", "Ben", "Max", "Sam", "Leo", "Tim", "Jack", "Noah", "Paul", "Omar", "Finn", "Karl", "Adam", "Luis",
    "Aaron", "Ahmed", "Alan", "Albert", "Alex", "Ali", "Anton", "Arthur", "Axel", "Bruno", "Carlos", "Cedric", "Chen",
    "Chris", "Cyril", "Daniel", "David", "Diego", "Dirk", "Dylan", "Edgar", "Eli", "Emil", "Eric", "Ethan", "Felix",
    "Frank", "Fred", "George", "Gustav", "Hans", "Hassan", "Henry", "Hugo", "Ian", "Igor", "Isaac", "Ivan", "Jacob",
    "James", "Jan", "Jens", "Joel", "John", "Jonas", "Joseph", "Juan", "Julian", "Kai", "Kenji", "Kevin", "Lars",
    "Liam", "Lucas", "Ludwig", "Marco", "Mark", "Martin", "Matteo", "Milo", "Nick", "Niels", "Oliver", "Oscar", "Otto",
    "Pablo", "Pedro", "Peter", "Philip", "Rafael", "Ralf", "Ravi", "Robert", "Robin", "Roman", "Rudi", "Simon",
    "Stefan", "Sven", "Theo", "Tony", "Viktor", "Walter", "Yusuf",
)  # fmt: skip
PEOPLE = (
    *(Person(name, "she", "her", "her") for name in WOMEN),
    *(Person(name, "he", "his", "him") for name in MEN),
)
CITIES = (
    "Rome", "Paris", "London", "Berlin", "Madrid", "Oslo", "Vienna", "Dublin", "Lisbon", "Athens", "Boston", "Lima",
    "Cairo", "Delhi", "Geneva", "Hamburg", "Havana", "Helsinki", "Kyoto", "Lagos", "Leeds", "Lyon", "Milan", "Montreal",
    "Nairobi", "Naples", "Porto", "Prague", "Riga", "Seoul", "Sydney", "Tokyo", "Toronto", "Turin", "Warsaw", "Zurich",
)  # fmt: skip
COLOURS = (
    "red", "blue", "green", "yellow", "black", "white", "purple", "brown", "pink", "grey", "orange", "silver", "golden",
    "turquoise", "violet", "beige",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
JOBS = (
    "teacher", "baker", "doctor", "farmer", "painter", "driver", "nurse", "singer", "cook", "gardener", "writer",
    "pilot", "actor", "banker", "barber", "builder", "butcher", "carpenter", "chemist", "cleaner", "clerk", "coach",
    "dancer", "dentist", "designer", "diver", "engineer", "fisher", "guard", "guide", "hunter", "judge", "lawyer",
    "librarian", "mason", "mechanic", "miller", "miner", "plumber", "poet", "printer", "sailor", "smith", "tailor",
    "waiter", "weaver",
)  # fmt: skip
PETS = (
    "cat", "dog", "rabbit", "parrot", "hamster", "turtle", "pony", "goldfish", "mouse", "duck", "goat", "hen", "horse",
    "snake", "lizard", "donkey", "sheep", "pigeon", "spider", "canary",
)  # fmt: skip
HOBBIES = (
    "reading", "cooking", "running", "painting", "swimming", "fishing", "dancing", "singing", "hiking", "chess",
    "football", "gardening", "photography", "tennis", "climbing", "cycling", "diving", "drawing", "golf", "hockey",
    "juggling", "karate", "knitting", "music", "pottery", "riding", "rowing", "sailing", "sewing", "skating", "skiing",
    "surfing", "volleyball", "yoga",
)  # fmt: skip
FOODS = (
    "soup", "pizza", "rice", "pasta", "salad", "bread", "fish", "cake", "cheese", "pancakes", "curry", "apples",
    "bananas", "beans", "berries", "cherries", "chicken", "chocolate", "corn", "dumplings", "figs", "grapes", "honey",
    "lentils", "melon", "mushrooms", "noodles", "nuts", "olives", "onions", "pears", "peas", "pie", "plums", "potatoes",
    "pudding", "sausages", "spinach", "tomatoes", "yoghurt",
)  # fmt: skip
COUNTED = (
    "apples", "books", "coins", "stamps", "marbles", "cookies", "pencils", "cards", "shells", "stickers", "eggs",
    "flowers", "balloons", "buttons", "stones", "oranges", "beads", "candles", "carrots", "crayons", "erasers",
    "feathers", "keys", "lemons", "nails", "peaches", "photos", "ribbons", "seeds", "tickets", "tomatoes", "walnuts",
)  # fmt: skip
THINGS = (
    "bicycle", "car", "coat", "umbrella", "boat", "bag", "scarf", "house", "guitar", "tent", "basket", "blanket",
    "bottle", "bowl", "brush", "bucket", "cap", "chair", "clock", "cup", "drum", "fan", "flute", "glove", "hammer",
    "hat", "jacket", "jar", "kettle", "kite", "knife", "ladder", "lamp", "mirror", "mug", "notebook", "pen", "pillow",
    "plate", "radio", "ring", "rope", "shirt", "spoon", "table", "towel", "vase", "violin", "wallet", "whistle",
)  # fmt: skip
# What one can carry about.
PORTABLE = tuple(
    thing for thing in THINGS if thing not in ("bicycle", "boat", "car", "chair", "house", "ladder", "table", "tent")
)
ROOMS = ("kitchen", "garden", "hall", "cellar", "attic", "bathroom", "bedroom", "office", "garage", "library")
PLACES = (
    "park", "school", "library", "museum", "town hall", "station", "theatre", "church", "harbour", "market", "bank",
    "bakery", "beach", "castle", "cinema", "factory", "farm", "forest", "gallery", "gym", "hospital", "hotel", "lake",
    "mill", "post office", "stadium", "tower", "zoo",
)  # fmt: skip
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

STARTS = (
    "al", "ar", "bel", "bor", "bren", "cal", "cor", "dal", "der", "dor", "el", "fal", "fen", "gil", "gor", "hal",
    "har", "il", "jor", "kal", "kel", "lam", "lin", "lor", "mal", "mel", "mor", "nal", "nim", "nor", "or", "pel", "per",
    "quin", "ral", "rin", "sal", "sel", "sil", "tam", "tar", "tor", "ul", "val", "ver", "vil", "wil", "yar", "yor",
    "zan", "zel",
)  # fmt: skip
MIDDLES = ("", "", "", "a", "e", "i", "o", "an", "el", "en", "is", "or", "um")
MALE_ENDS = (
    "vin", "ko", "rik", "mond", "bert", "dan", "gar", "lo", "mir", "nor", "pen", "ren", "sten", "tor", "vor", "wick",
    "dro", "fred", "gus", "min",
)  # fmt: skip
FEMALE_ENDS = ("ka", "la", "na", "ra", "sa", "ta", "va", "ya", "lia", "mira", "nia", "ria", "da", "ma", "fina", "lina")
CITY_ENDS = (
    "burg", "dale", "field", "ford", "ham", "haven", "mouth", "port", "stead", "ton", "vik", "wick", "wood", "bridge",
    "fell", "grad",
)  # fmt: skip
WORD_ENDS = ("p", "t", "k", "m", "d", "lo", "ba", "gu", "fi", "ne", "pok", "tib", "vem", "zu", "rask", "dop", "gim")


def invented_person(rng: Random) -> Person:
    """A name that ends in "a" is a woman's; all others are men's, so that the name tells the pronoun."""
    stem = (rng.choice(STARTS) + rng.choice(MIDDLES)).capitalize()
    if rng.random() < 0.5:
        return Person(stem + rng.choice(FEMALE_ENDS), "she", "her", "her")
    return Person(stem + rng.choice(MALE_ENDS), "he", "his", "him")


def person(rng: Random) -> Person:
    return rng.choice(PEOPLE) if rng.random() < 0.5 else invented_person(rng)


def city(rng: Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(CITIES)
    return (rng.choice(STARTS) + rng.choice(MIDDLES)).capitalize() + rng.choice(CITY_ENDS)


def word(rng: Random) -> str:
    """A word that means nothing, such as "kelom"."""
    return rng.choice(STARTS) + rng.choice(MIDDLES) + rng.choice(WORD_ENDS)


def people(rng: Random, count: int) -> list[Person]:
    """Distinct people, none of whose names begins another one's."""
    found: list[Person] = []
    while len(found) < count:
        new = person(rng)
        if not any(new.name.startswith(old.name) or old.name.startswith(new.name) for old in found):
            found.append(new)
    return found


def names(rng: Random, count: int) -> list[str]:
    return [who.name for who in people(rng, count)]


def cities(rng: Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[city(rng)] = None
    return list(found)


def words(rng: Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[word(rng)] = None
    return list(found)
