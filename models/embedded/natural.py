"""Stage `natural`: the natural teacher speaks, in the background, for as long as it is let.

work/natural/texts.json        every utterance in a fixed order: [voice, text, phonemes]
work/natural/00000.flac        audio of the utterances 0 .. 19, one after the other, 24 kHz
work/natural/00000.json        their lengths, durations of phonemes, and the audio's checksum; written last

The stage may be killed at any time and goes on where it stopped; several may run with different --part.
"""
import argparse
import hashlib
import io
import json
import time

import numpy as np
import soundfile

import everyday
import kokoro
from common import SEED, WORK, write_json

SIZE = 60000                 # utterances of text, about 75 hours
GROUP = 20                   # utterances of a file
VOICES = {"aria": "af_heart", "basil": "am_michael"}
FOLDER = WORK / "natural"
HELDOUT = 10                 # the first files are for validation, not training


def texts():
    """The utterances; made once."""
    path = FOLDER / "texts.json"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        phonemes, items = kokoro.Phonemes(), []
        for n, (_, text) in enumerate(everyday.corpus(SEED, SIZE)):
            sounds = phonemes(text)
            if 1 < len(sounds) <= kokoro.STYLES:
                items.append([list(VOICES)[len(items) % len(VOICES)], text, sounds])
            if n % 10000 == 0:
                print(f"natural texts {n}", flush=True)
        write_json(path.with_suffix(".half"), items)
        path.with_suffix(".half").replace(path)
    return json.loads(path.read_text())


def paths(k):
    return FOLDER / f"{k:05d}.flac", FOLDER / f"{k:05d}.json"


def complete(k):
    return paths(k)[1].exists()


def make(teacher, items, k):
    """One file. -> seconds of audio"""
    wavs, rows = [], []
    for voice, text, phonemes in items[k * GROUP:(k + 1) * GROUP]:
        wav, steps = teacher.say(phonemes, VOICES[voice])
        wavs.append(np.round(np.clip(wav, -1, 1) * 32767).astype(np.int16))
        rows.append(dict(voice=voice, text=text, phonemes=phonemes, samples=len(wav), steps=steps.tolist()))
    buffer = io.BytesIO()
    soundfile.write(buffer, np.concatenate(wavs), kokoro.RATE, format="FLAC", subtype="PCM_16")
    sound, index = paths(k)
    kokoro.write(sound, buffer.getvalue())
    kokoro.write(index, json.dumps(dict(sha256=hashlib.sha256(buffer.getvalue()).hexdigest(), utterances=rows)).encode())
    return sum(map(len, wavs)) / kokoro.RATE


def read(k, check=False):
    """(rows, int16 samples) of a complete file."""
    sound, index = paths(k)
    known = json.loads(index.read_text())
    if check and hashlib.sha256(sound.read_bytes()).hexdigest() != known["sha256"]:
        raise ValueError(f"{sound}: the audio is not what its index says")
    return known["utterances"], soundfile.read(sound, dtype="int16")[0]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seconds", type=float, default=0, help="stop after so many seconds (default: when everything is spoken)")
    ap.add_argument("--hours", type=float, default=0, help="stop when there are so many hours of audio")
    ap.add_argument("--part", default="0/1", help="i/n: only files k with k %% n == i")
    ap.add_argument("--check", action="store_true", help="compare every file with its checksum, and say how much there is")
    args = ap.parse_args()
    items = texts()
    files = -(-len(items) // GROUP)
    if args.check:
        seconds = sum(len(read(k, True)[1]) for k in range(files) if complete(k)) / kokoro.RATE
        print(f"natural: {sum(map(complete, range(files)))} of {files} files are complete and as their checksums say, {seconds / 3600:.2f} hours")
        return
    part, parts = map(int, args.part.split("/"))
    teacher, start, spoken = kokoro.Teacher(), time.time(), 0.0
    used = time.process_time()
    have = sum(sum(r["samples"] for r in json.loads(paths(k)[1].read_text())["utterances"]) for k in range(files) if complete(k)) / kokoro.RATE
    for k in range(part, files, parts):
        if complete(k):
            continue
        if (args.seconds and time.time() - start > args.seconds) or (args.hours and (have + spoken) / 3600 >= args.hours):
            break
        spoken += make(teacher, items, k)
        print(f"natural file {k}: {(have + spoken) / 3600:.3f} hours, {(time.time() - start) / spoken:.2f} seconds a second, "
              f"{(time.process_time() - used) / spoken:.2f} of the processor", flush=True)


if __name__ == "__main__":
    main()
