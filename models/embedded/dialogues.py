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


@dataclass
class Item:
    category: str
    question: str
    answer: str
    chat: list = field(default_factory=list)      # (role, text) up to and with the question


def is_held(key):
    return zlib.crc32(key.lower().encode()) % HOLD == 0


def pick(rng, options):
    return options[int(rng.integers(len(options)))]


def capital(text):
    return text[:1].upper() + text[1:]


# ------------------------------------------------------------------------------- wording
TYPO_KEYS = "abcdefghijklmnopqrstuvwxyz"
OPENERS = ["please ", "hey, ", "hi, ", "ok, ", "so, ", "um, ", "now ", "and ", "hello, ", "hello! ", "tell me, ", "please tell me: ",
           "quick question: ", "i have a question: ", "can you tell me: ", "do you know: ", "omni, ", "well, ", "another one: ", "good. ",
           "hmm, ", "er, ", "oh, ", "listen, ", "by the way, ", "one more question: ", "dear omni, ", "be so kind: ", "ok omni, ", "next: ", "alright, ",
           "thanks! ", "great, ", "and then: ", "let me ask you: ", "for my homework: "]
CLOSERS = [" please", ", please", " thanks", ", thank you", ", omni", " now", " for me", ", if you can", ", if you don't mind", ", my friend", " then", ", ok",
           ", be so kind", " today", ", thanks a lot"]
SHORTER = [("what is", "what's"), ("what is", "whats"), ("how is", "how's"), ("which is", "which's"), ("do not", "don't"), ("i am", "i'm"), ("what are", "what're"),
           ("can you", "could you"), ("please", "kindly"), ("do you know", "d'you know"), ("how do i", "how'd i"), ("today is", "today's"), ("it is", "it's"),
           ("tell me", "just tell me"), ("what is", "what would be"), ("which", "say, which")]


def typo(rng, text):
    """One slip of the fingers in the words between the slots."""
    parts = re.split(r"(\{\w+\})", text)
    places = [(k, m.start()) for k, p in enumerate(parts) if not p.startswith("{") for m in re.finditer("[a-z]", p)]
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


def word_it(rng, frame, closers=True, **slots):
    """A frame in one of the many ways people type it; `closers`: something may follow it."""
    if rng.random() < 0.15:
        frame = frame.replace(*pick(rng, SHORTER))
    if rng.random() < 0.08:
        frame = typo(rng, frame)
    chance = rng.random()
    if chance < 0.15:
        frame = pick(rng, OPENERS) + frame
    closer = pick(rng, CLOSERS) if closers and 0.15 < chance < 0.22 else ""
    mark = frame[-1] if frame[-1] in "?.!" else ""
    if mark:
        frame = frame[:-1]
    if rng.random() < 0.3:
        mark = pick(rng, ["", "", "?", ".", "!"]) if ":" not in frame else mark
    text = frame.format(**slots) + closer + mark
    return capital(text) if rng.random() < 0.7 else text


# what people say in place of each other at the beginning of a question
SAME = [["how do i ", "how can i ", "how would i ", "how to ", "how should i ", "how could i "],
        ["which flag ", "what flag ", "which option ", "what option ", "which parameter "], ["which command ", "what command ", "which program ", "what "],
        ["which metric ", "what metric ", "which figure ", "which counter "], ["which part ", "what part ", "which component "], ["which stage ", "what stage "],
        ["how long ", "for how long "], ["what is the ", "what's the ", "tell me the ", "which is the ", "say the "], ["which target ", "what target ", "which make target "],
        ["is there a ", "do you have a ", "is there maybe a "], ["can omni ", "could omni ", "is omni able to "], ["which voices ", "what voices ", "how many voices "],
        ["what happens ", "what will happen ", "tell me what happens "], ["what does ", "tell me what does ", "so what does "], ["is omni ", "tell me, is omni ", "say, is omni "]]


