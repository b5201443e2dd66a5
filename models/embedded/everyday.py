"""Texts for the teacher: sentences that people say, questions, names, numbers, spelled letters and long texts.

The sentences of `stranger/` are left out, since those are for judging.
"""
import random
import re
from pathlib import Path

import texts
import vocabulary

JUDGED = Path(__file__).resolve().parent / "stranger"
SHARES = dict(example=0.16, quote=0.14, question=0.12, everyday=0.12, template=0.07, gloss=0.03, bible=0.01, salad=0.03, names=0.02, frequent=0.22, long=0.08)
LONGEST_NAME = 11


def normal(text):
    return " ".join(re.findall(r"[a-z']+", text.lower()))


def judged():
    """The sentences that nothing may be trained on, without marks."""
    lines = (JUDGED / "choosing.txt").read_text().splitlines()
    lines += [line.split("\t")[1] for line in (JUDGED / "sentences.tsv").read_text().splitlines()]
    return {normal(line) for line in lines}


def proper_names():
    """Capitalised words of the dictionary: people, places, brands."""
    words = (w.strip() for w in open(texts.WORDS, encoding="utf-8"))
    return sorted({w.lower() for w in words if re.fullmatch(rf"[A-Z][a-z]{{2,{LONGEST_NAME}}}", w) and not texts.COARSE.search(w.lower())
                   and not w.endswith(("isms", "ists", "ians"))})


PEOPLE = ("my sister;my brother;the neighbor;our teacher;the driver;her uncle;a friend of mine;the old lady;the children;my parents;the manager;"
          "the whole family;the nurse;his wife;her husband;the students;two of my colleagues;the captain;the boy next door;everybody").split(";")
DID = ("forgot;bought;found;lost;sold;borrowed;repaired;painted;carried;cleaned;ordered;wanted;returned;opened;closed;dropped;noticed;"
       "photographed;described;remembered;promised to bring;decided to keep;had to move;tried to fix;was looking for;could not find;asked about").split(";")
THINGS = ("the keys;a loaf of bread;the tickets;an old map;the blue suitcase;a bunch of flowers;the broken window;a new lamp;the garden chairs;"
          "three boxes of apples;the newspaper;a pair of gloves;the kitchen table;her winter coat;the letter from the bank;some warm soup;the spare tire;"
          "a glass of water;the wooden ladder;our luggage;the piano;his camera;the last piece of cake;a bottle of milk;the alarm clock").split(";")
WHERE = ("at the station;in the kitchen;on the table;under the bridge;near the lake;behind the school;in front of the theater;on the second floor;"
         "at the end of the street;in the garden;by the river;next to the bakery;across the road;at the airport;in a small village;on the beach;"
         "inside the old church;outside the office;between the two houses;in the waiting room").split(";")
WHEN = ("yesterday;last night;this morning;after lunch;before the meeting;on the way home;two weeks ago;early on sunday;in the middle of the night;"
        "during the storm;at the beginning of may;on her birthday;just in time;as usual;for the first time;every other week;at noon;late in autumn").split(";")
WHY = ("because it was raining;although nobody had asked;so that everyone could see it;before anyone noticed;while the others were asleep;until it was dark;"
       "because there was no time;even though it was expensive;as soon as the shop opened;without saying a word;when the phone rang;after the train had left").split(";")
ASK = ("where is;have you seen;who took;what happened to;can you bring me;do you still need;how much was;why did you sell;when did you buy;would you like;"
       "could you hold;did anybody find;is that;are you looking for;shall i carry;who paid for;how old is;what color is;which way is it to").split(";")
PLACES = ("the harbor;the hospital;the town hall;the museum;the market;the nearest bank;the post office;the library;the swimming pool;the old mill;the airport").split(";")
WEATHER = "rain;snow;fog;strong wind;thunder;sunshine;frost;hail;clear sky;heavy clouds".split(";")


