#!/usr/bin/env python3
"""Measures a cluster on this machine beside one process, and prints Markdown.

    make cluster && cluster/measure.py overhead|resume [RUNS]|edges|processes|costs FILE|compare RUNS

PROFILE=debug measures a development build. `costs` writes what it measured beside FILE, from which `compare` repeats fit and comparison.
"""

import collections
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


FRAME_MS = 40
# Frames before one on which its audio depends (`Code2WavNet::reach`).
CONTEXT = 67
# Work that is not that of a stage, and what it is called in a cost model.
BESIDE = [("front", "front"), ("callers", "caller")]
# Simulations of a load, of which the median counts.
SEEDS = 9
PLAN = PROGRAM.with_name("omni-plan")


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


# What the page of one process calls the same of a stage, whose label is its number.
WHOLE = {
    "steps": "vllm:iteration_tokens_total_count",
    "decode_tokens": "vllm:generation_tokens_total",
    "prefill_tokens": "vllm:prompt_tokens_total",
}


def whole_figures(address: str) -> collections.Counter[tuple[str, str]]:
    """What the stages of one process have done so far."""
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/metrics")
    sums: collections.Counter[tuple[str, str]] = collections.Counter()
    for line in connection.getresponse().read().decode().splitlines():
        if line.split("{")[0] in WHOLE.values():
            sums[line.split("{")[0], line.split('stage="')[1].split('"')[0]] += float(line.rsplit(" ", 1)[1])
    return sums


def hang_up(address: str, text: str = SENTENCE, seed: int = 1) -> tuple[float, float, int]:
    """What `speak` says, of a caller that has heard enough with the first piece of audio."""
    begun = time.perf_counter()
    connection = ask(address, text, seed)
    answer = connection.getresponse()
    size = len(answer.read1(1 << 16))
    first = time.perf_counter() - begun
    answer.close()
    connection.close()
    return first, time.perf_counter() - begun, size


