"""Listens to an hour of the voices for words that are skipped or said twice, with Whisper as in `stranger.py`.

The texts are of `everyday.py` with a seed of their own. Whisper's own slips count, so a sentence with such a word is listened to again in the
teacher's voice: what is missing there, too, is not the voice's fault.

    skips.py --minutes 60 --out skips.json
"""
import argparse
import time
from pathlib import Path

from rapidfuzz.distance import Levenshtein

import everyday
import natural
import stranger
from common import CHECKPOINT, SAMPLE_RATE, SMOKE, VOICE_NAMES, setup, write_json

SEED = 4711


def slips(text, heard):
    """([words not heard], [words heard twice], whether the last word is one of the former)"""
    said, got = stranger.written(text), stranger.written(heard)
    edits = Levenshtein.editops(said, got)
    missing = [e.src_pos for e in edits if e.tag == "delete"]
    twice = [got[e.dest_pos] for e in edits if e.tag == "insert" and got[e.dest_pos] in got[max(0, e.dest_pos - 1):e.dest_pos] + got[e.dest_pos + 1:e.dest_pos + 2]]
    return [said[i] for i in missing], twice, bool(missing) and missing[-1] == len(said) - 1


def unheard(count):
    """`count` texts that are none of those that the teacher says, by default or in the scratch folder."""
    known = natural.default_texts() | ({text for _, text, _ in natural.texts()} if (natural.FOLDER / "texts.json").exists() else set())
    return [text for _, text in everyday.corpus(SEED, 4 * count) if text not in known][:count]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--minutes", type=float, default=0.2 if SMOKE else 60)
    ap.add_argument("--out", type=Path, help="write every sentence with a slip here as JSON")
    args = ap.parse_args()
    setup()
    texts = unheard(max(2, int(args.minutes * 60 / 3.5 / len(VOICE_NAMES))))
    chosen = [(i, "skips", text) for i, text in enumerate(texts)]
    listener, found, seconds, words, start = stranger.Stranger(), [], 0.0, 0, time.time()
    for n, (voice, i, x, rate) in enumerate(stranger.from_checkpoint(args.checkpoint, chosen), 1):
        seconds, words = seconds + len(x) / rate, words + len(stranger.written(texts[i]))
        heard = listener.hear(x)
        missing, twice, last = slips(texts[i], heard)
        if missing or twice:
            found.append(dict(voice=voice, text=texts[i], heard=heard, missing=missing, twice=twice, last=last))
        if n % 50 == 0:
            print(f"skips: {seconds / 60:.1f} minutes, {(time.time() - start) / n:.1f} s a sentence", flush=True)
    again = sorted({f["text"] for f in found})
    teacher = {(name.removeprefix("teacher-"), again[k]): listener.hear(x) for name, k, x, _ in stranger.from_teacher([(k, "skips", t) for k, t in enumerate(again)])}
    for f in found:
        missing, twice, _ = slips(f["text"], teacher[f["voice"], f["text"]])
        f["of_listener"] = len([w for w in f["missing"] if w in missing]) + len([w for w in f["twice"] if w in twice])
    print(f"{seconds / 60:.0f} minutes of {SAMPLE_RATE} Hz, {words} words")
    for voice in VOICE_NAMES:
        own = [f for f in found if f["voice"] == voice]
        total = lambda k: sum(len(f[k]) for f in own)
        print(f"{voice}: {total('missing')} words not heard, {sum(f['last'] for f in own)} of them the last of a text; {total('twice')} heard twice; "
              f"{sum(f['of_listener'] for f in own)} of these are missing or doubled in the teacher's voice, too")
    if args.out:
        write_json(args.out, dict(seconds=seconds, words=words, slips=found))


if __name__ == "__main__":
    main()
