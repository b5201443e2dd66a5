"""Text for the teacher: freely licensed sources and templates, in the normaliser's alphabet.

Sources (Debian packages): wordnet-base (glosses and example sentences), bible-kjv-text through
the `bible` program, fortunes, wamerican-large. Templates cover what those lack: numbers, dates,
times, spelled letters, addresses, lists, greetings, questions, software.
"""
import glob
import random
import re
import subprocess

from common import CHARACTERS, MAX_CHARS

WORDNET = "/usr/share/wordnet"
FORTUNES = "/usr/share/games/fortunes"
WORDS = "/usr/share/dict/american-english-large"
COARSE = re.compile(r"\b(fuck\w*|shit\w*|cunt\w*|nigg\w*|fag\w*|whor\w*|slut\w*|bitch\w*|rape\w*|penis\w*|vagina\w*|masturbat\w*|"
                    r"sex\w*|negro\w*|jew\w*|kike\w*|genital\w*|cock\w*|tit|tits|boob\w*|orgasm\w*|dyke\w*|spic\w*|coon\w*)\b")
ALLOWED = re.compile("^[" + re.escape(CHARACTERS) + "]+$")


def clean(text):
    """Lower case and the allowed characters only; None when the text has anything else in it."""
    t = text.lower().replace("``", " ").replace("''", " ").replace("--", ", ").replace("...", ".")
    t = re.sub(r"[\"_*`]", " ", t)
    t = re.sub(r"\s*[()\[\]]\s*", ", ", t).replace("\u2019", "'").replace("&", " and ")
    t = re.sub(r"\s+", " ", t)
    t = re.sub(r" ([.,?!:;])", r"\1", t)
    t = re.sub(r"([.,?!:;])[.,?!:;]+", r"\1", t)
    t = re.sub(r"(?<![a-z])'|'(?![a-z])", "", t)
    t = re.sub(r"(?<![a-z])-|-(?![a-z])", " ", t)
    t = re.sub(r"([.,?!:;])(?=[a-z])", r"\1 ", t)
    t = re.sub(r"\s+", " ", t).strip(" ,:;")
    if len(t) < 2 or not ALLOWED.match(t) or not re.search("[a-z]", t) or COARSE.search(t):
        return None
    return t


def pieces(text, rng, limit=MAX_CHARS):
    """Splits long text at sentence ends, then at commas, into pieces of at most `limit` characters."""
    parts = [p for p in re.split(r"(?<=[.?!;])\s+", text) if p]
    out, current = [], ""
    for part in parts:
        if current and (len(current) + 1 + len(part) > limit or rng.random() < 0.6):
            out.append(current)
            current = part
        else:
            current = (current + " " + part).strip()
    out.append(current)
    final = []
    for piece in out:
        while len(piece) > limit:
            cut = max(piece.rfind(", ", 0, limit), piece.rfind("; ", 0, limit), piece.rfind(": ", 0, limit))
            cut = cut + 1 if cut > 20 else piece.rfind(" ", 0, limit)
            if cut <= 0:
                break
            final.append(piece[:cut].strip(" ,:;"))
            piece = piece[cut:].strip()
        if len(piece) <= limit:
            final.append(piece)
    return [p for p in final if len(p) >= 2]


def wordnet(rng):
    glosses, examples = [], []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in open(f"{WORDNET}/data.{kind}", encoding="latin-1"):
            if line.startswith("  ") or " | " not in line:
                continue
            gloss = line.split(" | ", 1)[1]
            for quoted in re.findall(r'"([^"]+)"', gloss):
                examples.append(quoted)
            definition = re.sub(r'"[^"]*"?', "", gloss).strip(" ;\n")
            glosses.append(definition)
    end = lambda t: t if t[-1] in ".?!" or rng.random() < 0.25 else t + "."
    ok = lambda items: [end(q) for t in items if (c := clean(t)) for p in pieces(c, rng)
                        if len(q := p.strip(" ;,:")) > 2]
    return ok(glosses), ok(examples)


