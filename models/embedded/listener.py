"""Stage `listener`: a CTC character recogniser trained on the teacher's audio only; the judge of intelligibility.

Training distorts the audio (gain, noise, equaliser, spectral smearing, masks, small speed changes) so
that the listener judges words and not the texture of a vocoder. It reads letters, space and
apostrophe; punctuation is not scored.
"""
import argparse
import re
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from audio import log_mel
from common import (WORK, Progress, autocast, device, edit_distance, load_checkpoint, save_checkpoint,
                    schedule, setup)
from data import Audio
from muon import Optimisers, split

SYMBOLS = " abcdefghijklmnopqrstuvwxyz'"       # class 0 is the CTC blank
BANDS = 64
WIDTH = 208


def spoken(text):
    """What is scored: letters, apostrophes and single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"[^a-z']+", " ", text.lower())).strip()


def to_ids(text):
    return [SYMBOLS.index(c) + 1 for c in spoken(text)]


class Block(nn.Module):
    """Attention, depthwise convolution and feed-forward, all pre-norm."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.glu, self.dw, self.pw = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 15, padding=7, groups=width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, bias, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        h = F.glu(self.glu(self.norms[1](x)), -1) * keep
        x = x + self.pw(F.silu(self.dw(h.transpose(1, 2)).transpose(1, 2)))
        return x + self.down(F.silu(self.up(self.norms[2](x))))