@functools.cache
def variants(question):
    """Every wording of a question: its [choices|in|brackets] and its usual beginnings. (trained, held out)"""
    parts = [p[1:-1].split("|") if p.startswith("[") else [p] for p in re.split(r"(\[[^]]*\])", question)]
    texts = ["".join(p) for p in itertools.product(*parts)]
    for first, *others in SAME:
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
FRAMES = {
    "addition": ["{a}+{b}", "{a} + {b}", "{a}+{b}=", "{a} + {b} = ?", "{a} plus {b}", "what is {a} plus {b}?", "what is {a} + {b}?", "what is {a}+{b}?",
                 "how much is {a} plus {b}?", "how much is {a} + {b}?", "add {a} and {b}", "what is the sum of {a} and {b}?", "calculate {a} plus {b}.",
                 "compute {a} + {b}", "what do you get when you add {a} and {b}?", "sum of {a} and {b}", "what does {a} plus {b} make?",
                 "can you add {a} and {b}?", "{a} and {b} together make?", "work out {a} plus {b}.", "what do {a} and {b} add up to?", "how much do {a} and {b} make?",
                 "what is {a} and {b} in all?", "add {b} to {a}.", "{a} and {b}, what is the sum?", "i need {a} plus {b}.", "let us add {a} and {b}.",
                 "tell me the sum of {a} and {b}.", "so {a} plus {b} is what?", "what would {a} plus {b} be?", "there are {a} cars and {b} more come. how many cars are there now?",
                 "if you have {a} coins and find {b} more, how many coins do you have?",
                 "put {a} and {b} together.", "{a} increased by {b}", "raise {a} by {b}.", "{a} more than {b} is what?", "which number is {a} more than {b}?",
                 "what number do {a} and {b} come to?", "i had {a} apples and got {b} more. how many do i have?",
                 "anna has {a} stamps and tom has {b}. how many do they have together?", "put {a} on top of {b}.", "{a} and another {b}, how much is that?",
                 "a shelf holds {a} books. we add {b}. how many are on it then?", "i walk {a} steps and then {b} more. how many steps in all?",
                 "what is the total of {a} and {b}?", "total up {a} and {b}."],
    "subtraction": ["{a}-{b}", "{a} - {b}", "{a}-{b}=", "{a} - {b} = ?", "{a} minus {b}", "what is {a} minus {b}?", "what is {a} - {b}?", "what is {a}-{b}?",
                    "how much is {a} minus {b}?", "how much is {a} - {b}?", "subtract {b} from {a}.", "take {b} away from {a}.", "calculate {a} minus {b}.",
                    "compute {a} - {b}", "what is {a} less {b}?", "what is left when you take {b} from {a}?", "can you subtract {b} from {a}?",
                    "work out {a} minus {b}.", "take {b} from {a}.", "deduct {b} from {a}.", "{a} without {b}?", "what is the result of {a} minus {b}?",
                    "how much is left of {a} after taking away {b}?", "i need {a} minus {b}.", "so {a} minus {b} is what?", "what would {a} minus {b} be?",
                    "{a} take away {b}", "tell me {a} minus {b}.", "what do you have when you take {b} away from {a}?",
                    "there were {a} birds and {b} flew away. how many birds are left?",
                    "{a} reduced by {b}", "{a} decreased by {b}", "lower {a} by {b}.",
                    "which number is {b} less than {a}?", "i had {a} apples and ate {b}. how many are left?",
                    "tom has {a} marbles and loses {b}. how many does he keep?", "if you spend {b} of {a} dollars, what remains?",
                    "there are {a} seats and {b} are taken. how many are free?", "what remains of {a} without {b}?",
                    "i have read {b} of {a} pages. how many are left?", "go back {b} from {a}."],
    "multiplication": ["{a}*{b}", "{a} * {b}", "{a}x{b}", "{a} x {b}", "{a}*{b}=", "{a} x {b} = ?", "{a} times {b}", "what is {a} times {b}?", "what is {a} * {b}?",
                       "what is {a} x {b}?", "what is {a}*{b}?", "how much is {a} times {b}?", "multiply {a} by {b}.", "multiply {a} and {b}.",
                       "what is the product of {a} and {b}?", "calculate {a} times {b}.", "compute {a} * {b}", "what is {a} multiplied by {b}?",
                       "can you multiply {a} by {b}?", "{a} × {b}", "work out {a} times {b}.", "{a} multiplied by {b}", "what would {a} times {b} be?",
                       "so {a} times {b} is what?", "i need {a} times {b}.", "tell me {a} times {b}.", "how many are {a} times {b}?",
                       "what do you get when you multiply {a} by {b}?", "{a} by {b} multiplied is?", "there are {a} boxes with {b} pens each. how many pens is that?",
                       "{a} lots of {b}", "{a} groups of {b}, how many is that?", "{a} multiplied with {b} gives what?", "take {a} {b} times.", "how much is {a} multiplied by {b}?",
                       "find the product of {a} and {b}.", "i buy {a} tickets at {b} dollars each. what do i pay?", "{a} rows with {b} chairs each: how many chairs?",
                       "a room is {a} by {b} feet. how many square feet?", "every one of {a} children has {b} pencils. how many pencils are there?",
                       "a train has {a} cars with {b} seats each. how many seats?", "if i save {a} coins a week, how many do i have after {b} weeks?",
                       "add up {a} {b} times.", "{a} packs of {b} eggs, how many eggs are there?"],
    "division": ["{a}/{b}", "{a} / {b}", "{a}:{b}", "{a}/{b}=", "{a} / {b} = ?", "{a} divided by {b}", "what is {a} divided by {b}?", "what is {a} / {b}?",
                 "what is {a}/{b}?", "how much is {a} divided by {b}?", "divide {a} by {b}.", "can you divide {a} by {b}?", "calculate {a} divided by {b}.",
                 "compute {a} / {b}", "how often does {b} go into {a}?", "{a} ÷ {b}", "work out {a} divided by {b}.", "what is {a} over {b}?",
                 "what would {a} divided by {b} be?", "so {a} divided by {b} is what?", "i need {a} divided by {b}.", "tell me {a} divided by {b}.",
                 "split {a} into {b} equal parts.", "how many {b}s are in {a}?", "how many times does {b} go into {a}?", "what do you get when you divide {a} by {b}?",
                 "{a} coins for {b} people: how many does each get?",
                 "share {a} among {b} people.", "{a} shared by {b}", "{a} split {b} ways", "how many groups of {b} can i make from {a}?", "what is {a} split by {b}?",
                 "cut {a} into {b} equal pieces. how large is each?", "{b} friends share {a} sweets. how many does each get?",
                 "i have {a} eggs and {b} fit into a box. how many boxes do i need?", "what is the quotient of {a} and {b}?",
                 "{b} tickets cost {a} dollars. what does one cost?", "a rope of {a} feet is cut into {b} equal parts. how long is each?",
                 "{a} pupils make {b} equal teams. how many are in a team?", "deal {a} cards to {b} players. how many does each one get?"],
}
SIGNS = {"addition": "+", "subtraction": "-", "multiplication": "*", "division": "/"}


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


