"""Writes the messages and stubs in src/omni_speech/v1 from the .proto files; with `--check`, says which are stale.

Needs grpcio-tools 1.76.0 and mypy-protobuf 5.1.0, in the versions that scripts/setup pins: others write other files.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTOS = HERE.parent.parent / "proto" / "proto"
OUTPUT = HERE / "src" / "omni_speech" / "v1"
# What callers use: AdminService, MetricsService and WatchService are for others.
FILES = ["audio", "common", "speech", "chat", "catalog", "voice"]
OURS = "from omni_speech.v1 import "


def generated(folder: Path) -> dict[str, str]:
    """Names of files and what is in them, made in `folder`."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    outputs = [f"--{kind}_out={folder}" for kind in ("python", "grpc_python")]
    outputs += [f"--{kind}_out=quiet:{folder}" for kind in ("mypy", "mypy_grpc")]
    files = [f"omni/v1/{name}.proto" for name in FILES]
    googles = Path(grpc_tools.__file__).parent / "_proto"
    if protoc.main(["protoc", f"-I{PROTOS}", f"-I{googles}", *outputs, *files]) != 0:
        raise SystemExit("protoc failed")
    made = {}
    for path in sorted((folder / "omni" / "v1").iterdir()):
        # Files without a service need no stubs.
        if "_grpc" in path.name and "Stub" not in path.read_text(encoding="utf-8"):
            continue
        text = path.read_text(encoding="utf-8")
        made[path.name] = re.sub(r"^from omni\.v1 import ", OURS, text, flags=re.MULTILINE)
    made["__init__.py"] = '"""Messages and stubs of `omni.v1`, generated from the .proto files."""\n'
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a file is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        made = generated(Path(folder))
    there = {path.name: path.read_text(encoding="utf-8") for path in OUTPUT.glob("*.py*")} if OUTPUT.is_dir() else {}
    stale = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if check and stale:
        raise SystemExit(f"stale: {', '.join(stale)}; run client/python/generate.py")
    if check:
        return
    OUTPUT.mkdir(exist_ok=True)
    for name in there.keys() - made.keys():
        (OUTPUT / name).unlink()
    for name, text in made.items():
        (OUTPUT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
