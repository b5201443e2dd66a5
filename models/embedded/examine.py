"""Stage `examine`: the exported thinker asked the held-out questions of `dialogues.py` and those in free wording
(`stranger/questions.tsv`), greedily, in float32. What it says of the software must be what the programs say now (`programs.py`).

Writes its part of figures.json and of docs/dev/embedded-model.md.
"""
import argparse
import json
import os
import re
import time
from pathlib import Path

from common import CHECKPOINT, HERE, SMOKE, setup, write_json
from evaluate import replace_between, table
from thinker import load_folder, score, score_free

MARKS = "<!-- thinker figures: written by examine.py -->", "<!-- end of thinker figures -->"


def shown(text):
    text = re.sub(r"(<\|audio_pad\|>)+", "...", text)
    return text.replace("|", " ").strip() or "(nothing)"


def failures(result, count=10):
    """Wrong answers of as many categories as there are, the weakest category first."""
    order = sorted(result, key=lambda k: -len(result[k][1]) / result[k][0])
    rounds = [(k, result[k][1][n]) for n in range(count) for k in order if n < len(result[k][1])]
    return [dict(category=k, history=len(i.chat) // 2, question=i.question, expected=i.answer, answer=said) for k, (i, said) in rounds[:count]]


def free_figures(free):
    """How many of the questions in free wording are answered rightly, by category, and those that are not."""
    counts = {}
    for category, *_, right in free:
        n, good = counts.get(category, (0, 0))
        counts[category] = n + 1, good + right
    return dict(questions=len(free), right=sum(r for *_, r in free), by_category={k: f"{good} of {n}" for k, (n, good) in counts.items()},
                failures=[dict(category=c, question=q, wanted=w, answer=a) for c, q, w, a, right in free if not right])


def figures(result, free, seconds):
    return dict(questions=sum(n for n, _ in result.values()), greedy=True,
                accuracy={k: round(100 - 100 * len(wrong) / n, 1) for k, (n, wrong) in result.items()},
                accuracy_after_history={k: after_history(k, *result[k]) for k in result},
                failures=failures(result), free_wording=free_figures(free), seconds=round(seconds))


def after_history(category, count, wrong):
    """Accuracy of those questions that have a history: every third one, or all; None where there are none."""
    asked = count if category == "again" else count // 3
    return None if asked == 0 else round(100 - 100 * sum(len(i.chat) > 1 for i, _ in wrong) / asked, 1)


def report(f, each):
    free = f["free_wording"]
    rows = [[k, a, f["accuracy_after_history"][k]] for k, a in f["accuracy"].items()]
    return "\n\n".join([
        f"Held-out questions answered rightly, in per cent, greedy, {each} in each category: the right result of a sum, otherwise the "
        "wanted answer to the letter (case apart). Every third question comes after one to three other turns.",
        table(["category", "right", "of those with a history"], rows), "Ten failures, the weakest categories first:",
        table(["category", "question", "expected", "answer"],
              [[w["category"], shown(w["question"]), shown(w["expected"]), shown(w["answer"])] for w in f["failures"]]),
        f"Of {free['questions']} questions in free wording (`stranger/questions.tsv`, without a history) {free['right']} are answered rightly: "
        + ", ".join(f"{k} {v}" for k, v in free["by_category"].items()) + ". The others:",
        table(["category", "question", "answer"], [[w["category"], shown(w["question"]), shown(w["answer"])] for w in free["failures"]])])


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--each", type=int, default=1 if SMOKE else 150, help="questions of every category")
    ap.add_argument("--programs", type=Path, help="folder of omni-server and omni-client (default target/release)")
    ap.add_argument("--no-write", action="store_true", default=SMOKE)
    args = ap.parse_args()
    if args.programs:
        os.environ["OMNI_EMBEDDED_PROGRAMS"] = str(args.programs)
    setup()
    start = time.time()
    model = load_folder(args.checkpoint)
    found = figures(score(model, args.each, seed=2026), score_free(model), time.time() - start)
    print(json.dumps(found, indent=1))
    if not args.no_write:
        path = args.checkpoint / "figures.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        write_json(path, {**known, "thinker": found})
        replace_between(HERE.parents[1] / "docs/dev/embedded-model.md", *MARKS, report(found, args.each))


if __name__ == "__main__":
    main()