def arithmetic(kind):
    def make(rng, held):
        while True:
            a, b = operands(rng, kind)
            if is_held(sum_key(kind, a, b)) == held:
                break
        write = number if max(a, b) <= 100 and rng.random() < (0.1 if held else 0.2) else str
        return word_it(rng, pick(rng, FRAMES[kind]), a=write(a), b=write(b)), solve(kind, a, b)
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
UP = ["count from {a} to {b}.", "count up from {a} to {b}.", "please count from {a} to {b}.", "can you count from {a} to {b}?", "count {a} to {b}",
      "count from {a} up to {b}", "say the numbers from {a} to {b}.", "list the numbers from {a} to {b}.", "what are the numbers from {a} to {b}?",
      "start counting at {a} and stop at {b}.", "give me the numbers from {a} to {b}.", "count on from {a} until {b}.", "which numbers are from {a} to {b}?",
      "count for me from {a} to {b}.", "from {a} to {b}, count.",
      "let me hear the numbers from {a} to {b}.", "go from {a} to {b} one by one.", "start with {a} and go up to {b}.", "begin at {a} and count until you reach {b}.",
      "all numbers between {a} and {b}, with both ends, please.", "tell me every number from {a} to {b}."]
DOWN = ["count down from {a} to {b}.", "count backwards from {a} to {b}.", "count from {a} down to {b}.", "please count down from {a} to {b}.",
        "can you count down from {a} to {b}?", "count from {a} to {b}.", "count backward from {a} to {b}.", "count from {a} to {b}.", "count {a} to {b}",
        "say the numbers from {a} down to {b}.", "please count from {a} to {b}.", "can you count from {a} to {b}?", "say the numbers from {a} to {b}.",
        "list the numbers from {a} to {b}.", "start at {a} and count backwards until {b}.", "from {a} to {b}, count down.", "countdown from {a} until {b}.",
        "count in reverse from {a} to {b}.",
        "let me hear the numbers from {a} down to {b}.", "go down from {a} to {b}.", "start with {a} and go down to {b}.",
        "begin at {a} and count back until you reach {b}.", "starting at {a}, count backwards to {b}."]
BY = ["count from {a} to {b} by {s}.", "count by {s} from {a} to {b}.", "count in {s} from {a} to {b}.", "count from {a} to {b} in {s}.",
      "can you count by {s} from {a} to {b}?", "count from {a} to {b} in steps of {n}.", "by {s}, count from {a} to {b}.", "say the numbers from {a} to {b} by {s}.",
      "count from {a} to {b}, but by {s}.", "start at {a} and count by {s} until {b}.",
      "count from {a} to {b} in jumps of {n}.", "go from {a} to {b} in steps of {n}.", "take steps of {n} from {a} to {b}.",
      "let me hear you count from {a} to {b} by {s}.", "with a step of {n}, count from {a} to {b}."]
TO = ["count to {b}.", "can you count to {b}?", "please count to {b}.", "count up to {b}.", "count until {b}.", "just count to {b}.",
      "how do you count to {b}?", "i want you to count to {b}.",
      "let me hear you count to {b}.", "show me that you can count to {b}.", "count as far as {b}.", "say all the numbers up to {b}.",
      "go on counting until you reach {b}.", "are you able to count to {b}?"]


def counting(rng, held):
    while True:
        step = int(rng.choice([1, 2, 5, 10], p=[0.64, 0.12, 0.12, 0.12]))
        terms = int(rng.integers(2, 6)) if rng.random() < 0.25 else int(rng.integers(3, 15))
        a = int(rng.integers(1, 30)) if rng.random() < 0.5 else int(rng.integers(0, 1000 - step * terms))
        a = a if step == 1 else a // step * step
        b = a + step * (terms - 1)
        if rng.random() < 0.1 and b <= 20:
            a, step = 1, 1
        down = rng.random() < 0.5
        if down:
            a, b = b, a
        if a != b and b < 1000 and is_held(f"count {a} {b} {step}") == held:
            break
    numbers = range(a, b + (-1 if down else 1), -step if down else step)
    if step > 1:
        frame = pick(rng, BY).replace("count", "count down" if down and rng.random() < 0.7 else "count", 1)
    else:
        frame = pick(rng, DOWN) if down else pick(rng, TO) if a == 1 and rng.random() < 0.7 else pick(rng, UP)
    write = number if max(a, b) <= 20 and rng.random() < 0.25 else str
    return word_it(rng, frame, a=write(a), b=write(b), s=STEPS[step], n=step), ", ".join(map(str, numbers)) + "."


# ------------------------------------------------------------------------------- spelling, repeating
SPELL = ["spell {w}.", "how do you spell {w}?", "how is {w} spelled?", "can you spell {w}?", "spell the word {w}.", "please spell {w}.", "how do i spell {w}?",
         "how do you write {w}?", "spell {w} for me.", "what are the letters of {w}?", "how would you spell {w}?", "could you spell {w}?", "give me the letters of {w}.",
         "i want to know how to spell {w}.", "how should {w} be spelled?", "tell me how {w} is spelled.", "i forgot how to spell {w}.", "{w}: how is that spelled?",
         "what is the spelling of {w}?", "which letters are in {w}?", "can you spell the word {w}?", "spell: {w}",
         "spell out {w}.", "spell out the word {w}, please.", "what is the right way to spell {w}?", "how does one spell {w}?",
         "i don't know how {w} is written.", "how is the word {w} written?", "break {w} up into its letters.", "give me {w} letter for letter.",
         "which letters make up {w}?"]
