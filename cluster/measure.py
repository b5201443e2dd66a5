#!/usr/bin/env python3
"""Measures a cluster on this machine beside one process, and prints Markdown.

    make cluster && cluster/measure.py overhead|resume [RUNS]|edges|processes|costs FILE
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

PROGRAM = Path(os.environ.get("OMNI_SERVER_CLUSTER", Path(__file__).parent / "target" / "release" / "omni-server-cluster"))
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
        return self.text().split("listening address=")[1].split()[0]

    def stop(self, how: int = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait()


def alone(*args: str) -> Part:
    return Part("--speech-only", "--listen", "127.0.0.1:0", "--metrics-listen", "off", *args, says=" serving")


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
        serves = " serving" if talkers and vocoders else "listening"
        self.front = Part("--role", "frontend", "--speech-only", *listen, *self.found, *args, says=serves)
        self.front.wait("a replica takes work", talkers + vocoders)

    def stage(self, name: str, *args: str) -> Part:
        return Part("--role", "stage", "--stage", name, *self.found, *args, says="registered")

    def stop(self) -> None:
        for part in [self.front, *self.talkers, *self.vocoders]:
            part.stop()


def ask(address: str, text: str, seed: int) -> http.client.HTTPResponse:
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
    for _ in range(40):
        # In turn: the machine may have other work.
        for name, address in where.items():
            for _ in range(3):
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
        for seconds in [0.5, 2, 4, 8, 12]:
            times = []
            for seed in range(runs):
                cluster = Cluster(2, 2, "--max-buffered-audio", "200ms")
                address = cluster.front.address()
                for _ in range(3):
                    expected = ask(address, text, seed).getresponse().read()
                assert len(expected) > (seconds + 1) * BYTES_PER_SECOND, f"only {len(expected)} bytes are said"
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
                if "goes on after a loss" in log:
                    times.append(float(log.split("after_ms=")[1].split()[0]))
                cluster.stop()
            times.sort()
            print(f"| {stage} | {seconds} s | {statistics.median(times):.0f} ms | {times[-1]:.0f} ms |", flush=True)


def edges() -> None:
    """What passes a front end for a second of audio, as its figures of edges tell."""
    cluster = Cluster(1, 1)
    listen = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    front = Part("--role", "frontend", "--speech-only", *listen, *cluster.found, says=" serving")
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


FRAME_MS = 37.5
PLAN = PROGRAM.with_name("omni-plan")
SHORT = "Yes, it does."


def figures(port: int) -> dict[str, float]:
    """What a stage has done so far."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    found = {}
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith("omni_stage_"):
            name, value = line.split("{")[0], line.rsplit(" ", 1)[1]
            found[name.removeprefix("omni_stage_").removesuffix("_total")] = float(value)
    return found


def processor_time(process: int) -> float:
    """Seconds that a process has computed, with the threads that it had."""
    fields = (Path("/proc") / str(process) / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def thread_time(process: int, name: str) -> float:
    """Seconds that its threads of that name have computed."""
    tasks = (Path("/proc") / str(process) / "task").iterdir()
    named = [task for task in tasks if (task / "comm").read_text().startswith(name)]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in named) / 1e9


def machine_time() -> float:
    """Seconds that all processors have computed."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def slice_us() -> float:
    """How long a thread computes before another has its turn, on processors that all have two."""
    burn = "import os, time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(open('/proc/self/schedstat').read())"
    count = 2 * len(os.sched_getaffinity(0))
    burning = [subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE, text=True) for _ in range(count)]
    ran = [[int(field) for field in process.communicate()[0].split()] for process in burning]
    return sum(time for time, _, _ in ran) / sum(slices for _, _, slices in ran) / 1e3


def load(address: str, callers: int, utterances: int, text: str = SENTENCE) -> tuple[float, float, float]:
    """Audio per second, median seconds to first audio, and seconds of audio of an utterance, of callers without pauses."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        list(pool.map(lambda n: speak(address, text, n), range(callers)))
        begun = time.perf_counter()
        said = list(pool.map(lambda n: speak(address, text, n), range(utterances)))
        took = time.perf_counter() - begun
    audio = sum(size for _, _, size in said) / BYTES_PER_SECOND
    return audio / took, statistics.median(first for first, _, _ in said), audio / len(said)


def fit(rows: list[list[float]], values: list[float]) -> list[float]:
    """What each column costs, none less than nothing: least squares of what is missed of each value."""
    kept = list(range(len(rows[0])))
    while True:
        scaled = [[row[column] / value for column in kept] for row, value in zip(rows, values)]
        normal = [[sum(row[a] * row[b] for row in scaled) for b in range(len(kept))] for a in range(len(kept))]
        right = [sum(row[a] for row in scaled) for a in range(len(kept))]
        for a in range(len(kept)):
            pivot = max(range(a, len(kept)), key=lambda row: abs(normal[row][a]))
            normal[a], normal[pivot], right[a], right[pivot] = normal[pivot], normal[a], right[pivot], right[a]
            for b in range(len(kept)):
                if b != a:
                    factor = normal[b][a] / normal[a][a]
                    normal[b] = [x - factor * y for x, y in zip(normal[b], normal[a])]
                    right[b] -= factor * right[a]
        found = [right[a] / normal[a][a] for a in range(len(kept))]
        if min(found) >= 0:
            return [found[kept.index(column)] if column in kept else 0.0 for column in range(len(rows[0]))]
        kept.pop(found.index(min(found)))


