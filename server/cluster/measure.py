#!/usr/bin/env python3
"""Measures a cluster on this machine beside one process, and prints Markdown.

    make cluster && server/cluster/measure.py overhead|resume [RUNS]|edges|processes

PROFILE=debug measures a development build.
"""

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).parent / "target" / os.environ.get("PROFILE", "release") / "omni-server-cluster"
SENTENCE = "The quick brown fox jumps over the lazy dog, and then it goes home to sleep under the old oak tree."
BYTES_PER_SECOND = 48_000


class Part:
    """A process."""

    def __init__(self, *args: str, says: str):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        environment = {"PATH": os.environ["PATH"]}
        self.process = subprocess.Popen([PROGRAM, *args], stderr=self.log, env=environment)
        self.wait(says)

    def text(self) -> str:
        return Path(self.log.name).read_text()

    def wait(self, what: str, times: int = 1) -> None:
        while self.text().count(what) < times:
            if self.process.poll() is not None:
                sys.exit(self.text())
            time.sleep(0.01)

    def address(self) -> str:
        return self.text().split(": listening address=")[1].split()[0]

    def stop(self, how: int = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait()


def alone(*args: str) -> Part:
    return Part("--speech-only", "--listen", "127.0.0.1:0", "--metrics-listen", "off", *args, says="ready in")


class Cluster:
    """A front end, and replicas of both stages."""

    def __init__(self, talkers: int = 1, vocoders: int = 1, *args: str):
        self.folder = tempfile.TemporaryDirectory()
        self.found = ["--cluster-discovery", "file", "--cluster-dir", self.folder.name]
        self.talkers = [self.stage("talker") for _ in range(talkers)]
        self.vocoders = [self.stage("code2wav") for _ in range(vocoders)]
        listen = ["--listen", "127.0.0.1:0"]
        if "--metrics-listen" not in args:
            listen += ["--metrics-listen", "off"]
        serves = "ready in" if talkers and vocoders else "listening"
        self.front = Part("--role", "frontend", "--speech-only", *listen, *self.found, *args, says=serves)
        self.front.wait("replica ready", talkers + vocoders)

    def stage(self, name: str, *args: str) -> Part:
        return Part("--role", "stage", "--stage", name, *self.found, *args, says="registered")

    def stop(self) -> None:
        for part in [self.front, *self.talkers, *self.vocoders]:
            part.stop()


def ask(address: str, text: str, seed: int) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(address)
    body = json.dumps({"input": text, "response_format": "pcm", "seed": seed})
    connection.request("POST", "/v1/audio/speech", body, {"content-type": "application/json"})
    return connection


def speak(address: str, text: str = SENTENCE, seed: int = 1) -> tuple[float, float, int]:
    """Seconds to the first audio, seconds in all, bytes."""
    begun = time.perf_counter()
    answer = ask(address, text, seed).getresponse()
    assert answer.status == 200, answer.read()
    size = len(answer.read(1))
    first = time.perf_counter() - begun
    size += len(answer.read())
    return first, time.perf_counter() - begun, size


def overhead() -> None:
    one, many = alone(), Cluster()
    figures: dict[str, list[tuple[float, float]]] = {"one process": [], "three processes": []}
    where = {"one process": one.address(), "three processes": many.front.address()}
    for address in where.values():
        for _ in range(10):
            speak(address)
    for _ in range(120):
        # In turn: the machine may have other work, and may be slower for a while.
        for name, address in where.items():
            first, whole, size = speak(address)
            figures[name].append((first * 1e3, (whole - first) * 1e3 / (size / BYTES_PER_SECOND)))
    print("| | first audio, median | lower quartile | per second of audio, median | lower quartile |\n|---|---|---|---|---|")
    for name, values in figures.items():
        firsts, seconds = [sorted(column) for column in zip(*values)]
        quarter = len(firsts) // 4
        print(
            f"| {name} | {statistics.median(firsts):.2f} ms | {firsts[quarter]:.2f} ms "
            f"| {statistics.median(seconds):.2f} ms | {seconds[quarter]:.2f} ms |"
        )
    pairs = list(zip(*figures.values()))
    later = statistics.median(three[0] - single[0] for single, three in pairs)
    longer = statistics.median(three[1] / single[1] - 1 for single, three in pairs)
    print(f"\nOf {len(pairs)} pairs one after the other, in the median: first audio {later:+.2f} ms, per second of audio {longer * 100:+.1f} %.")
    one.stop()
    many.stop()


def resume() -> None:
    """Kills the process that works, with so much of a sentence heard; time until there is more of it, as the front end logs it."""
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    print(f"| killed | heard before | median | slowest of {runs} |\n|---|---|---|---|")
    # One sequence: a longer one would be cut in two.
    text = "We went through the long, cold, rainy night, slowly, quietly, past the old mill, the bridge, the church, the school, the farm, "
    text += "the field, the wood, the hill, the lake, the tower, the wall, and home."
    for stage in ["talker", "code2wav"]:
        for seconds in [0.5, 2, 4, 8, 10]:
            times = []
            for seed in range(runs):
                cluster = Cluster(2, 2, "--max-buffered-audio", "200ms")
                address = cluster.front.address()
                for _ in range(3):
                    expected = ask(address, text, seed).getresponse().read()
                assert len(expected) > (seconds + 0.5) * BYTES_PER_SECOND, f"only {len(expected)} bytes are said"
                answer = ask(address, text, seed).getresponse()
                audio = b""
                while len(audio) < seconds * BYTES_PER_SECOND:
                    audio += answer.read1(1 << 12)
                # Replicas take turns: this is the second one's.
                for part in cluster.talkers[1:] if stage == "talker" else cluster.vocoders[1:]:
                    part.stop()
                audio += answer.read()
                assert audio == expected, f"{len(audio)} and {len(expected)} bytes"
                log = cluster.front.text()
                assert "resumed after a loss" in log, f"the {stage} that was killed had no work"
                times.append(float(log.split("after_ms=")[1].split()[0]))
                cluster.stop()
            times.sort()
            print(f"| {stage} | {seconds} s | {statistics.median(times):.0f} ms | {times[-1]:.0f} ms |", flush=True)


def edges() -> None:
    """What passes a front end for a second of audio, as its figures of edges tell."""
    cluster = Cluster(1, 1)
    listen = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    front = Part("--role", "frontend", "--speech-only", *listen, *cluster.found, says="ready in")
    seconds = sum(speak(front.address(), seed=seed)[2] for seed in range(10)) / BYTES_PER_SECOND
    connection = http.client.HTTPConnection(front.text().split("metrics and probes address=")[1].split()[0])
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith("vllm:omni_transfer_size_bytes_sum"):
            edge, total = line.rsplit(" ", 1)
            print(f"{edge.split('{')[1].rstrip('}')}: {float(total) / seconds:.0f} bytes for a second of audio")
    front.stop()
    cluster.stop()


def processes() -> None:
    """Eight callers at once, without pauses."""
    import concurrent.futures

    print("| talkers, code2wav | audio per second |\n|---|---|")
    for talkers, vocoders in [(0, 0), (1, 1), (2, 1), (2, 2), (4, 4)]:
        part = alone() if talkers == 0 else Cluster(talkers, vocoders)
        address = part.address() if talkers == 0 else part.front.address()
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            list(callers.map(lambda n: speak(address, seed=n), range(8)))
            begun = time.perf_counter()
            said = list(callers.map(lambda n: speak(address, seed=n), range(96)))
            took = time.perf_counter() - begun
        name = "one process" if talkers == 0 else f"{talkers}, {vocoders}"
        print(f"| {name} | {sum(size for _, _, size in said) / BYTES_PER_SECOND / took:.1f} s |")
        part.stop()


if __name__ == "__main__":
    whats = {"overhead": overhead, "resume": resume, "edges": edges, "processes": processes}
    whats[sys.argv[1]]()
