"""Carries training state between machines: a few files of bounded size, with checksums.

    pack.py out vocoder.pt codec.pt --to DIR [--slim]    DIR/part-00 .. in the order of their names
    pack.py in --from DIR                                 back into the work folder

`--slim` leaves out optimisers and discriminators: enough to go on with later stages, not to resume this one. Otherwise
their numbers are rounded to bfloat16, which costs nothing that a run would notice.
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


def pack(names, folder, part_bytes, slim):
    states = {}
    for name in names:
        state = load_checkpoint(WORK / name)
        states[name] = {k: rounded(v) if k in LEAN else v for k, v in state.items() if not (slim and k in LEAN)}
    buffer = io.BytesIO()
    torch.save(states, buffer)
    data = zlib.compress(buffer.getvalue(), 1)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("part-*"):
        old.unlink()
    parts = [data[at:at + part_bytes] for at in range(0, len(data), part_bytes)]
    for k, part in enumerate(parts):
        (folder / f"part-{k:02d}").write_bytes(part)
    (folder / "parts.json").write_text(json.dumps(dict(parts=len(parts), sha256=hashlib.sha256(data).hexdigest())))
    print(f"pack: {', '.join(names)}: {len(data) / 2**20:.1f} MiB in {len(parts)} files")


def unpack(folder):
    known = json.loads((folder / "parts.json").read_text())
    data = b"".join((folder / f"part-{k:02d}").read_bytes() for k in range(known["parts"]))
    if hashlib.sha256(data).hexdigest() != known["sha256"]:
        raise SystemExit(f"{folder}: the parts do not make what was packed")
    for name, state in torch.load(io.BytesIO(zlib.decompress(data)), map_location="cpu", weights_only=False).items():
        save_checkpoint(WORK / name, **{k: widened(v) if k in LEAN else v for k, v in state.items()})
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