def bible(rng):
    text = subprocess.run(["bible", "-f"], input="gen1:1-rev22:21\n", capture_output=True, text=True).stdout
    verses = []
    for line in text.splitlines():
        m = re.match(r"^[A-Za-z0-9]+ ?\d+:\d+ (.*)$", line.strip())
        if m and (c := clean(m.group(1))):
            verses += pieces(c, rng)
    return verses


def fortunes(rng):
    out = []
    for path in sorted(glob.glob(f"{FORTUNES}/*.u8")):
        if any(s in path for s in ("ascii-art", "perl", "translate")):
            continue
        for item in open(path, encoding="utf-8", errors="ignore").read().split("\n%\n"):
            item = re.split(r"\n\s*--", item)[0]
            if "\t\t" in item or len(item) > 1200:
                continue
            for sentence in re.split(r"(?<=[.?!])\s+", re.sub(r"\s+", " ", item)):
                if c := clean(sentence):
                    out += pieces(c, rng)
    return out


def dictionary():
    words = [w.strip() for w in open(WORDS, encoding="utf-8")]
    return sorted({w.lower() for w in words if re.fullmatch(r"[A-Za-z]+('s)?", w) and not COARSE.search(w.lower())})


# ------------------------------------------------------------------------------- templates
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = ("zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()
MONTHS = "january february march april may june july august september october november december".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES = ("james mary john patricia robert jennifer michael linda david elizabeth william barbara richard susan joseph jessica "
         "thomas sarah charles karen daniel lisa matthew nancy anthony betty mark sandra paul ashley steven emily andrew donna "
         "kenneth michelle george carol joshua amanda kevin melissa brian deborah edward stephanie ronald laura timothy rebecca "
         "jason helen jeffrey sharon ryan cynthia jacob amy gary anna nicholas angela eric ruth jonathan brenda alice bob").split()
CITIES = ("london paris berlin madrid rome vienna dublin new-york boston chicago seattle denver houston toronto sydney tokyo "
          "beijing moscow cairo nairobi mumbai delhi istanbul athens lisbon oslo stockholm helsinki warsaw prague").split()
THINGS = ("server model request response stream frame token packet client process thread worker queue cache buffer header flag "
          "metric log error warning file folder path port socket connection session message prompt sentence word voice speaker "
          "microphone audio sample vocoder talker thinker user system assistant engine kernel device memory disk network machine "
          "program library function module test build release version script container cluster node database table row column "
          "index query key value window button page link password account email address phone number code service job task").split()
ADJ = ("new old small large fast slow quick simple open local remote empty full broken missing first last next current "
       "default maximum minimum average total active idle ready busy early late correct wrong strange quiet loud short long "
       "safe secure public private single double free cheap useful friendly gentle bright dark warm cold").split()
VERBS = ("starts stops runs fails waits returns loads reads writes sends receives opens closes answers speaks listens works "
         "crashes restarts finishes begins drops keeps needs uses measures reports prints changes updates checks").split()
PAST = ("started stopped failed returned loaded sent received opened closed answered finished dropped used measured reported "
        "printed changed updated checked moved created removed renamed called asked told helped").split()
SOFT = ("a p i;h t t p;h t t p s;g p u;c p u;u r l;json;yaml;linux;docker;rust;python;web socket;latency;throughput;real time factor;"
        "time to first audio;sample rate;kilohertz;megabytes;gigabytes;milliseconds;seconds;per second;percent;prometheus;grafana;"
        "open a i;speech to text;text to speech;streaming;batch size;command line;log level;config file;read me;git hub;"
        "source code;pull request;unit test;health check;shut down;time out;rate limit;access token;check point;safe tensors").split(";")
GREET = ("hello;hi;hello there;good morning;good evening;good night;good afternoon;thank you;thanks a lot;thank you very much;"
         "you are welcome;goodbye;see you later;see you tomorrow;nice to meet you;how are you?;how are you today?;i am fine, thanks;"
         "yes;no;yes, please;no, thank you;okay;of course;certainly;sorry;excuse me;please wait;one moment, please;i don't know;"
         "i do not understand;can you repeat that?;what is your name?;my name is omni;who are you?;what time is it?;where are you from?;"
         "how can i help you?;let me think;that's right;that is wrong;well done;never mind;here you are;welcome back;have a nice day;"
         "take care;good luck;happy birthday;congratulations;stop;start;go on;continue;listen;wait a minute;i'm sorry;it's ready;"
         "let's go;don't worry;i can't do that;what do you mean?;is that you?;are you there?;test;testing, testing, one two three").split(";")
SAYINGS = ("the quick brown fox jumps over the lazy dog;she sells sea shells by the sea shore;how much wood would a woodchuck chuck;"
           "to be or not to be, that is the question;all that glitters is not gold").split(";")


def number(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if n >= size:
            return number(n // size) + " " + name + (" " + number(n % size) if n % size else "")


def ordinal(n):
    if n <= 20:
        return ORDINALS[n]
    if n % 10 == 0 and n < 100:
        return TENS[n // 10][:-1] + "ieth"
    return TENS[n // 10] + "-" + ORDINALS[n % 10]


def template(rng, words):
    c = rng.choice
    w = lambda: c(words)
    n = lambda: number(int(10 ** rng.uniform(0, rng.choice((2, 3, 4, 6, 9)))))
    letters = lambda k: " ".join(c(LETTERS) for _ in range(k))
    year = lambda: c(("nineteen ", "twenty ", "eighteen ")) + number(rng.randint(10, 99))
    name = lambda: c(NAMES)
    city = lambda: c(CITIES).replace("-", " ")
    thing = lambda: c((c(ADJ) + " ", "")) + c(THINGS)
    clock = lambda: c((f"{number(rng.randint(1, 12))} o'clock", f"{number(rng.randint(1, 12))} {number(rng.randint(10, 59))}",
                       f"half past {number(rng.randint(1, 12))}")) + c(("", " a m", " p m", " in the morning"))
    mail = lambda: f"{c((name(), w(), letters(2)))} {c(('dot', 'underscore', 'dash'))} {c((name(), w(), n()))} at {c((w(), c(THINGS)))} dot {c(('com', 'org', 'net', 'io', 'co dot u k'))}"
    options = [
        lambda: n(),
        lambda: f"{n()} {c(('dollars', 'euros', 'pounds', 'percent', 'meters', 'miles', 'kilometers', 'degrees', 'people', 'times', 'bytes', 'years', 'hours', 'minutes', 'seconds', 'grams'))}",
        lambda: f"{n()} point {' '.join(c(ONES[:10]) for _ in range(rng.randint(1, 3)))}",
        lambda: " ".join(c(ONES[:10]) for _ in range(rng.randint(2, 11))),
        lambda: f"{n()} {c(('plus', 'minus', 'times', 'divided by', 'equals'))} {n()} {c(('is', 'equals', 'makes'))} {n()}",
        lambda: f"{c(DAYS)}, {c(MONTHS)} {ordinal(rng.randint(1, 31))}, {year()}",
        lambda: f"the {ordinal(rng.randint(1, 31))} of {c(MONTHS)} {year()}",
        lambda: f"on {c(DAYS)} at {clock()}, {name()} {c(PAST)} the {thing()}.",
        lambda: f"it is {clock()} in {city()}",
        lambda: letters(rng.randint(1, 9)),
        lambda: f"{w()} is spelled " + (lambda x: " ".join(x.replace("'", "")))(w()) + ".",
        lambda: f"the letters {letters(3)} and the number {n()}",
        lambda: mail(), lambda: f"send an email to {mail()}.",
        lambda: f"w w w dot {w()} dot {c(('com', 'org', 'net'))} slash {w()}",
        lambda: f"dash dash {c(THINGS)} {c(('dash', 'equals', 'underscore'))} {c((n(), w()))}",
        lambda: c(GREET), lambda: c(GREET) + c((".", "!", "")), lambda: f"{c(GREET)}, {name()}",
        lambda: f"{c(GREET).rstrip('?')}. {c(GREET)}", lambda: c(SAYINGS),
        lambda: f"{w()}", lambda: f"{w()} {w()}", lambda: f"{c(ADJ)} {w()}",
        lambda: f"{c(('what', 'where', 'who', 'when', 'why', 'how'))} {c(('is', 'was', 'does', 'did', 'can', 'will', 'would'))} the {thing()} {c(('', 'of ' + name(), 'in ' + city(), w()))}".strip() + "?",
        lambda: f"{c(('is', 'was', 'are', 'can', 'could', 'do', 'did', 'will', 'should', 'have'))} {c(('you', 'we', 'they', 'i', 'it', name()))} {w()} the {thing()}?",
        lambda: ", ".join(w() for _ in range(rng.randint(2, 7))) + f", and {w()}.",
        lambda: ", ".join(c(THINGS) for _ in range(rng.randint(2, 5))) + f" or {c(THINGS)}.",
        lambda: f"{c(('first', 'second', 'third', 'finally', 'then', 'next'))}, {c(('open', 'close', 'start', 'check', 'read', 'send', 'set', 'find'))} the {thing()}.",
        lambda: f"the {thing()} {c(VERBS)} {c(('when', 'because', 'if', 'after', 'before', 'until', 'while'))} the {thing()} {c(VERBS)}.",
        lambda: f"the {thing()} {c(PAST)} {c(('and', 'but', 'so', 'then'))} the {thing()} {c(PAST)} {n()} {c(('times', 'tokens', 'frames', 'requests', 'bytes', 'errors'))}.",
        lambda: f"{c(SOFT)}", lambda: f"the {c(SOFT)} of the {thing()} is {n()}.",
        lambda: f"set the {c(SOFT)} to {n()} {c(SOFT)}.", lambda: f"{c(SOFT)}, {c(SOFT)} and {c(SOFT)}",
        lambda: f"{c(('error', 'warning', 'note', 'step', 'chapter', 'page', 'room', 'gate', 'flight', 'line', 'version'))} {n()}: {thing()} {w()}.",
        lambda: f"{name()} {c(NAMES)} {c(('lives in', 'comes from', 'went to', 'called from', 'likes'))} {city()}.",
        lambda: f"the {c(('user', 'assistant', 'system'))} {c(PAST)} the {thing()}, and the {c(('user', 'assistant', 'system'))} {c(VERBS)}.",
        lambda: f"{c(('user', 'assistant', 'system'))} {w()}", lambda: f"{c(('a', 'the', 'this', 'every', 'our', 'your'))} {w()} {c(('user', 'assistant', 'system'))}",
        lambda: f"{c(('i', 'you', 'we', 'they'))} {c(('think', 'know', 'hope', 'believe', 'said', 'heard'))} that the {c(ADJ)} {w()} is {c(ADJ)}{c(('.', '!', ''))}",
        lambda: f"please {c(('read', 'open', 'send', 'find', 'tell me about', 'explain', 'describe', 'repeat'))} the {thing()}{c(('.', '', ', please.'))}",
    ]
    return c(options)()


def templates(rng, words, count):
    out = []
    while len(out) < count:
        t = template(rng, words)
        if rng.random() < 0.12:
            t = t.rstrip(".") + ". " + template(rng, words)
        if (c := clean(t)) and len(c) <= MAX_CHARS:
            out.append(c)
    return out


def salad(rng, words, count):
    """Random words: pronunciation coverage."""
    out = []
    for _ in range(count):
        t = " ".join(rng.choice(words) for _ in range(rng.choice((1, 1, 2, 3, 4, 5, 6, 8, 10))))
        t += rng.choice(("", "", ".", "?", "!"))
        if (c := clean(t)) and len(c) <= MAX_CHARS:
            out.append(c)
    return out


def long_texts(rng, sentences, count):
    """Several sentences joined up to the longest text served in one piece."""
    out = []
    for _ in range(count):
        goal, text = rng.randint(110, MAX_CHARS), rng.choice(sentences)
        while len(text) < goal:
            s = rng.choice(sentences)
            if len(text) + 2 + len(s) > MAX_CHARS:
                break
            text = text + ("" if text[-1] in ".?!" else ".") + " " + s
        if len(text) <= MAX_CHARS:
            out.append(text)
    return out
