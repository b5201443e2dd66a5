"""Carries training between machines: a few files of bounded size, with a checksum.

    pack.py out talker vocoder.pt --to DIR [--slim]    DIR/part-00 .. in the order of their names
    pack.py in --from DIR                               back into the work folder

`talker` and `thinker` are what the stage reads beside this folder, with its state if it has one: the machine that trains it needs no
teacher, no programs and no word list. The thinker takes the text rows of a checkpoint there (`--voices`), unless it gets a talker's state.
Any other name is a file of the work folder. `--slim` leaves optimisers and discriminators out of states: enough to go on with later
stages, not to resume this one. Otherwise their numbers are rounded to bfloat16, which costs nothing that a run would notice.

A state that has more steps than the one that comes in is kept.
"""
import argparse
import hashlib
import io
import json
import zlib
from pathlib import Path

import torch

from common import WORK, load_checkpoint, save_checkpoint

LEAN = ("opt", "judge_opt", "judge", "head")
READS = {"talker": ["natural/texts.json", "phonemes.json", "codes-*-*[0-9].npz"], "thinker": ["programs.json", "words"]}


def rounded(x):
    if torch.is_tensor(x):
        return x.bfloat16() if x.dtype == torch.float32 and x.numel() > 64 else x
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return type(x)(map(rounded, x)) if isinstance(x, (list, tuple)) else x


def widened(x):
    if torch.is_tensor(x):
        return x.float() if x.dtype == torch.bfloat16 else x
    if isinstance(x, dict):
        return {k: widened(v) for k, v in x.items()}
    return type(x)(map(widened, x)) if isinstance(x, (list, tuple)) else x


def made(name):
    """The bytes of a file that the work folder of the machine with the programs does not hold."""
    if name == "programs.json":
        import programs
        return json.dumps(programs.record()).encode()
    if name == "words":
        import dialogues
        return dialogues.word_list().read_bytes()
    return None


def files(name):
    """Names of the files that `name` stands for, relative to the work folder."""
    if name == "thinker":
        found = READS[name]
    else:
        found = sum(([path.relative_to(WORK).as_posix() for path in sorted(WORK.glob(pattern))] or [None] for pattern in READS.get(name, [name])), [])
    if None in found:
        raise SystemExit(f"pack: {WORK} lacks some of {', '.join(READS.get(name, [name]))}")
    return found + ([f"{name}.pt"] if name in READS and (WORK / f"{name}.pt").exists() else [])


def contents(name, slim):
    if not name.endswith(".pt"):
        return made(name) or (WORK / name).read_bytes()
    return {k: rounded(v) if k in LEAN else v for k, v in load_checkpoint(WORK / name).items() if not (slim and k in LEAN)}


def pack(names, folder, part_bytes, slim):
    names = list(dict.fromkeys(sum(map(files, names), [])))
    buffer = io.BytesIO()
    torch.save({name: contents(name, slim) for name in names}, buffer)
    data = zlib.compress(buffer.getvalue(), 6)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [data[at:at + part_bytes] for at in range(0, len(data), part_bytes)]
    for k, part in enumerate(parts):
        replace(folder / f"part-{k:02d}", part)
    replace(folder / "parts.json", json.dumps(dict(parts=len(parts), sha256=hashlib.sha256(data).hexdigest())).encode())
    for old in folder.glob("part-*"):
        if old.name not in {f"part-{k:02d}" for k in range(len(parts))}:
            old.unlink()
    print(f"pack: {len(names)} files, {', '.join(n for n in names if n.endswith('.pt')) or 'no state'}: {len(data) / 2**20:.1f} MiB in {len(parts)} files")


def replace(path, data):
    """A file is there whole or not at all: later stages take one that exists as complete."""
    half = path.with_name(path.name + ".half")
    half.write_bytes(data)
    half.replace(path)


def unpack(folder):
    known = json.loads((folder / "parts.json").read_text())
    data = b"".join((folder / f"part-{k:02d}").read_bytes() for k in range(known["parts"]))
    if hashlib.sha256(data).hexdigest() != known["sha256"]:
        raise SystemExit(f"{folder}: the parts do not make what was packed")
    for name, content in torch.load(io.BytesIO(zlib.decompress(data)), map_location="cpu", weights_only=False).items():
        (WORK / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            replace(WORK / name, content)
        elif (own := load_checkpoint(WORK / name)) and own.get("step", 0) > content.get("step", 0):
            print(f"pack: {name} is kept, for it has {own['step']} steps and not {content.get('step', 0)}")
            continue
        else:
            save_checkpoint(WORK / name, **{k: widened(v) if k in LEAN else v for k, v in content.items()})
        print(f"pack: {name} is back")


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("way", choices=("out", "in"))
    ap.add_argument("names", nargs="*")
    ap.add_argument("--to", type=Path)
    ap.add_argument("--from", dest="source", type=Path)
    ap.add_argument("--slim", action="store_true")
    ap.add_argument("--part", type=int, default=15 << 20, help="bytes of a file at most")
    args = ap.parse_args()
    if args.way == "out":
        pack(args.names, args.to, args.part, args.slim)
    else:
        unpack(args.source)
