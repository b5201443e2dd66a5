"""How far the server's alignment of text and audio is off, and the table of letters that it follows audio by.

    align.py table                       fits server/session/src/alignment/letters.rs and prints its rows
    align.py measure [--sentences N]     measures `omni-client speak --subtitles` against the teacher
    align.py listen [--sentences N]      measures the same against Whisper base, and counts words that take no time

The reference: Kokoro, the teacher of both voices, tells how long every phoneme lasts, so at which sample each word begins. The
model's audio of the same text has its own tempo, so the teacher's audio is warped onto it (dynamic time warping of 20 mel bands,
10 ms steps) and the words' beginnings with it. What the warping itself is off by is measured too: on the teacher's audio with its
tempo changed by known amounts. Sentences of stranger/ only, which nothing is trained on; needs the packages of
requirements.txt, a running server and the client.
"""
import argparse
import difflib
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import scipy.signal
from scipy.io import wavfile

import kokoro
import natural
import stranger
import texts
from common import LEAD_FRAMES, FRAME, VOICE_NAMES

RATE, HOP, WINDOW = 16000, 160, 400
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAIRS = ("th", "sh", "ch", "ph", "ck", "gh", "wh", "ou", "ea", "ee", "oo", "ai", "ow", "ay", "qu")
FIRST, MERGED, MUTE_E, DOUBLED, SHORTEST, PAUSE = 40, 25, 24, 34, 15, 80


class WordTeacher:
    """Tells where words begin."""

    def __init__(self):
        self.teacher, self.phonemes = kokoro.Teacher(), kokoro.Phonemes()

    def words_of(self, text, voice):
        """-> (samples at 16 kHz, [(seconds, character)]); no words where the phonemes run some of them together"""
        sounds, style = self.phonemes(text), natural.VOICES[voice]
        x, f0, steps = self.teacher.features(sounds, style)
        frames = natural.Frames(steps)
        wav = frames.cut(self.teacher.sound(x, frames.track(f0).harmonics(), sounds, style), natural.GAIN[voice])[LEAD_FRAMES * FRAME:]
        wav = wav[:1 + np.flatnonzero(np.abs(wav) > 100)[-1]]
        at = np.cumsum(steps)[:-1] * kokoro.STEP           # where every phoneme begins
        starts = [(max(0, at[k] - frames.first) / kokoro.RATE) for k, c in enumerate(sounds) if c != " " and (k == 0 or sounds[k - 1] == " ")]
        places = [m.start() for m in re.finditer(r"\S+", text)]
        return wav.astype(np.float32) / 32768, list(zip(starts, places)) if len(starts) == len(places) else []


def heldout():
    """Sentences that nothing is trained on, as the voices read them."""
    return [t for t in (texts.clean(t.lower()) for _, _, t in stranger.sentences()) if t and not re.search(r"[0-9]", t)]


# ---------------------------------------------------------------- the table

def moments(wav):
    """[moments, (level in dB beside the loudest so far, logarithm of the brightness in Hz)], as omni-audio's Follower hears."""
    n = len(wav) // HOP
    x = wav[:n * HOP].astype(np.float64)
    energy = (x.reshape(n, HOP) ** 2).sum(1)
    change = (np.diff(x, prepend=0.0).reshape(n, HOP) ** 2).sum(1)
    level = 10 * np.log10(energy / HOP + 1e-9)
    loudest = np.maximum.accumulate(np.maximum(level, -30))
    hz = RATE / np.pi * np.arcsin(np.sqrt(np.clip(change / (energy + 1e-6), 0, 4)) / 2)
    return np.stack([np.maximum(level - loudest, -45), np.log(np.maximum(hz, 100))], 1)


def spell(text, lengths):
    """[(letter or pause, ms, character)] as letters.rs spells it"""
    out = []
    for i, c in enumerate(text.rstrip(".?!,;: ")):
        if c in LETTERS:
            before = text[i - 1] if i else " "
            ms = lengths[c] + (0 if before.isalpha() else FIRST)
            ms -= DOUBLED * (before == c) + MERGED * (before + c in PAIRS) + MUTE_E * (c == "e" and not text[i + 1:i + 2].isalpha())
            out.append((c, max(ms, SHORTEST), i))
        elif c in ",;:.?!":
            out.append((",", PAUSE, i))
    return out