REPEAT = ["repeat after me: {s}", "say: {s}", "repeat: {s}", "please say: {s}", "say after me: {s}", "repeat this: {s}", "say \"{s}\"", "repeat \"{s}\"",
          "please repeat: {s}", "can you say: {s}", "say the following: {s}", "repeat this sentence: {s}", "read this aloud: {s}", "repeat the words: {s}", "say this: {s}",
          "could you repeat: {s}", "repeat the sentence: {s}", "just say: {s}", "speak these words: {s}", "echo: {s}", "please repeat the following: {s}", "read out: {s}",
          "say these words after me: {s}", "copy what i say: {s}", "please say this: {s}", "i say, and you repeat: {s}", "now say \"{s}\" please", "can you repeat \"{s}\"",
          "can you say this after me: {s}", "i want to hear you say: {s}", "would you say: {s}", "parrot this: {s}",
          "recite this: {s}", "tell me these words: {s}", "give me back these words: {s}", "pronounce: {s}", "say it like me: {s}"]
SMALL = ("the a my your our this that i you we they he she it is was are has had can will and or but of in on at to with for from by not very new old big small good "
         "red green blue cold warm first last next one two three time day man woman child house door water tree road city book name word hand light night "
         "morning friend dog cat bird sun moon rain wind snow sea river hill bread milk tea train car boat music song voice story game work school window table chair "
         "user system assistant server likes sees wants makes takes gives finds keeps reads writes sings runs walks comes goes eats drinks sleeps opens closes stands speaks").split()


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
    return pick(rng, words())


def spelling(rng, held):
    while True:
        w = a_word(rng)
        if is_held(f"word {w}") == held:
            break
    return word_it(rng, pick(rng, SPELL), w=w), f"{capital(w)} is spelled {' '.join(w.upper())}."


def sentence(rng):
    share = rng.random()
    out = [pick(rng, SMALL) if rng.random() < share else pick(rng, words()) for _ in range(int(rng.integers(1, 9)))]
    if rng.random() < 0.1:
        out[int(rng.integers(len(out)))] = str(int(rng.integers(1000)))
    if len(out) > 2 and rng.random() < 0.3:                    # words that are alike, or the same again: where is the reader?
        k = int(rng.integers(1, len(out)))
        alike = by_letters().get(out[k - 1][:2], [out[k - 1]])
        out[k] = out[k - 1] if rng.random() < 0.2 else pick(rng, alike)
    text = " ".join(out)
    return text.replace(" ", ", ", 1) if rng.random() < 0.12 else text


def repeating(rng, held):
    while True:
        s = sentence(rng)
        if is_held(f"say {s}") == held:
            break
    mark = pick(rng, ["", ".", ".", "!", "?"])
    return word_it(rng, pick(rng, REPEAT).replace("{s}", "{s}" + mark), closers=False, s=s), capital(s) + (mark or ".")


# ------------------------------------------------------------------------------- days, months
# frames marked with * are never trained on
DAY_AFTER = ["what day comes after {d}?", "which day comes after {d}?", "what day is after {d}?", "which day follows {d}?", "what comes after {d}?", "the day after {d}?",
             "what is the day after {d}?", "which is the next day after {d}?", "after {d} comes?", "today is {d}. what day is tomorrow?", "if today is {d}, what is tomorrow?",
             "what weekday comes after {d}?", "which day is next after {d}?", "*what day follows {d}?", "if it is {d} today, what day is tomorrow?",
             "it is {d} today, so which day is tomorrow?", "tell me the day after {d}.", "which day comes right after {d}?", "if yesterday was {d}, which day is it today?",
             "what will tomorrow be if it is {d} now?", "the next day after {d}?", "which weekday follows {d}?", "{d} is over. what day is it now?", "what day do we have after {d}?",
             "if today is {d}, tomorrow is?", "if today is {d}, tomorrow will be what day?",
             "when {d} ends, which day begins?", "{d} is followed by which day?", "what day will it be once {d} is over?",
             "tonight {d} ends. what day is it in the morning?", "*{d} today, so what do we have tomorrow?", "which day do you get if you go one day on from {d}?",
             "one day later than {d} is which day?"]
DAY_BEFORE = ["what day comes before {d}?", "which day comes before {d}?", "what day is before {d}?", "which day precedes {d}?", "what comes before {d}?", "the day before {d}?",
              "what is the day before {d}?", "before {d} comes?", "today is {d}. what day was yesterday?", "if today is {d}, what was yesterday?", "what weekday comes before {d}?",
              "which is the day before {d}?", "which day is right before {d}?", "if it is {d} today, what day was yesterday?", "tell me the day before {d}.",
              "what day precedes {d}?", "if tomorrow is {d}, which day is it today?", "today it is {d}, so what was yesterday?", "which weekday is before {d}?",
              "what day do we have before {d}?", "what was the day before {d}?",
              "if today is {d}, yesterday was?", "if today is {d}, what day did we have yesterday?", "tomorrow is {d}, so what is today?",
              "tomorrow will be {d}. what day is it now?", "which day ends when {d} begins?", "{d} comes after which day?", "{d} follows which day?",
              "which day do you get if you go one day back from {d}?", "one day earlier than {d} is which day?", "it is {d} today. what did we have yesterday?"]