def load(address: str, callers: int, utterances: int, text: str = SENTENCE, says=speak) -> tuple[float, float, list[float]]:
    """Audio per second, median seconds to first audio, and seconds of audio of each utterance, of callers without pauses."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        list(pool.map(lambda n: says(address, text, seed=n), range(callers)))
        begun = time.perf_counter()
        said = list(pool.map(lambda n: says(address, text, seed=n), range(utterances)))
        took = time.perf_counter() - begun
    lengths = [size / BYTES_PER_SECOND for _, _, size in said]
    return sum(lengths) / took, statistics.median(first for first, _, _ in said), lengths


SHORT = "The quick brown fox."
# Frames of silence at the head of an utterance, which the front end cuts off.
SILENT = json.loads((Path(__file__).parent / "../models/embedded/checkpoint/omni.json").read_text())["leading_silence_frames"]


def spent(process: int, steps: str = "") -> tuple[float, float]:
    """Microseconds of a core that a process has had: its threads for steps, whose names begin so, and all others."""
    of = [0.0, 0.0]
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            name, had = (thread / "comm").read_text(), (thread / "schedstat").read_text()
        except OSError:
            # It has ended.
            continue
        of[not steps or not name.startswith(steps)] += int(had.split()[0]) / 1e3
    return of[0], of[1]


def fitted(rows: list[list[float]], values: list[float]) -> list[float]:
    """Factors of the columns that explain the values with the least error relative to them, none below zero."""
    columns = list(range(len(rows[0])))
    while True:
        weights = [1 / value**2 for value in values]
        left = [[sum(w * row[a] * row[b] for w, row in zip(weights, rows)) for b in columns] for a in columns]
        right = [sum(w * row[a] * value for w, row, value in zip(weights, rows, values)) for a in columns]
        for n in range(len(columns)):
            pivot = max(range(n, len(columns)), key=lambda m: abs(left[m][n]))
            left[n], left[pivot], right[n], right[pivot] = left[pivot], left[n], right[pivot], right[n]
            for m in range(n + 1, len(columns)):
                factor = left[m][n] / left[n][n]
                left[m] = [a - factor * b for a, b in zip(left[m], left[n])]
                right[m] -= factor * right[n]
        found = [0.0] * len(columns)
        for n in reversed(range(len(columns))):
            found[n] = (right[n] - sum(left[n][m] * found[m] for m in range(n + 1, len(columns)))) / left[n][n]
        negative = [column for column, value in zip(columns, found) if value < 0]
        if not negative:
            return [dict(zip(columns, found)).get(column, 0.0) for column in range(len(rows[0]))]
        columns.remove(min(negative, key=lambda column: found[columns.index(column)]))


class Measured:
    """A cluster, or one process, and what its parts and their callers need of a core."""

    PORTS = {"talker": 19_811, "code2wav": 19_812}

    def __init__(self, replicas: tuple[int, int] | None):
        self.cluster, self.stages = None, {}
        if replicas is None:
            self.front = Part("--speech-only", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", says="ready in")
        else:
            self.cluster = Cluster(0, 0)
            for (name, port), count in zip(self.PORTS.items(), replicas):
                probes = [["--cluster-probes", f"127.0.0.1:{port + 2 * n}"] for n in range(count)]
                self.stages[name] = [self.cluster.stage(name, *each) for each in probes]
            self.front = self.cluster.front
            self.front.wait("replica ready", sum(replicas))
        self.address = self.front.address()
        load(self.address, 8, 32)

    def of_front(self) -> tuple[float, list[float]]:
        """Microseconds that the front end has had, and the stages that are in its process."""
        process = self.front.process.pid
        # In a front end of a cluster, the threads of these names pass on what comes.
        steps = [] if self.cluster else [spent(process, name)[0] for name in self.PORTS]
        return sum(spent(process)) - sum(steps), steps

    def reading(self) -> dict[str, float]:
        """Figures and microseconds so far, of all replicas of a stage together."""
        front, steps = self.of_front()
        found = {"front": front, "callers": time.process_time() * 1e6}
        page = whole_figures(self.front.text().split("metrics and probes address=")[1].split()[0]) if steps else {}
        for stage, (name, of) in enumerate(zip(self.PORTS, steps)):
            found |= {f"{name} steps_us": of, f"{name} rest_us": 0.0}
            found |= {f"{name} {what}": page[family, str(stage)] for what, family in WHOLE.items()}
        for name, parts in self.stages.items():
            sums: collections.Counter[str] = collections.Counter()
            for n, part in enumerate(parts):
                steps, rest = spent(part.process.pid, name)
                sums.update({"steps_us": steps, "rest_us": rest, **figures(self.PORTS[name] + 2 * n)})
            found |= {f"{name} {what}": value for what, value in sums.items()}
        return found

    def heads(self, utterances: int) -> dict[str, float]:
        """What the front end and the caller had of a core for an utterance until its first audio, and how much that was."""
        rows = []
        for seed in range(utterances):
            (front, _), caller = self.of_front(), time.thread_time()
            answer = ask(self.address, SENTENCE, seed).getresponse()
            size = len(answer.read1(1 << 16))
            caller, (after, _) = time.thread_time() - caller, self.of_front()
            answer.read()
            rows.append([after - front, caller * 1e6, SILENT + size / BYTES_PER_SECOND / FRAME_MS * 1e3])
        return dict(zip(["front", "callers", "frames"], map(statistics.median, zip(*rows))))

    def load(self, callers: int, utterances: int, text: str, says=speak) -> dict[str, float]:
        """What a load came to, and what it took."""
        before = self.reading()
        given, first, lengths = load(self.address, callers, utterances, text, says)
        # What was hung up may have a step to end.
        time.sleep(0.2)
        seconds = statistics.mean(lengths)
        # Of lengths that are equally probable within it.
        spread = 3**0.5 * statistics.pstdev(lengths) / seconds
        spent = {name: value - before[name] for name, value in self.reading().items()}
        # Beside those that are counted, each caller has had one as warm-up.
        said = utterances + callers
        figures = {"given": given, "first": first, "seconds": seconds, "spread": spread, "said": said, "took": sum(lengths) / given}
        return spent | figures | {"frames": spent["code2wav decode_tokens"]}

    def stop(self) -> None:
        for part in [self.front, *(part for parts in self.stages.values() for part in parts)]:
            part.stop()


def beside(runs: list[dict[str, float]], heads: dict[str, float]) -> dict[str, float]:
    """Of front end and callers."""
    found = {}
    for process, name in BESIDE:
        rows = [[run["said"], run["frames"]] for run in runs]
        request, frame = fitted(rows, [run[process] for run in runs])
        begin = min(max(heads[process] - frame * heads["frames"], 0.0), request)
        costs = {"begin": begin, "frame": frame, "end": request - begin}
        found |= {f"{name}_{part}_us": round(us, 1) for part, us in costs.items()}
    return found


def steps_of(costs: dict, run: dict[str, float], name: str) -> float:
    """What the steps of a stage in a run need of a core by the model."""
    row = {"talker": "row_us", "code2wav": "frame_us"}[name]
    of = costs["base_us"] * run[f"{name} steps"] + costs[row] * run[f"{name} decode_tokens"]
    return of + costs.get("prefill_us", 0.0) * run[f"{name} prefill_tokens"]


def at_speed(model: dict, run: dict[str, float]) -> tuple[dict, float]:
    """The model with the speed that the machine had in a run: every part needs what it needed there, and its steps are to each other as in the
    model. And how much more all of it was."""
    beside, scaled = dict(model["beside"]), dict(model)
    by_model = measured = 0.0
    for name in Measured.PORTS:
        wants = steps_of(model[name], run, name)
        by_model, measured = by_model + wants, measured + run[f"{name} steps_us"]
        factor = run[f"{name} steps_us"] / wants
        scaled[name] = {what: us * factor for what, us in model[name].items()}
        beside[f"{name}_frame_us"] = run[f"{name} rest_us"] / run["frames"]
    for process, name in BESIDE:
        begin, frame, end = costs = [f"{name}_begin_us", f"{name}_frame_us", f"{name}_end_us"]
        wants = (beside[begin] + beside[end]) * run["said"] + beside[frame] * run["frames"]
        by_model, measured = by_model + wants, measured + run[process]
        beside |= {cost: beside[cost] * run[process] / wants for cost in costs}
    return scaled | {"beside": beside}, measured / by_model


def planned(model: dict, run: dict[str, float], load: tuple[int, tuple[int, int]], cores: int) -> tuple[float, float]:
    """What omni-plan says of a load on a machine of so many cores: audio per second, seconds to the first audio."""
    callers, replicas = load
    prompt = round(run["talker prefill_tokens"] / run["said"])
    # A sixth of it is not counted.
    length, found = run["took"] * 1.2, []
    # Silence at the end is decoded, too, and cut off.
    decoded = (run["frames"] / run["said"] - SILENT) * FRAME_MS / 1e3
    with tempfile.NamedTemporaryFile("w", suffix=".json") as of:
        of.write(json.dumps(model))
        of.flush()
        command = [PLAN, "--costs", of.name, "--callers", str(callers), "--replicas", f"{replicas[0]},{replicas[1]}"]
        command += ["--pause", "0", "--unpaced", "--cores", str(cores), "--prompt", str(prompt), "--max-active", str(8 * cores)]
        command += ["--seconds", str(decoded), "--spread", str(min(run["spread"], 1.0)), "--together", "--length", str(length)]
        for seed in range(SEEDS):
            said = subprocess.run([*command, "--seed", str(seed)], check=True, capture_output=True, text=True).stdout
            row = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in said.splitlines() if line.count("|") == 3}
            found.append([float(row[key].split()[0]) for key in ["audio per second", "first audio, median"]])
    given, first = map(statistics.median, zip(*found))
    return given * run["seconds"] / decoded, first / 1e3


def bisected(model: dict, what: str, most: float, run: dict[str, float], load: tuple[int, tuple[int, int]], cores: int) -> None:
    """Sets a cost to that with which the first audio comes after the time that was measured, which grows with it."""
    least, bound = 0.0, most
    for _ in range(9):
        model[what] = (least + most) / 2
        if planned(model, run, load, cores)[1] < run["first"]:
            least = model[what]
        else:
            most = model[what]
    if model[what] > 0.99 * bound:
        print(f"{what} ended at its bound of {bound}: the first audio that was measured is later than any that is simulated", file=sys.stderr)
    model[what] = round(model[what], 3)


def model_of(fit: dict, hop_us: int, cores: int) -> dict:
    """The cost model that is fitted to runs, of which the first is one caller's and the second eight callers'."""
    runs = fit["runs"]
    of = {"frame_ms": FRAME_MS, "hop_us": hop_us, "silent_frames": SILENT, "context_frames": CONTEXT, "beside": beside(runs, fit["heads"])}
    rows = [[run["code2wav steps"], run["code2wav decode_tokens"]] for run in runs]
    base, frame = fitted(rows, [run["code2wav steps_us"] for run in runs])
    of["code2wav"] = {"base_us": round(base, 1), "stream_us": 0.0, "frame_us": round(frame, 1)}
    rows = [[run["talker steps"], run["talker decode_tokens"], run["talker prefill_tokens"]] for run in runs]
    base, row, prefill = fitted(rows, [run["talker steps_us"] for run in runs])
    of["talker"] = {"base_us": round(base, 1), "row_us": round(row, 1), "prefill_us": round(prefill, 1)}
    for name in Measured.PORTS:
        rest = sum(run[f"{name} rest_us"] for run in runs) / sum(run["frames"] for run in runs)
        of["beside"][f"{name}_frame_us"] = round(rest, 1)
    # Eight callers wait for longer the more the work varies: those that began together do not stay so.
    of["varies"] = 0.4
    for _ in range(2):
        bisected(of, "begin_us", 10_000.0, runs[0], (1, (1, 1)), cores)
        bisected(of, "varies", 1.0, runs[1], (8, (1, 1)), cores)
    return of


KINDS = [(1, 48, SENTENCE), (8, 96, SENTENCE), (1, 48, SHORT), (8, 96, SHORT), (1, 96, SENTENCE, hang_up), (8, 192, SENTENCE, hang_up)]
ROWS = [None, (1, 1), (2, 1), (2, 2)]
CALLERS = [1, 2, 4, 8]


def costs() -> None:
    """Measures what one and eight callers need of the cores that they share with all parts, and other numbers of callers and of processes."""
    found: dict = {"cores": len(os.sched_getaffinity(0)), "fits": {}, "rows": []}
    for name, replicas in [("cluster", (1, 1)), ("one process", None)]:
        measured = Measured(replicas)
        found["fits"][name] = {"runs": [measured.load(*kind) for kind in KINDS], "heads": measured.heads(48)}
        measured.stop()
    for replicas in ROWS:
        measured = Measured(replicas)
        for callers in CALLERS:
            found["rows"].append({"replicas": replicas, "callers": callers, "run": measured.load(callers, 144, SENTENCE)})
        measured.stop()
    file = Path(sys.argv[2])
    runs = file.with_suffix(".runs.json")
    runs.write_text(json.dumps(found) + "\n")
    compared(found, file)


def compared(found: dict, file: Path | None) -> None:
    """Fits the cost model of omni-plan to one and to eight callers, and compares what it says with other numbers of callers and of processes."""
    cores = found["cores"]
    model, whole = model_of(found["fits"]["cluster"], 40, cores), model_of(found["fits"]["one process"], 0, cores)
    if file:
        file.write_text(json.dumps(model, indent=2) + "\n")
    print(f"{json.dumps(model)}\n\nOne process: {json.dumps(whole)}\n\n{cores} cores.\n")
    print("| talkers, code2wav | callers | costs | measured | simulated | | first audio, measured | simulated | |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for row in found["rows"]:
        replicas, callers, run = row["replicas"], row["callers"], row["run"]
        name = f"{replicas[0]}, {replicas[1]}" if replicas else "one process"
        now, more = at_speed(model if replicas else whole, run)
        given, first = planned(now, run, (callers, replicas or (1, 1)), cores)
        print(
            f"| {name} | {callers} | {(more - 1) * 100:+.0f} % | {run['given']:.1f} s | {given:.1f} s | {(given / run['given'] - 1) * 100:+.0f} % "
            f"| {run['first'] * 1e3:.1f} ms | {first * 1e3:.1f} ms | {(first / run['first'] - 1) * 100:+.0f} % |",
            flush=True,
        )


def compare() -> None:
    """Compares runs that were measured before."""
    compared(json.loads(Path(sys.argv[2]).read_text()), None)


if __name__ == "__main__":
    whats = {"overhead": overhead, "resume": resume, "edges": edges, "processes": processes, "costs": costs, "compare": compare}
    whats[sys.argv[1]]()
