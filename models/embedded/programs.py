"""What omni-server and omni-client say of themselves with `--help`, for the facts that the thinker learns.

The programs are asked when the training texts are made: what it learns is as old as they are. Without them the
stage stops, unless `pack.py` has brought what they said on the machine that has them. `programs.py` alone prints every command and
option, and those of which no fact in facts.toml tells.
"""
import argparse
import functools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from common import HERE, WORK

PROGRAMS = ("omni-server", "omni-client")
BUILT = HERE.parents[1] / "target" / "release"
LONGEST = 90                  # characters of a fact: longer help is cut after a clause
UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


@dataclass
class Option:
    """An option: its help in one line, what it is without the option, and the words that it takes."""
    name: str
    about: str
    default: str = ""
    values: list = field(default_factory=list)


@dataclass
class Command:
    """A program, or one of its commands."""
    name: str
    about: str
    commands: list = field(default_factory=list)
    options: dict = field(default_factory=dict)


METRICS = ["omni-server", "metrics", "list"]
RECORDED = WORK / "programs.json"       # brought by pack.py to a machine without the programs


def folder():
    return Path(os.environ.get("OMNI_EMBEDDED_PROGRAMS", BUILT))


@functools.cache
def recorded():
    print(f"programs: {RECORDED} tells what they said on another machine", flush=True)
    return json.loads(RECORDED.read_text())


def record():
    """{command line: what it prints}, for another machine"""
    asked = [*((command.name.split(), True) for command in commands().values()), (METRICS, False)]
    return {line(words, help): ask(words, help) for words, help in asked}


def line(words, help):
    return " ".join([*words, *(["--help"] if help else [])])


def ask(words, help=True):
    """What a program prints: the help of it or of one of its commands."""
    program = folder() / words[0]
    if not program.is_file() and RECORDED.exists() and "OMNI_EMBEDDED_PROGRAMS" not in os.environ:
        return recorded()[line(words, help)]
    if not program.is_file():
        sys.exit(f"{program} is missing: the thinker learns about the programs from their --help. Build them (make build), or name "
                 "the folder that holds omni-server and omni-client: --programs DIR, or OMNI_EMBEDDED_PROGRAMS=DIR")
    bare = {k: v for k, v in os.environ.items() if not k.startswith("OMNI_")}
    done = subprocess.run([program, *line(words, help).split()[1:]], env=bare, capture_output=True, text=True, timeout=60)
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def sections(text):
    """{heading: its lines} of a help text; what comes before every heading is under ''."""
    found, name = {"": []}, ""
    for line in text.splitlines():
        heading = re.fullmatch(r"([A-Z][A-Za-z ]*):\s*", line)
        if heading:
            name = heading[1]
        found.setdefault(name, [])
        if not heading:
            found[name].append(line)
    return found


def entries(lines, begin):
    """(head, help) of a list in which every entry begins with a line that `begin` matches; its help may stand in lines below."""
    found = []
    for line in lines:
        head = begin.match(line)
        if head:
            found.append((head[1].strip(), [(head[2] or "").strip()]))
        elif found and (not line.strip() or line.startswith("    ")):
            found[-1][1].append(line.strip())
    return found


COMMAND = re.compile(r"  ([a-z][\w-]*)(?:\s{2,}(.*))?$")
OPTION = re.compile(r" {2,6}(-.*?)(?:\s{2,}(\S.*)|\s*)$")


def option(head, lines):
    """One option out of what clap prints of it; None without a long name."""
    name = re.search(r"--[a-z][\w-]*", head)
    if not name:
        return None
    text = " ".join("\n".join(lines).split("Possible values:")[0].split("\n\n")[0].split())
    whole = " ".join(lines)
    default = re.search(r"\[default: ([^\]]*)\]", whole)
    listed = re.search(r"\[possible values: ([^\]]*)\]", whole)
    values = listed[1].split(", ") if listed else re.findall(r"^- ([\w-]+):?", "\n".join(lines), re.M)
    about = re.sub(r"\s*\[(default|env|possible values|aliases)(: |=)[^\]]*\]", "", text)
    return Option(name[0], about.rstrip("."), default[1] if default else "", values)


