"""Stage `vocoder`: code2wav (the reference class itself) learns the teacher's audio from the codec's codes.

The reference trims its transposed convolutions on both sides: F frames give F * FRAME - TRIM samples,
aligned with the start of the first frame, so every sample may use TRIM samples of look-ahead.

With `--joint` the codec's encoder learns along for the first part of the run: code2wav then reads the quantised
latents through one matrix, which becomes its table of codes when that part is over, and the codes stay as they are from then on.
"""
import argparse
import functools
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import codec
from audio import hann, mel_matrix
from common import CODEBOOKS, FRAME, NATURAL, SMOKE, WORK, Progress, autocast, device, load_checkpoint, save_checkpoint, schedule, setup
from config import VOCODER, omni_config
from data import Audio
from muon import Optimisers, split

CONTEXT = 8             # frames before the scored part of a crop
SCORED = 24
TRIM = functools.reduce(lambda trim, rate: (trim + 1) * rate, VOCODER["rates"], 0)
JUDGED = (512, 1024, 2048) if NATURAL else (256, 512, 1024)     # windows of the discriminators of spectra
PERIODS = (2, 3, 5, 7, 11) if NATURAL else ()                   # of those of waveforms
RESOLUTIONS = (128, 256, 512, 1024, 2048)
QUIET = 1e-3            # magnitudes far below this count as silence


def snake(x, alpha, beta):
    a, b = alpha.exp()[None, :, None], beta.exp()[None, :, None]
    y = x.float()
    return (y + torch.sin(y * a).square() / (b + 1e-9)).to(x.dtype)


def build(fast=False):
    """The reference class. `fast` fuses its activation and keeps the activations in bfloat16, for training."""
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference
    model = reference.Qwen3OmniMoeCode2Wav._from_config(omni_config().code2wav_config)
    if fast and not SMOKE:
        fused = torch.compile(snake, dynamic=True)
        for m in model.modules():
            if isinstance(m, reference.SnakeBeta):
                m.forward = lambda x, m=m: fused(x, m.alpha, m.beta)
    return model


def is_transposed(name):
    return ".block.1." in name or "upsample.0.0" in name


def is_matrix(name, p):
    """What Muon trains: matrices and convolution kernels, but no tables and nothing of one row."""
    return p.dim() >= 2 and "embedding" not in name and min(p.shape[:2]) > 1


def first_projection(books):
    """A matrix [LATENT, width] that turns the codec's vectors into code embeddings of unit scale."""
    project = nn.init.orthogonal_(torch.empty(books.shape[-1], VOCODER["width"]))
    return project * CODEBOOKS / (books[0] @ project).square().mean().sqrt()