DAY_LIST = ["[name|list|say|tell me|recite|give me|can you name|can you list|write] [the|all|all the] [days of the week|weekdays|days of a week][| in order]",
            "[what|which] are the [days of the week|weekdays]?", "i want [to hear|to know] [the|all the] [days of the week|weekdays].", "how are the days of the week called?", "[what|which] days are [there|in a week|in the week]?", "[the |]days of the week[| in order]"]
DAY_COUNT = ["how many days are in [a|one|the] week?", "how many days [does|do you think does] [a|one|the] week have?", "how many days [has|are there in|make] [a|one] week?",
             "[the |]number of days in a week?", "do you know how many days [a|the] week has?", "tell me how many days there are in a week."]
DAY_PLACE = ["what is the {n} day of the week?", "which day is the {n} day of the week?", "the {n} day of the week?", "name the {n} day of the week.",
             "which is the {n} day of a week?"]
MONTH_AFTER = ["which month comes after {d}?", "what month comes after {d}?", "what month is after {d}?", "which month follows {d}?", "what comes after {d}?", "the month after {d}?",
               "what is the month after {d}?", "after {d} comes?", "which is the next month after {d}?", "what month follows {d}?", "*which month is next after {d}?",
               "tell me the month after {d}.", "it is {d}. what month comes then?", "which month comes right after {d}?", "what month do we have after {d}?",
               "if it is {d} now, which month comes next?",
               "if this month is {d}, what is next month?", "{d} is followed by which month?", "when {d} ends, which month begins?",
               "last month was {d}. what month is it now?", "we are in {d}. what will next month be?", "one month after {d} is which month?",
               "which month do i turn the calendar to after {d}?"]
MONTH_BEFORE = ["which month comes before {d}?", "what month comes before {d}?", "what month is before {d}?", "which month precedes {d}?", "what comes before {d}?",
                "the month before {d}?", "what is the month before {d}?", "before {d} comes?", "which month is right before {d}?", "tell me the month before {d}.",
                "what month precedes {d}?", "which month do we have before {d}?", "what month came before {d}?", "if it is {d} now, which month was before?",
                "if this month is {d}, what was last month?", "{d} follows which month?", "{d} comes after which month?", "which month ends when {d} begins?",
                "next month is {d}. what month is it now?", "we are in {d}. what was last month?", "one month before {d} is which month?",
                "which month leads up to {d}?"]
MONTH_LENGTH = ["how many days does {d} have?", "how many days are in {d}?", "how many days has {d}?", "how long is {d}?", "number of days in {d}?", "what is the number of days in {d}?",
                "how many days are there in {d}?", "how many days long is {d}?",
                "does {d} have 31 days?", "how many days does the month of {d} have?", "tell me the length of {d}.", "what is the length of {d} in days?", "is {d} a long month?",
                "how many days do i have in {d}?", "of how many days is {d} made?",
                "how many days long is the month of {d}?", "{d} has how many days?", "what is the number of days that {d} has?"]
MONTH_PLACE = ["what is the {n} month?", "which month is the {n} month?", "which month is number {k}?", "what is month number {k}?", "what is the {n} month of the year?",
               "name the {n} month of the year.", "what is the {n} month called?", "tell me the {n} month.", "which month comes {n} in the year?",
               "which is the {n} month?", "the {n} month of the year?", "which one is the {n} month of the year?", "name month {k}.",
               "which month stands in place {k}?", "month number {k} is which one?", "i need the name of month {k}.", "the {n} one of the twelve months is?",
               "which month do people write as {k}?", "the calendar's {n} month is called what?"]
MONTH_NUMBER = ["which number is {d}?", "what number is {d}?", "what number is the month {d}?", "which month of the year is {d}?", "what number does {d} have?",
                "{d} is which number?", "which place does {d} have in the year?", "how do i write {d} as a number?", "as a number, which month is {d}?",
                "what is the number of {d} among the twelve months?", "at which place in the year does {d} come?"]
MONTH_LIST = ["[name|list|say|tell me|recite|give me|can you name|can you list|write] [the|all|all the] months[| of the year| of a year][| in order]",
              "[what|which] are the months[| of the year]?", "i want [to hear|to know] [the|all the] months[| of the year].", "how are the months called?",
              "[what|which] months are [there|in a year|in the year]?", "[the |]months of the year[| in order]",
              "[let me hear|take me through|go through] [the|all the|all twelve] months",
              "what are the twelve months[| called]?", "[list|name] all twelve[| of the] months",
              "january, february and so on, [go on|name them all|what are they all]?"]
MONTH_COUNT = ["how many months are in [a|one|the] year?", "how many months [does|do you think does] [a|one|the] year have?", "how many months [has|are there in|make] [a|one] year?",
               "[the |]number of months in a year?", "do you know how many months [a|the] year has?", "tell me how many months there are in a year.",
               "a year has how many months?", "how many months go by in [a|one] year?", "into how many months is [a|the] year divided?",
               "of how many months does a year consist?", "[count|how many are] the months of [a|the] year?"]


def phrase(rng, frames, held, *key):
    """A frame, or None: a held-out one is marked with * or does not go with this key in training."""
    frame = pick(rng, frames)
    kept_back = frame.startswith("*") or is_held(" ".join(map(str, key)) + frame)
    return frame.lstrip("*") if kept_back == held else None


def once(questions, answer):
    def make(rng, held):
        question = a_variant(rng, questions, held)
        return question and (question, {}, answer)
    return make


def neighbour(names, frames, by, relation):
    def make(rng, held):
        k = int(rng.integers(len(names)))
        frame = phrase(rng, frames, held, names[k])
        other = names[(k + by) % len(names)]
        return frame and (frame, dict(d=names[k]), f"{other} comes {relation} {names[k]}.")
    return make


