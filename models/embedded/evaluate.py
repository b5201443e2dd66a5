"""Stage `evaluate`: the exported checkpoint judged by listeners that know nothing of it (`stranger.py`).

Three lines for each voice: the teacher, the teacher's codes through code2wav, and text through talker and code2wav. Writes
figures.json beside the weights, the table of docs/dev/embedded-model.md and, with --samples, WAV files.
"""
import argparse
import json
from pathlib import Path

import stranger
from common import CHECKPOINT, HERE, SMOKE, setup, write_json

MARKS = "<!-- figures: written by evaluate.py -->", "<!-- end of figures -->"


def table(header, rows):
    line = lambda cells: "| " + " | ".join(str(c) for c in cells) + " |"
    return "\n".join([line(header), line(["---"] * len(header))] + [line(r) for r in rows])


def replace_between(path, start, end, text):
    before, rest = path.read_text().split(start)
    path.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--limit", type=int, default=4 if SMOKE else 0, help="only so many sentences (a quick look)")
    ap.add_argument("--bounds", type=int, default=60, help="teacher and codec are judged by so many of them; they vary less")
    ap.add_argument("--samples", type=Path)
    ap.add_argument("--out", type=Path, help="write every sentence, as said and as heard, here as JSON")
    ap.add_argument("--no-write", action="store_true", default=SMOKE)
    args = ap.parse_args()
    setup(threads=1)
    chosen = stranger.sentences(limit=args.limit)
    bounds = stranger.sentences(limit=min(args.bounds, args.limit or args.bounds))
    rows, sounds = stranger.judge(stranger.from_stages(args.checkpoint, chosen, bounds), chosen, args.samples)
    print(stranger.report(rows, sounds))
    if args.out:
        write_json(args.out, dict(rows=rows))
    if not args.no_write:
        path = args.checkpoint / "figures.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        write_json(path, dict(voices={n: stranger.figures(r) for n, r in rows.items()}, sound=sounds, **{k: known[k] for k in known if k == "thinker"}))
        replace_between(HERE.parents[1] / "docs/dev/embedded-model.md", *MARKS, stranger.report(rows, sounds))


if __name__ == "__main__":
    main()
