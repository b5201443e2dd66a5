"""Stage `codes`: every training text spoken by the teacher and reduced to codes and phonemes, in shards.

Only codes (12 bytes a frame) and phoneme labels are kept, so the talker can learn from far more
hours than would fit in memory as audio.
"""
import argparse
import json
import time

import numpy as np
import torch

import codec
from common import FRAME, NATURAL, SMOKE, WORK, device, setup, write_json
from data import frame_labels, load_texts, voice_order

SHARD = (12 if SMOKE else 400) if NATURAL else 5000
GROUP = 16


def shard_path(split, k):
    return WORK / f"codes-{split}-{k:02d}.npz"


def build_shard(model, teacher, phonemes, items, path):
    codes, labels = [None] * len(items), [None] * len(items)
    order = voice_order(items)
    start = time.time()
    for at in range(0, len(order), 400):
        spoken = [(n, *teacher.say(*items[n])) for n in order[at:at + 400]]
        spoken.sort(key=lambda s: len(s[1]))
        for g in range(0, len(spoken), GROUP):
            group = spoken[g:g + GROUP]
            x = np.zeros((len(group), len(group[-1][1])), np.float32)
            for k, (_, wav, _) in enumerate(group):
                x[k, :len(wav)] = wav.astype(np.float32) / 32768
            found = model.encode(torch.from_numpy(x).to(device())).cpu().numpy().astype(np.int16)
            for k, (n, wav, events) in enumerate(group):
                frames = len(wav) // FRAME
                codes[n] = found[k, :frames]
                labels[n] = frame_labels(events, frames, phonemes)
    np.savez(path, codes=np.concatenate(codes), labels=np.concatenate(labels),
             frames=np.array([len(c) for c in codes], np.int32))
    print(f"codes {path.name}: {len(items)} utterances, {sum(map(len, codes)) / 90000:.1f} hours, {time.time() - start:.0f} s", flush=True)


def code_features(model):
    """Shards of a natural teacher, from its features: every shard whose files are complete."""
    import natural
    items, first = natural.texts(), natural.HELDOUT * natural.GROUP
    write_json(WORK / "texts.json", dict(val=[[t, v] for v, t, _ in items[:first]], train=[[t, v] for v, t, _ in items[first:]], heldout=[]))
    jobs = [("val", 0, range(natural.HELDOUT))]
    size = SHARD // natural.GROUP
    jobs += [("train", k, range(natural.HELDOUT + k * size, natural.HELDOUT + (k + 1) * size)) for k in range((len(items) - first) // SHARD)]
    for split, k, files in jobs:
        path = shard_path(split, k)
        if path.exists():
            continue
        if not all(map(natural.complete, files)):
            break
        codes, labels, start = [], [], time.time()
        for f in files:
            for (_, _, phonemes), (x, f0, steps) in zip(items[f * natural.GROUP:], natural.read(f)):
                frames = natural.Frames(steps)
                codes.append(model.whole(frames.points(x), frames.track(f0)))
                labels.append(frames.labels(phonemes, steps))
        np.savez(path.with_suffix(".half.npz"), codes=np.concatenate(codes), labels=np.concatenate(labels), frames=np.array([len(c) for c in codes], np.int32))
        path.with_suffix(".half.npz").replace(path)
        print(f"codes {path.name}: {len(codes)} utterances, {sum(map(len, codes)) / 90000:.2f} hours, {time.time() - start:.0f} s", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--shards", default="", help="only these shard numbers, e.g. 0,2,4 (several processes can share the work)")
    args = ap.parse_args()
    setup()
    if NATURAL:
        return code_features(codec.load())
    from teacher import Teacher
    texts = load_texts()
    phonemes = json.loads((WORK / "phonemes.json").read_text())
    model, teacher = codec.load(), Teacher()
    jobs = [("val", 0, texts["val"])]
    jobs += [("train", k, texts["train"][k * SHARD:(k + 1) * SHARD]) for k in range(-(-len(texts["train"]) // SHARD))]
    wanted = {int(s) for s in args.shards.split(",")} if args.shards else None
    for split, k, items in jobs:
        path = shard_path(split, k)
        if not path.exists() and (wanted is None or k in wanted):
            build_shard(model, teacher, phonemes, items, path)


class Codes:
    """All shards of a split that exist: texts, voices, codes and phoneme labels by utterance."""

    def __init__(self, split):
        self.split = split
        self.items, self.codes, self.labels, self.frames, self.shard = [], [], [], [], 0
        self.extend()

    def extend(self):
        """Takes in shards written since; True when there were any."""
        texts, before = load_texts()[self.split], self.shard
        while shard_path(self.split, self.shard).exists():
            d = np.load(shard_path(self.split, self.shard))
            ends = np.cumsum(d["frames"])
            self.codes += np.split(d["codes"], ends[:-1])
            self.labels += np.split(d["labels"], ends[:-1])
            self.frames += d["frames"].tolist()
            self.items += texts[self.shard * SHARD:self.shard * SHARD + len(ends)]
            self.shard += 1
        return self.shard > before

    def __len__(self):
        return len(self.items)


if __name__ == "__main__":
    main()
