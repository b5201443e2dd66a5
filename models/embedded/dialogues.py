"""Conversations for the thinker: questions and answers by category, assembled into dialogues.

Every category is a function of (rng, held) that makes one question with its answer. `held` asks for
an item that training never sees: held-out operands, words and sentences where the answer is worked
out, held-out phrasings where a fact has to be recalled.
"""
import functools
import itertools
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import wordings
from common import HERE, WORK
from facts import free_questions, known_facts
from texts import number

CONTEXT = 768
WORD_LIST = Path("/usr/share/dict/american-english-large")
HOLD = 10               # one in so many keys is held out

ARITHMETIC = ("addition", "subtraction", "multiplication", "division")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
STEPS = {1: "ones", 2: "twos", 5: "fives", 10: "tens"}
SIGNS = {"addition": "+", "subtraction": "-", "multiplication": "*", "division": "/"}


@dataclass
class Item:
    category: str
    question: str
    answer: str
    chat: list = field(default_factory=list)      # (role, text) up to and with the question


def is_held(key):
    return zlib.crc32(key.lower().encode()) % HOLD == 0


def pick(rng, options):
    return options[int(rng.random() * len(options))]      # `integers` takes five times as long


def capital(text):
    return text[:1].upper() + text[1:]


# ------------------------------------------------------------------------------- wording
TYPO_KEYS = "abcdefghijklmnopqrstuvwxyz"


INNERMOST = re.compile(r"\[([^][]*)\]")


def say(rng, text):
    """A text with one of each [one|of|these] chosen."""
    while "[" in text:
        text = INNERMOST.sub(lambda m: pick(rng, m[1].split("|")), text)
    return text.replace(" 'd ", "'d ").replace(" 're ", "'re ")


def asked_for(rng, form, text):
    """A phrase as a question or request; where the asker would do it ("let's @"), it is nothing for him: no "let's give me"."""
    frames = wordings.ASKING[form]
    if form == "verb" and re.search(r"\b(?:me|us|yourself|you)\b", text):
        frames = [f.replace("| for me", "") for f in frames if f not in wordings.NOT_FOR_ME]
    return say(rng, pick(rng, frames).replace("@", text))


def phrased(rng, grammar):
    """A question out of the {form: phrases} of a grammar; what is neither noun nor verb nor clause is whole already."""
    form = pick(rng, list(grammar))
    text = pick(rng, grammar[form])
    return asked_for(rng, form, text) if form in wordings.ASKING else say(rng, text)


AUX = "can|could|will|would|should|must|may|might|are|were|was|is|am|have|had"
WHO = r"(?:you|i|we|they|it|he|she|people|there|\{\w+\}|omni|(?:my|your|the|this|our) [\w-]+)"
WH = r"(?:what|who|whom|where|when|why|whose|how|(?:what|which|how) [\w-]+(?: [\w-]+)?)"
NOT_TURNED = r"(?:in|on|at|after|before|left|right|next|there|behind|inside|going|made|between|of|missing|yesterday|tomorrow|today|\w+ing)\b"
TURNS = [(re.compile(p + "$"), t) for p, t in [
    (rf"({WH}) do (you|i|we|they|people) (.+)", r"\1 \2 \3"),
    (rf"({WH}) ({AUX}) (you|i|we|they|he|she|it)( .+)?", r"\1 \3 \2\4"),
    (rf"({WH}) does ({WHO}) do(.*)", r"\1 \2 does\3"),
    (rf"({WH}) does ({WHO}|a \w+|one \w+) have(.*)", r"\1 \2 has\3"),
    (rf"({WH}) does ({WHO}|a \w+) (\w+[^osxhy ])( .+)?", r"\1 \2 \3s\4"),
    (rf"how (is|are|was|were) (.+) (\w+ed|written|made|built|cut|put|run|kept)", r"how \2 \1 \3"),
    (r"(what|how) (is|are|was) (.+) (called|named)", r"\1 \3 \2 \4"),
    (rf"({WH}) (can|could|will|would|should|must) (.+) (be|have|mean|make|come to)", r"\1 \3 \2 \4"),
    (rf"({WH} (?:is|are|was|were) {NOT_TURNED}.*)", r"\1"),
    (rf"(what|who|where|when|how|(?:what|which|how) [\w-]+) (is|are|was|were) (.+)", r"\1 \3 \2"),
    (r"((?:which|what) \w+ (?!do\b|does\b|did\b|can\b|is\b|are\b|should\b|would\b|may\b)\w+s .+)", r"\1"),
    (r"(who (?!is\b|are\b|was\b|do\b|does\b|did\b|can\b|will\b|am\b|should\b|may\b)\w+ .+)", r"\1"),
    (r"do (you|i|we|they|people) (.+)", r"if \1 \2"),
    (rf"({AUX}) ({WHO}) (.+)", r"if \2 \1 \3")]]