def day_place(rng, held):
    k = int(rng.integers(7))
    frame = phrase(rng, DAY_PLACE, held, k)
    return frame and (frame, dict(n=ORDINALS[k]), f"Counting from Monday, the {ORDINALS[k]} day is {DAYS[k]}.")


def month_length(rng, held):
    k = int(rng.integers(12))
    frame = phrase(rng, MONTH_LENGTH, held, k)
    return frame and (frame, dict(d=MONTHS[k]), f"{MONTHS[k]} has {LENGTHS[k]} days{', or 29 in a leap year' if k == 1 else ''}.")


def month_place(rng, held):
    k = int(rng.integers(12))
    frame = phrase(rng, MONTH_PLACE, held, k)
    return frame and (frame, dict(n=ORDINALS[k], k=k + 1), f"The {ORDINALS[k]} month is {MONTHS[k]}.")


def month_number(rng, held):
    k = int(rng.integers(12))
    frame = phrase(rng, MONTH_NUMBER, held, k)
    return frame and (frame, dict(d=MONTHS[k]), f"{MONTHS[k]} is month number {k + 1}.")


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


days = one_of([neighbour(DAYS, DAY_AFTER, 1, "after"), neighbour(DAYS, DAY_BEFORE, -1, "before"), once(DAY_LIST, in_order(DAYS)),
               once(DAY_COUNT, "A week has 7 days."), day_place], [0.36, 0.34, 0.1, 0.06, 0.14])
months = one_of([neighbour(MONTHS, MONTH_AFTER, 1, "after"), neighbour(MONTHS, MONTH_BEFORE, -1, "before"), month_length, month_place, month_number,
                 once(MONTH_LIST, in_order(MONTHS)), once(MONTH_COUNT, "A year has 12 months.")], [0.22, 0.22, 0.18, 0.16, 0.1, 0.08, 0.04])


# ------------------------------------------------------------------------------- capitals
CAPITAL = ["what is the capital of {c}?", "what is {c}'s capital?", "what is the capital city of {c}?", "which city is the capital of {c}?", "capital of {c}?",
           "name the capital of {c}.", "tell me the capital of {c}.", "do you know the capital of {c}?", "the capital of {c}?", "what city is the capital of {c}?",
           "{c} has which capital?", "which capital does {c} have?", "can you tell me the capital of {c}?", "which is the capital of {c}?", "what is the name of the capital of {c}?",
           "{c}'s capital?", "{c}'s capital city?", "name {c}'s capital.", "tell me {c}'s capital city.", "do you know {c}'s capital?", "which is {c}'s capital?",
           "what city is {c}'s capital?", "what is the name of {c}'s capital city?", "how is the capital of {c} called?", "the capital city of {c}?", "{c}, capital?",
           "which city is the capital city of {c}?", "what is the capital of {c} called?", "i need the capital of {c}.", "name the capital city of {c}.",
           "what do you know about {c}'s capital city?", "can you name {c}'s capital city?", "the capital of {c} is which city?", "what would {c}'s capital be?",
           "*what is {c}'s capital city?", "*i would like to know the capital of {c}.", "*say the capital of {c}.", "*which city is {c}'s capital?",
           "what do they call the capital of {c}?",
           "i am looking for the capital of {c}.", "remind me of the capital of {c}.",
           "what city do i look for if i want {c}'s capital?", "*help me with the capital of {c}.", "give me the capital of {c}.", "could you name the capital of {c}?"]


@functools.cache
def countries():
    rows = [line.rstrip("\n").split("\t") for line in open(HERE / "capitals.tsv") if not line.startswith("#")]
    return [(r[0], r[1], [r[0]] * 3 + [r[0].removeprefix("the ")] + (r[2].split("; ") if len(r) > 2 else [])) for r in rows]


def capitals(rng, held):
    while True:
        country, city, names = pick(rng, countries())
        frame = phrase(rng, CAPITAL, held, country)
        if frame:
            return word_it(rng, frame, c=pick(rng, names)), f"The capital of {country} is {city}."


# ------------------------------------------------------------------------------- facts
ABOUT = ["what is {x}?", "what does {x} do?", "what is {x} for?", "explain {x}.", "tell me about {x}.", "describe {x}.", "{x}?", "what does {x} mean?", "help with {x}",
         "can you explain {x}?", "what do i need {x} for?", "how does {x} work?", "i have a question about {x}", "what can you tell me about {x}?", "why is there {x}?",
         "how is {x} used?", "when would i use {x}?", "why would i need {x}?", "tell me what {x} is.", "tell me what {x} does.", "i need help with {x}.", "what happens with {x}?",
         "how do i use {x}?", "when do i need {x}?", "could you explain {x}?", "what about {x}?", "show me what {x} does.",
         "*what is the purpose of {x}?", "*please describe {x} to me.", "*what do you know about {x}?"]


def fact(group):
    def make(rng, held):
        while True:
            f = pick(rng, known_facts(group))
            questions, names = f.get("questions", []), f.get("names", [])
            if names and (not questions or rng.random() < 0.55):
                name = pick(rng, names)
                frame = phrase(rng, ABOUT, held, name)
                if frame:
                    name = f"`{name}`" if "-" in name and rng.random() < 0.15 else name
                    return word_it(rng, frame, x=name), f["answer"]
                continue
            question = a_variant(rng, questions, held)
            if question:
                mark = "?" if re.match(r"(what|which|who|how|where|why|when|are|is|can|do|does|may)\b", question) else ""
                return word_it(rng, question + mark), f["answer"]
    return make


