"""What the first half of code2wav must know at each of its 400 steps a second: the angles of eight harmonics, twice, and the spectrum.

Codes tell the phase at the end of a frame and how far it went (`pitch.py`); the waveform needs it at every moment. Learning that
through the whole vocoder takes long; the first half learns it on its own in some minutes. A linear head on its output is trained
to give angles and log-mels, and is dropped when code2wav is done.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from audio import HOP, log_mel
from common import FRAME, SAMPLE_RATE, Progress, autocast, device, schedule
from config import VOCODER
from muon import Optimisers

HARMONICS = (1, 2, 3, 4, 6, 8, 11, 15)
STEPS = math.prod(VOCODER["ratios"])   # of the first half in a frame
PLACES = 2                   # of angles in a step
BANDS = 80                   # of the log-mels of a step


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.angles = nn.Conv1d(VOCODER["width"], 2 * len(HARMONICS) * PLACES, 1)
        self.spectra = nn.Conv1d(VOCODER["width"], BANDS, 1)

    def loss(self, hidden, cycles, voiced, mels):
        """hidden [B, width, STEPS T]; cycles and voiced [B, STEPS T, PLACES], mels [B, STEPS T, BANDS]

        -> unexplained share of the angles' energy by harmonic, mean square error of the spectra
        """
        turn = 2 * torch.pi * cycles[..., None] * torch.tensor(HARMONICS, device=cycles.device)
        wanted = torch.stack([turn.sin(), turn.cos()], -1) * voiced[..., None, None]
        got = self.angles(hidden.float()).transpose(1, 2).unflatten(-1, (PLACES, len(HARMONICS), 2))
        rest = (got - wanted).square().sum((0, 1, 2, 4)) / voiced.sum().clamp(min=1)
        return rest, F.mse_loss(self.spectra(hidden.float()).transpose(1, 2), mels.float())


def parameters(model):
    """What is trained of the first half, apart from the code embeddings."""
    return [p for n, p in model.named_parameters() if n.startswith(("pre_transformer", "upsample"))]


def first_half(model, codes):
    """codes [B, T, CODEBOOKS] -> [B, width, STEPS T]"""
    with autocast():
        h = model.code_embedding(codes.transpose(1, 2) + model.code_offset).mean(1)
        h = model.pre_transformer(inputs_embeds=h).last_hidden_state.transpose(1, 2)
        for blocks in model.upsample:
            for block in blocks:
                h = block(h)
    return h


def places(track, late, frames, trim):
    """(cycles modulo 1, voiced, log-mels) of STEPS * frames steps at the samples that each decides of the audio `late`."""
    import natural
    size = FRAME // STEPS
    start = np.arange(STEPS * frames)[:, None] * size - trim
    source = natural.kokoro.RATE / SAMPLE_RATE * (start + (np.arange(PLACES) + 0.5) * size / PLACES) - natural.DELAY + track.origin
    inside = (source >= 0) & (source < len(track.cycles))
    index = np.clip(source, 0, len(track.cycles) - 1).astype(int)
    mels = (log_mel(torch.from_numpy(late)[None], BANDS)[0].T.numpy() + 4.5) / 2
    row = np.clip(np.round((start[:, 0] + size / 2) / HOP - 0.5), 0, len(mels) - 1).astype(int)
    return np.mod(track.cycles[index], 1.0).astype(np.float32), (track.voiced[index] & inside).astype(np.float32), mels[row].astype(np.float16)


def teach(model, head, codes, known, steps, batch=16, length=24, lead=6):
    """Trains the first half of `model` on its own."""
    long = [i for i, c in enumerate(codes) if len(c) >= length]
    half = parameters(model)
    matrices = [p for p in half if p.dim() >= 2 and min(p.shape[:2]) > 1]
    others = [p for p in half if p.dim() < 2 or min(p.shape[:2]) == 1]
    opt = Optimisers(matrices, [*others, *head.parameters()], muon=0.012, adam=2e-3, weight_decay=0.0, keep_norm=True)
    opt.add([model.code_embedding.weight], 1e-2)
    rng, progress = np.random.default_rng(21), Progress("angles", steps)
    while progress.fraction < 1:                    # to its end: it takes minutes and has no state of its own
        picked = []
        for i in rng.choice(long, batch):
            at = rng.integers(len(codes[i]) - length + 1)
            picked.append((codes[i][at:at + length], *(x[STEPS * at:STEPS * (at + length)] for x in known[i])))
        c, *wanted = (torch.from_numpy(np.stack(x)).to(device()) for x in zip(*picked))
        hidden = first_half(model, c.long())[..., STEPS * lead:]
        rest, spectra = head.loss(hidden, *(x[:, STEPS * lead:] for x in wanted))
        (rest.mean() + 2 * spectra).backward()
        opt.step(schedule(progress.fraction, warmup=0.02, decay=0.6))
        progress.tick(spectra=spectra, **{f"unexplained_{h}": r for h, r in zip(HARMONICS, rest)})
