"""Words that several categories share: people, places, things, jobs, days.

What may live here: lists of words and the pronouns that belong to names. It may not know sentences.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    """A name and its pronouns."""

    name: str
    they: str
    their: str
    them: str


WOMEN = ("Mia", "Lily", "Anna", "Emma", "Sara", "Nora", "Lucy", "Zoe", "Ella", "Ruth", "Maya", "Ivy", "Clara", "Jane")
MEN = ("Tom", "Ben", "Max", "Sam", "Leo", "Tim", "Jack", "Noah", "Paul", "Omar", "Finn", "Karl", "Adam", "Luis")
PEOPLE = (
    *(Person(name, "she", "her", "her") for name in WOMEN),
    *(Person(name, "he", "his", "him") for name in MEN),
)
CITIES = (
    "Rome", "Paris", "London", "Berlin", "Madrid", "Oslo", "Vienna", "Dublin", "Lisbon", "Athens", "Boston",
    "Lima",
)  # fmt: skip
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "purple", "brown", "pink", "grey")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
JOBS = (
    "teacher", "baker", "doctor", "farmer", "painter", "driver", "nurse", "singer", "cook",
    "gardener", "writer", "pilot",
)  # fmt: skip
PETS = ("cat", "dog", "rabbit", "parrot", "hamster", "turtle", "pony", "goldfish", "mouse", "duck")
HOBBIES = (
    "reading", "cooking", "running", "painting", "swimming", "fishing", "dancing", "singing", "hiking", "chess",
    "football", "gardening", "photography", "tennis",
)  # fmt: skip
FOODS = ("soup", "pizza", "rice", "pasta", "salad", "bread", "fish", "cake", "cheese", "pancakes", "curry", "apples")
COUNTED = (
    "apples", "books", "coins", "stamps", "marbles", "cookies", "pencils", "cards", "shells", "stickers", "eggs",
    "flowers", "balloons", "buttons", "stones", "oranges",
)  # fmt: skip
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