def everyday(rng, names, words):
    c = rng.choice
    name = lambda: c(names) if rng.random() < 0.5 else c(texts.NAMES)
    full = lambda: c((name(), f"{c(texts.NAMES)} {name()}", f"mister {name()}", f"missus {name()}", f"doctor {name()}", f"professor {name()}"))
    who = lambda: c((c(PEOPLE), c(PEOPLE), full()))
    n = lambda top=100: texts.number(rng.randint(2, top))
    place = lambda: c(names) if rng.random() < 0.4 else c(texts.CITIES).replace("-", " ")
    clock = lambda: c((f"{n(12)} o'clock", f"{n(12)} {c(('fifteen', 'twenty', 'thirty', 'forty-five', 'oh five', 'fifty'))}", f"half past {n(12)}",
                       f"a quarter {c(('to', 'past'))} {n(12)}", f"{c(('ten', 'five', 'twenty'))} {c(('to', 'past'))} {n(12)}"))
    day = lambda: c((c(texts.DAYS), f"{c(texts.MONTHS)} {texts.ordinal(rng.randint(1, 31))}", f"the {texts.ordinal(rng.randint(1, 31))} of {c(texts.MONTHS)}"))
    year = lambda: f"{c(('nineteen', 'eighteen', 'twenty'))} {texts.number(rng.randint(11, 99))}"
    spelled = lambda w: " ".join(w.replace("'", ""))
    options = [
        lambda: f"{who()} {c(DID)} {c(THINGS)} {c(WHERE)}.", lambda: f"{c(WHEN)}, {who()} {c(DID)} {c(THINGS)}.",
        lambda: f"{who()} {c(DID)} {c(THINGS)} {c(WHERE)} {c(WHEN)}, {c(WHY)}.", lambda: f"{who()} and {who()} met {c(WHERE)} {c(WHEN)}.",
        lambda: f"{full()} lives in {place()} and works in {place()}.", lambda: f"the train from {place()} to {place()} leaves at {clock()}.",
        lambda: f"{full()} will call you on {day()} at {clock()}.", lambda: f"it costs {n(999)} {c(('dollars', 'euros', 'pounds', 'cents'))} and weighs {n()} {c(('pounds', 'grams', 'kilograms', 'tons'))}.",
        lambda: f"there are {n(2000)} {c(('people', 'books', 'trees', 'houses', 'students', 'cars', 'letters', 'seats', 'islands'))} {c(WHERE)}.",
        lambda: f"in {year()}, {full()} moved from {place()} to {place()}.", lambda: f"tomorrow we expect {c(WEATHER)} and {c(WEATHER)}, with about {n(40)} degrees in {place()}.",
        lambda: f"the number is {' '.join(c(texts.ONES[:10]) for _ in range(3))}, {' '.join(c(texts.ONES[:10]) for _ in range(4))}.",
        lambda: f"{n(300)} {c(('plus', 'minus', 'times'))} {n()} is {n(900)}.", lambda: f"about {n(99)} percent of {c(('the visitors', 'the money', 'all tickets', 'the work', 'the water'))} is gone.",
        lambda: (lambda w: f"{w} is spelled {spelled(w)}.")(c((c(words), name()))), lambda: f"my name is {name()}, that is {spelled(name())}.",
        lambda: f"{c(ASK)} {c(THINGS)}?", lambda: f"{c(ASK)} {c(THINGS)} {c(WHERE)}?", lambda: f"how do i get from {c(PLACES)} to {c(PLACES)}?",
        lambda: f"{c(('is', 'was'))} {full()} {c(WHERE)} {c(WHEN)}?", lambda: f"do you know {full()} from {place()}?", lambda: f"would you rather go to {place()} or to {place()}?",
        lambda: f"why {c(('did', 'does', 'would'))} {who()} {c(('wait', 'laugh', 'walk', 'shout', 'sleep', 'leave', 'stay'))} {c(WHERE)}?",
        lambda: f"what {c(('time', 'day', 'year'))} {c(('was it', 'is it'))} when {who()} {c(DID)} {c(THINGS)}?", lambda: f"{c(PEOPLE)} said: {c(ASK)} {c(THINGS)}?",
        lambda: f"please {c(('turn', 'walk', 'drive', 'go'))} {c(('left', 'right', 'straight on'))} {c(WHERE)}, and {c(('stop', 'wait', 'ring the bell', 'ask again'))} {c(WHERE)}.",
        lambda: f"{who()} {c(DID)} {c(THINGS)}, {who()} {c(DID)} {c(THINGS)}, and {who()} {c(DID)} {c(THINGS)}.",
        lambda: f"i have {c(('never', 'often', 'already', 'just'))} been to {place()}, but {full()} {c(('knows it well', 'was born there', 'goes there every year'))}.",
        lambda: f"{place()} is {n(900)} miles {c(('north', 'south', 'east', 'west'))} of {place()}.", lambda: f"{full()}, {full()}, and {full()} are here.",
    ]
    return c(options)()


def corpus(seed, size):
    """`size` distinct (source, text) pairs in a fixed random order."""
    rng = random.Random(seed)
    glosses, examples = texts.wordnet(rng)
    quotes, verses, words = texts.fortunes(rng), texts.bible(rng), texts.dictionary()
    names = proper_names()
    common = sorted({w for t in examples + quotes for w in re.findall(r"[a-z]+", t) if len(w) > 1})
    made = {t for _ in range(int(size * 0.6)) if (t := texts.clean(everyday(rng, names, common))) and len(t) <= texts.MAX_CHARS}
    sentences = [t for t in examples + quotes + sorted(made) if 25 < len(t) < 120]
    templates = texts.templates(rng, common, int(size * 0.3))
    named = [" ".join(rng.choice(names) for _ in range(rng.choice((1, 2, 2, 3)))) + rng.choice((".", "?", "")) for _ in range(int(size * 0.05))]
    asked = lambda t: t.endswith("?")
    pools = dict(example=[t for t in examples if not asked(t)], quote=[t for t in quotes if not asked(t)],
                 question=[t for t in (*examples, *quotes, *made, *templates) if asked(t)], everyday=[t for t in made if not asked(t)],
                 template=[t for t in templates if not asked(t)], gloss=glosses, bible=verses, names=named,
                 salad=texts.salad(rng, words, int(size * 0.04)) + texts.salad(rng, common, int(size * 0.04)),
                 frequent=vocabulary.sentences(rng, int(size * 0.23)),
                 long=texts.long_texts(rng, sentences, int(size * 0.15)))
    chosen, seen, out = [], set(), judged()
    for source, share in SHARES.items():
        pool = sorted(set(pools[source]))
        rng.shuffle(pool)
        fresh = [t for t in pool if t not in seen and normal(t) not in out][:round(share * size)]
        seen.update(fresh)
        chosen += [(source, t) for t in fresh]
    rng.shuffle(chosen)
    return chosen