def fit_lengths(items):
    """Milliseconds of each letter by least squares over the intervals between known word beginnings."""
    rows, times = [], []
    for text, wav, starts in items:
        marks = starts + [(len(wav) / RATE, len(text))]
        for (t0, a), (t1, b) in zip(marks, marks[1:]):
            part = text[a:b].rstrip(".?!,;: ") if b == len(text) else text[a:b]
            words = len(re.findall(r"[a-z']+", part))
            row = [part.count(c) for c in LETTERS] + [len(re.findall("[,;:.?!]", part)), words]
            fixed = sum(DOUBLED for p, q in zip(part, part[1:]) if p == q and p in LETTERS)
            fixed += sum(MERGED * part.count(p) for p in PAIRS) + MUTE_E * len(re.findall(r"e\b", part))
            rows.append(row)
            times.append((t1 - t0) * 1000 + fixed - FIRST * words)
    rows, times = np.array(rows, float)[:, :-1], np.array(times)
    found = np.linalg.solve(rows.T @ rows + 0.1 * np.eye(rows.shape[1]), rows.T @ times)
    return dict(zip(LETTERS, np.maximum(found[:26], SHORTEST)))


def viterbi(heard, symbols, table):
    """The most likely way of `heard` through the grid of `symbols`, as the Follower finds it."""
    like = {}
    for s in set(symbols):
        mean, spread = table[s]
        off = (heard - mean) / spread
        like[s] = 1.5 * (-0.5 * np.minimum(off * off, 9).sum(1) - np.log(spread).sum())
    like = np.stack([like[s] for s in symbols], 1)
    stay = np.where(np.array(symbols) == ",", -0.1, -1.0)
    n, m = like.shape
    score = np.full(m, -1e9)
    score[0] = like[0, 0]
    ways = np.zeros((n, m), np.int8)
    for t in range(1, n):
        options = np.full((4, m), -1e9)
        options[0] = score + stay
        for k, worth in ((1, 0.0), (2, -1.0), (3, -2.0)):
            options[k, k:] = score[:-k] + worth
        ways[t] = options.argmax(0)
        score = options.max(0) + like[t]
    path = [m - 1]
    for t in range(n - 1, 0, -1):
        path.append(path[-1] - int(ways[t, path[-1]]))
    return path[::-1]


def grid(text, lengths):
    return [s for s, ms, _ in spell(text, lengths) for _ in range(max(1, round(ms / 10)))]


