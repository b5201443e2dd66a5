#!/usr/bin/env python3
"""Soaks a cluster on this machine: callers speak while replicas are killed, drained and frozen at random. Judges every stream, and what
is left when all callers have gone; prints Markdown. Exit code 0 if nothing is wrong, 1 if something is.

    make cluster && pip install ./client/python && server/cluster/soak.py MINUTES [SEED]

Load for MINUTES, after a tenth of that (3 minutes at most) as warm-up. Then all replicas of a stage are killed together several times.
"""

import collections
import os
import random
import signal
import sys
import threading
import time
import urllib.request
from pathlib import Path

from measure import SENTENCE, Cluster, Part, alone
from omni_speech import Client, OmniError
from omni_speech.v1 import common_pb2

CALLERS = 3
SEEDS = 4
# How long a caller waits for an answer, and how long one may take that no kill keeps from it.
PATIENCE = 180
# Bytes by which the memory of a process may have grown in the end.
ALLOWANCE = 32 << 20
# Sockets that a talker may hold besides: Dynamo's runtime keeps a connection to each replica of the next stage for five minutes.
POOLED = 3
# How long the front end waits for a replica, and a stage for its front ends when it drains.
HANDOVER, DRAIN = 10, 30
SETTLING = 60
TEXTS = {"short": SENTENCE, "long": SENTENCE * 3}
IDLE = ["vllm:omni_sessions_active", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"]


def held(process: int) -> dict[str, int]:
    """What the system says of a process."""
    folder = Path("/proc") / str(process)
    kinds: collections.Counter[str] = collections.Counter()
    for file in (folder / "fd").iterdir():
        try:
            kinds["sockets" if os.readlink(file).startswith("socket:") else "other files"] += 1
        except FileNotFoundError:
            pass
    lines = (folder / "status").read_text().splitlines()
    resident = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))
    threads = len(list((folder / "task").iterdir()))
    return {"resident": resident, "sockets": kinds["sockets"], "other files": kinds["other files"], "threads": threads}