def parse(name, text):
    parts = sections(text)
    first = re.split(r"\n\s*\n|\nUsage:", "\n".join(parts[""]).strip())[0]
    commands = [(k, " ".join(" ".join(v).split())) for k, v in entries(parts.get("Commands", []), COMMAND) if k != "help"]
    listed = [h for heading, lines in parts.items() if heading not in ("", "Commands", "Arguments", "Examples", "Exit codes")
              for h in entries(lines, OPTION)]
    options = [o for o in (option(*h) for h in listed) if o and o.name not in ("--help", "--version")]
    return Command(name, " ".join(first.split()).rstrip("."), commands, {o.name: o for o in options})


@functools.cache
def commands():
    """{words: Command} of both programs and all their commands."""
    found, todo = {}, [[p] for p in PROGRAMS]
    while todo:
        words = todo.pop(0)
        command = parse(" ".join(words), ask(words))
        found[command.name] = command
        todo += [[*words, name] for name, _ in command.commands]
    return found


def spoken(value):
    """A default as people say it: 20s is 20 seconds."""
    time = re.fullmatch(r"(\d+)(ms|s|m|h)", value)
    if time:
        unit = UNITS[time[2]]
        return f"{time[1]} {unit.removesuffix('s') if time[1] == '1' else unit}"
    return value.strip('"')


def clause(text):
    """As much of a help text as a fact may hold: whole clauses."""
    text = re.sub(r"`([^`]*)`", r"\1", re.sub(r"\s*\([^)]*\)", "", text))
    text = re.split(r"(?<=\w)\. |; |: (?=[a-z])", text)[0] if len(text) > LONGEST else text
    while len(text) > LONGEST and "," in text:
        text = text.rpartition(",")[0]
    return text.rstrip(" .,;:")


def lower(text):
    """A clause that goes on in a sentence: acronyms and names of variables keep their capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def in_a_row(words, last):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


@functools.cache
def targets():
    """{"make TARGET": what it does} of the Makefile."""
    lines = (HERE.parents[1] / "Makefile").read_text()
    return {f"make {name}": Command(f"make {name}", about.strip()) for name, about in re.findall(r"^([a-z][\w-]*):.*?##(.*)$", lines, re.M)}


@functools.cache
def metrics():
    """{"metric NAME": the metric} of those that a server shows."""
    lines = ask(METRICS, help=False).splitlines()
    return {f"metric {line.split()[0]}": Command(line.split()[0], "") for line in lines if line.strip()}


def find(of):
    """What a fact is about, as in "omni-server --listen", "omni-client speak", "make test"; stops if there is no such thing."""
    words = of.split()
    flags = [w for w in words if w.startswith("-")]
    if words[0] in ("make", "metric"):
        found = (targets() if words[0] == "make" else metrics()).get(of)
    else:
        command = commands().get(" ".join(w for w in words if not w.startswith("-")))
        found = command and (command.options.get(flags[0]) if flags else command)
    if not found:
        sys.exit(f'facts.toml tells of "{of}", which does not exist')
    return found


def answer(of):
    """What to say of a command or an option in one sentence or two."""
    found = find(of)
    text = clause(found.about)
    if isinstance(found, Command):
        return f"Use {of} to {lower(text)}."
    default = f" The default is {spoken(found.default)}." if found.default else ""
    return f"{found.name}: {lower(text)}.{default}"


def fill(text, of):
    """An answer of facts.toml with what stands in braces: {default}, {values} and {commands} of what the fact is about."""
    if "{" not in text:
        return text
    found = find(of)
    slots = {"default": spoken(getattr(found, "default", "")), "values": in_a_row(getattr(found, "values", []) or [""], "or"),
             "commands": in_a_row([name for name, _ in getattr(found, "commands", [])] or [""], "and")}
    missing = [name for name in re.findall(r"\{(\w+)\}", text) if not slots.get(name)]
    if missing:
        sys.exit(f'"{of}" has no {missing[0]}, which a fact in facts.toml asks for')
    return text.format(**slots)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, help=f"folder of the programs (default {BUILT})")
    args = parser.parse_args()
    if args.programs:
        os.environ["OMNI_EMBEDDED_PROGRAMS"] = str(args.programs)
    import dialogues
    told = {f["of"] for f in dialogues.known_facts() if "of" in f}
    for command in commands().values():
        for of in [command.name, *(f"{command.name} {o}" for o in command.options)]:
            print("  " if of in told else "- ", answer(of), sep="")


if __name__ == "__main__":
    main()
