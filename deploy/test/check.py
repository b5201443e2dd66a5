"""Renders the chart with several values, and checks what comes out: against the schemas of Kubernetes, and that its parts fit together."""

import copy
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

HERE = Path(__file__).parent
CHART = HERE.parent / "helm" / "omni"
VERSION = "1.30"

# What KEDA's controller reads of a ScaledObject (keda.sh/v1alpha1), as far as the chart has it: written after its documentation.
SCALED_OBJECT = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
            "properties": {
                "scaleTargetRef": {
                    "type": "object",
                    "required": ["name"],
                    "additionalProperties": False,
                    "properties": {key: {"type": "string"} for key in ["apiVersion", "kind", "name"]},
                },
                "minReplicaCount": {"type": "integer", "minimum": 1},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "cooldownPeriod": {"type": "integer"},
                "pollingInterval": {"type": "integer"},
                "advanced": {"type": "object"},
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["type", "metadata"],
                        "properties": {
                            "type": {"const": "prometheus"},
                            "metricType": {"enum": ["AverageValue", "Value"]},
                            "metadata": {
                                "type": "object",
                                "required": ["serverAddress", "query", "threshold"],
                                "additionalProperties": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}


def render(values: dict) -> list[dict]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        if shutil.which("helm"):
            command = ["helm", "template", "voice", str(CHART), "--namespace", "speech", "--values", file.name]
        else:
            command = ["go", "run", str(HERE / "render.go"), str(CHART), file.name, "voice"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of(documents: list[dict], kind: str) -> dict[str, dict]:
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


def selected(documents: list[dict], labels: dict) -> list[str]:
    pods = [document for kind in ("Deployment", "StatefulSet") for document in of(documents, kind).values()]
    names = []
    for pod in pods:
        own = pod["spec"]["template"]["metadata"]["labels"]
        if labels.items() <= own.items():
            names.append(pod["metadata"]["name"])
    return names


def drain_seconds(args: list[str]) -> int:
    """The time that a program with these arguments takes to end: the delay before its drain, and the drain."""
    text = " ".join(args)
    timeout = re.search(r"--drain-timeout[= ](\d+)s", text)
    assert timeout, text
    delay = re.search(r"--drain-delay[= ](\d+)s", text)
    return int(timeout[1]) + (int(delay[1]) if delay else 0)


def check_units() -> None:
    for unit in sorted((HERE.parent / "systemd").glob("*.service")):
        text = unit.read_text()
        command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
        stop = re.search(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE)
        assert command and stop, unit.name
        assert int(stop[1]) > drain_seconds([command[1]]), f"{unit.name} is killed before its drain is over"
        print(f"{unit.name}: it is stopped no sooner than its drain is over")


def check(documents: list[dict], known: set[str]) -> None:
    for document in documents:
        if document["kind"] == "ScaledObject":
            jsonschema.validate(document, SCALED_OBJECT)
        else:
            kubernetes_validate.validate(document, VERSION, strict=True)
    workloads = of(documents, "Deployment") | of(documents, "StatefulSet")
    for name, document in workloads.items():
        pod = document["spec"]["template"]["spec"]
        container = pod["containers"][0]
        assert pod["securityContext"]["runAsNonRoot"], name
        assert container["securityContext"]["readOnlyRootFilesystem"], name
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes, name
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in ports, (name, probe)
        assert pod["terminationGracePeriodSeconds"] > drain_seconds(container["args"]), name
        if name.endswith("-frontend"):
            assert any(arg.startswith("--drain-delay=") for arg in container["args"]), name
        flags = {arg.split("=")[0] for arg in container["args"]} | {entry["name"] for entry in container["env"]}
        unknown = {flag for flag in flags if not flag.startswith("POD_")} - known
        assert not known or not unknown, (name, unknown)
    budgets = of(documents, "PodDisruptionBudget")
    assert set(budgets) == set(workloads)
    for name, budget in budgets.items():
        assert selected(documents, budget["spec"]["selector"]["matchLabels"]) == [name]
    for name, scaled in of(documents, "ScaledObject").items():
        target = workloads[scaled["spec"]["scaleTargetRef"]["name"]]
        assert "replicas" not in target["spec"], f"{name} and {target['metadata']['name']} both set replicas"
    stages = set(of(documents, "StatefulSet"))
    policies = of(documents, "NetworkPolicy")
    if policies:
        assert set(selected(documents, policies["voice-stages"]["spec"]["podSelector"]["matchLabels"])) == stages
        own = policies["voice-frontend"]["spec"]["podSelector"]["matchLabels"]
        assert selected(documents, own) == ["voice-frontend"]


def refused(document: dict) -> bool:
    try:
        check([document], set())
    except Exception:
        return True
    return False


def main() -> None:
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    known = set()
    if program:
        text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True, env={}).stdout
        known = set(re.findall(r"--[a-z-]+|OMNI_[A-Z_]+", text))
        assert "--cluster-host" in known and "OMNI_STAGE" in known, "the help has no flags"
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    scaled = copy.deepcopy(values)
    for stage in scaled["stages"].values():
        stage["scale"]["enabled"] = True
    kubernetes = copy.deepcopy(values) | {"discovery": "kubernetes", "workerMetadataCrd": True, "callersTlsSecret": "callers"}
    plain = copy.deepcopy(values) | {
        "tlsSecret": "",
        "volume": {"persistentVolumeClaim": {"claimName": "models"}},
        "model": "/models/voice",
        "networkPolicy": {"enabled": False},
    }
    behind = copy.deepcopy(values)
    behind["frontend"] |= {"trustedProxies": ["10.0.0.0/8", "fd00::/8"], "allowedHosts": ["speech.example.org", "voice.speech.svc"]}
    encrypted = copy.deepcopy(values) | {"etcd": ["https://etcd:2379"], "etcdTlsSecret": "etcd"}
    counts = {}
    sets = {"default": values, "scaled": scaled, "kubernetes": kubernetes, "plain": plain, "behind a proxy": behind, "encrypted": encrypted}
    for name, given in sets.items():
        documents = render(given)
        check(documents, known)
        counts[name] = len(documents)
        args = of(documents, "Deployment")["voice-frontend"]["spec"]["template"]["spec"]["containers"][0]["args"]
        told = {"--trusted-proxies=10.0.0.0/8,fd00::/8", "--allowed-hosts=speech.example.org,voice.speech.svc"} <= set(args)
        assert told == (given is behind), f"{name}: {args}"
        protocols = {port.get("appProtocol") for port in of(documents, "Service")["voice"]["spec"]["ports"]}
        assert ("kubernetes.io/h2c" in protocols) == (not given["callersTlsSecret"]), f"{name}: callers are told {protocols}"
        print(f"{name}: {len(documents)} objects are valid for Kubernetes {VERSION}")
    assert counts["scaled"] == counts["default"] + 2 and counts["kubernetes"] == counts["default"] + 3, counts
    check_units()
    # What must be refused, so that the checks are known to look.
    stage = of(render(values), "StatefulSet")["voice-talker"]
    for path, wrong in [(["spec", "replicas"], "two"), (["spec", "replica"], 2), (["spec", "selector"], None)]:
        broken = copy.deepcopy(stage)
        broken[path[0]][path[1]] = wrong
        assert refused(broken), f"{path} = {wrong} was not refused"


main()
