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

CONTEXT = 8             # frames before the scored part of a crop
SCORED = 24
TRIM = 370
RESOLUTIONS = (128, 256, 512, 1024, 2048)


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


def initialise(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("scale", "gamma")):
                p.fill_(0.1)
            elif name.endswith(("alpha", "beta", "bias")):
                p.zero_()
            elif "code_embedding" in name:
                nn.init.normal_(p, std=CODEBOOKS ** 0.5 * 0.7)
            elif p.dim() == 3 and "upsample.0.0" not in name and ".block.1." not in name:
                nn.init.kaiming_normal_(p, nonlinearity="linear")
                if ".conv2." in name:
                    p.mul_(0.3)
            elif p.dim() == 3:                      # transposed: two taps of every input reach an output
                nn.init.normal_(p, std=(p.shape[0] * (1 if "upsample" in name else 2)) ** -0.5)
            elif p.dim() == 2:
                nn.init.normal_(p, std=p.shape[1] ** -0.5)
        model.decoder[-1].conv.weight.mul_(0.1)


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


def spectrum(x, n):
    s = torch.stft(x, n, n // 4, n, hann(n).to(x.device), return_complex=True)
    return torch.sqrt(s.real.square() + s.imag.square() + 1e-9) / n ** 0.5


def spectral_loss(y, x):
    """Multi-resolution spectral convergence, log-magnitude and log-mel distances of y to x [B, N]."""
    total = 0.0
    for n in RESOLUTIONS:
        a, b = spectrum(y, n), spectrum(x, n)
        total = total + (a - b).norm() / (b.norm() + 1e-3)
        total = total + (a.clamp(min=3e-4).log() - b.clamp(min=3e-4).log()).abs().mean()
        if n in (512, 1024):
            m = mel_matrix(80, n).to(x.device)
            total = total + 2 * ((m @ a).clamp(min=3e-4).log() - (m @ b).clamp(min=3e-4).log()).abs().mean()
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
    audio, val = Audio("train"), Audio("val")
    cache = load_checkpoint(WORK / "codes-audio.pt")
    if cache is None:
        cache = dict(train=encode_all(audio), val=encode_all(val))
        save_checkpoint(WORK / "codes-audio.pt", **cache)
    model = build(fast=True).to(device())
    initialise(model)
    opt = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.8, 0.98), weight_decay=1e-3)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    progress = Progress("vocoder", args.steps, args.seconds)
    state = load_checkpoint(WORK / "vocoder.pt")
    if state:
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        average = state["average"]
        progress = Progress("vocoder", args.steps, args.seconds, state["step"], state["elapsed"])
    rng = np.random.default_rng(13 + progress.step)
    saved = time.time()
    while not progress.done():
        for group in opt.param_groups:
            group["lr"] = args.rate * schedule(progress.fraction, warmup=0.01, decay=0.7)
        model.train()
        x, c = crops(audio, cache["train"], rng, args.batch)
        y = forward(model, c)
        start = CONTEXT * FRAME
        loss = spectral_loss(y[:, start:], x[:, start:])
        over = F.relu(y.abs() - 0.95).mean()                    # never lean on the clamp
        opt.zero_grad()
        (loss + 10 * over).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        with torch.no_grad():
            keep = min(0.998, 1 - 1 / (progress.step + 2))
            for k, v in model.state_dict().items():
                average[k].lerp_(v, 1 - keep) if v.is_floating_point() else average[k].copy_(v)
        progress.tick(loss=loss, norm=norm)
        if progress.step % 500 == 0:
            model.eval()
            with torch.no_grad():
                x, c = crops(val, cache["val"], np.random.default_rng(5), 24)
                print("vocoder val %.4f" % spectral_loss(forward(model, c)[:, start:], x[:, start:]), flush=True)
        if time.time() - saved > 180 or progress.done():
            saved = time.time()
            save_checkpoint(WORK / "vocoder.pt", model=model.state_dict(), average=average, opt=opt.state_dict(),
                            step=progress.step, elapsed=progress.elapsed)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=6000)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--rate", type=float, default=1.5e-3)
    train(ap.parse_args())
