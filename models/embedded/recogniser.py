"""A recogniser of phonemes in codes, for `hard.py`. It learns from the teacher's codes alone.

A convolutional network with CTC, two outputs a frame. Its convolutions see a quarter of a second, too little to guess a sound from its word; its
norms are taken over the whole utterance.
"""
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from rapidfuzz.distance import Levenshtein
from torch import nn

import codec
import natural
from codec import Block
from codes import Codes
from common import CODEBOOK_SIZE, CODEBOOKS, SMOKE, WORK, device, load_checkpoint, save_checkpoint, schedule
from pitch import UNVOICED

WIDTH = 192
BLANK = 0
OUTPUTS = 2              # of a frame
NOISE = 0.1              # added to the latents in training


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("books", codec.load().quantiser.codes.clone().cpu())
        latent = self.books.shape[2]
        self.layers = nn.Sequential(
            nn.Conv1d(2 * latent + 1, WIDTH, 1), nn.Dropout(0.05), Block(WIDTH), Block(WIDTH),
            nn.ConvTranspose1d(WIDTH, WIDTH, OUTPUTS, stride=OUTPUTS), Block(WIDTH), nn.Dropout(0.1), Block(WIDTH),
            nn.Conv1d(WIDTH, len(natural.PHONEMES) + 1, 1))

    def forward(self, codes):
        """[B, T, CODEBOOKS] -> log-probabilities [B, OUTPUTS * T, phonemes and BLANK]"""
        spectra = torch.cat([codes[..., :1], codes[..., 3:]], -1).clamp(0, CODEBOOK_SIZE - 1)
        found = torch.stack([book[spectra[..., k]] for k, book in enumerate(self.books)])
        x = torch.cat([found[0], found.sum(0), (codes[..., 1:2] != UNVOICED).float()], -1)
        if self.training:
            x = x + NOISE * torch.randn_like(x)
        return self.layers(x.transpose(1, 2)).transpose(1, 2).log_softmax(-1)


def sounds(phonemes):
    """What is to be recognised of the teacher's symbols: marks and stress have no sound of their own."""
    return [natural.PHONEMES.index(s) + 1 for s in phonemes if s in natural.PHONEMES]


def padded(codes):
    out = np.zeros((len(codes), max(map(len, codes)), CODEBOOKS), np.int64)
    for row, c in zip(out, codes):
        row[:len(c)] = c
    return torch.from_numpy(out).to(device())


@torch.no_grad()
def recognise(model, codes, batch=64):
    """-> the phonemes of each of the code arrays [T, CODEBOOKS]"""
    result, order = [None] * len(codes), sorted(range(len(codes)), key=lambda i: len(codes[i]))
    for at in range(0, len(order), batch):
        group = order[at:at + batch]
        best = model(padded([codes[i] for i in group])).argmax(-1).cpu().numpy()
        for i, row in zip(group, best):
            row = row[:OUTPUTS * len(codes[i])]
            result[i] = row[(row != BLANK) & (row != np.append(BLANK, row[:-1]))].tolist()
    return result


def error_rate(model, codes, wanted):
    wrong = sum(Levenshtein.distance(got, want) for got, want in zip(recognise(model, codes), wanted))
    return wrong / sum(map(len, wanted))


def load():
    """The recogniser of the work folder; the first call trains it on all codes that are there."""
    model, path = Recogniser().to(device()), WORK / "recogniser.pt"
    state = load_checkpoint(path)
    if state:
        model.load_state_dict(state["model"])
    else:
        learn(model)
        save_checkpoint(path, model=model.state_dict())
    return model.eval()


def learn(model, steps=4 if SMOKE else 1200, batch=24, rate=2e-3):
    train, val, items = Codes("train"), Codes("val"), natural.texts()
    if not len(train) or not len(val):
        sys.exit("the recogniser needs the codes of the stage `codes`")
    first = natural.HELDOUT * natural.GROUP
    wanted = [sounds(phonemes) for _, _, phonemes in items[:first + len(train)]]
    order = np.argsort(train.frames, kind="stable")
    opt = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    rng, start = np.random.default_rng(21), time.time()
    for step in range(steps):
        last = len(order) // 3 if step < steps / 10 else len(order)         # the shortest first: CTC finds no alignment of long ones
        at = rng.integers(max(1, last - batch + 1))
        group = order[at:at + batch]
        model.train()
        found = model(padded([train.codes[i] for i in group])).transpose(0, 1)
        target = [torch.tensor(wanted[first + i]) for i in group]
        loss = F.ctc_loss(found, torch.cat(target).to(device()), torch.tensor([OUTPUTS * train.frames[i] for i in group]),
                          torch.tensor([len(t) for t in target]), blank=BLANK, zero_infinity=True)
        opt.param_groups[0]["lr"] = rate * schedule(step / steps, decay=0.6)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if (step + 1) % 200 == 0 or step + 1 == steps:
            model.eval()
            print(f"recogniser step {step + 1}/{steps} loss {loss.item():.3f} errors in held-out codes "
                  f"{100 * error_rate(model, val.codes, wanted[:len(val)]):.1f} % {time.time() - start:.0f} s", flush=True)