def initialise(model, books, project):
    """Unit-scale activations, a quiet output, code embeddings from the codec's own vectors."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("scale", "gamma")):
                p.fill_(0.1)
            elif name.endswith(("alpha", "beta", "bias")):
                p.zero_()
            elif "code_embedding" in name:
                p.copy_(books.flatten(0, 1) @ project)
            elif is_transposed(name) and p.dim() == 3:
                taps = 1 if "upsample" in name else 2                                   # inputs in reach of an output
                nn.init.normal_(p, std=0.8 * (p.shape[0] * taps) ** -0.5)
            elif p.dim() == 3:
                gain = 0.4 if ".conv2." in name else 0.02 if name.startswith("decoder.6") else 0.8
                nn.init.normal_(p, std=gain * (p.shape[1] * p.shape[2]) ** -0.5)
            elif p.dim() == 2:
                nn.init.normal_(p, std=p.shape[1] ** -0.5)


def forward(model, codes=None, embedded=None):
    """Waveform [B, N] before the clamp, from codes [B, T, CODEBOOKS] or their mean embeddings; last layer in float32."""
    with autocast():
        h = model.code_embedding(codes.transpose(1, 2) + model.code_offset).mean(1) if embedded is None else embedded
        h = model.pre_transformer(inputs_embeds=h).last_hidden_state.transpose(1, 2)
        for blocks in model.upsample:
            for block in blocks:
                h = block(h)
        for block in list(model.decoder)[:-1]:
            h = block(h)
    return model.decoder[-1](h.float())[:, 0]


class Discriminator(nn.Module):
    """Judges a compressed complex spectrogram; returns the feature maps of every layer, the verdict last."""

    def __init__(self, n, width=16):
        super().__init__()
        self.n = n
        norm = nn.utils.parametrizations.weight_norm
        conv = lambda a, b, k, s=(1, 1): norm(nn.Conv2d(a, b, k, s, (k[0] // 2, k[1] // 2)))
        self.layers = nn.ModuleList([conv(2, width, (7, 3), (2, 1)), conv(width, width, (7, 3), (2, 1)), conv(width, width * 2, (7, 3), (2, 1)),
                                     conv(width * 2, width * 2, (5, 3), (2, 1)), conv(width * 2, 1, (3, 3))])

    def forward(self, x):
        s = torch.stft(x, self.n, self.n // 4, self.n, hann(self.n).to(x.device), return_complex=True)
        size = torch.sqrt(torch.sqrt(s.real.square() + s.imag.square() + 1e-7))
        h = torch.stack([s.real / size, s.imag / size], 1).to(memory_format=torch.channels_last)
        maps = []
        for layer in self.layers:
            h = layer(h if not maps else F.leaky_relu(h, 0.1))
            maps.append(h)
        return maps


class Periodic(nn.Module):
    """Judges the waveform folded by one period, every column of it alike: what repeats, and what does not."""

    def __init__(self, period, width=16):
        super().__init__()
        self.period = period
        norm = nn.utils.parametrizations.weight_norm
        widths = [1, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.ModuleList([norm(nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0))) for a, b in zip(widths, widths[1:])]
                                    + [norm(nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)))])

    def forward(self, x):
        h = F.pad(x, (0, -x.shape[-1] % self.period), mode="reflect").unflatten(-1, (-1, self.period))[:, None]
        maps = []
        for layer in self.layers:
            h = layer(h if not maps else F.leaky_relu(h, 0.1))
            maps.append(h)
        return maps


class Discriminators(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.parts = nn.ModuleList([*(Discriminator(n, width) for n in JUDGED), *(Periodic(p, width) for p in PERIODS)])

    def forward(self, x):
        with autocast():
            return [d(x) for d in self.parts]

    def loss(self, real, fake):
        """Hinge loss of the discriminators."""
        return sum(F.relu(1 - r[-1].float()).mean() + F.relu(1 + f[-1].float()).mean()
                   for r, f in zip(self(real), self(fake.detach()))) / len(self.parts)

    def guide(self, real, fake):
        """(adversarial, feature matching) losses of the vocoder."""
        with torch.no_grad():
            wanted = self(real)
        got = self(fake)
        adversarial = sum(-f[-1].float().mean() for f in got) / len(self.parts)
        matching = sum((a.float() - b.float()).abs().mean() / (a.float().abs().mean() + 1e-3)
                       for r, f in zip(wanted, got) for a, b in zip(r[:-1], f[:-1]))
        return adversarial, matching / (len(self.parts) * 4)


def spectrum(x, n):
    s = torch.stft(x, n, n // 4, n, hann(n).to(x.device), return_complex=True)
    return torch.sqrt(s.real.square() + s.imag.square() + 1e-9) / n ** 0.5


def spectral_loss(y, x):
    """Multi-resolution spectral convergence, log-magnitude and log-mel distances of y to x [B, N]."""
    total = 0.0
    for n in RESOLUTIONS:
        a, b = spectrum(y, n), spectrum(x, n)
        total = total + (a - b).norm() / (b.norm() + 1e-3)
        total = total + ((a + QUIET).log() - (b + QUIET).log()).abs().mean()
        if n in (512, 1024):
            m = mel_matrix(80, n).to(x.device)
            total = total + 2 * ((m @ a + QUIET).log() - (m @ b + QUIET).log()).abs().mean()
    return total / len(RESOLUTIONS)


def encode_all(audio, model=None, batch=16):
    """Codes of every utterance, from the frozen codec."""
    model = model or codec.load()
    order = np.argsort(audio.frames, kind="stable")
    result = [None] * len(audio)
    for at in range(0, len(order), batch):
        group = order[at:at + batch]
        n = max(audio.frames[i] for i in group)
        x = np.zeros((len(group), n * FRAME), np.float32)
        for k, i in enumerate(group):
            w = audio.wav(i)
            x[k, :len(w)] = w
        c = model.encode(torch.from_numpy(x).to(device())).cpu().numpy().astype(np.int16)
        for k, i in enumerate(group):
            result[i] = c[k, :audio.frames[i]]
    return result


def crops(audio, codes, rng, batch, labelled=False):
    """(audio, codes) of random places; with `labelled` (audio of whole frames, phonemes) instead."""
    length = CONTEXT + SCORED
    wavs, picked = [], []
    while len(wavs) < batch:
        i = rng.integers(len(audio))
        if audio.frames[i] < length:
            continue
        at = rng.integers(audio.frames[i] - length + 1)
        wavs.append(audio.wav(i, at, at + length)[:None if labelled else -TRIM])
        picked.append((audio.label(i) if labelled else codes[i])[at:at + length])
    return torch.from_numpy(np.stack(wavs)).to(device()), torch.from_numpy(np.stack(picked)).long().to(device())


def load(path=None, average=True):
    state = load_checkpoint(path or WORK / "vocoder.pt")
    model = build()
    model.load_state_dict(state["average" if average else "model"])
    return model.to(device()).eval()


@torch.no_grad()
def decode(model, codes):
    """codes [T, CODEBOOKS] -> float waveform, in one pass over the whole sequence."""
    return model(torch.as_tensor(np.asarray(codes)).long().T[None].to(device()))[0, 0].cpu().numpy()


def audio_codes(audio, val, model=None):
    """Codes of the very audio that is learnt from: espeak-ng never says a text twice in quite the same way."""
    codes = load_checkpoint(WORK / "codes-audio.pt")
    if codes is None or len(codes["train"]) != len(audio) or model:
        codes = dict(train=encode_all(audio, model), val=encode_all(val, model))
        save_checkpoint(WORK / "codes-audio.pt", **codes)
    return codes


class Run:
    """Everything that a run keeps: networks, optimisers, averages."""

    def __init__(self, args):
        self.args = args
        self.codec = codec.load()
        books = self.codec.quantiser.codes.cpu()
        self.project = nn.Parameter(first_projection(books).to(device()))
        self.model = build(fast=True)
        initialise(self.model, books, self.project.detach().cpu())
        self.model.to(device())
        matrices, others = split(self.model, is_matrix)
        special = {id(self.model.decoder[-1].conv.weight), id(self.model.decoder[-1].conv.bias), id(self.model.code_embedding.weight)}
        self.others = [p for p in others if id(p) not in special]
        for name, p in self.model.named_parameters():
            p.transposed = is_transposed(name)
        self.opt = Optimisers(matrices, self.others, muon=args.muon, adam=args.adam, weight_decay=0.0, keep_norm=True)
        self.opt.add(list(self.model.decoder[-1].parameters()), 0.1 * args.adam)
        self.opt.add([self.model.code_embedding.weight], 3 * args.adam)
        self.codec_opt = torch.optim.AdamW([*self.codec.parameters(), self.project], lr=args.adam, betas=(0.9, 0.99), weight_decay=1e-3)
        self.judge = Discriminators(args.width).to(device()).to(memory_format=torch.channels_last)
        self.judge_opt = torch.optim.AdamW(self.judge.parameters(), lr=args.adam, betas=(0.8, 0.98), weight_decay=1e-3)
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.progress = Progress("vocoder", args.steps, args.seconds)
        self.joint = args.joint > 0
        state = load_checkpoint(WORK / "vocoder.pt")
        if state:
            self.restore(state)

    def restore(self, state):
        for name in ("model", "opt", "judge", "judge_opt", "codec", "codec_opt"):
            if name in state:
                getattr(self, name).load_state_dict(state[name])
        if "project" in state:
            self.project.data.copy_(state["project"])
        self.joint = state.get("joint", False)
        self.average = {k: v.to(device()) for k, v in state["average"].items()}
        self.progress = Progress("vocoder", self.args.steps, self.args.seconds, state["step"], state["elapsed"])

    def save(self):
        learning = dict(codec=self.codec.state_dict(), codec_opt=self.codec_opt.state_dict(), project=self.project.detach()) if self.joint else {}
        save_checkpoint(WORK / "vocoder.pt", model=self.model.state_dict(), average=self.average, opt=self.opt.state_dict(), judge=self.judge.state_dict(),
                        judge_opt=self.judge_opt.state_dict(), step=self.progress.step, elapsed=self.progress.elapsed, joint=self.joint, **learning)

    def freeze(self):
        """Ends the joint part: the codec is written, and code2wav gets its table of codes."""
        self.joint = False
        self.codec.eval()
        known = load_checkpoint(WORK / "codec.pt")
        save_checkpoint(WORK / "codec.pt", **{**known, "model": self.codec.state_dict()})
        with torch.no_grad():
            table = self.codec.quantiser.codes.flatten(0, 1) @ self.project
            self.model.code_embedding.weight.copy_(table)
            self.average["code_embedding.weight"].copy_(table)

    def adversarial(self, x, y):
        """Trains the discriminators every other step. -> what they tell the vocoder, and the figures"""
        count = max(1, len(x) // 2)                             # half of the crops are enough for the judges
        parts, judge = {}, self.judge
        if self.progress.step % 2 == 0:
            judge_loss = judge.loss(x[:count], y[:count])
            self.judge_opt.zero_grad()
            judge_loss.backward()
            self.judge_opt.step()
            parts["judge"] = judge_loss
        judge.requires_grad_(False)
        adversarial, matching = judge.guide(x[:count], y[:count])
        judge.requires_grad_(True)
        ramp = min(1.0, (self.progress.fraction - self.args.adversarial) / 0.05)
        return ramp * (self.args.fool * adversarial + self.args.match * matching), dict(parts, adversarial=adversarial, matching=matching)

    def step(self, audio, codes, rng):
        scale = schedule(self.progress.fraction, warmup=0.01, decay=0.7)
        for group in self.judge_opt.param_groups:
            group["lr"] = 0.5 * self.args.adam * scale
        for group in self.codec_opt.param_groups:
            group["lr"] = 0.5 * self.args.adam * scale
        self.model.train()
        start, extra = CONTEXT * FRAME, 0.0
        if self.joint:
            self.codec.train()
            wav, labels = crops(audio, None, rng, self.args.batch, labelled=True)
            extra, _, _, total = codec.losses(self.codec, wav, labels)
            y = forward(self.model, embedded=total.transpose(1, 2) @ self.project / CODEBOOKS)
            x = wav[:, :y.shape[-1]]
        else:
            x, c = crops(audio, codes["train"], rng, self.args.batch)
            y = forward(self.model, c)
        x, y = x[:, start:], y[:, start:]
        loss = spectral_loss(y, x)
        total = loss + extra + 10 * F.relu(y.abs() - 0.95).mean()       # never lean on the clamp
        parts = {}
        if self.progress.fraction >= self.args.adversarial:
            guided, parts = self.adversarial(x, y)
            total = total + guided
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.others, 1.0)
        self.opt.step(scale)
        if self.joint:
            nn.utils.clip_grad_norm_(self.codec.parameters(), 1.0)
            self.codec_opt.step()
        self.codec_opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            keep = min(0.998, (1 + self.progress.step) / (10 + self.progress.step))
            for k, v in self.model.state_dict().items():
                self.average[k].lerp_(v, 1 - keep) if v.is_floating_point() else self.average[k].copy_(v)
        self.progress.tick(loss=loss, norm=norm, **parts)


def train(args):
    setup()
    torch.manual_seed(3)
    audio, val = Audio("train", args.utterances), Audio("val")
    run = Run(args)
    progress = run.progress
    codes = None if run.joint else audio_codes(audio, val)
    rng = np.random.default_rng(13 + progress.step)
    saved = time.time()
    while not progress.done():
        if run.joint and progress.fraction >= args.joint:
            run.freeze()
            codes = audio_codes(audio, val, run.codec)
            run.save()
        run.step(audio, codes, rng)
        if progress.step % 500 == 0 and codes:
            run.model.eval()
            with torch.no_grad():
                start = CONTEXT * FRAME
                x, c = crops(val, codes["val"], np.random.default_rng(5), 24)
                print("vocoder val %.4f" % spectral_loss(forward(run.model, c)[:, start:], x[:, start:]), flush=True)
        if time.time() - saved > 180 or progress.done():
            saved = time.time()
            run.save()
    progress.finish()


if __name__ == "__main__":
    gpu = torch.cuda.is_available()
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=40000 if NATURAL else 2683)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--batch", type=int, default=32 if gpu else 4)
    ap.add_argument("--utterances", type=int, default=0 if NATURAL else 8000, help="how much of the teacher's audio to use; 0: all")
    ap.add_argument("--muon", type=float, default=0.012)
    ap.add_argument("--adam", type=float, default=1e-3)
    ap.add_argument("--joint", type=float, default=0.4 if NATURAL else 0.0, help="fraction of the run in which the codec learns along")
    ap.add_argument("--adversarial", type=float, default=0.1 if NATURAL else 2.0,
                    help="fraction of the run after which the discriminators join; above 1: never")
    ap.add_argument("--width", type=int, default=32 if gpu and NATURAL else 16, help="channels of the discriminators")
    ap.add_argument("--fool", type=float, default=0.1, help="weight of the discriminators' verdict")
    ap.add_argument("--match", type=float, default=0.5, help="weight of matching their features")
    train(ap.parse_args())