class Watched:
    """A cluster whose parts are asked what they have done and how long they have computed."""

    PORTS = {"talker": 19_811, "code2wav": 19_812}

    def __init__(self) -> None:
        self.cluster = Cluster(0, 0)
        probes = {name: ["--cluster-probes", f"127.0.0.1:{port}"] for name, port in self.PORTS.items()}
        self.stages = {name: self.cluster.stage(name, *args) for name, args in probes.items()}
        self.cluster.front.wait("a replica takes work", 2)
        self.address = self.cluster.front.address()

    def look(self) -> dict[str, float]:
        found = {"caller": time.process_time(), "front": processor_time(self.cluster.front.process.pid), "machine": machine_time()}
        for name, port in self.PORTS.items():
            of, process = figures(port), self.stages[name].process.pid
            found |= {f"{name} {key}": of[key] for key in ["steps", "decode_tokens", "prefill_tokens"]}
            found[f"{name} engine"] = thread_time(process, f"{name}-")
            found[f"{name} all"] = processor_time(process)
        return found

    def during(self, *args) -> tuple[dict[str, float], tuple[float, float, float], float]:
        """What was done during a load, what came of it, and how long it took."""
        before, begun = self.look(), time.perf_counter()
        came = load(self.address, *args)
        took = time.perf_counter() - begun
        return {key: value - before[key] for key, value in self.look().items()}, came, took

    def stop(self) -> None:
        for part in [*self.stages.values(), self.cluster.front]:
            part.stop()


def costs() -> None:
    """Fits the cost model of omni-plan to one and eight callers, and compares what it says with other numbers of them."""
    watched, cores = Watched(), len(os.sched_getaffinity(0))
    load(watched.address, 8, 32)
    loads = [(1, 64, SENTENCE), (8, 96, SENTENCE), (1, 96, SHORT)]
    done = [watched.during(*args)[0] for args in loads]
    requests = [callers + utterances for callers, utterances, _ in loads]
    batches = [(now["talker steps"] + now["code2wav steps"]) / 2 for now in done]
    frames = [now["talker decode_tokens"] for now in done]

    def each(what: str, values: list[float], **columns: list[float]) -> dict[str, float]:
        found = fit(list(zip(*columns.values())), values)
        return {f"{what}{name}_us": round(cost * 1e6, 1) for name, cost in zip(columns, found)}

    def engine(name: str) -> list[float]:
        return [now[f"{name} engine"] for now in done]

    def others(name: str) -> list[float]:
        return [now[f"{name} all"] - now[f"{name} engine"] for now in done]

    steps = {name: [now[f"{name} steps"] for now in done] for name in watched.PORTS}
    prompts = [now["talker prefill_tokens"] for now in done]
    model = {
        "frame_ms": FRAME_MS,
        "hop_us": 40,
        "talker": each("", engine("talker"), base=steps["talker"], row=frames, prefill=prompts),
        "code2wav": each("", engine("code2wav"), base=steps["code2wav"], frame=frames) | {"stream_us": 0.0},
        "machine": {"cores": cores, "share": 1.0, "slice_us": round(slice_us(), 1)}
        | each("front_", [now["front"] for now in done], request=requests, step=batches, frame=frames)
        | each("talker_", others("talker"), step=steps["talker"], frame=frames)
        | each("code2wav_", others("code2wav"), step=batches, frame=frames)
        | each("caller_", [now["caller"] for now in done], request=requests, frame=frames),
    }
    file = Path(sys.argv[2])
    file.write_text(json.dumps(model, indent=2) + "\n")
    prompt = round(sum(prompts) / sum(requests))
    print("| callers | share of the processors | audio per second, measured | simulated | | first audio, measured | simulated | |")
    print("|---|---|---|---|---|---|---|---|")
    for callers in [4, 16]:
        now, (given, first, seconds), took = watched.during(callers, 160)
        ours = sum(now[key] for key in ["caller", "front", "talker all", "code2wav all"])
        # What other programs computed meanwhile was not there for this one.
        share = 1 - max(now["machine"] - ours, 0) / took / cores
        with tempfile.NamedTemporaryFile("w", suffix=".json") as then:
            json.dump(model | {"machine": model["machine"] | {"share": share}}, then)
            then.flush()
            command = [PLAN, "--costs", then.name, "--callers", str(callers), "--replicas", "1,1", "--pause", "0", "--unpaced"]
            command += ["--seconds", str(seconds), "--prompt", str(prompt), "--length", "120"]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        row = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in said.splitlines() if line.count("|") == 3}
        simulated, sooner = float(row["audio per second"].split()[0]), float(row["first audio, median"].split()[0])
        print(
            f"| {callers} | {share * 100:.0f} % | {given:.1f} s | {simulated:.1f} s | {(simulated / given - 1) * 100:+.0f} % "
            f"| {first * 1e3:.0f} ms | {sooner:.0f} ms | {(sooner / first / 1e3 - 1) * 100:+.0f} % |",
            flush=True,
        )
    watched.stop()


if __name__ == "__main__":
    {"overhead": overhead, "resume": resume, "edges": edges, "processes": processes, "costs": costs}[sys.argv[1]]()