REQUESTS = re.compile(r"(?:spell|count|name|list|tell me|give me|say|add|subtract|multiply|divide|take|calculate|compute|work out|explain|describe|show me|recite|find|"
                      r"split|share|deduct|put|write|play|sing|draw|open|call|send|buy|book|read|order|turn|make|translate|set|teach|close|search|print|compose|"
                      r"invent|start|stop)\b")
ASKED = re.compile("(?:do|would|did) you (?:think|know|happen|be )|are you able to|is it (?:possible|true)|would it be|have you got|is there a (?:chance|way)|"
                   "(?:may|can) i (?:ask|know)|any (?:idea|clue)|how about|why don't|(?:can|could|will|would) you .* (?:what|which|how|who|if) |"
                   "(?:tell|let|remind) me |find out|figure out|i ")


def reworded(rng, frame):
    """A question as a clause of another one, a request to do something as another one; as it is where no rule knows how."""
    text = frame.rstrip("?.!")
    if ASKED.match(text) or re.search(r"[.:;!?,\"]", text):
        return frame
    if re.match("how (?:do|can|would|should|could) i |how to ", text) and rng.random() < 0.6:
        return pick(rng, wordings.HOW_TO).replace("@", re.sub("^how (?:to|\\w+ i) ", "", text))
    found = re.match(r"(?:which|what) (flag|option|command|metric|target|program|stage|part|setting) (?!is\b|are\b|do|can\b|should\b|was\b|has\b)(\w+s .+)", text)
    if found and rng.random() < 0.6:
        return re.sub(r"\{(\d)\}", lambda m: found[int(m[1]) + 1], pick(rng, wordings.THAT_DOES))
    if REQUESTS.match(text):
        return asked_for(rng, "verb", text)
    for pattern, turned in TURNS:
        if found := pattern.match(text):
            return say(rng, pick(rng, wordings.ASKING["clause"])).replace("@", found.expand(turned))
    return frame


def typo(rng, text):
    """One slip of the fingers in the words between the slots; single letters such as the x of {a}x{b} remain."""
    parts = re.split(r"(\{\w+\})", text)
    places = [(k, m.start()) for k, p in enumerate(parts) if not p.startswith("{") for m in re.finditer("[a-z](?=[a-z])|(?<=[a-z])[a-z]", p)]
    if not places:
        return text
    k, at = places[int(rng.integers(len(places)))]
    p, kind = parts[k], rng.integers(4)
    if kind == 0:
        parts[k] = p[:at] + p[at + 1:]
    elif kind == 1:
        parts[k] = p[:at] + p[at] + p[at:]
    elif kind == 2:
        parts[k] = p[:at] + pick(rng, TYPO_KEYS) + p[at + 1:]
    else:
        parts[k] = p[:at] + p[at:at + 2][::-1] + p[at + 2:]
    return "".join(parts)


NAMED = re.compile(r"\b(i|anna|tom|omni|english|french|german|christmas|easter)\b(?![\w}-])")


def word_it(rng, frame, closers=True, greeting=False, **slots):
    """A frame in one of the many ways people type it; `closers`: something may follow it; around a greeting goes little."""
    if closers and not greeting and rng.random() < 0.2:
        frame = reworded(rng, frame)
    if rng.random() < 0.15:
        old, new = pick(rng, wordings.SHORTER)
        frame = re.sub(rf"\b{old}\b", new, frame, count=1)
    if rng.random() < 0.08:
        frame = typo(rng, frame)
    if rng.random() < 0.2:
        before = wordings.BEFORE_A_GREETING if greeting else wordings.OPENERS if rng.random() < 0.6 else wordings.PRELUDES
        frame = say(rng, pick(rng, before)) + frame
    mark = frame[-1] if frame[-1] in "?.!" else ""
    after = ""
    if closers and rng.random() < 0.12:
        if greeting:
            frame = frame[:len(frame) - len(mark)].rstrip() + pick(rng, wordings.AFTER_A_GREETING) + mark
        elif rng.random() < 0.3:
            after = say(rng, pick(rng, wordings.AFTERWORDS))
        else:
            frame = frame[:len(frame) - len(mark)].rstrip() + pick(rng, wordings.TAGS if mark == "?" and rng.random() < 0.6 else wordings.CLOSERS) + mark
    if mark:
        frame = frame[:-1]
    if rng.random() < 0.3 and not after and (closers or frame[-1] != "}"):       # otherwise it belongs to what is to be repeated
        mark = pick(rng, ["", "", "?", ".", "!"]) if ":" not in frame else mark
    frame += (mark or "." if after else mark) + after
    case = rng.random()
    if case < 0.4:                                  # as one writes
        frame = re.sub(r"[.?!] [a-z]", lambda m: m[0].upper(), NAMED.sub(lambda m: capital(m[0]), frame))
    text = frame.format(**slots)
    return capital(text) if case < 0.75 else text.lower() if closers and case < 0.85 else text


