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
from common import FRAME, LEAD_FRAMES, SEED, SMOKE, TAIL_FRAMES, WORK, write_json

SIZE = 300 if SMOKE else 60000       # utterances of text, about 75 hours
GROUP = 6 if SMOKE else 20           # utterances of a file
VOICES = {"aria": "af_heart", "basil": "am_michael"}
FOLDER = WORK / "natural"
HELDOUT = 1 if SMOKE else 10         # the first files are for validation, not training
QUIET = 0.004                # samples below this before and after speech are cut off
PEAK = 0.86                  # louder utterances are scaled down to this
MARKS = ";:,.!?—…\"()“” "    # symbols without a sound
STRESS = "ˈˌːʰʲ"             # symbols that belong to the next or the last one
PHONEMES = [s for s in kokoro.VOCABULARY if s not in MARKS + STRESS]


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


def framed(row, wav):
    """One utterance as the talker learns it: silent frames, speech from a frame's start on, silent frames.

    -> (int16, labels). Without a `row` all labels are 0.
    """
    loud = np.flatnonzero(np.abs(wav.astype(np.int32)) > QUIET * 32768)
    first, last = (max(0, loud[0] - FRAME // 8), min(len(wav), loud[-1] + FRAME // 2)) if len(loud) else (0, 0)
    speech = wav[first:last].astype(np.float32)
    peak = np.abs(speech).max(initial=0.0) / 32768
    speech = speech * min(1.0, PEAK / max(peak, 1e-6))
    edge = min(len(speech) // 2, FRAME // 16)
    speech[:edge] *= np.linspace(0, 1, edge)
    speech[len(speech) - edge:] *= np.linspace(1, 0, edge)
    frames = LEAD_FRAMES + -(-len(speech) // FRAME) + TAIL_FRAMES
    out, labels = np.zeros(frames * FRAME, np.int16), np.zeros(frames, np.uint8)
    out[LEAD_FRAMES * FRAME:LEAD_FRAMES * FRAME + len(speech)] = np.round(speech)
    if row is None:
        return out, labels
    events = sounding(row["phonemes"], row["steps"])
    middles = (np.arange(frames) - LEAD_FRAMES + 0.5) * FRAME + first
    labels[:] = np.array([p for _, p in events])[np.searchsorted([t for t, _ in events], middles, "right").clip(1) - 1]
    labels[:LEAD_FRAMES] = 0
    labels[frames - TAIL_FRAMES:] = 0
    return out, labels


def collect():
    """Everything spoken so far as the files of stage `data`: texts.json, phonemes.json and audio-*.npz."""
    if SMOKE:
        speak(kokoro.Teacher(), texts(), files=2)
    items = texts()
    files = [k for k in range(-(-len(items) // GROUP)) if complete(k)]
    split = dict(val=[k for k in files if k < HELDOUT], train=[k for k in files if k >= HELDOUT])
    if not all(split.values()):
        raise SystemExit(f"natural: {len(files)} files are spoken; more than {HELDOUT} are needed (run natural.py)")
    write_json(WORK / "phonemes.json", {p: i + 1 for i, p in enumerate(PHONEMES)})
    known = dict(heldout=[])
    for name, numbers in split.items():
        audio, labels, known[name] = [], [], []
        for k in numbers:
            rows, wav = read(k)
            at = 0
            for row in rows:
                a, l = framed(row, wav[at:at + row["samples"]])
                at += row["samples"]
                audio.append(a)
                labels.append(l)
                known[name].append([row["text"], row["voice"]])
        np.savez(WORK / f"audio-{name}.npz", audio=np.concatenate(audio), labels=np.concatenate(labels), frames=np.array([len(l) for l in labels], np.int32))
        seconds = sum(map(len, audio)) / kokoro.RATE
        print(f"data {name}: {len(audio)} utterances, {seconds / 3600:.2f} hours, {sum(len(t) for t, _ in known[name]) / seconds:.1f} characters per second", flush=True)
    write_json(WORK / "texts.json", known)


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
    speak(kokoro.load_teacher(), items, range(part, files, parts), args.seconds, args.hours)


def speak(teacher, items, files, seconds=0, hours=0):
    """Makes the files that are not there yet, until the time or the amount is reached."""
    files = range(files) if isinstance(files, int) else files
    start, used, spoken = time.time(), time.process_time(), 0.0
    have = sum(sum(r["samples"] for r in json.loads(paths(k)[1].read_text())["utterances"]) for k in files if complete(k)) / kokoro.RATE
    for k in files:
        if complete(k):
            continue
        if (seconds and time.time() - start > seconds) or (hours and (have + spoken) / 3600 >= hours):
            break
        spoken += make(teacher, items, k)
        print(f"natural file {k}: {(have + spoken) / 3600:.3f} hours, {(time.time() - start) / spoken:.2f} seconds a second, "
              f"{(time.process_time() - used) / spoken:.2f} of the processor", flush=True)


if __name__ == "__main__":
    main()
