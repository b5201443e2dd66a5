"""Stage `data`: the texts, their voices and splits, and the teacher's audio for part of them.

work/texts.json      every utterance: {"train": [[text, voice], ...], "val": ..., "heldout": [text, ...]}
work/audio-*.npz     teacher's audio and frame-wise phonemes of the first utterances of each split
"""
import argparse
import collections
import json
import random
import time

import numpy as np

from common import FRAME, NATURAL, SEED, SMOKE, VOICE_NAMES, WORK, setup, write_json
from texts import corpus

SIZE = 400 if SMOKE else 80000      # utterances of text (about 83 hours)
AUDIO = 100 if SMOKE else 14000     # of which this many keep their audio (codec, vocoder, listener)
VALIDATION = 20 if SMOKE else 240
HELDOUT = 8 if SMOKE else 200
BUCKETS = ((10, 30), (30, 60), (60, 110), (110, 201))     # characters, equally many held-out sentences each


def build_texts():
    rng = random.Random(SEED)
    items = corpus(SEED, SIZE + VALIDATION + HELDOUT)
    heldout, rest = [], []
    room = {b: HELDOUT // len(BUCKETS) for b in BUCKETS}
    for source, text in items:
        bucket = next((b for b in BUCKETS if b[0] <= len(text) < b[1]), None)
        # word salad has no place in a test of sentences
        if bucket and room[bucket] and source not in ("salad", "lemma") and text.count(" ") >= 2:
            room[bucket] -= 1
            heldout.append(text)
        else:
            rest.append(text)
    voiced = [[t, VOICE_NAMES[rng.randrange(len(VOICE_NAMES))]] for t in rest]
    write_json(WORK / "texts.json", dict(heldout=heldout, val=voiced[:VALIDATION], train=voiced[VALIDATION:]))


def load_texts():
    return json.loads((WORK / "texts.json").read_text())


def frame_labels(events, frames, phonemes):
    """Phoneme id in force at the middle of every frame; 0 is silence."""
    labels = np.zeros(frames, np.uint8)
    times = [t for t, _ in events] + [frames]
    for (t, p), end in zip(events, times[1:]):
        if p and not p.startswith("_"):
            a, b = int(np.ceil(t - 0.5)), int(np.ceil(end - 0.5))
            labels[max(a, 0):max(b, 0)] = phonemes.get(p, 0)
    return labels


def voice_order(items):
    """Indices of the items, one voice after the other: espeak's voice switch is slow and, often repeated, unsafe."""
    return sorted(range(len(items)), key=lambda i: items[i][1])


def phoneme_table(teacher, items):
    """The phonemes espeak uses, most frequent first, as {name: id >= 1}."""
    counts = collections.Counter()
    for n in voice_order(items):
        counts.update(p for _, p in teacher.say(*items[n])[1] if p and not p.startswith("_"))
    return {p: i + 1 for i, (p, _) in enumerate(counts.most_common(126))}


def synthesise(teacher, items, phonemes, path):
    audio, labels, frames = ([None] * len(items) for _ in range(3))
    start = time.time()
    for i, n in enumerate(voice_order(items)):
        wav, events = teacher.say(*items[n])
        audio[n] = wav
        frames[n] = len(wav) // FRAME
        labels[n] = frame_labels(events, frames[n], phonemes)
        if (i + 1) % 2000 == 0:
            left = (time.time() - start) / (i + 1) * (len(items) - i - 1)
            print(f"data {path.name} {i + 1}/{len(items)} left {left:.0f} s", flush=True)
    np.savez(path, audio=np.concatenate(audio), labels=np.concatenate(labels), frames=np.array(frames, np.int32))


class Audio:
    """Teacher's audio of one split in memory: texts, voices, and views by utterance."""

    def __init__(self, split, limit=None):
        texts = load_texts()
        if split == "heldout":
            items = [[t, v] for t in texts["heldout"] for v in VOICE_NAMES]
        else:
            items = texts[split]
        data = np.load(WORK / f"audio-{split}.npz")
        self.audio, self.labels, self.frames = data["audio"], data["labels"], data["frames"][:limit or None]
        self.offset = np.concatenate([[0], np.cumsum(self.frames)])
        self.items = items[:len(self.frames)]

    def __len__(self):
        return len(self.frames)

    def wav(self, i, first=0, last=None):
        """Samples of the frames `first` up to, not including, `last`."""
        start = self.offset[i]
        return self.audio[(start + first) * FRAME:(self.offset[i + 1] if last is None else start + last) * FRAME].astype(np.float32) / 32768

    def label(self, i):
        return self.labels[self.offset[i]:self.offset[i + 1]]

    def hours(self):
        return self.offset[-1] / 25 / 3600


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--audio", type=int, default=AUDIO)
    args = ap.parse_args()
    setup()
    if NATURAL:
        import natural
        return natural.prepare()
    from teacher import Teacher
    if not (WORK / "texts.json").exists():
        build_texts()
    texts = load_texts()
    teacher = Teacher()
    if not (WORK / "phonemes.json").exists():
        write_json(WORK / "phonemes.json", phoneme_table(teacher, texts["train"][:3000]))
    phonemes = json.loads((WORK / "phonemes.json").read_text())
    heldout = [[t, v] for t in texts["heldout"] for v in VOICE_NAMES]
    for split, items in (("heldout", heldout), ("val", texts["val"]), ("train", texts["train"][:args.audio])):
        path = WORK / f"audio-{split}.npz"
        if not path.exists():
            synthesise(teacher, items, phonemes, path)
        a = Audio(split)
        peak = int(np.abs(a.audio).max())
        print(f"data {split}: {len(a)} utterances, {a.hours():.2f} hours, peak {peak}, "
              f"{sum(len(t) for t, _ in a.items) / (a.hours() * 3600):.1f} characters per second", flush=True)


if __name__ == "__main__":
    main()
