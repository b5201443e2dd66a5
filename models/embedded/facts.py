"""The facts that the thinker learns: those of facts.toml, and what the programs say of themselves (`programs.py`)."""
import functools
import sys
import tomllib

import programs
from common import HERE


def names_of(of):
    """What questions call a command or an option."""
    words = of.split()
    flags = [w for w in words if w.startswith("-")]
    if flags:
        return [flags[0], f"the {flags[0]} flag", f"the option {flags[0]}", f"the {flags[0].strip('-').replace('-', ' ')} flag"]
    program, *command = words
    if not command:
        return [program, f"the command {program}"]
    short = " ".join(command)
    other = [p for p in programs.PROGRAMS if p != program]
    alone = not any(f"{p} {short}" in programs.commands() for p in other)
    return [of, f"the command {of}"] + ([f"the {short} command", f"the command {short}", f"{program.removeprefix('omni-')} {short}"] if alone else [])


def read():
    with open(HERE / "facts.toml", "rb") as file:
        return tomllib.load(file)["fact"]


def complete(fact):
    """A fact whose `of` has been looked up: its names, and its answer as the programs have it now."""
    of = fact.get("of")
    if not of:
        return fact
    known = programs.find(of)
    if "default" in fact and fact["default"] != known.default:
        sys.exit(f'facts.toml takes the default of "{of}" to be {fact["default"]}, but it is {known.default or "nothing"}')
    answer = programs.fill(fact["answer"], of) if "answer" in fact else programs.answer(of)
    return {"names": names_of(of), **fact, "answer": answer}


@functools.cache
def known_facts(group=None):
    """All facts, or those of a group. Commands of which facts.toml does not tell are told of in the words of their help."""
    if group:
        return [f for f in known_facts() if f["group"] == group]
    told = [complete(f) for f in read()]
    covered = {f["of"] for f in told if "of" in f}
    told += [complete(dict(group="software", of=of)) for of in programs.commands() if of not in covered]
    once = {}
    for fact in told:
        for name in fact.get("names", []):
            if once.setdefault(name, fact["answer"]) != fact["answer"]:
                sys.exit(f'two facts are called "{name}": "{once[name]}" and "{fact["answer"]}"')
    return told


def free_questions():
    """(category, what is wanted, question) of every question in free wording; nothing is trained on them."""
    lines = (HERE / "stranger" / "questions.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]
