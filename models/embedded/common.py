"""Paths, constants and small helpers shared by every stage."""
import functools
import json
import os
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch

import ranks

HERE = Path(__file__).resolve().parent
WORK = Path(os.environ.get("OMNI_EMBEDDED_WORK", HERE / "work"))
SCALE = os.environ.get("OMNI_EMBEDDED_SCALE", "full")                 # "smoke": a few steps of everything, from nothing to verify
SMOKE = SCALE == "smoke"
CHECKPOINT = WORK / "checkpoint" if SMOKE else HERE / "checkpoint"
GOLDENS = WORK / "checkpoint-goldens" if SMOKE else HERE / "checkpoint-goldens"

SEED = 20261120
SAMPLE_RATE = 16000
FRAME = SAMPLE_RATE // 25    # samples per codec frame: 25 frames per second
LEAD_FRAMES = 5              # silent frames before speech: the talker reads ahead
TAIL_FRAMES = 3              # silent frames between the end of speech and EOS
MAX_CHARS = 200
CHARACTERS = "abcdefghijklmnopqrstuvwxyz .,?!'-:;"

VOICE_NAMES = ["aria", "basil"]
CODEBOOKS, CODEBOOK_SIZE = 8, 384
SMOKE_STEPS = 6
STOP_AFTER = float(os.environ.get("OMNI_EMBEDDED_STOP_AFTER", 0))      # seconds of one call; a stage that is not done then exits with 75
STARTED = time.time()


def device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def setup(seed=SEED, threads=None):
    """Seeds every generator. One thread by default: two stages run side by side, one per core."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(threads or int(os.environ.get("OMNI_EMBEDDED_THREADS", "1")))
    WORK.mkdir(parents=True, exist_ok=True)


def autocast():
    """bfloat16 on GPUs and on processors that multiply it; elsewhere it is slower than float32."""
    return torch.autocast(device().type, dtype=torch.bfloat16, enabled=fast_bfloat16())


@functools.lru_cache(maxsize=None)
def fast_bfloat16():
    flags = Path("/proc/cpuinfo")
    known = flags.read_text() if flags.exists() else ""
    return torch.cuda.is_available() or "avx512_bf16" in known or "amx_bf16" in known


def half():
    """The number format of activations under `autocast`."""
    return torch.bfloat16 if fast_bfloat16() else torch.float32


def time_is_up():
    return 0 < STOP_AFTER <= time.time() - STARTED


def pause(what):
    """Ends the process, whose work is kept, with status 75."""
    if not ranks.RANK:
        print(f"{what} after {time.time() - STARTED:.0f} s; run it again to go on", flush=True)
    sys.exit(75)


def blend(average, before, share):
    """Moves averaged weights by `share` towards those of `before`; what `before` lacks stays as it is."""
    for k, v in before.items():
        if v.is_floating_point():
            average[k].lerp_(v, share)


def check_blend(share, goes_on):
    """Ends the stage if `--blend` is no share, or if the run begins with other weights than those of `--from`."""
    if share and not (goes_on and 0 < share <= 1):
        raise SystemExit("--blend is a share from 0 to 1 of the weights of --from, whose codec must be the one there is")


class Progress:
    """Prints progress with an estimate of the time left, and paces the learning-rate schedule.

    `fraction` is the larger of step/steps and elapsed/seconds: a run ends at its step count, or
    at its time budget when one is given, and the schedule reaches zero at that point either way.
    `elapsed` counts the seconds to the end of the last step. With several ranks (`ranks.py`), all use the clock of the first,
    and only the first prints progress.
    """

    def __init__(self, name, steps, seconds=0, step=0, elapsed=0.0, every=50):
        steps = min(steps, SMOKE_STEPS) if SMOKE else steps
        self.name, self.steps, self.seconds, self.step, self.every = name, steps, seconds, step, min(every, steps)
        self.start, self.elapsed = time.time() - elapsed, elapsed
        self.window, self.late = {}, False

    @property
    def fraction(self):
        by_time = self.elapsed / self.seconds if self.seconds else 0.0
        return min(1.0, max(self.step / self.steps, by_time))

    def done(self):
        """The run is complete, or this call's time is up (`finish` tells which)."""
        return self.fraction >= 1.0 or self.paused

    @property
    def paused(self):
        return self.late and self.fraction < 1.0

    def finish(self):
        """Ends the process with status 75 when the run is not complete: run it again to go on."""
        ranks.barrier()         # the first rank has saved its state: a rank that exits ends the others
        if self.paused:
            pause(f"{self.name} stops at step {self.step} of {self.steps}")

    def tick(self, **values):
        self.step += 1
        self.elapsed, self.late = ranks.broadcast([time.time() - self.start, time_is_up()])
        for k, v in values.items():
            self.window.setdefault(k, []).append(float(v.detach() if torch.is_tensor(v) else v))
        if self.step % self.every == 0:
            left = self.elapsed * (1 - self.fraction) / max(self.fraction, 1e-6)
            text = " ".join(f"{k} {np.mean(v):.4f}" for k, v in self.window.items())
            self.window = {}
            if ranks.RANK:
                return
            print(f"{self.name} step {self.step}/{self.steps} {text} "
                  f"{1000 * self.elapsed / self.step:.0f} ms/step left {left / 60:.1f} min", flush=True)


def schedule(fraction, warmup=0.02, decay=0.4):
    """Linear warm-up, constant, linear decay to zero over the last `decay` of the run."""
    if fraction < warmup:
        return max(fraction / warmup, 0.01)
    return min(1.0, max(0.0, (1 - fraction) / decay))


def save_checkpoint(path, **state):
    path = Path(path)
    tmp = path.with_suffix(".tmp")
    torch.save(state, tmp)
    tmp.replace(path)


def load_checkpoint(path):
    path = Path(path)
    return torch.load(path, map_location="cpu", weights_only=False) if path.exists() else None


def write_json(path, value):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
