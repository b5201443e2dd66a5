"""Stage `hard` finds words that the talker of a checkpoint says wrongly, and adds texts that contain them. It is not part of a training from nothing.

The talker says sentences of `vocabulary.py`, `recogniser.py` recognises their phonemes, and every error counts for the word it falls in. English
spells many words as it does not speak them, so they have to be learnt one by one, and in ordinary texts they come too seldom.

work/hard.json             {word: wrong phonemes each time it is said, beyond those of a word that is said well}
work/natural/texts.json    gets the texts behind those that the teacher has said: `natural`, `codes` and `talker` go on with them
"""
import argparse
import itertools
import json
import random
import re
import time
from collections import Counter
from pathlib import Path

from rapidfuzz.distance import Levenshtein

import everyday
import kokoro
import natural
import recogniser
import texts
import vocabulary
from common import CHECKPOINT, SMOKE, VOICE_NAMES, WORK, pause, setup, time_is_up, write_json
from generate import generate_all, load_checkpoint_folder

PATH = WORK / "hard.json"
HALF = WORK / "hard.half.json"           # counts of the sentences that are done
SENTENCES = 40 if SMOKE else 7000        # every word of `vocabulary.py` about twice
TEXTS = 12 if SMOKE else 9000            # about 13 hours
EXPECTED = 0.035                         # wrong phonemes of words that are said well: errors of the recogniser, mostly
BATCH = 100
REAL = 0.4                               # of the texts are sentences of WordNet and of fortunes, the others made of frames
JOINED = 0.4                             # of the sentences stand before another one in the same text: errors grow with the length


def by_word(text, phonemes):
    """[(word, its sounds)]; None where espeak-ng speaks two words as one."""
    words = [w for w in text.split() if re.search("[a-z]", w)]
    said = [s for s in map(recogniser.sounds, phonemes.split()) if s]
    return [(re.sub("[^a-z']", "", w), s) for w, s in zip(words, said)] if len(words) == len(said) else None


def errors(parts, heard):
    """Wrong phonemes of every word of `parts`."""
    owner = [k for k, (_, sounds) in enumerate(parts) for _ in sounds]
    found = [0] * len(parts)
    for edit in Levenshtein.editops([s for _, sounds in parts for s in sounds], heard):
        found[owner[min(edit.src_pos, len(owner) - 1)]] += 1
    return found


def weigh(said, sounds, wrong):
    """Errors a saying, shrunk where a word was said once only; the hardest words first."""
    found = {w: round(max(0.0, (wrong[w] - EXPECTED * sounds[w]) / (said[w] + 0.5)), 3) for w in said}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def listen(talker, size):
    """{word: its weight}"""
    model, phonemes, rng = recogniser.load(), kokoro.Phonemes(), random.Random(4711)
    chosen = vocabulary.sentences(rng, size)
    rng.shuffle(chosen)
    first, *counts = json.loads(HALF.read_text()) if HALF.exists() else (0, {}, {}, {})
    said, sounds, wrong = map(Counter, counts)
    start = time.time()
    for at in range(first, len(chosen), BATCH):
        if time_is_up():
            pause(f"hard stops at sentence {at}")
        group = [(t, p) for t in chosen[at:at + BATCH] if (p := by_word(t, phonemes(t)))]
        voices = [VOICE_NAMES[k % len(VOICE_NAMES)] for k in range(len(group))]
        codes = generate_all(talker, [t for t, _ in group], voices, batch=BATCH, temperature=0.3, sub_temperature=0.4, seed=at + 1)
        for (_, parts), heard in zip(group, recogniser.recognise(model, codes)):
            for (word, own), count in zip(parts, errors(parts, heard)):
                said[word] += 1
                sounds[word] += len(own)
                wrong[word] += count
        write_json(HALF, [at + BATCH, said, sounds, wrong])
        print(f"hard {min(at + BATCH, len(chosen))}/{len(chosen)} sentences, {len(said)} words, "
              f"{100 * wrong.total() / sounds.total():.2f} % of the phonemes wrong, {time.time() - start:.0f} s", flush=True)
    return weigh(said, sounds, wrong)


def corpus(seed, size, weights):
    """About `size` texts that have the words by their weight; the same ones for the same weights."""
    rng, count = random.Random(seed), round(size / (1 - JOINED))
    mean = sum(weights.values()) / len(weights)         # of a word that was never said

    def hardness(text):
        words = re.findall(r"[a-z']+", text)
        return sum(min(2.0, weights.get(w, mean)) for w in words) / (len(words) + 2)

    def draw(words):
        sums = list(itertools.accumulate(weights.get(w, mean) + 0.05 * mean for w in words))
        return lambda: rng.choices(words, cum_weights=sums)[0]

    kept_back = everyday.judged() | {everyday.normal(text) for _, text, _ in natural.texts()[:natural.HELDOUT * natural.GROUP]}
    glosses, examples = texts.wordnet(rng)
    real = {t for t in examples + texts.fortunes(rng) + glosses if 20 < len(t) <= 150}
    pool = sorted(real, key=lambda t: (-hardness(t), t))[:round(count * REAL)] + vocabulary.sentences(rng, round(count * (1 - REAL)), draw)
    pool = [t for t in pool if everyday.normal(t) not in kept_back]
    rng.shuffle(pool)
    out, before = [], ""
    for t in pool:
        longer = f"{before}{'' if before.endswith(tuple('.?!')) else '.'} {t}"
        if before and len(longer) > texts.MAX_CHARS:
            out.append(before)
        elif before:
            t = longer
        before = t if rng.random() < JOINED else ""
        if not before:
            out.append(t)
    return list(dict.fromkeys([*out, before] if before else out))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--sentences", type=int, default=SENTENCES, help="how many the talker says")
    ap.add_argument("--texts", type=int, default=TEXTS, help="how many are added, about")
    ap.add_argument("--seed", type=int, default=natural.TEXT_SEED + 1)
    args = ap.parse_args()
    setup()
    if not PATH.exists():
        write_json(PATH, listen(load_checkpoint_folder(args.checkpoint)[0], args.sentences))
    weights = json.loads(PATH.read_text())
    print("hard:", ", ".join(f"{word} {weight:.1f}" for word, weight in itertools.islice(weights.items(), 40)))
    print(f"hard: {natural.add(corpus(args.seed, args.texts, weights))} texts are added")


if __name__ == "__main__":
    main()