@functools.cache
def variants(question):
    """Every wording of a question: its [choices|in|brackets] and its usual beginnings. (trained, held out)"""
    parts = [p[1:-1].split("|") if p.startswith("[") else [p] for p in re.split(r"(\[[^]]*\])", question)]
    texts = ["".join(p) for p in itertools.product(*parts)]
    for first, *others in wordings.SAME:
        texts = [b + t[len(first):] for t in texts for b in ([first, *others] if t.startswith(first) else [t[:len(first)]])]
    texts = list(dict.fromkeys(texts))
    back = [t for t in texts[1:] if is_held(t)]
    return [t for t in texts if t not in back], back


@functools.cache
def shares_of(questions):
    """How often each question is asked: by the root of the number of its wordings, so that the usual ones stay frequent."""
    sizes = [sum(map(len, variants(q))) ** 0.5 for q in questions]
    return [s / sum(sizes) for s in sizes]


def a_variant(rng, questions, held):
    """One wording of one of the questions; None if there is no such one."""
    found = variants(questions[int(rng.choice(len(questions), p=shares_of(tuple(questions))))])[held]
    return pick(rng, found) if found else None


# ------------------------------------------------------------------------------- arithmetic
PEOPLE_NAMED = [capital(w) for w in wordings.WHO_HAS[6:]]