# ------------------------------------------------------------------------------- everything else
DO_NOT_KNOW = "I do not know that. I am only a small demonstration model."
CANNOT = "I cannot do that. I am only a small demonstration model."
TOO_LARGE = "I only calculate with numbers below one thousand."
NO_AUDIO = "I cannot understand audio, because my ears are not trained. Please type."
NAMES = ("Napoleon;Einstein;Mozart;Shakespeare;Plato;Newton;Cleopatra;Caesar;Darwin;Picasso;Beethoven;Lincoln;Columbus;Galileo;Homer;Buddha;Gandhi;Tesla;Edison;Curie;"
         "Anna;Peter;Maria;John;Tom;Lisa;Mr. Smith;my neighbour;my brother;my sister;the president;the king;the queen;the pope;the mayor").split(";")
ASK = ["who is {n}?", "who was {n}?", "when was {n} born?", "where does {n} live?", "what did {n} say?", "how old is {n}?", "is {n} at home?", "when did {n} die?",
       "what is the meaning of {w}?", "what is a {w}?", "what does {w} mean?", "why is the {w} so {v}?", "how does a {w} work?", "where can i buy a {w}?", "how much does a {w} cost?",
       "how do i cook {w}?", "what color is the {w}?", "how do i repair a {w}?", "is a {w} bigger than a {v}?", "what is the difference between {w} and {v}?", "who invented the {w}?",
       "when was the {w} invented?", "is {w} healthy?", "what is the best {w}?", "where is the {w}?", "do you like {w}?", "what do you think about {w}?", "have you seen my {w}?",
       "what is the weather like today?", "will it rain tomorrow?", "what time is it?", "what is the date today?", "what day is it today?", "what is the temperature outside?",
       "who won the game last night?", "what is the price of {w}?", "what is the meaning of life?", "how far is the moon?", "how tall is {n}?", "what is the population of {c}?",
       "which language is spoken in {c}?", "who is the president of {c}?", "what is the largest city in {c}?", "how large is {c}?", "where is {c}?", "what is the currency of {c}?",
       "which country has the capital {t}?", "{t} is the capital of which country?", "what is the capital of {w}?", "what is the capital of {n}?", "how many days does {w} have?",
       "what is the flag of {c}?", "is {c} a nice country?", "what is the square root of {k}?", "is {k} a prime number?", "what does --{w} do?", "explain the flag --{w}.",
       "what is the metric vllm:{w}?", "is there any {w} left?", "should i {w} today?", "what should i wear?", "what is your favorite {w}?", "do {w} and {v} go together?",
       "where did {n} go?", "who is the best {w}?", "what happened in {c}?", "how do i get to {t}?", "is it {w} in {t}?", "can i {w} here?", "why are you {w}?", "who made the {w}?",
       "what is the name of {n}?", "when is the next {w}?", "how do you make {w}?", "what is inside a {w}?", "how long does a {w} live?", "what sound does a {w} make?",
       "does {n} like {w}?", "is {n} in {t}?", "what is the news?", "what is the news about {n}?", "who is at the door?", "what is on television?", "how many people live in {t}?",
       "what is the {w} of {c}?", "what is the {w} of {n}?", "what is the highest mountain?", "how fast is a {w}?", "what is the opposite of {w}?", "what rhymes with {w}?",
       "how many letters does {w} have?", "what is a synonym for {w}?", "where do {w} come from?", "did you know that {n} is {w}?", "is the earth round?", "what is love?",
       "what are {w} made of?", "how deep is the sea?", "what is the {w}?", "which {w} should i choose?", "what will happen to {n}?", "was {n} right?", "how is {n}?", "how is the {w}?",
       "what is quantum {w}?", "why do people {w}?", "can birds {w}?", "how many {w} are there?", "who wrote {w}?", "tell me about {w}.",
       "*who has seen {n}?", "*where can i find {w}?", "*what is the history of {w}?", "*is there a {w} in {c}?", "*how heavy is a {w}?", "*which {w} is the best?",
       "*why did {n} {w}?", "*when does the {w} open?",
       "how many calories are in {w}?", "who is your favorite singer?", "what is for dinner tonight?", "when does the bus to {t} leave?",
       "is the shop around the corner still open?", "how do i get rid of {w}?", "what is the fastest way to {t}?", "will {n} come to the party?",
       "what did {n} eat for breakfast?", "why is the sky blue?", "how do airplanes fly?", "who discovered {w}?", "what is the phone number of {n}?",
       "how much money does {n} have?", "what is on the menu today?", "which film should i watch?", "is it going to snow in {t}?",
       "what is the best restaurant in {t}?", "how do i lose weight?", "why does my {w} hurt?", "what is my bank balance?", "who will win the election in {c}?",
       "where did i put my keys?", "what do {w} eat?", "how hot is the sun?", "*what should i cook with {w}?", "*who is older, {n} or my {w}?"]
