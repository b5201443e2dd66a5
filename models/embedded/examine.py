"""Stage `examine`: the exported thinker asked the held-out questions of `dialogues.py`, greedily, in float32.

Writes its part of figures.json and of README.md.
"""
import argparse
import json
import re
import time
from pathlib import Path

from common import CHECKPOINT, HERE, SMOKE, setup, write_json
from evaluate import replace_between, table
from thinker import load_folder, score

MARKS = "<!-- thinker figures: written by examine.py -->", "<!-- end of thinker figures -->"


def shown(text):
    text = re.sub(r"(<\|audio_pad\|>)+", "...", text)
    return text.replace("|", " ").strip() or "(nothing)"


def failures(result, count=10):
    """Wrong answers of as many categories as there are, the weakest category first."""
    order = sorted(result, key=lambda k: -len(result[k][1]) / result[k][0])
    rounds = [(k, result[k][1][n]) for n in range(count) for k in order if n < len(result[k][1])]
    return [dict(category=k, history=len(i.chat) // 2, question=i.question, expected=i.answer, answer=said) for k, (i, said) in rounds[:count]]


def figures(result, seconds):
    return dict(questions=sum(n for n, _ in result.values()), greedy=True,
                accuracy={k: round(100 - 100 * len(wrong) / n, 1) for k, (n, wrong) in result.items()},
                accuracy_after_history={k: after_history(k, *result[k]) for k in result},
                failures=failures(result), seconds=round(seconds))


def after_history(category, count, wrong):
    """Accuracy of those questions that have a history: every third one, or all."""
    asked = count if category == "again" else count // 3
    return round(100 - 100 * sum(len(i.chat) > 1 for i, _ in wrong) / asked, 1)


def report(f, each):
    rows = [[k, a, f["accuracy_after_history"][k]] for k, a in f["accuracy"].items()]
    return "\n\n".join([
        f"Held-out questions answered rightly, in per cent, greedy, {each} in each category: the right result of a sum, otherwise the "
        "wanted answer to the letter (case apart). Every third question comes after one to three other turns.",
        table(["category", "right", "of those with a history"], rows), "Ten failures, the weakest categories first:",
        table(["category", "question", "expected", "answer"],
              [[w["category"], shown(w["question"]), shown(w["expected"]), shown(w["answer"])] for w in f["failures"]])])


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--each", type=int, default=1 if SMOKE else 150, help="questions of every category")
    ap.add_argument("--no-write", action="store_true", default=SMOKE)
    args = ap.parse_args()
    setup()
    start = time.time()
    result = score(load_folder(args.checkpoint), args.each, seed=2026)
    found = figures(result, time.time() - start)
    print(json.dumps(found, indent=1))
    if not args.no_write:
        path = args.checkpoint / "figures.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        write_json(path, {**known, "thinker": found})
        replace_between(HERE / "README.md", *MARKS, report(found, args.each))


if __name__ == "__main__":
    main()
