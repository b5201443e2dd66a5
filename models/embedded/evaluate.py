"""Stage `evaluate`: the exported checkpoint judged by the listener on the held-out sentences.

Three lines for each voice: the teacher's audio, the teacher's codes through the vocoder, and text
through talker and vocoder. Writes figures.json beside the weights, the tables of README.md and, with
--samples, WAV files.
"""
import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.io import wavfile

import listener
from common import CHECKPOINT, FRAME, HERE, LEAD_FRAMES, NATURAL, SAMPLE_RATE, SMOKE, VOICE_NAMES, WORK, load_checkpoint, save_checkpoint, setup, write_json
from data import BUCKETS, Audio
from generate import generate_all, load_checkpoint_folder
from vocoder import decode, encode_all

MARKS = "<!-- figures: written by evaluate.py -->", "<!-- end of figures -->"


def rate(pairs):
    return round(100 * sum(e for e, _ in pairs) / max(1, sum(n for _, n in pairs)), 2)


def click(wav):
    """Largest second difference: a jump in the waveform shows here long before it does in the spectrum."""
    return float(np.abs(np.diff(wav, 2)).max()) if len(wav) > 2 else 0.0


def hiss(wav):
    """Level of the leading silence, dB relative to full scale."""
    lead = wav[:(LEAD_FRAMES - 1) * FRAME]
    return float(20 * np.log10(np.sqrt(np.mean(np.square(lead, dtype=np.float64))) + 1e-7))


def table(header, rows):
    line = lambda cells: "| " + " | ".join(str(c) for c in cells) + " |"
    return "\n".join([line(header), line(["---"] * len(header))] + [line(r) for r in rows])


def report(f):
    """The figures as Markdown."""
    kinds = {"teacher": "teacher's own audio", "codec": "teacher's codes through the vocoder", "talker": "text through talker and vocoder"}
    d, o = f["duration_ratio"], f["options"]
    quote = lambda t: t.replace("|", " ") or "(nothing)"
    return "\n\n".join([
        f"Character error rate of the listener in per cent (letters, spaces and apostrophes; best path, no language model), "
        f"{f['utterances']} utterances: {f['utterances'] // len(VOICE_NAMES)} held-out sentences by every voice. "
        f"Talker temperature {o['temperature']}, predictor {'greedy' if not o['sub_temperature'] else 'temperature ' + str(o['sub_temperature'])}.",
        table(["", *VOICE_NAMES, "all"], [[name, *(f["cer"][k][v] for v in VOICE_NAMES), f["cer"][k]["all"]] for k, name in kinds.items()]),
        table(["characters", *kinds], [[r["characters"], *(r[k] for k in kinds)] for r in f["cer_by_length"]]),
        f"Durations: {d['within_25_percent']} % within 25 % of the teacher's (median ratio {d['median']}, least {d['least']}, most {d['most']}). "
        f"Loudest sample {f['peak']['most']}, clipped utterances {f['peak']['clipped']}. Largest second difference (clicks would show here): "
        f"{f['largest_second_difference']['talker']}, teacher {f['largest_second_difference']['teacher']}. "
        f"Leading silence {f['leading_silence_db']['talker']} dB.",
        "The ten worst sentences:",
        table(["CER", "voice", "text", "heard", "heard from the teacher"],
              [[w["cer"], w["voice"], quote(w["text"]), quote(w["heard"]), quote(w["teacher_heard"])] for w in f["worst"]])])


def replace_between(path, start, end, text):
    before, rest = path.read_text().split(start)
    path.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}")