DO = ["write a poem about {w}.", "write a story about {n}.", "tell me a joke.", "tell me a story.", "sing a song.", "play some music.", "write a letter to {n}.", "translate {w} into french.",
      "translate this into german: {w}", "open the {w}.", "turn on the {w}.", "call {n}.", "send a message to {n}.", "buy a {w}.", "set an alarm for {k}.", "remind me of the {w}.",
      "draw a {w}.", "write a program that sorts {w}.", "book a flight to {t}.", "show me a picture of {w}.", "search the web for {w}.", "summarize the book about {w}.",
      "play {w}.", "sing {w}.", "write a song.", "write me an email about {w}.", "make a joke about {n}.", "tell me a story about a {w}.", "tell me something about {n}.",
       "read the newspaper.", "read my messages.", "read a book to me.", "draw a picture of {n}.", "paint the {w}.", "invent a {w}.", "invent a game with {w}.", "compose a song.",
       "order a pizza.", "call a taxi.", "call my mother.", "close the {w}.", "clean the {w}.", "switch off the light.", "turn off the {w}.", "dance with {n}.", "cook some {w}.",
       "teach me {w}.", "help me with my {w}.", "fix the {w}.", "find me a {w} in {t}.", "look up {w}.", "show me the {w}.", "send {n} a {w}.", "translate {w}.", "describe a {w}.",
       "give me some {w}.", "write code for a {w}.", "plan a trip to {c}.", "reserve a table in {t}.", "wake me up at {k}.", "start the {w}.", "stop the {w}.", "pay the {w}.",
       "order a {w}.", "give me a recipe for {w}.", "find {n}.", "write an essay about {w}.", "solve the puzzle of the {w}.", "explain {w} to a child.", "make a list of {w}.",
      "*write a song about {w}.", "*invent a story about {n} and a {w}.", "*order a taxi to {t}.", "*draw {n} with a {w}.", "*read me the news.", "*compose a tune for {n}.",
      "write a letter of application.", "order some flowers for {n}.", "set a timer for {k} minutes.", "put {w} on my shopping list.", "take a photo of {n}.",
      "make me a cup of tea.", "print the {w}.", "install the {w}.", "log me in.", "lock the front door.", "turn up the heating.", "make me laugh.",
      "tell {n} that i am late.", "cancel my appointment with {n}.", "find the cheapest flight to {c}.", "write my homework about {w}.",
      "correct this essay about {w}.", "show me the way to {t}.", "download the {w}.", "delete my emails.", "add {n} to my contacts.", "water the plants.",
      "play a game with me.", "rap about {w}.", "*remind me to call {n}.", "*put the {w} into my calendar."]
LARGE = ["what is {a} {o} {b}?", "{a} {s} {b}", "how much is {a} {o} {b}?", "{a}{s}{b}", "calculate {a} {o} {b}."]


def unknown(rng, held):
    if rng.random() < 0.08:
        k = int(rng.integers(3))
        a, b = int(10 ** rng.uniform(3, 6)), int(10 ** rng.uniform(0.5, 6))
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        return word_it(rng, pick(rng, LARGE), a=a, b=b, o=["plus", "minus", "times"][k], s="+-*"[k]), TOO_LARGE
    if rng.random() < 0.06:
        text = sentence(rng)                       # idle words
        return word_it(rng, text), DO_NOT_KNOW
    frames, answer = (ASK, DO_NOT_KNOW) if rng.random() < 0.7 else (DO, CANNOT)
    while True:
        w, v, n = pick(rng, words()), pick(rng, words()), pick(rng, NAMES)
        frame = pick(rng, frames)
        if (frame.startswith("*") or "{w}" in frame and is_held(w)) == held:
            country, city, names = pick(rng, countries())
            if n[0].isupper() and rng.random() < 0.5:
                n = capital(w)
            return word_it(rng, frame.lstrip("*"), w=w if rng.random() < 0.8 else pick(rng, SMALL[60:]), v=v, n=n, c=pick(rng, names), t=city,
                           k=int(rng.integers(1000))), answer


def audio(rng, held):
    size = int(rng.integers(3, 160))
    text = "" if rng.random() < 0.7 else word_it(rng, pick(rng, ["what do you hear?", "what did i say?", "please answer.", "listen to this.", "what is this?"]))
    return "<|audio_start|>" + "<|audio_pad|>" * size + "<|audio_end|>" + text, NO_AUDIO


AGAIN = ["[|please ][repeat|say|tell me] [that|it|this][| again| once more| one more time| please]",
         "[|please ][repeat|say|tell me] [your answer|your last answer|the answer|what you said][| again| once more| please]",
         "[can|could|would|will] you [repeat|say] [that|it|your answer|what you said][| again| once more| one more time| please]",
         "[once more|again|another time|say again][| please]", "what [did you say|was that|was your answer|did you answer][| again| just now]",
         "[pardon|pardon me|come again|i beg your pardon]", "i did not [hear|catch|get] [that|it|your answer|what you said]"]
AGAIN_HELD = ["one more time", "could you repeat your answer", "say your answer again"]


@functools.cache
def again(held):
    """Wordings of 'say that again': (those of training, or those held out)."""
    found = [variants(q) for q in AGAIN]
    back = [t for _, held_out in found for t in held_out if t not in AGAIN_HELD] + AGAIN_HELD
    return back if held else [t for trained, _ in found for t in trained if t not in AGAIN_HELD]


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
SYSTEMS = ["You are a helpful assistant.", "You are Omni, a friendly voice assistant.", "Answer briefly.", "You are a virtual voice assistant with no gender or age.",
           "Be polite and answer in one sentence.", "You are a pirate. Talk like one.", "You speak with children.", "Keep it short.", "You are an expert in everything.",
           "Reply in English.", "You are a smart home assistant. Do not use markdown.", "Always be honest.", "Answer the questions of the user."]


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
        text = pick(rng, SYSTEMS)
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
