"""What the category `chat` knows: properties of things, explanations, advice and gifts.

What may live here: plain content. It may not know how it is asked for or laid out.
"""

from __future__ import annotations

# Pairs that people compare: the two, and for each need which of the two fits and why.
PAIRS = {
    ("tea", "coffee"): {
        "want to sleep well": (0, "it is milder"),
        "need to wake up": (1, "it is stronger"),
        "like flowers": (0, "it comes in many fine flavours"),
    },
    ("a cat", "a dog"): {
        "live in a small flat": (0, "it is happy indoors"),
        "like long walks": (1, "it wants to go out every day"),
        "work all day": (0, "it can be alone for some hours"),
    },
    ("the train", "the bus"): {
        "are in a hurry": (0, "it is not held up by traffic"),
        "want to save money": (1, "the ticket is cheaper"),
        "want to read": (0, "it shakes less"),
    },
    ("a bicycle", "a car"): {
        "want to stay fit": (0, "you move your whole body"),
        "have heavy bags": (1, "it carries a lot"),
        "have no place to park": (0, "it fits anywhere"),
    },
    ("the sea", "the mountains"): {
        "love to swim": (0, "the water is warm in summer"),
        "love to hike": (1, "there are many paths"),
        "like cool air": (1, "the nights are fresh there"),
    },
    ("books", "films"): {
        "have little time": (1, "one is over in two hours"),
        "have a long journey": (0, "they last for many hours"),
        "like to imagine things": (0, "you make the pictures yourself"),
    },
    ("summer", "winter"): {
        "like snow": (1, "everything turns white"),
        "like the garden": (0, "everything grows"),
        "like long evenings": (0, "it stays light until late"),
    },
    ("the piano", "the guitar"): {
        "travel a lot": (1, "you can take it along"),
        "like many notes at once": (0, "ten fingers play together"),
        "like to sing at a fire": (1, "it sounds good outside"),
    },
    ("the city", "the country"): {
        "like theatres": (0, "there is something on every night"),
        "like silence": (1, "you hear only the birds"),
        "have no car": (0, "everything is near"),
    },
    ("pizza", "soup"): {
        "feel ill": (1, "it is warm and light"),
        "have many guests": (0, "everybody likes a slice"),
        "want to eat less": (1, "it is light"),
    },
    ("running", "swimming"): {
        "have sore knees": (1, "the water carries you"),
        "have little time": (0, "you can start at your door"),
        "like company": (0, "you can talk on the way"),
    },
    ("pen", "pencil"): {
        "make many mistakes": (1, "you can rub it out"),
        "sign a letter": (0, "ink stays"),
        "draw": (1, "you can shade with it"),
    },
}

# Questions about everyday facts: a short answer, and an example or picture that makes it clear.
FACTS = {
    "Why is the sky blue?": (
        "Sunlight holds all colours, and the air scatters the blue part most.",
        "In the evening the light goes a longer way, so that red is left.",
    ),
    "Why does ice float?": (
        "Water grows when it freezes, so ice is lighter than the water around it.",
        "That is why a lake freezes from the top.",
    ),
    "Why do leaves turn yellow?": (
        "In autumn a tree takes the green out of its leaves, and the yellow below it shows.",
        "In spring new green leaves grow.",
    ),
    "How does a plant eat?": (
        "A plant makes sugar from light, water and air.",
        "Its roots drink, and its leaves catch the sun.",
    ),
    "Why do we sleep?": (
        "The body rests and mends itself, and the brain sorts what happened in the day.",
        "After a bad night we forget more and think slowly.",
    ),
    "What is a rainbow?": (
        "A rainbow is sunlight that raindrops split into colours.",
        "You see it when the sun is behind you and the rain in front.",
    ),
    "Why do we yawn?": (
        "A yawn brings a deep breath when we are tired or bored.",
        "It spreads from person to person, like a smile.",
    ),
    "How do birds fly?": (
        "A bird pushes the air down with its wings, and the air pushes the bird up.",
        "Its bones are hollow, so it is very light.",
    ),
    "Why is the sea salty?": (
        "Rivers wash a little salt from the stones into the sea, and it stays there.",
        "When the water goes up into the clouds, it leaves the salt behind.",
    ),
    "What makes thunder?": (
        "Lightning heats the air so fast that it bursts apart with a bang.",
        "Light is faster than sound, so you see it first.",
    ),
    "How does soap work?": (
        "One end of soap holds on to fat, and the other end to water.",
        "So the water can carry the dirt away.",
    ),
    "Why does bread rise?": (
        "Yeast eats sugar in the dough and makes gas.",
        "The gas blows up thousands of small holes.",
    ),
    "What is a shadow?": (
        "A shadow is a place that light cannot reach because something is in its way.",
        "It is long in the morning and short at noon.",
    ),
    "Why do we have two eyes?": (
        "Two eyes see from two places, and the brain works out how far things are.",
        "Close one eye and try to catch a ball.",
    ),
    "How does a battery work?": (
        "Inside a battery two metals trade tiny charges through a liquid.",
        "When all are traded, the battery is empty.",
    ),
    "What is snow?": ("Snow is water that froze into small crystals in a cloud.", "Each crystal has six arms."),
    "Why do cats purr?": (
        "Cats purr when they feel well, and also to calm themselves.",
        "A kitten purrs so that its mother knows it is near.",
    ),
    "Why is the moon not always round?": (
        "The sun lights one half of the moon, and we see that half from the side.",
        "Over a month we see it from every side.",
    ),
    "What is a volcano?": (
        "A volcano is a place where hot stone from below breaks out of the ground.",
        "The stone cools and makes a mountain.",
    ),
    "How do bees make honey?": (
        "Bees collect the sweet juice of flowers and dry it in the hive.",
        "They eat it in winter.",
    ),
    "Why do onions make us cry?": (
        "A cut onion lets out a gas that stings the eyes.",
        "Tears wash it away; a sharp knife helps.",
    ),
    "What is a triangle?": (
        "A triangle is a shape with three straight sides and three corners.",
        "The roof of a house often looks like one.",
    ),
    "What is money?": (
        "Money is something that everybody takes in exchange for goods.",
        "Without it the baker would have to swap bread for shoes.",
    ),
    "Why does the wind blow?": ("Warm air rises and cold air flows in to take its place.", "That flow is the wind."),
}