class Soak:
    """A cluster, its callers, and what came of it."""

    def __init__(self, minutes: float, seed: int):
        self.minutes, self.seed, self.rng = minutes, seed, random.Random(seed)
        self.came: collections.Counter[str] = collections.Counter()
        self.done: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
        self.lock = threading.Lock()
        self.leaving: list[tuple[str, float, Part]] = []
        self.peak, self.samples = 0, []
        self.blackouts = False
        one = alone()
        self.expected = {}
        with Client(one.address(), timeout=PATIENCE) as client:
            for name, text in TEXTS.items():
                for n in range(SEEDS):
                    self.expected[name, n] = client.speak(text, seed=n).read()
        one.stop()
        self.cluster = Cluster(0, 0, "--set", "handover.attempts=8", "--max-buffered-audio", "500ms", "--metrics-listen", "127.0.0.1:0")
        self.front = self.cluster.front
        page = self.front.text().split("metrics and probes address=")[1].split()[0]
        self.page = f"http://{page}/metrics"
        # The first replica of each stage stays, so that what piles up in a stage is seen.
        self.stages = {name: [self.cluster.stage(name) for _ in range(3)] for name in ["talker", "code2wav"]}
        self.front.wait("replica ready", 6)

    def fault(self, what: str) -> None:
        said = f"after {time.monotonic() - self.begun:.0f} s: {what}"
        print(said, file=sys.stderr, flush=True)
        with self.lock:
            self.faults.append(said)

    def came_to(self, what: str) -> None:
        with self.lock:
            self.came[what] += 1

    # Callers.

    def call(self, number: int, until: float) -> None:
        rng = random.Random(self.seed * 1_000 + number)
        with Client(self.front.address(), timeout=PATIENCE) as client:
            while time.monotonic() < until:
                self.visit(client, rng)

    def visit(self, client: Client, rng: random.Random) -> None:
        kind = rng.choices(["listens", "reads slowly", "hangs up"], [70, 15, 15])[0]
        key = rng.choice(list(self.expected))
        expected, audio = self.expected[key], b""
        enough = rng.randrange(len(expected)) if kind == "hangs up" else len(expected)
        speech = client.speak(TEXTS[key[0]], seed=key[1])
        try:
            for piece in speech:
                audio += piece
                if kind == "hangs up" and len(audio) >= enough:
                    speech.cancel()
                    break
                if kind == "reads slowly":
                    time.sleep(0.02)
        except OmniError as error:
            named = any(stage in error.message for stage in self.stages)
            if self.blackouts and error.code.name == "UNAVAILABLE" and named and expected.startswith(audio):
                return self.came_to(f"{kind}: UNAVAILABLE, and the stage")
            return self.fault(f"a caller that {kind} got {error.code.name} {error} after {len(audio)} bytes")
        if kind == "hangs up":
            if not expected.startswith(audio):
                return self.fault(f"a caller that {kind} heard other samples among the first {len(audio)} bytes")
            return self.came_to("hangs up: the right samples until then")
        try:
            reason = common_pb2.FinishReason.Name(speech.outcome.finish_reason)
        except RuntimeError:
            return self.fault(f"a stream ended without an end after {len(audio)} bytes")
        if audio != expected:
            return self.fault(f"a caller that {kind} heard {len(audio)} bytes, not the {len(expected)} of one process")
        self.came_to(f"{kind}: the samples of one process, {reason}")

    # What happens to replicas.

    def begin(self, stage: str, place: int) -> None:
        self.stages[stage][place] = self.cluster.stage(stage)

    def disturb(self) -> None:
        stage, place = self.rng.choice(list(self.stages)), self.rng.choice([1, 2])
        what = self.rng.choices(["killed", "drained", "frozen", "both killed"], [60, 25, 5, 10])[0]
        victim = self.stages[stage][place]
        self.done[f"{stage} {what}"] += 1
        match what:
            case "killed":
                victim.stop()
                time.sleep(self.rng.choice([0, 0, self.rng.uniform(0, 3)]))
                self.begin(stage, place)
            case "both killed":
                for both in self.stages[stage][1:]:
                    both.stop()
                for each in [1, 2]:
                    self.begin(stage, each)
            case "drained":
                victim.process.send_signal(signal.SIGTERM)
                self.leaving.append((stage, time.monotonic(), victim))
                self.begin(stage, place)
            case "frozen":
                # Longer than silence is borne.
                victim.process.send_signal(signal.SIGSTOP)
                time.sleep(self.rng.uniform(11, 16))
                victim.process.send_signal(signal.SIGCONT)

    def black_out(self) -> None:
        """All replicas of a stage are gone, for less or more time than the front end waits for one."""
        stage = self.rng.choice(list(self.stages))
        for part in self.stages[stage]:
            part.stop()
        time.sleep(self.rng.choice([1, 4, HANDOVER + 4]))
        self.done[f"all of {stage} killed"] += 1
        for place in range(3):
            self.begin(stage, place)

    def look_after(self) -> None:
        """Those that drain end by themselves, and all others only when they are told to."""
        for entry in list(self.leaving):
            stage, since, part = entry
            code = part.process.poll()
            if code is None:
                if time.monotonic() - since > DRAIN + 15:
                    self.fault(f"a {stage} did not drain in {DRAIN + 15} s")
                    part.stop()
                    self.leaving.remove(entry)
                continue
            self.leaving.remove(entry)
            if code != 0:
                self.fault(f"a {stage} that drained ended with {code}")
            if "the drain timeout is over" in part.text():
                self.done[f"{stage} drained, but not in time"] += 1
            self.judge_log(stage, part)
        for name, part in self.parts():
            if (code := part.process.poll()) is not None:
                self.fault(f"{name} ended by itself with {code}")
        self.samples.append(held(self.front.process.pid)["resident"])
        self.peak = max(self.peak, self.samples[-1])

    def parts(self) -> list[tuple[str, Part]]:
        stages = [(f"{stage} {place}", part) for stage, parts in self.stages.items() for place, part in enumerate(parts)]
        return [("front end", self.front), *stages]

    def judge_log(self, name: str, part: Part) -> None:
        for line in part.text().splitlines():
            if "panicked" in line or " ERROR " in line:
                self.fault(f"{name} says: {line}")

    def load(self, seconds: float, disturb) -> None:
        until = time.monotonic() + seconds
        callers = [threading.Thread(target=self.call, args=[number, until]) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        while time.monotonic() < until:
            time.sleep(self.rng.uniform(1, 4))
            disturb()
            self.look_after()
        for caller in callers:
            caller.join(2 * PATIENCE)
            if caller.is_alive():
                self.fault("a caller waits for ever")

    # What is left.

    def page_says(self) -> dict[str, float]:
        sums: collections.Counter[str] = collections.Counter()
        for line in urllib.request.urlopen(self.page).read().decode().splitlines():
            if not line.startswith("#"):
                sums[line.split("{")[0].split(" ")[0]] += float(line.rsplit(" ", 1)[1])
        calls = sums["grpc_server_started_total"] - sums["grpc_server_handled_total"]
        return {**{name: sums[name] for name in IDLE}, "calls without an end": calls}

    def settled(self, before: dict[str, dict[str, int]] | None) -> dict[str, dict[str, int]]:
        """What the front end and the stages hold when nothing runs: no more than `before`, if that comes in time."""
        late = time.monotonic() + SETTLING
        while self.leaving and time.monotonic() < late:
            self.look_after()
            time.sleep(0.5)
        # A thread for blocking work ends ten seconds after the last of it.
        time.sleep(15)
        while True:
            said = self.page_says()
            now = {name: held(part.process.pid) for name, part in self.parts()}
            idle = not any(said.values())
            if idle and (before is None or not self.exceeded(before, now)) or time.monotonic() > late:
                for name, value in said.items():
                    if value:
                        self.fault(f"left behind: {name} is {value}")
                return now
            time.sleep(1)

    @staticmethod
    def exceeded(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> list[str]:
        found = []
        for name, now in after.items():
            for what, value in now.items():
                pooled = POOLED if name.startswith("talker") else 0
                allowed = before[name][what] + {"resident": ALLOWANCE, "sockets": pooled}.get(what, 0)
                if value > allowed:
                    found.append(f"{name}: {what} {before[name][what]} before, {value} after")
        return found

    def run(self) -> None:
        self.begun = time.monotonic()
        warmup = min(self.minutes / 10, 3) * 60
        self.load(warmup, self.disturb)
        before = self.settled(None)
        self.done.clear()
        self.came.clear()
        self.samples.clear()
        self.load(self.minutes * 60, self.disturb)
        after = self.settled(before)
        for what in self.exceeded(before, after):
            self.fault(f"left behind: {what}")
        again = self.front.text().count("resumed after a loss")
        self.report(f"{self.minutes:g} minutes with {CALLERS} callers, seed {self.seed}, after {warmup / 60:g} of warm-up", before, after)
        print(f"A sentence went on after a loss {again} times, warm-up included.\n", flush=True)
        self.came.clear()
        self.done.clear()
        self.blackouts = True
        self.load(max(self.minutes * 60 / 20, 20), self.black_out)
        last = self.settled(before)
        # Replicas that are new hold what new ones do.
        for what in self.exceeded({"front end": before["front end"]}, {"front end": last["front end"]}):
            self.fault(f"left behind after all replicas were lost: {what}")
        self.report("All replicas of a stage killed together", before, last)
        for name, part in self.parts():
            self.judge_log(name, part)
        self.end()
        for fault in self.faults:
            print(f"WRONG: {fault}")
        print("Nothing is wrong." if not self.faults else f"{len(self.faults)} faults.")

    def end(self) -> None:
        """All end when they are told to, and no process is left."""
        for name, part in [*self.parts()][1:]:
            part.process.send_signal(signal.SIGTERM)
        for name, part in self.parts():
            if name == "front end":
                part.process.send_signal(signal.SIGTERM)
            try:
                code = part.process.wait(DRAIN + 15)
            except Exception as error:
                self.fault(f"{name} does not end: {error}")
                part.stop()
            else:
                if code != 0:
                    self.fault(f"{name} ended with {code}")
        for process in Path("/proc").iterdir():
            try:
                said = (process / "cmdline").read_text() if process.name.isdigit() else ""
            except OSError:
                continue
            if self.cluster.folder.name in said:
                self.fault(f"process {process.name} is left")

    def report(self, what: str, before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> None:
        print(f"**{what}**\n\n| to replicas | times |\n|---|--:|")
        for name, count in sorted(self.done.items()):
            print(f"| {name} | {count} |")
        print("\n| callers | times |\n|---|--:|")
        for name, count in sorted(self.came.items()):
            print(f"| {name} | {count} |")
        print(f"| faults | {len(self.faults)} |")
        print("\n| held when idle | MB before | after | sockets before | after | other files before | after | threads before | after |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        for name in after:
            cells = [f"{side[name]['resident'] / (1 << 20):.1f}" for side in [before, after]]
            cells += [str(side[name][key]) for key in ["sockets", "other files", "threads"] for side in [before, after]]
            print(f"| {name} | {' | '.join(cells)} |")
        ten = len(self.samples) // 10 or 1
        parts = [self.samples[n : n + ten] for n in range(0, ten * 10, ten)]
        means = [f"{sum(part) / len(part) / (1 << 20):.1f}" for part in parts if part]
        print(f"\nMemory of the front end under load in MB, mean of each tenth: {', '.join(means)}; at most {self.peak / (1 << 20):.1f}.\n")


if __name__ == "__main__":
    soak = Soak(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    soak.run()
    sys.exit(1 if soak.faults else 0)
