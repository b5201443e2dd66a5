"""Stages `texts` and `natural`: what is said, and the teacher saying it.

work/natural/texts.json        every utterance in a fixed order: [voice, text, phonemes]
work/natural/00000.npz         utterances 0 .. 19 before the teacher's generator: features, pitch, durations of phonemes
work/natural/00000.audio.npz   their audio, 16 kHz, made for some of them only: the generator takes nine tenths of the time

A talker learns from codes, and the codec makes codes of the features, so most utterances never need to be heard.
The stage may be killed at any time and goes on where it stopped; several may run with different --part.
"""
import argparse
import io
import json
import os
import time

import numpy as np
from scipy.signal import resample_poly

import everyday
import kokoro
from common import FRAME, LEAD_FRAMES, SAMPLE_RATE, SEED, SMOKE, TAIL_FRAMES, WORK, pause, time_is_up, write_json
from pitch import Track

SIZE = 300 if SMOKE else 24000       # utterances of text, about 29 hours
GROUP = 6 if SMOKE else 20           # utterances of a file
VOICES = {"aria": "af_heart", "basil": "am_michael"}
TEXT_SEEDS = [int(seed) for seed in os.environ.get("OMNI_EMBEDDED_TEXT_SEED", str(SEED)).split(",")]        # others give other texts: to train further
GAIN = {"aria": 1.35, "basil": 1.6}  # to the loudness of speech elsewhere
CEILING, KNEE = 0.98, 0.8            # louder samples than KNEE are pressed together, none exceeds CEILING
FOLDER = WORK / "natural"
PATIENCE = 600           # seconds that audio waits for features
HELDOUT = 1 if SMOKE else 2          # the first files are for validation, not training
BEFORE, AFTER = 1200, 2400           # samples of the teacher kept before the first and after the last sound
DELAY = 960                          # samples of the teacher by which audio is later than its codes: code2wav sees the next frame
UNIT = kokoro.RATE // 25             # samples of the teacher in a frame
POINT = 300                          # and in a point of its features
MARKS = ";:,.!?—…\"()“” "    # symbols without a sound
STRESS = "ˈˌːʰʲ"             # symbols that belong to the next or the last one
PHONEMES = [s for s in kokoro.VOCABULARY if s not in MARKS + STRESS]


def default_texts():
    """What is said without TEXT_SEEDS."""
    return {text for _, text in everyday.corpus(SEED, SIZE)}


def texts():
    """The utterances; made once."""
    path = FOLDER / "texts.json"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        phonemes, items = kokoro.Phonemes(), []
        known = default_texts() if TEXT_SEEDS != [SEED] else set()
        for seed in TEXT_SEEDS:
            fresh = [text for _, text in everyday.corpus(seed, SIZE) if text not in known]
            known.update(fresh)
            for n, text in enumerate(fresh):
                sounds = phonemes(text)
                if 1 < len(sounds) <= kokoro.STYLES:
                    items.append([list(VOICES)[len(items) % len(VOICES)], text, sounds])
                if n % 10000 == 0:
                    print(f"natural texts {n}", flush=True)
        write_json(path.with_suffix(".half"), items)
        path.with_suffix(".half").replace(path)
    return json.loads(path.read_text())