class Listener(nn.Module):
    def __init__(self, layers=5):
        super().__init__()
        self.front = nn.Conv1d(BANDS, WIDTH, 5, stride=2, padding=2)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 5, padding=2)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(SYMBOLS) + 1)
        slopes = torch.tensor([0.0, 1 / 64, 1 / 16, 1 / 4])
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, mel, lengths):
        """mel [B, BANDS, T] (normalised), lengths in mel frames -> log probabilities [B, T/2, classes]"""
        x = F.gelu(self.front(mel))
        x = (x + F.gelu(self.mix(x))).transpose(1, 2)
        t = torch.arange(x.shape[1], device=x.device)
        keep = (t[None] < (lengths[:, None] // 2)).unsqueeze(-1).to(x.dtype)
        bias = -(t[:, None] - t).abs()[None, None] * self.slopes[None, :, None, None]
        bias = bias + torch.where(keep[:, None, None, :, 0] > 0, 0.0, -1e4)
        for block in self.blocks:
            x = block(x, bias, keep)
        return F.log_softmax(self.head(self.norm(x)).float(), -1)


def normalise(mel):
    return (mel + 4.0) / 2


def augment(wav, mel, rng):
    """Distorts log-mels [B, BANDS, T]: gain, equaliser, noise floor, smearing over time and bands, masks."""
    b, d, t = mel.shape
    r = lambda *s: torch.from_numpy(rng.random(s).astype(np.float32)).to(mel.device)
    mel = mel + (r(b, 1, 1) - 0.6) * 2.0
    tilt = (r(b, 1, 1) - 0.5) * torch.linspace(-1, 1, d, device=mel.device)[None, :, None] * 1.5
    bumps = F.interpolate((r(b, 1, 6) - 0.5) * 1.2, d, mode="linear", align_corners=True).transpose(1, 2)
    mel = mel + tilt + bumps
    power = mel.exp()
    smear = F.avg_pool2d(power[:, None], (1, 3), 1, (0, 1))[:, 0]
    smear = torch.where(r(b, 1, 1) < 0.5, F.avg_pool2d(smear[:, None], (3, 1), 1, (1, 0))[:, 0], smear)
    power = power + (smear - power) * r(b, 1, 1) * (r(b, 1, 1) < 0.6)
    floor = 10 ** (-4 + 3 * r(b, 1, 1))
    power = power + floor * (0.5 + r(b, d, t)) * (r(b, 1, 1) < 0.7)
    power = power * torch.exp((r(b, d, t) - 0.5) * 1.6 * r(b, 1, 1))
    mel = power.clamp(min=1e-3).log()
    for i in range(b):
        for _ in range(2):
            f, w = rng.integers(d), rng.integers(0, 10)
            mel[i, f:f + w] = mel[i].mean()
            at, w = rng.integers(t), rng.integers(0, 12)
            mel[i, :, at:at + w] = mel[i].mean()
    return mel


def batch_of(audio, indices):
    """Utterances padded to one tensor, and their lengths in mel frames."""
    wavs = [audio.wav(i) for i in indices]
    n = max(len(w) for w in wavs)
    out = np.zeros((len(wavs), n), np.float32)
    for k, w in enumerate(wavs):
        out[k, :len(w)] = w
    return torch.from_numpy(out).to(device()), torch.tensor([len(w) // 160 for w in wavs], device=device())


def train(args):
    setup()
    torch.manual_seed(2)
    audio = Audio("train")
    order = np.argsort(audio.frames, kind="stable")
    batches, current, longest = [], [], 0
    for i in order:                                   # buckets of equal length: `seconds of audio` per batch
        if current and (len(current) + 1) * audio.frames[i] > args.frames:
            batches.append(current)
            current = []
        current.append(i)
    batches.append(current)
    model = Listener().to(device())
    opt = Optimisers(*split(model, lambda name, p: p.dim() == 2 and "head" not in name), muon=0.02, adam=2e-3)
    progress = Progress("listener", args.steps, args.seconds)
    state = load_checkpoint(WORK / "listener.pt")
    if state:
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        progress = Progress("listener", args.steps, args.seconds, state["step"], state["elapsed"])
    rng = np.random.default_rng(12 + progress.step)
    easy = max(1, len(batches) // 4)
    saved = time.time()
    while not progress.done():
        model.train()
        # short utterances first: CTC finds its alignment sooner
        reach = easy + int((len(batches) - easy) * min(1.0, progress.fraction / 0.15))
        indices = batches[rng.integers(reach)]
        wav, lengths = batch_of(audio, indices)
        with torch.no_grad():
            mel = normalise(augment(wav, log_mel(wav, BANDS), rng))
        with autocast():
            logp = model(mel, lengths)
        targets = [to_ids(audio.items[i][0]) for i in indices]
        loss = F.ctc_loss(logp.transpose(0, 1), torch.tensor(sum(targets, [])), lengths // 2,
                          torch.tensor([len(t) for t in targets]), zero_infinity=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step(schedule(progress.fraction, warmup=0.02, decay=0.5))
        progress.tick(loss=loss)
        if progress.step % 500 == 0 or progress.done():
            print("listener val CER %.4f" % evaluate(model, Audio("val")), flush=True)
        if time.time() - saved > 120 or progress.done():
            saved = time.time()
            save_checkpoint(WORK / "listener.pt", model=model.state_dict(), opt=opt.state_dict(), step=progress.step, elapsed=progress.elapsed)
    progress.finish()


def load():
    model = Listener()
    model.load_state_dict(load_checkpoint(WORK / "listener.pt")["model"])
    return model.to(device()).eval()


@torch.no_grad()
def transcribe(model, wavs):
    """List of float arrays at 16 kHz -> list of texts (best path)."""
    model.eval()
    out = []
    for wav in wavs:
        x = torch.from_numpy(np.ascontiguousarray(wav, np.float32))[None].to(device())
        mel = normalise(log_mel(x, BANDS))
        with autocast():
            best = model(mel, torch.tensor([mel.shape[-1]], device=x.device))[0].argmax(-1).tolist()
        text = "".join(SYMBOLS[c - 1] for c, p in zip(best, [0] + best[:-1]) if c and c != p)
        out.append(re.sub(r"\s+", " ", text).strip())
    return out


def errors(texts, heard):
    """-> [(edits, length)] per utterance on what is scored."""
    return [(edit_distance(spoken(t), h), len(spoken(t))) for t, h in zip(texts, heard)]


def evaluate(model, audio):
    pairs = errors([t for t, _ in audio.items], transcribe(model, [audio.wav(i) for i in range(len(audio))]))
    return sum(e for e, _ in pairs) / sum(n for _, n in pairs)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=923)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--frames", type=int, default=1500, help="codec frames (40 ms) of audio per batch")
    train(ap.parse_args())