@functools.cache
def products():
    """Every (a, b) with a * b below 1000 and both above 1, in three kinds: tables, one small factor, two larger ones."""
    pairs = [(a, b) for a in range(2, 500) for b in range(2, 999 // a + 1)]
    return [[p for p in pairs if max(p) <= 12], [p for p in pairs if min(p) <= 10 < max(p)], [p for p in pairs if min(p) > 10]]


def near_an_edge(rng, kind):
    """Operands where digits carry or vanish: sums at a thousand and at whole hundreds, differences of 0 and little more, and 0 and 1."""
    a = int(rng.integers(1000)) if rng.random() < 0.6 else int(rng.integers(100))
    how = rng.random()
    if how < 0.2:
        b = int(rng.integers(2))
    elif kind == "addition":
        edge = 1000 if how < 0.75 else 100 * int(rng.integers(1, 10))
        total = max(0, edge + int(rng.integers(-3, 11)))
        b = int(rng.integers(1, 100)) if rng.random() < 0.6 else int(rng.integers(1, 1000))
        a, b = max(0, min(999, total - b)), b
    else:
        b = a if how < 0.5 else max(0, a - int(rng.integers(1, 13))) if how < 0.85 else min(999, a + int(rng.integers(1, 13)))
    return (b, a) if kind == "addition" and rng.random() < 0.3 else (a, b)


def operands(rng, kind):
    """Two numbers; half of them have evenly spread lengths, half of them evenly spread values."""
    if kind in ("addition", "subtraction") and rng.random() < 0.25:
        return near_an_edge(rng, kind)
    if kind in ("multiplication", "division"):
        if rng.random() < 0.06:
            a, b = int(rng.integers(2)), int(rng.integers(1, 1000))
            a, b = (a, b) if rng.random() < 0.5 or kind == "division" else (b, a)
        else:
            a, b = pick(rng, products()[int(rng.choice(3, p=[0.25, 0.4, 0.35]))])
        return (a, b) if kind == "multiplication" else (a * b, b)
    if rng.random() < 0.5:
        return int(rng.integers(1000)), int(rng.integers(1000))
    a, b = (int(rng.integers(10 ** int(rng.integers(1, 4)))) for _ in "ab")
    return a, b


def sum_key(kind, a, b):
    if kind in ("addition", "multiplication"):
        a, b = min(a, b), max(a, b)
    return f"{kind} {a} {b}"


def parts_of(n):
    """300, 40 and 7 of 347."""
    return [int(d) * 10 ** k for d, k in zip(str(n), range(len(str(n)) - 1, -1, -1)) if d != "0"]


def chain(sign, a, steps, joint=""):
    """'347 plus 200 is 547, plus 80 is 627, plus 5 is 632': sums as people say them aloud. `joint`: before the first step."""
    said, total = str(a), a
    for k, step in enumerate(steps):
        total += step if sign == "plus" else -step
        said += f"{',' if k else joint} {sign} {step} is {total}"
    return said


def solve(kind, a, b):
    """The spoken answer; longer sums with the working-out people say aloud."""
    if kind == "addition":
        return chain("plus", a, parts_of(b) or [0]) + "."
    if kind == "subtraction":
        if a < b:
            return f"{a} minus {b} is below zero: {chain('minus', b, parts_of(a) or [0])}, so it is minus {b - a}."
        return chain("minus", a, parts_of(b) or [0]) + "."
    if kind == "multiplication":
        return multiply(a, b)
    return divide(a, b)


def multiply(a, b):
    """'39 times 17': the products of the digits, each a fact of the table below ten times ten, added up one digit at a time."""
    if max(a, b) <= 10 or min(a, b) < 2:
        return f"{a} times {b} is {a * b}."
    x, y = parts_of(a)[0], parts_of(b)[0]
    first, *rest = [p * q for p in parts_of(a) for q in parts_of(b)]
    return f"{x} times {y} is {chain('plus', first, [part for p in rest for part in parts_of(p)], ',')}."


def divide(a, b):
    """Digit by digit. What is no fact of the table is counted: tens of the divisor are taken away, ones of it are added up."""
    q, left, said = a // b, a, []
    ones = q % 10
    if b in (1, 10):
        said.append(f"{b} times {q} is {a}")
    elif b < 10 <= q:
        for part in parts_of(q):
            left -= b * part
            said.append(f"{b} times {part} is {b * part}" + (f", that leaves {left}" if left else ""))
    else:
        for tens in range(10, q + 1, 10):
            left -= 10 * b
            said.append((f"10 times {b} is {10 * b}, that leaves {left}" if left else f"10 times {b} is {10 * b}") if tens == 10 else f"{tens} leaves {left}")
        said += [f"{k} is {k * b}" if k > 1 else f"1 times {b} is {b}" for k in range(1, ones + 1)]
    return f"{', '.join(said) or f'{b} times 0 is 0'}, so it is {q}."


COMPARED = re.compile(r"\{[xyz]\}|than|left|remains|stays|from \{b\}|what is missing|added to|add to|above|exceed|beats|differ|plus what|below|gap")


def loose_sum(rng, kind, held):
    """A sum in loose words: (frame, a, b)."""
    if kind in wordings.FIXED and rng.random() < 0.08:
        fixed, nouns = pick(rng, wordings.FIXED[kind])
        frame = say(rng, pick(rng, wordings.ASKING["noun"]).replace("@", pick(rng, nouns)))
        while True:
            other = int(rng.integers(2, 999 // fixed + 1))
            a, b = (fixed, other) if kind == "multiplication" else (other * fixed, fixed)
            if is_held(sum_key(kind, a, b)) == held:
                return frame, a, b
    frame = phrased(rng, wordings.LOOSE[kind])
    told = re.search(r"\{[tuphnmi]\}|\$|people on it|older| years lie", frame)      # of things, which make a plural
    larger = kind == "subtraction" and (told or COMPARED.search(frame))
    while True:
        a, b = operands(rng, kind)
        a, b = (max(a, b), min(a, b)) if larger else (a, b)
        if is_held(sum_key(kind, a, b)) == held and not (told and min(a, b) < 2):
            return frame, a, b


def in_words(rng, n):
    """A number as one of the ways to write it in words."""
    text = number(n)
    if n > 100 and n % 100 and rng.random() < 0.6:
        text = text.replace("hundred ", "hundred and ")
    if 100 <= n < 200 and rng.random() < 0.3:
        text = text.replace("one hundred", "a hundred")
    return text.replace("-", " ") if rng.random() < 0.4 else text


def arithmetic(kind):
    def make(rng, held):
        if rng.random() < 0.42:
            frame, a, b = loose_sum(rng, kind, held)
        else:
            frame = pick(rng, wordings.FRAMES[kind])
            while True:
                a, b = operands(rng, kind)
                if is_held(sum_key(kind, a, b)) == held:
                    break
        chance = rng.random()
        write = number if max(a, b) <= 100 and chance < (0.1 if held else 0.2) else (lambda n: in_words(rng, n)) if chance > 0.95 else str
        first, second = (write, str) if chance > 0.985 else (write, write)
        x, y = (a, b) if rng.random() < 0.5 else (b, a)
        result = {"addition": a + b, "subtraction": a - b, "multiplication": a * b, "division": a // max(b, 1)}[kind]
        things = pick(rng, wordings.THINGS) if rng.random() < 0.85 else pick(rng, words()) + "s"
        day = int(rng.integers(6))
        question = word_it(rng, frame, a=first(a), b=second(b), x=write(x), y=write(y), z=result if rng.random() < 0.6 else result + int(rng.integers(1, 12)),
                           t=things, n=pick(rng, wordings.WHO_HAS), u=pick(rng, wordings.UNITS), m=pick(rng, wordings.UNITS[:4]), i=pick(rng, wordings.TIMES),
                           p=pick(rng, wordings.PEOPLE), h=pick(rng, wordings.HOLDERS), d=DAYS[day], e=DAYS[day + 1])
        return question, solve(kind, a, b)
    return make


def several_sums(rng, held):
    """A list of short sums: many of them in few tokens."""
    todo = []
    for _ in range(int(rng.integers(2, 6))):
        kind = ARITHMETIC[int(rng.choice(4, p=[0.1, 0.22, 0.24, 0.44]))]
        while True:
            a, b = operands(rng, kind)
            if is_held(sum_key(kind, a, b)) == held:
                break
        todo.append((kind, a, b))
    return ", ".join(f"{a}{SIGNS[k]}{b}" for k, a, b in todo), " ".join(capital(solve(*t)) for t in todo)


# ------------------------------------------------------------------------------- counting


def counting(rng, held):
    while True:
        step = int(rng.choice([1, 2, 5, 10], p=[0.64, 0.12, 0.12, 0.12]))
        terms = int(rng.integers(2, 6)) if rng.random() < 0.25 else int(rng.integers(3, 15))
        a = int(rng.integers(1, 30)) if rng.random() < 0.5 else int(rng.integers(0, 1000 - step * terms))
        a = a if step == 1 else a // step * step
        b = a + step * (terms - 1)
        if rng.random() < 0.12 and b <= 30:
            a, step = 1, 1
        down = rng.random() < 0.5
        if down:
            a, b = b, a
        if a != b and b < 1000 and is_held(f"count {a} {b} {step}") == held:
            break
    numbers = range(a, b + (-1 if down else 1), -step if down else step)
    loose = rng.random() < 0.45
    if loose:
        if step > 1:
            grammar = wordings.LOOSE_BY
        elif down:
            grammar = wordings.LOOSE_DOWN
        else:
            grammar = wordings.LOOSE_TO if a == 1 and rng.random() < 0.7 else wordings.LOOSE_UP
        frame = phrased(rng, grammar).replace("{r}", say(rng, pick(rng, wordings.DOWN_RANGE if down else wordings.RANGE)))
        frame = frame.replace("{g}", say(rng, "[subtract|go down by|take away]" if down else "[add|go on by|keep adding]"))
        frame = re.sub(r"\bcount\b", "count down", frame, count=1) if step > 1 and down and rng.random() < 0.3 else frame
    elif step > 1:
        frame = pick(rng, wordings.BY).replace("count", "count down" if down and rng.random() < 0.7 else "count", 1)
    else:
        frame = pick(rng, wordings.DOWN) if down else pick(rng, wordings.TO) if a == 1 and rng.random() < 0.7 else pick(rng, wordings.UP)
    write = number if max(a, b) <= 20 and rng.random() < 0.25 else str
    return word_it(rng, frame, a=write(a), b=write(b), s=STEPS[step], n=step, o=ORDINALS[step - 1]), ", ".join(map(str, numbers)) + "."


# ------------------------------------------------------------------------------- spelling, repeating


def word_list():
    """The system's, or what `pack.py` brought from a machine that has one."""
    return WORD_LIST if WORD_LIST.exists() else WORK / "words"


@functools.cache
def words():
    with open(word_list()) as lines:
        return [w for w in map(str.strip, lines) if re.fullmatch("[a-z]{3,12}", w)]


@functools.cache
def by_letters():
    """The words by their first two letters."""
    found = {}
    for word in words():
        found.setdefault(word[:2], []).append(word)
    return found


def a_word(rng):
    if rng.random() < 0.08:
        return "".join(pick(rng, TYPO_KEYS) for _ in range(int(rng.integers(3, 10))))
    if rng.random() < 0.1:
        return pick(rng, wordings.SMALL if rng.random() < 0.5 else known_names())
    return pick(rng, words())


@functools.cache
def known_names():
    """Names of one word: those of days, months, cities, countries and people."""
    found = [*DAYS, *MONTHS, *(w for _, city, names in countries() for w in (city, names[0])), *wordings.NAMES]
    return [w for w in found if re.fullmatch("[A-Z][a-z]{2,11}", w)]


def spelling(rng, held):
    while True:
        w = a_word(rng)
        if is_held(f"word {w}") == held:
            break
    chance = rng.random()
    shown = f'"{w}"' if chance < 0.12 else f"'{w}'" if chance < 0.2 else capital(w) if chance < 0.28 else w.upper() if chance < 0.31 else w
    frame = phrased(rng, wordings.LOOSE_SPELL) if rng.random() < 0.45 or len(w) < 2 else pick(rng, wordings.SPELL)
    return word_it(rng, frame, w=shown), f"{capital(w)} is spelled {' '.join(w.upper())}."


def sentence(rng):
    share = rng.random()
    out = [pick(rng, wordings.SMALL) if rng.random() < share else pick(rng, words()) for _ in range(int(rng.integers(1, 9)))]
    if rng.random() < 0.1:
        out[int(rng.integers(len(out)))] = str(int(rng.integers(1000)))
    if len(out) > 2 and rng.random() < 0.3:                    # words that are alike, or the same again: where is the reader?
        k = int(rng.integers(1, len(out)))
        alike = by_letters().get(out[k - 1][:2], [out[k - 1]])
        out[k] = out[k - 1] if rng.random() < 0.2 else pick(rng, alike)
    text = " ".join(out)
    return text.replace(" ", ", ", 1) if rng.random() < 0.12 else text


def some_text(rng):
    """What is to be repeated: words, sentences, and questions, which are not to be answered then."""
    chance = rng.random()
    if chance < 0.12:
        return say(rng, pick(rng, wordings.NATURAL))
    if chance < 0.18:
        text = CATEGORIES[pick(rng, ["greeting", "identity", "addition", "days", "months", "capitals", "unknown"])](rng, False)[0].rstrip("?.! ")
        if len(text) < 60 and not re.search('[",:;{}\'<]|[.?!] | (?:please|thanks|now|then|today|me|you|know|again)$', text):
            return text
    return sentence(rng)


def repeating(rng, held):
    while True:
        s = some_text(rng)
        if is_held(f"say {s}") == held:
            break
    mark = pick(rng, ["", ".", ".", "!", "?"])
    frame = pick(rng, wordings.REPEAT) if rng.random() < 0.55 else phrased(rng, wordings.LOOSE_REPEAT)
    return word_it(rng, frame.replace("{s}", "{s}" + mark), closers=False, s=s), capital(s) + (mark or ".")


# ------------------------------------------------------------------------------- days, months


def phrase(rng, frames, held, *key, loose=None):
    """A frame, or None: a held-out one is marked with * or does not go with this key in training. `loose`: grammars for the other half."""
    frame = phrased(rng, pick(rng, loose)) if loose and rng.random() < 0.45 else pick(rng, frames)
    kept_back = frame.startswith("*") or is_held(" ".join(map(str, key)) + frame)
    return frame.lstrip("*") if kept_back == held else None


def once(questions, loose, answer):
    def make(rng, held):
        frame = phrased(rng, loose) if rng.random() < 0.45 else None
        question = (frame if is_held(frame) == held else None) if frame else a_variant(rng, questions, held)
        return question and (question, {}, answer)
    return make


def neighbour(names, frames, loose, by, relation):
    def make(rng, held):
        k = int(rng.integers(len(names)))
        frame = phrase(rng, frames, held, names[k], loose=loose)
        other = names[(k + by) % len(names)]
        asked = other if rng.random() < 0.5 else pick(rng, names)
        return frame and (frame, dict(d=names[k], u="day" if len(names) == 7 else "month", e=asked), f"{other} comes {relation} {names[k]}.")
    return make


def day_place(rng, held):
    k = int(rng.integers(7))
    frame = phrase(rng, wordings.DAY_PLACE, held, k, loose=[wordings.LOOSE_DAY_PLACE])
    return frame and (frame, dict(n=ORDINALS[k], k=k + 1), f"Counting from Monday, the {ORDINALS[k]} day is {DAYS[k]}.")


def month_length(rng, held):
    k = int(rng.integers(12))
    frame = phrase(rng, wordings.MONTH_LENGTH, held, k, loose=[wordings.LOOSE_MONTH_LENGTH])
    return frame and (frame, dict(d=MONTHS[k]), f"{MONTHS[k]} has {LENGTHS[k]} days{', or 29 in a leap year' if k == 1 else ''}.")


def month_place(rng, held):
    k = int(rng.integers(12))
    frame = phrase(rng, wordings.MONTH_PLACE, held, k, loose=[wordings.LOOSE_MONTH_PLACE])
    return frame and (frame, dict(n=ORDINALS[k], k=k + 1), f"The {ORDINALS[k]} month is {MONTHS[k]}.")


def month_number(rng, held):
    k = int(rng.integers(12))
    frame = phrase(rng, wordings.MONTH_NUMBER, held, k, loose=[wordings.LOOSE_MONTH_NUMBER])
    return frame and (frame, dict(d=MONTHS[k], n=ORDINALS[k if rng.random() < 0.5 else int(rng.integers(12))]), f"{MONTHS[k]} is month number {k + 1}.")


def in_order(names):
    return ", ".join(names[:-1]) + " and " + names[-1] + "."


def one_of(makers, weights):
    def make(rng, held):
        while True:
            found = makers[int(rng.choice(len(makers), p=weights))](rng, held)
            if found:
                frame, slots, answer = found
                return word_it(rng, frame, **slots), answer
    return make


days = one_of([neighbour(DAYS, wordings.DAY_AFTER, [wordings.LOOSE_AFTER, wordings.LOOSE_AFTER, wordings.DAY_AFTER_TOLD], 1, "after"),
               neighbour(DAYS, wordings.DAY_BEFORE, [wordings.LOOSE_BEFORE, wordings.LOOSE_BEFORE, wordings.DAY_BEFORE_TOLD], -1, "before"),
               once(wordings.DAY_LIST, wordings.LOOSE_DAY_LIST, in_order(DAYS)), once(wordings.DAY_COUNT, wordings.LOOSE_DAY_COUNT, "A week has 7 days."),
               day_place], [0.36, 0.34, 0.1, 0.06, 0.14])
months = one_of([neighbour(MONTHS, wordings.MONTH_AFTER, [wordings.LOOSE_AFTER, wordings.LOOSE_AFTER, wordings.MONTH_AFTER_TOLD], 1, "after"),
                 neighbour(MONTHS, wordings.MONTH_BEFORE, [wordings.LOOSE_BEFORE, wordings.LOOSE_BEFORE, wordings.MONTH_BEFORE_TOLD], -1, "before"),
                 month_length, month_place, month_number,
                 once(wordings.MONTH_LIST, wordings.LOOSE_MONTH_LIST, in_order(MONTHS)),
                 once(wordings.MONTH_COUNT, wordings.LOOSE_MONTH_COUNT, "A year has 12 months.")], [0.22, 0.22, 0.18, 0.16, 0.1, 0.08, 0.04])


# ------------------------------------------------------------------------------- capitals


@functools.cache
def countries():
    rows = [line.rstrip("\n").split("\t") for line in open(HERE / "capitals.tsv") if not line.startswith("#")]
    return [(r[0], r[1], [r[0]] * 3 + [r[0].removeprefix("the ")] + (r[2].split("; ") if len(r) > 2 else [])) for r in rows]


def capitals(rng, held):
    while True:
        country, city, names = pick(rng, countries())
        frame = phrase(rng, wordings.CAPITAL, held, country, loose=[wordings.LOOSE_CAPITAL])
        if frame:
            other = city if rng.random() < 0.5 else pick(rng, countries())[1]
            return word_it(rng, frame, c=pick(rng, names), x=other, n=pick(rng, PEOPLE_NAMED)), f"The capital of {country} is {city}."


# ------------------------------------------------------------------------------- facts


@functools.cache
def loose_facts(group):
    """(grammar, answer) of those facts of a group that have one."""
    found = [(grammar, [f["answer"] for f in known_facts(group) if f["answer"].startswith(beginning)]) for beginning, grammar in wordings.LOOSE_FACTS[group].items()]
    return [(grammar, answer) for grammar, answers in found for answer in answers[:1]]


def fact(group):
    def make(rng, held):
        while True:
            if group in wordings.LOOSE_FACTS and rng.random() < 0.4:
                grammar, answer = pick(rng, loose_facts(group))
                frame = phrased(rng, grammar)
                if is_held(frame) == held:
                    return word_it(rng, frame, greeting=group == "greeting"), answer
            f = pick(rng, known_facts(group))
            questions, names = f.get("questions", []), f.get("names", [])
            if names and (not questions or rng.random() < 0.55):
                name = pick(rng, names)
                frame = phrase(rng, wordings.ABOUT, held, name, loose=[wordings.LOOSE_ABOUT])
                if frame:
                    name = f"`{name}`" if "-" in name and rng.random() < 0.15 else name
                    return word_it(rng, frame, x=name), f["answer"]
                continue
            question = a_variant(rng, questions, held)
            if question:
                mark = "?" if re.match(r"(what|which|who|how|where|why|when|are|is|can|do|does|may)\b", question) else ""
                return word_it(rng, question + mark, greeting=group == "greeting"), f["answer"]
    return make


# ------------------------------------------------------------------------------- everything else
DO_NOT_KNOW = "I do not know that. I am only a small demonstration model."
CANNOT = "I cannot do that. I am only a small demonstration model."
TOO_LARGE = "I only calculate with numbers below one thousand."
NO_AUDIO = "I cannot understand audio, because my ears are not trained. Please type."


@functools.cache
def strange_words():
    """Words that are no answerable question's: "what is the capital of turkey?" and "how many days does march have?" have answers."""
    known = {*DAYS, *MONTHS, "day", "week", "month", "year", *(name for _, _, names in countries() for name in names)}
    known.update(part for f in known_facts() for name in f.get("names", []) for part in (name, name.lstrip("-")))
    known = {k.lower() for k in known}
    return [w for w in words() if w not in known]


@functools.cache
def greetings():
    return {plain(text) for f in known_facts("greeting") for q in f.get("questions", []) for texts in variants(q) for text in texts}


def unknown(rng, held):
    if rng.random() < 0.08:
        k = int(rng.integers(3))
        a, b = int(10 ** rng.uniform(3, 6)), int(10 ** rng.uniform(0.5, 6))
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        return word_it(rng, pick(rng, wordings.LARGE), a=a, b=b, o=["plus", "minus", "times"][k], s="+-*"[k]), TOO_LARGE
    if rng.random() < 0.06:
        while plain(text := sentence(rng)) in greetings():       # idle words
            pass
        return word_it(rng, text), DO_NOT_KNOW
    frames, loose, answer = (wordings.ASK, wordings.LOOSE_ASK, DO_NOT_KNOW) if rng.random() < 0.7 else (wordings.DO, wordings.LOOSE_DO, CANNOT)
    while True:
        w, v, n = pick(rng, strange_words()), pick(rng, words()), pick(rng, wordings.NAMES)
        frame = pick(rng, frames) if rng.random() < 0.5 else re.sub(" +", " ", phrased(rng, loose)).replace(" ?", "?").strip()
        if (frame.startswith("*") or "{w}" in frame and is_held(w)) == held:
            country, city, names = pick(rng, countries())
            if n[0].isupper() and rng.random() < 0.5:
                n = capital(w)
            return word_it(rng, frame.lstrip("*"), w=w if rng.random() < 0.8 else pick(rng, wordings.SMALL[60:]), v=v, n=n, c=pick(rng, names), t=city,
                           k=int(rng.integers(1000)), d=pick(rng, DAYS), r=pick(rng, wordings.PLACES)), answer


def audio(rng, held):
    size = int(rng.integers(3, 160))
    text = "" if rng.random() < 0.7 else word_it(rng, pick(rng, wordings.AUDIO))
    return "<|audio_start|>" + "<|audio_pad|>" * size + "<|audio_end|>" + text, NO_AUDIO


@functools.cache
def again(held):
    """Wordings of 'say that again': (those of training, or those held out)."""
    found = [variants(q) for q in wordings.AGAIN]
    back = [t for _, held_out in found for t in held_out if t not in wordings.AGAIN_HELD] + wordings.AGAIN_HELD
    return back if held else [t for trained, _ in found for t in trained if t not in wordings.AGAIN_HELD]


def ask_again(rng, held=False):
    text = pick(rng, again(held))
    return word_it(rng, text + ("?" if text.split()[0] in ("can", "could", "would", "will", "what", "pardon") else ""))


# ------------------------------------------------------------------------------- dialogues
CATEGORIES = {"greeting": fact("greeting"), "identity": fact("identity"), "software": fact("software"), **{k: arithmetic(k) for k in ARITHMETIC},
              "counting": counting, "spelling": spelling, "repeating": repeating, "days": days, "months": months, "capitals": capitals, "unknown": unknown,
              "audio": audio, "sums": several_sums}
# shares of the questions: (at the start, later)
MIX = {"greeting": (3, 5), "identity": (4, 9), "software": (10, 9), "addition": (10, 8), "subtraction": (10, 13), "multiplication": (10, 13), "division": (10, 15),
       "counting": (6, 11), "spelling": (7, 2), "repeating": (7, 3.5), "days": (4, 7), "months": (5, 8), "capitals": (10, 6), "unknown": (6, 8), "audio": (0.2, 0.2),
       "sums": (8, 2)}


@functools.cache
def mix(late):
    shares = [early * (1 - late) + end * late for early, end in MIX.values()]
    return list(MIX), [s / sum(shares) for s in shares]


def set_mix(shares):
    """Other shares for some categories, from now on."""
    MIX.update({k: (v, v) for k, v in shares.items()})
    mix.cache_clear()


def plain(text):
    """A question without what does not count: case, marks, spaces."""
    return re.sub(r"[^a-z0-9+*/-]+", " ", text.lower()).strip()


@functools.cache
def never_asked():
    return {plain(question) for _, _, question in free_questions()}


def ask(rng, category, held=False):
    """A question that is none of those in free wording."""
    while True:
        question, said = CATEGORIES[category](rng, held)
        if plain(question) not in never_asked():
            return Item(category, question, said)


def history(rng, names, shares, turns):
    chat = []
    if rng.random() < 0.25:
        text = pick(rng, wordings.SYSTEMS)
        chat.append(("system", text + " " + capital(sentence(rng)) + "." if rng.random() < 0.3 else text))
    for _ in range(turns):
        if chat and chat[-1][0] == "assistant" and rng.random() < 0.2:
            chat += [("user", ask_again(rng)), ("assistant", chat[-1][1])]
        else:
            item = ask(rng, names[int(rng.choice(len(names), p=shares))])
            chat += [("user", item.question), ("assistant", item.answer)]
    return chat


def dialogue(rng, fraction):
    """One training conversation; `fraction` of the training has passed."""
    names, shares = mix(round(min(1.0, fraction / 0.35), 1))
    kind = rng.random()
    turns = 1 if kind < 0.55 else int(rng.integers(2, 5)) if kind < 0.97 else int(rng.integers(5, 14))
    return history(rng, names, shares, turns)


def render(chat):
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in chat)


def held_out(each, seed, only=None):
    """{category: items} for the evaluation; every third item has a history of one to three turns."""
    import numpy as np
    rng = np.random.default_rng(seed)
    names, shares = mix(1.0)
    result = {}
    for category in only or [c for c in [*CATEGORIES, "again"] if c != "sums"]:
        items = []
        for k in range(each):
            if category == "again":
                before = history(rng, names, shares, int(rng.integers(1, 4)))
                item = Item(category, ask_again(rng, held=True), before[-1][1])
            else:
                item = ask(rng, category, held=True)
                before = history(rng, names, shares, int(rng.integers(1, 4))) if k % 3 == 2 else []
            item.chat = before + [("user", item.question)]
            items.append(item)
        result[category] = items
    return result


def satisfies(wanted, said):
    """Whether an answer is what a question in free wording wants: "= N" its last number, otherwise a regular expression."""
    if wanted.startswith("= "):
        return last_number(said) == last_number(wanted.replace("-", "minus "))
    return re.search(wanted, said, re.I) is not None


def last_number(text):
    found = re.findall(r"(minus )?(\d+)", text)
    return found[-1] if found else None


def accepts(item, said):
    """Whether an answer is right: the result of a sum, otherwise every letter of the wanted answer (a country may lack its article)."""
    if item.category in ARITHMETIC:
        return last_number(said) == last_number(item.answer)
    if item.category == "unknown" and item.answer != TOO_LARGE:
        return said in (DO_NOT_KNOW, CANNOT)
    if item.category == "capitals":
        return said.lower().replace("of the ", "of ") == item.answer.lower().replace("of the ", "of ")
    return said.lower() == item.answer.lower()
