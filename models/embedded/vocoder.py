"""Stage `vocoder`: code2wav (the reference class itself) learns the teacher's audio from the codec's codes.

The reference trims its transposed convolutions on both sides: F frames give 640 F - 370 samples,
aligned with the start of the first frame, so every sample may use 370 samples of look-ahead.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import codec
from audio import hann, mel_matrix
from common import CODEBOOKS, FRAME, WORK, Progress, autocast, device, load_checkpoint, save_checkpoint, schedule, setup
from config import omni_config
from data import Audio
from muon import Optimisers, split

CONTEXT = 8             # frames before the scored part of a crop
SCORED = 24
TRIM = 370
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
    if fast:
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


def initialise(model):
    """Unit-scale activations, a quiet output, code embeddings from the codec's own vectors (projected at random)."""
    books = codec.load().quantiser.codes.cpu()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("scale", "gamma")):
                p.fill_(0.1)
            elif name.endswith(("alpha", "beta", "bias")):
                p.zero_()
            elif "code_embedding" in name:
                project = nn.init.orthogonal_(torch.empty(books.shape[-1], p.shape[1]))
                table = books.flatten(0, 1) @ project
                p.copy_(table / table[:books.shape[1]].square().mean().sqrt() * CODEBOOKS)
            elif is_transposed(name) and p.dim() == 3:
                taps = 1 if "upsample" in name else 2                                   # inputs in reach of an output
                nn.init.normal_(p, std=0.8 * (p.shape[0] * taps) ** -0.5)
            elif p.dim() == 3:
                gain = 0.4 if ".conv2." in name else 0.02 if name.startswith("decoder.6") else 0.8
                nn.init.normal_(p, std=gain * (p.shape[1] * p.shape[2]) ** -0.5)
            elif p.dim() == 2:
                nn.init.normal_(p, std=p.shape[1] ** -0.5)


def forward(model, codes):
    """Waveform [B, N] before the clamp, from codes [B, T, CODEBOOKS]; last layer in float32."""
    with autocast():
        h = model.code_embedding(codes.transpose(1, 2) + model.code_offset).mean(1)
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


class Discriminators(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Discriminator(n) for n in (256, 512, 1024))

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


def encode_all(audio, batch=16):
    """Codes of every utterance, from the frozen codec."""
    model = codec.load()
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


def crops(audio, codes, rng, batch):
    length = CONTEXT + SCORED
    wavs, picked = [], []
    while len(wavs) < batch:
        i = rng.integers(len(audio))
        if audio.frames[i] < length:
            continue
        at = rng.integers(audio.frames[i] - length + 1)
        wavs.append(audio.wav(i)[at * FRAME:(at + length) * FRAME - TRIM])
        picked.append(codes[i][at:at + length])
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


def train(args):
    setup()
    torch.manual_seed(3)
    audio, val = Audio("train", args.utterances), Audio("val")
    # espeak-ng never says a text twice in quite the same way, so these codes must come from this very audio
    codes = load_checkpoint(WORK / "codes-audio.pt")
    if codes is None:
        codes = dict(train=encode_all(audio), val=encode_all(val))
        save_checkpoint(WORK / "codes-audio.pt", **codes)
    model = build(fast=True).to(device())
    initialise(model)
    matrices, others = split(model, is_matrix)
    special = {id(model.decoder[-1].conv.weight), id(model.decoder[-1].conv.bias), id(model.code_embedding.weight)}
    others = [p for p in others if id(p) not in special]
    for name, p in model.named_parameters():
        p.transposed = is_transposed(name)
    opt = Optimisers(matrices, others, muon=args.muon, adam=args.adam, weight_decay=0.0, keep_norm=True)
    opt.add(list(model.decoder[-1].parameters()), 0.1 * args.adam)
    opt.add([model.code_embedding.weight], 3 * args.adam)
    judge = Discriminators().to(device()).to(memory_format=torch.channels_last)
    judge_opt = torch.optim.AdamW(judge.parameters(), lr=args.adam, betas=(0.8, 0.98), weight_decay=1e-3)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    progress = Progress("vocoder", args.steps, args.seconds)
    state = load_checkpoint(WORK / "vocoder.pt")
    if state:
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        judge.load_state_dict(state["judge"])
        judge_opt.load_state_dict(state["judge_opt"])
        average = state["average"]
        progress = Progress("vocoder", args.steps, args.seconds, state["step"], state["elapsed"])
    rng = np.random.default_rng(13 + progress.step)
    saved = time.time()
    while not progress.done():
        scale = schedule(progress.fraction, warmup=0.01, decay=0.7)
        for group in judge_opt.param_groups:
            group["lr"] = 0.5 * args.adam * scale
        model.train()
        x, c = crops(audio, codes["train"], rng, args.batch)
        y = forward(model, c)
        start = CONTEXT * FRAME
        x, y = x[:, start:], y[:, start:]
        loss = spectral_loss(y, x)
        total = loss + 10 * F.relu(y.abs() - 0.95).mean()       # never lean on the clamp
        parts = {}
        if progress.fraction >= args.adversarial:
            half = args.batch // 2                              # half of the crops are enough for the judges
            if progress.step % 2 == 0:
                judge_loss = judge.loss(x[:half], y[:half])
                judge_opt.zero_grad()
                judge_loss.backward()
                judge_opt.step()
                parts["judge"] = judge_loss
            judge.requires_grad_(False)
            adversarial, matching = judge.guide(x[:half], y[:half])
            judge.requires_grad_(True)
            ramp = min(1.0, (progress.fraction - args.adversarial) / 0.05)
            total = total + ramp * (0.1 * adversarial + 0.5 * matching)
            parts.update(adversarial=adversarial, matching=matching)
        total.backward()
        norm = nn.utils.clip_grad_norm_(others, 1.0)
        opt.step(scale)
        with torch.no_grad():
            keep = min(0.998, (1 + progress.step) / (10 + progress.step))
            for k, v in model.state_dict().items():
                average[k].lerp_(v, 1 - keep) if v.is_floating_point() else average[k].copy_(v)
        progress.tick(loss=loss, norm=norm, **parts)
        if progress.step % 500 == 0:
            model.eval()
            with torch.no_grad():
                x, c = crops(val, codes["val"], np.random.default_rng(5), 24)
                print("vocoder val %.4f" % spectral_loss(forward(model, c)[:, start:], x[:, start:]), flush=True)
        if time.time() - saved > 180 or progress.done():
            saved = time.time()
            save_checkpoint(WORK / "vocoder.pt", model=model.state_dict(), average=average, opt=opt.state_dict(),
                            judge=judge.state_dict(), judge_opt=judge_opt.state_dict(), step=progress.step, elapsed=progress.elapsed)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=2683)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--utterances", type=int, default=8000, help="how much of the teacher's audio to use")
    ap.add_argument("--muon", type=float, default=0.012)
    ap.add_argument("--adam", type=float, default=1e-3)
    ap.add_argument("--adversarial", type=float, default=2.0, help="fraction of the run after which the discriminators join; above 1: never")
    train(ap.parse_args())