# Troubles: what somebody says, how one answers with sympathy, and three pieces of advice.
TROUBLES = {
    "cannot sleep": (
        "Bad nights are hard.",
        "go to bed at the same time every day",
        "leave the phone in another room",
        "take a short walk in the evening",
    ),
    "am always late": (
        "That happens to many people.",
        "set your clock ten minutes early",
        "pack your bag the night before",
        "plan more time for each way",
    ),
    "had a fight with a friend": (
        "That must hurt.",
        "wait until you are both calm",
        "say how you felt",
        "ask how your friend saw it",
    ),
    "feel lonely": (
        "I am sorry to hear that.",
        "call an old friend",
        "join a club near you",
        "smile at somebody today",
    ),
    "am nervous about a talk": (
        "A little fear is normal.",
        "say it aloud three times",
        "write the first sentence down",
        "breathe slowly before you start",
    ),
    "forget names": (
        "You are not the only one.",
        "repeat the name aloud",
        "tie it to a picture",
        "write it down afterwards",
    ),
    "have too much work": (
        "That sounds exhausting.",
        "write a list of everything",
        "do the most important thing first",
        "ask somebody for help",
    ),
    "lost my keys": (
        "How annoying!",
        "go back the way you came",
        "look in yesterday's clothes",
        "give them a fixed place from now on",
    ),
    "want to eat better": (
        "That is a good plan.",
        "cook at home more often",
        "buy more vegetables",
        "drink water with each meal",
    ),
    "am bored at home": (
        "Let us change that.",
        "learn a card trick",
        "cook something new",
        "write a letter to somebody",
    ),
    "spend too much": (
        "It is good that you see it.",
        "write down each coin",
        "pay with cash",
        "wait a day before you buy",
    ),
    "have a cold": (
        "Get well soon!",
        "rest as much as you can",
        "drink hot tea with honey",
        "keep warm and sleep long",
    ),
    "moved to a new town": (
        "That is a big step.",
        "walk through your streets",
        "greet your neighbours",
        "find a place that you like to go to",
    ),
    "broke a cup of my mother": (
        "Things break, even in good hands.",
        "tell her at once",
        "say that you are sorry",
        "look for one like it together",
    ),
}
GIFTS = {
    "reading": ("a novel", "a lamp for the bed"),
    "cooking": ("a good knife", "a book of recipes"),
    "running": ("warm socks", "a light jacket"),
    "painting": ("a box of colours", "a fine brush"),
    "swimming": ("a large towel", "good goggles"),
    "fishing": ("a folding chair", "a warm hat"),
    "dancing": ("a record", "two tickets for a ball"),
    "singing": ("a book of songs", "a ticket for a concert"),
    "hiking": ("a good map", "a warm blanket"),
    "chess": ("a wooden board", "a book of old games"),
    "football": ("a new ball", "a scarf of the team"),
    "gardening": ("seeds of old roses", "strong gloves"),
    "photography": ("an album", "a small tripod"),
    "tennis": ("new balls", "a cap against the sun"),
}
