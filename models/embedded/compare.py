"""Compares a release server with Hugging Face transformers on the same checkpoints, one stream on one machine.

    compare.py --bin target/release checkpoint /path/to/tiny-checkpoint

For every text both make the audio of the same checkpoint, turn by turn: transformers with
`talker.generate` (greedy, the thinker's text given) and `code2wav`, in float32 as the server; the server
through `omni-client speak`, with its usual sampling. Printed as Markdown: real-time factors, that is time
over length of the audio. What transformers needs to load, and one warm-up of both, is not counted; what the
client and gRPC need is.
"""
import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from transformers import AutoTokenizer, Qwen3OmniMoeForConditionalGeneration

from evaluate import table
from verify import reference_codes

TEXTS = ["hello there.", "it's a small voice, but it speaks at once.", "the quick brown fox jumps over the lazy dog.",
         "all requests share the machine, and every one of them gets its turn in time.",
         "audio flows while the rest of the sentence is still being computed, so nobody has to wait for it."]


def bounded(folder, target, frames):
    """The checkpoint once more, as links, with at most so many frames an utterance."""
    for file in folder.iterdir():
        if file.name != "generation_config.json":
            (target / file.name).symlink_to(file.resolve())
    settings = json.loads((folder / "generation_config.json").read_text())
    (target / "generation_config.json").write_text(json.dumps({**settings, "talker_max_new_tokens": frames}))
    return target


@contextlib.contextmanager
def server(binaries, folder):
    """A running omni-server and the environment its client needs."""
    with tempfile.NamedTemporaryFile("w+") as log:
        process = subprocess.Popen([binaries / "omni-server", "--model", folder, "--listen", "127.0.0.1:0",
                                    "--metrics-listen", "off"], stderr=log)
        try:
            address = None
            while address is None and process.poll() is None:
                time.sleep(0.01)
                address = re.search(r"listening address=(127[.0-9]*:\d+)", Path(log.name).read_text())
            assert address, Path(log.name).read_text()
            environment = {**os.environ, "OMNI_ENDPOINT": f"http://{address[1]}"}
            subprocess.run([binaries / "omni-client", "health", "--wait", "--timeout", "30"], env=environment, check=True, capture_output=True)
            yield environment
        finally:
            process.terminate()
            process.wait()


def ours(binaries, environment, text, voice):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([binaries / "omni-client", "speak", "--json", "--voice", voice, "-o", Path(folder) / "out.wav", text],
                              env=environment, check=True, capture_output=True, text=True)
    # Warnings, for example of an utterance that the tiny model never ends, come before the summary.
    summary = json.loads(done.stderr.strip().splitlines()[-1])
    measured = [u["measured"] for u in summary["utterances"] if u["measured"]]
    seconds = sum(m["audio_seconds"] for m in measured)
    return sum(m["real_time_factor"] * m["audio_seconds"] for m in measured) / seconds, seconds


@torch.no_grad()
def theirs(model, tok, rate, text, voice, frames):
    ids = tok(f"<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n{text}")["input_ids"]
    start = time.perf_counter()
    codes = reference_codes(model, ids, voice, model.generation_config.talker_repetition_penalty, frames)
    wav = model.code2wav.chunked_decode(codes.T[None], chunk_size=300, left_context_size=25)
    seconds = wav.shape[-1] / rate
    return (time.perf_counter() - start) / seconds, seconds


def compare(folder, args):
    described = json.loads((folder / "config.json").read_text())
    rate = described["code2wav_config"].get("output_sample_rate", 24000)
    voice = next(iter(described["talker_config"]["speaker_id"]))
    model = Qwen3OmniMoeForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    tok = AutoTokenizer.from_pretrained(folder)
    runs = {name: [] for name in ["ours", *args.threads]}
    with server(args.bin, folder) as environment:
        for turn in range(args.rounds + 1):
            for text in TEXTS if turn else TEXTS[:1]:
                figures = {"ours": ours(args.bin, environment, text, voice)}
                for threads in args.threads:
                    torch.set_num_threads(threads)
                    figures[threads] = theirs(model, tok, rate, text, voice, args.frames)
                for name, value in figures.items() if turn else ():
                    runs[name].append(value)
    middle = {name: statistics.median(r for r, _ in values) for name, values in runs.items()}
    label = lambda name: "omni-server" if name == "ours" else f"transformers, {name} thread{'s' if name > 1 else ''}"
    return [[args.names[folder], label(name), f"{middle[name]:.4f}", f"{max(r for r, _ in values):.4f}", f"{sum(s for _, s in values):.1f}",
             "" if name == "ours" else f"{middle[name] / middle['ours']:.0f}"] for name, values in runs.items()]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("checkpoints", nargs="+", type=Path)
    ap.add_argument("--bin", type=Path, default=Path("target/release"), help="folder of omni-server and omni-client")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--frames", type=int, default=150, help="most frames of an utterance")
    ap.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads of transformers")
    args = ap.parse_args()
    rows, args.names = [], {}
    for folder in args.checkpoints:
        with tempfile.TemporaryDirectory() as target:
            copy = bounded(folder, Path(target), args.frames)
            args.names[copy] = folder.resolve().name
            rows += compare(copy, args)
    machine = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"Machine: {machine[1] if machine else 'unknown'}, {os.cpu_count()} processors; {time.strftime('%Y-%m-%d')}; torch {torch.__version__}.\n")
    print(table(["checkpoint", "program", "RTF, median", "RTF, most", "audio s", "times ours"], rows))


if __name__ == "__main__":
    main()