def table(count):
    teacher = WordTeacher()
    chosen = [t for _, t, _ in natural.texts() if 12 <= len(t) < 200]
    random.Random(1).shuffle(chosen)
    items = []
    for voice in VOICE_NAMES:
        for text in chosen[:count // 2] if voice == VOICE_NAMES[0] else chosen[count // 2:count]:
            wav, starts = teacher.words_of(text, voice)
            if starts:
                items.append((text, wav, starts))
    lengths = fit_lengths(items)
    # The first alignment is even between the words' known beginnings, the others are what the table itself finds.
    heard = {s: [] for s in LETTERS + ","}
    for text, wav, starts in items:
        spelled, m = spell(text, lengths), moments(wav)
        marks = starts + [(len(wav) / RATE, len(text))]
        for (t0, a), (t1, b) in zip(marks, marks[1:]):
            inside = [s for s, ms, i in spelled if a <= i < b for _ in range(max(1, round(ms / 10)))]
            part = m[int(t0 * 100):int(t1 * 100)]
            for k, row in enumerate(part if inside else []):
                heard[inside[min(len(inside) - 1, k * len(inside) // len(part))]].append(row)
    # Voices differ from these two, and the silence of others is not as silent.
    floor = lambda s: np.array([8.0 if s == "," else 5.0, 0.4])
    fitted = lambda: {s: (np.mean(v or [[0, 7]], 0), np.maximum(np.std(v or [[0, 7]], 0), floor(s))) for s, v in heard.items()}
    result = fitted()
    for _ in range(3):
        heard = {s: [] for s in LETTERS + ","}
        for text, wav, _ in items[::2]:
            m, symbols = moments(wav), grid(text, lengths)
            for row, place in zip(m, viterbi(m, symbols, result)):
                heard[symbols[place]].append(row)
        result = fitted()
    for s in LETTERS + ",":
        (level, bright), (level_spread, bright_spread) = result[s]
        print(f"    ({lengths.get(s, 0):.0f}, {level:.1f}, {level_spread:.1f}, {bright:.2f}, {bright_spread:.2f}),  // {s}")


# ---------------------------------------------------------------- the measurement

def mels(wav):
    """[moments, 20] logarithms of mel bands, 10 ms apart"""
    spectrum = np.abs(scipy.signal.stft(wav, RATE, nperseg=WINDOW, noverlap=WINDOW - HOP, padded=True)[2].T) ** 2
    hz = np.arange(spectrum.shape[1]) * RATE / WINDOW
    edges = 700 * (10 ** (np.linspace(*(2595 * np.log10(1 + np.array([100, 7600]) / 700)), 22) / 2595) - 1)
    up = (hz[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - hz[:, None]) / (edges[2:] - edges[1:-1])
    return np.log(spectrum @ np.clip(np.minimum(up, down), 0, None) + 1e-7)


def warp(a, b):
    """For every moment of `a`, the moment of `b` that is the same (dynamic time warping)."""
    cost = np.sqrt(np.maximum((a ** 2).sum(1)[:, None] + (b ** 2).sum(1) - 2 * a @ b.T, 0))
    n, m = cost.shape
    total = np.full((n + 1, m + 1), np.inf)
    total[0, 0] = 0
    for i in range(n):
        for j in range(max(0, i * m // n - 120), min(m, i * m // n + 120)):
            total[i + 1, j + 1] = cost[i, j] + min(total[i, j], total[i, j + 1], total[i + 1, j])
    i, j, found = n, m, np.zeros(n, int)
    while i > 0 and j > 0:
        found[i - 1] = j - 1
        step = np.argmin([total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]])
        i, j = i - (step != 2), j - (step != 1)
    return found


def warped(wav, starts, other):
    """The teacher's word beginnings in other audio of the same text, in seconds."""
    path = warp(mels(wav), mels(other))
    return [(path[min(len(path) - 1, round(t * 100))] / 100, at) for t, at in starts]


def subtitles(client, endpoint, text, voice, folder):
    """-> (samples, the words as the client is told of them: {text, start and end in seconds})"""
    wav, words = folder / "a.wav", folder / "a.jsonl"
    command = [client, "speak", "--quiet", "--endpoint", endpoint, "--voice", voice, "--seed", "1", "-o", str(wav),
               "--subtitles", str(words), text]
    subprocess.run(command, check=True)
    told = [json.loads(line) for line in words.read_text().splitlines()]
    return wavfile.read(wav)[1].astype(np.float32) / 32768, told


def tell(name, errors):
    e = np.abs(np.array(errors)) * 1000
    print(f"{name}: median {np.median(e):.0f} ms, p95 {np.percentile(e, 95):.0f} ms, largest {e.max():.0f} ms ({len(e)} words)", flush=True)


def measure(args):
    teacher, rng = WordTeacher(), np.random.default_rng(5)
    sentences = heldout()
    random.Random(3).shuffle(sentences)
    errors, flat, control, words_off, flat_off = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for voice in VOICE_NAMES:
            for text in sentences[:args.sentences]:
                wav, starts = teacher.words_of(text, voice)
                audio, told = subtitles(args.client, args.endpoint, text, voice, Path(folder))
                truth = warped(wav, starts, audio)[1:]
                if not truth:
                    continue
                begins, at = {}, 0
                for word in told:
                    lead = len(word["text"]) - len(word["text"].lstrip())
                    begins[at + lead] = word["start"]
                    at += len(word["text"])
                length = len(audio) / RATE
                truth = [(t, begins[at], at / len(text) * length) for t, at in truth if at in begins]
                for t, found, even in truth:
                    errors.append(found - t)
                    flat.append(even - t)
                # Somebody who interrupts at any moment: how many words too many or too few he is said to have heard, which is to
                # say, how many had ended because the next had begun.
                for now in rng.uniform(0, length, 10):
                    really = sum(t <= now for t, _, _ in truth)
                    words_off.append(sum(found <= now for _, found, _ in truth) - really)
                    flat_off.append(sum(even <= now for _, _, even in truth) - really)
                # The reference's own error: the teacher's audio slowed down by a known factor that varies.
                tempo = np.interp(np.arange(len(wav)), np.linspace(0, len(wav), 6), rng.uniform(0.85, 1.15, 6))
                at = np.cumsum(tempo)
                slow = np.interp(np.arange(0, at[-1], 1.0), at, wav).astype(np.float32)
                known = [(np.interp(t * RATE, np.arange(len(wav)), at) / RATE, c) for t, c in starts]
                found = warped(wav, starts, slow)
                control += [a - b for (a, _), (b, _) in zip(found[1:], known[1:])]
    tell("beginnings of words", errors)
    tell("the same, if every character took as long", flat)
    tell("the reference itself, where the truth is known", control)
    for name, off in (("words too many or too few at any moment", words_off), ("the same, if every character took as long", flat_off)):
        off = np.abs(np.array(off))
        print(f"{name}: mean {off.mean():.2f}, none {100 * (off == 0).mean():.0f} %, at most one {100 * (off <= 1).mean():.0f} %, "
              f"largest {off.max()} ({len(off)} interruptions)")


def listen(args):
    """Durations of the words that the client is told of, and how far their beginnings are from those that Whisper hears. Whisper's own times
    are steps of 20 ms and come from its attention: they are no truth, but they know nothing of ours."""
    from faster_whisper import WhisperModel
    whisper = WhisperModel(str(stranger.fetch()), device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True)
    plain = lambda words: [re.sub(r"[^a-z0-9]", "", w.lower()) for w in words]
    sentences = heldout()
    random.Random(3).shuffle(sentences)
    durations, apart = [], []
    with tempfile.TemporaryDirectory() as folder:
        for text, voice in [(t, v) for v in VOICE_NAMES for t in sentences[:args.sentences]]:
            audio, told = subtitles(args.client, args.endpoint, text, voice, Path(folder))
            told = [w for w in told if w["text"].strip()]
            durations += [w["end"] - w["start"] for w in told]
            segments, _ = whisper.transcribe(audio, language="en", beam_size=5, word_timestamps=True, condition_on_previous_text=False)
            heard = [w for s in segments for w in s.words]
            same = difflib.SequenceMatcher(None, plain([w["text"] for w in told]), plain([w.word for w in heard]), autojunk=False)
            for a, b, n in same.get_matching_blocks():
                apart += [told[a + i]["start"] - heard[b + i].start for i in range(n)]
    took = np.array(durations)
    print(f"{len(VOICE_NAMES) * args.sentences} utterances, {len(took)} words: {(took <= 0).sum()} without duration, {(took < 0.02).sum()} shorter than 20 ms")
    tell("beginnings of words from Whisper's", apart)
    print(f"the middle half is {' to '.join(f'{1000 * q:+.0f}' for q in np.percentile(apart, (25, 75)))} ms behind Whisper's")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = ap.add_subparsers(dest="command", required=True)
    fit = commands.add_parser("table")
    fit.add_argument("--sentences", type=int, default=500)
    run = commands.add_parser("measure")
    run.add_argument("--sentences", type=int, default=100, help="for each voice")
    hear = commands.add_parser("listen")
    hear.add_argument("--sentences", type=int, default=20, help="for each voice")
    for command in (run, hear):
        command.add_argument("--client", default="target/release/omni-client")
        command.add_argument("--endpoint", default="http://127.0.0.1:50051")
    args = ap.parse_args()
    {"table": lambda args: table(args.sentences), "measure": measure, "listen": listen}[args.command](args)


if __name__ == "__main__":
    main()