def by_strangers(args):
    """The natural voices have no listener of their own: strangers judge teacher, codec and talker."""
    import stranger
    setup(threads=1)
    chosen = stranger.sentences(limit=args.limit)
    rows, sounds = stranger.judge(stranger.from_stages(args.checkpoint, chosen), chosen, args.samples)
    print(stranger.report(rows, sounds))
    write_json(WORK / "strangers.json", dict(figures={n: stranger.figures(r) for n, r in rows.items()}, sound=sounds, rows=rows))
    if not args.no_write:
        replace_between(HERE / "README.md", "<!-- strangers: written by evaluate.py -->", "<!-- end of strangers -->", stranger.report(rows, sounds))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--limit", type=int, default=4 if SMOKE else 0, help="only so many utterances (a quick look)")
    ap.add_argument("--temperature", type=float)
    ap.add_argument("--penalty", type=float)
    ap.add_argument("--sub-temperature", type=float)
    ap.add_argument("--samples", type=Path)
    ap.add_argument("--no-write", action="store_true", default=SMOKE)
    args = ap.parse_args()
    if NATURAL:
        return by_strangers(args)
    setup(threads=1)
    start = time.time()
    audio = Audio("heldout")
    pick = np.random.default_rng(3).permutation(len(audio))[:args.limit or len(audio)]
    texts, voices = [audio.items[i][0] for i in pick], [audio.items[i][1] for i in pick]
    g = json.loads((args.checkpoint / "generation_config.json").read_text())
    options = dict(temperature=g["talker_temperature"] if args.temperature is None else args.temperature, top_k=g["talker_top_k"],
                   penalty=g["talker_repetition_penalty"] if args.penalty is None else args.penalty,
                   sub_temperature=g["subtalker_temperature"] if g["subtalker_dosample"] else 0.0, sub_top_k=g["subtalker_top_k"])
    if args.sub_temperature is not None:
        options["sub_temperature"] = args.sub_temperature
    talker, vocoder = load_checkpoint_folder(args.checkpoint)
    model = listener.load()
    cached = load_checkpoint(WORK / "codes-heldout.pt")
    if cached is None:
        cached = dict(codes=encode_all(audio))
        save_checkpoint(WORK / "codes-heldout.pt", **cached)

    wavs = {"teacher": [audio.wav(i) for i in pick]}
    wavs["codec"] = [decode(vocoder, cached["codes"][i]) for i in pick]
    codes = generate_all(talker, texts, voices, **options)
    wavs["talker"] = [decode(vocoder, c) if len(c) > 2 else np.zeros(FRAME, np.float32) for c in codes]
    heard = {k: listener.transcribe(model, w) for k, w in wavs.items()}
    pairs = {k: listener.errors(texts, h) for k, h in heard.items()}

    figures = dict(utterances=len(pick), options=options, cer={})
    for k, p in pairs.items():
        figures["cer"][k] = dict(all=rate(p), **{v: rate([x for x, y in zip(p, voices) if y == v]) for v in VOICE_NAMES})
    figures["cer_by_length"] = [dict(characters=f"{a} to {b - 1}", **{k: rate([x for x, t in zip(p, texts) if a <= len(t) < b])
                                                                      for k, p in pairs.items()}) for a, b in BUCKETS]
    ratio = np.array([len(c) / audio.frames[i] for c, i in zip(codes, pick)])
    figures["duration_ratio"] = dict(within_25_percent=round(100 * float((np.abs(ratio - 1) <= 0.25).mean()), 2),
                                     median=round(float(np.median(ratio)), 3), least=round(float(ratio.min()), 3), most=round(float(ratio.max()), 3))
    peaks = np.array([np.abs(w).max() for w in wavs["talker"]])
    figures["peak"] = dict(most=round(float(peaks.max()), 3), clipped=int((peaks >= 0.999).sum()))
    figures["largest_second_difference"] = {k: round(max(map(click, w)), 3) for k, w in wavs.items()}
    figures["leading_silence_db"] = {k: round(float(np.median([hiss(x) for x in w])), 1) for k, w in wavs.items()}
    worst = sorted(range(len(pick)), key=lambda n: -pairs["talker"][n][0] / max(1, pairs["talker"][n][1]))[:10]
    figures["worst"] = [dict(text=texts[n], voice=voices[n], cer=round(100 * pairs["talker"][n][0] / max(1, pairs["talker"][n][1]), 1),
                             heard=heard["talker"][n], teacher_heard=heard["teacher"][n], duration_ratio=round(float(ratio[n]), 2)) for n in worst]
    figures["worst_durations"] = [dict(text=texts[n], voice=voices[n], ratio=round(float(ratio[n]), 2)) for n in np.argsort(-np.abs(ratio - 1))[:5]]
    print(json.dumps({k: v for k, v in figures.items() if not k.startswith("worst")}, indent=1))
    print(json.dumps(figures["worst"][:4], indent=1), f"{time.time() - start:.0f} s")
    if not args.no_write:
        path = args.checkpoint / "figures.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        write_json(path, {**figures, **{k: known[k] for k in known if k == "thinker"}})
        replace_between(HERE / "README.md", *MARKS, report(figures))
    if args.samples:
        args.samples.mkdir(parents=True, exist_ok=True)
        for n in range(min(12, len(pick))):
            for k in wavs:
                wavfile.write(args.samples / f"{n:02d}-{voices[n]}-{k}.wav", SAMPLE_RATE, (wavs[k][n] * 32767).astype(np.int16))


if __name__ == "__main__":
    main()