class Frames:
    """Where the frames of an utterance lie in the teacher's time: silent frames, speech, silent frames."""

    def __init__(self, steps):
        total = int(steps.sum()) * kokoro.STEP
        self.first = max(0, int(steps[0]) * kokoro.STEP - BEFORE)
        self.end = min(total, total - int(steps[-1]) * kokoro.STEP + AFTER)
        self.count = LEAD_FRAMES + -(-(self.end - self.first) // UNIT) + TAIL_FRAMES
        self.origin = self.first - LEAD_FRAMES * UNIT

    def track(self, f0):
        return Track(f0, POINT, kokoro.RATE, self.origin, UNIT, self.count)

    def points(self, x):
        """The features x [T, D] at 100 a second, four a frame: [4 * count, D], zero outside the speech."""
        at = self.origin + (np.arange(4 * self.count) + 0.5) * UNIT / 4
        place = np.clip(at / POINT - 0.5, 0, len(x) - 1)
        low = np.minimum(place.astype(int), len(x) - 2)
        part = (place - low)[:, None].astype(np.float32)
        out = x[low].astype(np.float32) * (1 - part) + x[low + 1].astype(np.float32) * part
        return out * ((at >= self.first) & (at < self.end))[:, None]

    def labels(self, phonemes, steps):
        """A phoneme a frame, 0 for silence."""
        events = sounding(phonemes, steps)
        middles = self.origin + (np.arange(self.count) + 0.5) * UNIT
        found = np.array([p for _, p in events])[np.searchsorted([t for t, _ in events], middles, "right").clip(1) - 1].astype(np.uint8)
        found[:LEAD_FRAMES] = 0
        found[self.count - TAIL_FRAMES:] = 0
        return found

    def cut(self, wav, gain):
        """int16 [count * FRAME + the delay]: the audio from frame 0 on, not delayed."""
        kept = np.zeros(self.count * UNIT + DELAY, np.float32)
        speech = wav[self.first:self.end] * gain
        edge = 240
        speech[:edge] *= np.linspace(0, 1, edge)
        speech[-edge:] *= np.linspace(1, 0, edge)
        at = LEAD_FRAMES * UNIT
        kept[at:at + len(speech)] = speech
        x = resample_poly(kept, SAMPLE_RATE // 8000, kokoro.RATE // 8000)
        loud = np.abs(x)
        pressed = np.where(loud > KNEE, KNEE + (CEILING - KNEE) * np.tanh((loud - KNEE) / (CEILING - KNEE)), loud)
        return np.round(np.sign(x) * pressed * 32767).astype(np.int16)


def paths(k):
    return FOLDER / f"{k:05d}.npz", FOLDER / f"{k:05d}.audio.npz"


def complete(k, audio=False):
    return paths(k)[audio].exists()


def store(path, **arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    kokoro.write(path, buffer.getvalue())


def read(k):
    """Of every utterance of a file: (features [T, D], pitch [T], steps of its phonemes)."""
    d = np.load(paths(k)[0])
    cut = lambda name, sizes: np.split(d[name], np.cumsum(d[sizes])[:-1])
    return list(zip(cut("features", "points"), cut("pitch", "points"), cut("steps", "phonemes")))


def audio(k):
    d = np.load(paths(k)[1])
    return np.split(d["audio"], np.cumsum(d["samples"])[:-1])


def make_features(teacher, items, k):
    """One file. -> seconds of speech"""
    found = [teacher.features(phonemes, VOICES[voice]) for voice, _, phonemes in items[k * GROUP:(k + 1) * GROUP]]
    x, f0, steps = zip(*found)
    store(paths(k)[0], features=np.concatenate(x).astype(np.float16), pitch=np.concatenate(f0), steps=np.concatenate(steps),
          points=np.array([len(a) for a in f0]), phonemes=np.array([len(a) for a in steps]))
    return sum(map(len, f0)) * POINT / kokoro.RATE


def make_audio(teacher, items, k):
    wavs = []
    for (voice, _, phonemes), (x, f0, steps) in zip(items[k * GROUP:(k + 1) * GROUP], read(k)):
        frames = Frames(steps)
        wav = teacher.sound(x.astype(np.float32), frames.track(f0).harmonics(), phonemes, VOICES[voice])
        wavs.append(frames.cut(wav, GAIN[voice]))
    store(paths(k)[1], audio=np.concatenate(wavs), samples=np.array([len(w) for w in wavs]))
    return sum(map(len, wavs)) / SAMPLE_RATE


def sounding(phonemes, steps):
    """[(start in samples, id of the phoneme, 0 for silence)]: a stress mark belongs to the vowel after it."""
    out, at = [(0, 0)], int(steps[0]) * kokoro.STEP
    for symbol, count in zip(phonemes, steps[1:-1]):
        if symbol in STRESS:
            out.append((at, None))
        else:
            out.append((at, PHONEMES.index(symbol) + 1 if symbol in PHONEMES else 0))
        at += int(count) * kokoro.STEP
    out.append((at, 0))
    for k in range(len(out) - 2, -1, -1):           # marks take the sound that follows
        if out[k][1] is None:
            out[k] = (out[k][0], out[k + 1][1])
    return out


def prepare():
    """Texts, the table of phonemes and the teacher; in the small setting also a little of everything else."""
    items = texts()
    write_json(WORK / "phonemes.json", {p: i + 1 for i, p in enumerate(PHONEMES)})
    teacher = kokoro.Teacher()              # fetched here: two processes come next
    if SMOKE:
        for sound in (False, True):
            speak(teacher, items, range(HELDOUT + 3), sound)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--texts", action="store_true", help="make the texts and nothing else")
    ap.add_argument("--audio", action="store_true", help="make the audio of files whose features are there; without it, features")
    ap.add_argument("--seconds", type=float, default=0, help="stop after so many seconds (default: when everything is spoken)")
    ap.add_argument("--hours", type=float, default=0, help="stop when there are so many hours")
    ap.add_argument("--part", default="0/1", help="i/n: only files k with k %% n == i")
    args = ap.parse_args()
    if args.texts:
        return prepare()
    items = texts()
    part, parts = map(int, args.part.split("/"))
    speak(kokoro.Teacher(), items, range(part, -(-len(items) // GROUP), parts), args.audio, args.seconds, args.hours)


def speak(teacher, items, files, audio=False, seconds=0, hours=0):
    """Makes the files that are not there yet, until the time or the amount is reached."""
    start, used, spoken = time.time(), time.process_time(), 0.0
    for k in files:
        if (seconds and time.time() - start > seconds) or (hours and spoken / 3600 >= hours):
            break
        if complete(k, audio):
            spoken += GROUP * 4.4
            continue
        if time_is_up():
            pause(f"natural {'audio' if audio else 'features'} stops at file {k}")
        waited = time.time()
        while audio and not complete(k):
            if time.time() - waited > PATIENCE:
                raise SystemExit(f"natural: no features for file {k} came in {PATIENCE} s")
            time.sleep(1)
        spoken += (make_audio if audio else make_features)(teacher, items, k)
        if k % 10 == 0:
            print(f"natural {'audio' if audio else 'features'} file {k}: {spoken / 3600:.3f} hours, {(time.process_time() - used) / spoken:.3f} processor seconds a second", flush=True)


if __name__ == "__main__":
    main()
