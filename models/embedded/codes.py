"""Stage `codes`: codes and phonemes of every utterance whose features are there, in shards.

Only codes (16 bytes a frame) and phoneme labels are kept, so the talker can learn from far more hours than would fit in
memory as features. Shards that the teacher finishes later are made by running the stage again. Several may run with different
--part.
"""
import argparse
import time

import numpy as np

import codec
import natural
from common import SMOKE, WORK, pause, setup, time_is_up

SHARD = 12 if SMOKE else 400         # utterances


def shard_path(split, k):
    return WORK / f"codes-{split}-{k:02d}.npz"


def items_of(split):
    """[[text, voice]]"""
    items, first = natural.texts(), natural.HELDOUT * natural.GROUP
    return [[text, voice] for voice, text, _ in (items[:first] if split == "val" else items[first:])]


def jobs():
    """(split, shard, files of the teacher)"""
    yield "val", 0, range(natural.HELDOUT)
    size = SHARD // natural.GROUP
    for k in range(len(items_of("train")) // SHARD):
        yield "train", k, range(natural.HELDOUT + k * size, natural.HELDOUT + (k + 1) * size)


def build(model, items, files, path):
    codes, labels, start = [], [], time.time()
    for f in files:
        for (_, _, phonemes), (x, f0, steps) in zip(items[f * natural.GROUP:], natural.read(f)):
            frames = natural.Frames(steps)
            codes.append(model.whole(frames.points(x), frames.track(f0)))
            labels.append(frames.labels(phonemes, steps))
    half = path.with_suffix(".half.npz")
    np.savez(half, codes=np.concatenate(codes), labels=np.concatenate(labels), frames=np.array([len(c) for c in codes], np.int32))
    half.replace(path)
    print(f"codes {path.name}: {len(codes)} utterances, {sum(map(len, codes)) / 90000:.2f} hours, {time.time() - start:.0f} s", flush=True)


class Codes:
    """All shards of a split that exist: texts, voices, codes and phoneme labels by utterance."""

    def __init__(self, split):
        self.split, self.all = split, items_of(split)
        self.items, self.codes, self.labels, self.frames, self.shard = [], [], [], [], 0
        self.extend()

    def extend(self):
        """Takes in shards written since; True when there were any."""
        before = self.shard
        while shard_path(self.split, self.shard).exists():
            d = np.load(shard_path(self.split, self.shard))
            ends = np.cumsum(d["frames"])
            self.codes += np.split(d["codes"], ends[:-1])
            self.labels += np.split(d["labels"], ends[:-1])
            self.frames += d["frames"].tolist()
            self.items += self.all[len(self.items):len(self.items) + len(ends)]
            self.shard += 1
        return self.shard > before

    def __len__(self):
        return len(self.items)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--part", default="0/1", help="i/n: only shards k with k %% n == i")
    part, parts = map(int, ap.parse_args().part.split("/"))
    setup()
    model, items = codec.load(), natural.texts()
    for split, k, files in jobs():
        path = shard_path(split, k)
        if k % parts == part and not path.exists() and all(map(natural.complete, files)):
            if time_is_up():
                pause(f"codes stops at shard {k}")
            build(model, items, files, path)


if __name__ == "__main__":
    main()
