"""Stage `codec`: a residual vector quantiser over the teacher's features, 25 frames a second. Only its codes are used later.

The encoder sees the features before the teacher's generator, the decoder must give the log-mels of its audio: so an
utterance has codes without ever having been heard. Small heads must name the teacher's phoneme from the quantised
frames, so that the codes (the first one above all) keep what a listener needs. Pitch is not among them; it has two
books of its own (`pitch.py`).
"""
import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from audio import log_mel
from common import (CODEBOOK_SIZE, CODEBOOKS, FRAME, HERE, SAMPLE_RATE, SMOKE, WORK, Progress, autocast, device, load_checkpoint,
                    save_checkpoint, schedule, setup)

LATENT, BANDS, INPUT = 96, 80, 512
NARROW, WIDE = 256, 320                              # channels at 100 and at 25 steps a second
BOOKS = CODEBOOKS - 2   # of spectra
CROP = 50               # frames per training crop


class Block(nn.Module):
    def __init__(self, width, dilation=1):
        super().__init__()
        self.a = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.b = nn.Conv1d(width, width, 1)
        self.norm = nn.GroupNorm(1, width)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(F.gelu(self.norm(x)))))


class Quantiser(nn.Module):
    """Residual vector quantisation by exponential moving averages."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.zeros(BOOKS, CODEBOOK_SIZE, LATENT))
        self.register_buffer("counts", torch.ones(BOOKS, CODEBOOK_SIZE))
        self.register_buffer("sums", torch.zeros(BOOKS, CODEBOOK_SIZE, LATENT))

    @staticmethod
    def nearest(x, book):
        return (x @ book.T * 2 - book.square().sum(1)).argmax(1)

    @torch.no_grad()
    def start(self, x, rounds=8):
        """k-means, book after book, on the latents x [N, LATENT]."""
        for q in range(BOOKS):
            book = x[torch.randperm(len(x))[:CODEBOOK_SIZE]].clone()
            for _ in range(rounds):
                i = self.nearest(x, book)
                n = torch.bincount(i, minlength=CODEBOOK_SIZE).float()
                s = torch.zeros_like(book).index_add_(0, i, x)
                book = torch.where(n[:, None] > 0, s / n.clamp(min=1)[:, None], x[torch.randint(len(x), (CODEBOOK_SIZE,))])
            self.codes[q], self.sums[q], self.counts[q] = book, book, 1.0
            x = x - book[self.nearest(x, book)]

    @torch.no_grad()
    def update(self, q, x, i, decay=0.98):
        n = torch.bincount(i, minlength=CODEBOOK_SIZE).float()
        self.counts[q].mul_(decay).add_(n, alpha=1 - decay)
        self.sums[q].mul_(decay).index_add_(0, i, x, alpha=1 - decay)
        dead = self.counts[q] < 0.05 * self.counts[q].mean()
        if dead.any():
            self.sums[q][dead] = x[torch.randint(len(x), (int(dead.sum()),), device=x.device)]
            self.counts[q][dead] = 1.0
        self.codes[q] = self.sums[q] / self.counts[q].clamp(min=1e-3)[:, None]

    def forward(self, z):
        """z [N, LATENT] -> quantised (straight through), first book alone, codes [N, BOOKS], commitment loss."""
        rest, indices, first = z.detach().float(), [], None
        for q in range(BOOKS):
            i = self.nearest(rest, self.codes[q])
            if self.training:
                self.update(q, rest, i)
            chosen = self.codes[q][i]
            first = chosen if q == 0 else first
            rest = rest - chosen
            indices.append(i)
        total = z.detach() - rest
        commit = F.mse_loss(z, total) + 0.3 * F.mse_loss(z, first)
        return z + (total - z).detach(), z + (first - z).detach(), torch.stack(indices, 1), commit


class Codec(nn.Module):
    def __init__(self, phonemes):
        super().__init__()
        self.register_buffer("mean", torch.zeros(INPUT))
        self.register_buffer("scale", torch.ones(INPUT))
        self.encoder = nn.Sequential(
            nn.Conv1d(INPUT, NARROW, 1), Block(NARROW), Block(NARROW, 2), nn.Conv1d(NARROW, WIDE, 4, stride=4),
            Block(WIDE), Block(WIDE, 2), nn.Conv1d(WIDE, LATENT, 1))
        self.decoder = nn.Sequential(
            nn.Conv1d(LATENT, WIDE, 3, padding=1), Block(WIDE, 2), Block(WIDE), Block(WIDE),
            nn.ConvTranspose1d(WIDE, NARROW, 4, stride=4), Block(NARROW, 2), Block(NARROW), nn.Conv1d(NARROW, BANDS, 3, padding=1))
        self.quantiser = Quantiser()
        self.phoneme_first = nn.Sequential(nn.Conv1d(LATENT, 192, 3, padding=1), nn.GELU(), nn.Conv1d(192, phonemes, 1))
        self.phoneme_all = nn.Sequential(nn.Conv1d(LATENT, 192, 3, padding=1), nn.GELU(), nn.Conv1d(192, phonemes, 1))

    @staticmethod
    def spectra(wav):
        """[B, N] -> [B, BANDS, 4 N / FRAME], about unit variance."""
        return (log_mel(wav, BANDS) + 4.5) / 2

    def latent(self, features):
        return self.encoder((features - self.mean[:, None]) * self.scale[:, None])

    def quantise(self, latent):
        b, d, t = latent.shape
        total, first, codes, commit = self.quantiser(latent.float().transpose(1, 2).reshape(b * t, d))
        shape = lambda x: x.reshape(b, t, d).transpose(1, 2)
        return shape(total), shape(first), codes.reshape(b, t, BOOKS), commit

    @torch.no_grad()
    def encode(self, seen):
        """Features of the teacher [B, INPUT, 4 T] -> codes [B, T, BOOKS]"""
        with autocast():
            latent = self.latent(seen)
        return self.quantise(latent)[2]

    @torch.no_grad()
    def whole(self, points, track):
        """All codes [T, CODEBOOKS] of one utterance: first book, advance and phase, the other books."""
        seen = torch.from_numpy(np.ascontiguousarray(points.T, np.float32))[None].to(self.mean.device)
        c = self.encode(seen)[0].cpu().numpy().astype(np.int16)
        return np.concatenate([c[:, :1], np.stack([track.advance, track.phase], 1), c[:, 1:]], 1)


KEPT = HERE / "codec.safetensors"          # what makes codes: needed to go on from the shipped voices
MAKES_CODES = ("mean", "scale", "encoder.", "quantiser.codes")


def keep(model, path):
    save_file({k: v.half().contiguous().cpu() for k, v in model.state_dict().items() if k.startswith(MAKES_CODES)}, path)
    path.chmod(0o644)


def load():
    """The codec of the work folder, or else that of the shipped voices."""
    phonemes = len(json.loads((WORK / "phonemes.json").read_text())) + 1
    model, state = Codec(phonemes), load_checkpoint(WORK / "codec.pt")
    if state:
        model.load_state_dict(state["model"])
    else:
        known = {k: v.float() for k, v in load_file(KEPT).items()}
        assert not model.load_state_dict(known, strict=False).unexpected_keys
    return model.to(device()).eval()


def made_for(folder):
    """Whether the codes of the work folder mean what they meant to the voices of this checkpoint."""
    kept = Path(folder).resolve().parent / KEPT.name
    return kept.exists() and torch.equal(load_file(kept)["quantiser.codes"], load().quantiser.codes.half().cpu())


class Spectra(nn.Module):
    """Log-mels of the audio that the teacher would make of its features: the codec learns from far more utterances than have audio."""

    def __init__(self, codec):
        super().__init__()
        self.mean, self.scale = codec.mean, codec.scale
        self.layers = nn.Sequential(nn.Dropout(0.1), nn.Conv1d(INPUT, NARROW, 3, padding=1), Block(NARROW), Block(NARROW, 2), nn.Dropout(0.1),
                                    nn.Conv1d(NARROW, BANDS, 3, padding=1))

    def forward(self, features):
        return self.layers((features - self.mean[:, None]) * self.scale[:, None])

    def learn(self, audio, val, steps, batch=24):
        opt = torch.optim.AdamW(self.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
        rng, progress = np.random.default_rng(12), Progress("spectra", steps, every=100)
        while progress.fraction < 1:                # to its end: it has no state of its own
            for group in opt.param_groups:
                group["lr"] = 1e-3 * schedule(progress.fraction, decay=0.8)
            seen, wav, _ = crops(audio, rng, batch)
            with autocast():
                got = self(seen)
            loss = (got.float() - Codec.spectra(wav)).abs().mean() * 2
            opt.zero_grad()
            loss.backward()
            opt.step()
            progress.tick(mel=loss)
        self.eval()
        with torch.no_grad():
            seen, wav, _ = crops(val, np.random.default_rng(5), 64)
            print(f"spectra val {(self(seen) - Codec.spectra(wav)).abs().mean() * 2:.3f}", flush=True)


class Spoken:
    """The teacher's utterances: features, phonemes, and audio unless `heard` is false."""

    def __init__(self, heldout=False, limit=0, heard=True):
        import natural
        items, self.seen, self.wavs, self.labels, self.tracks, self.voices = natural.texts(), [], [], [], [], []
        files = range(natural.HELDOUT) if heldout else range(natural.HELDOUT, -(-len(items) // natural.GROUP))
        for k in files:
            if not natural.complete(k, audio=heard) or (limit and len(self.seen) >= limit):
                break
            wavs = natural.audio(k) if heard else [None] * natural.GROUP
            for item, (x, f0, steps), wav in zip(items[k * natural.GROUP:], natural.read(k), wavs):
                frames = natural.Frames(steps)
                track = frames.track(f0)
                self.seen.append(frames.points(x).astype(np.float16))
                self.wavs.append(wav)
                self.labels.append(frames.labels(item[2], steps))
                self.tracks.append(track)
                self.voices.append(item[0])
        self.frames = np.array([len(label) for label in self.labels])

    def __len__(self):
        return len(self.frames)

    def late(self, i, first, last):
        """What code2wav must say to the frames `first` up to, not including, `last`."""
        import natural
        late = natural.DELAY * SAMPLE_RATE // natural.kokoro.RATE
        start, end = first * FRAME - late, last * FRAME - late
        wav = self.wavs[i][max(0, start):end].astype(np.float32) / 32768
        return np.concatenate([np.zeros(end - start - len(wav), np.float32), wav])

    def crop(self, i, at):
        """(features [INPUT, 4 CROP], audio [CROP * FRAME] if there is some, labels)"""
        wav = self.wavs[i] if self.wavs[i] is not None else np.zeros(0, np.int16)
        return (self.seen[i][4 * at:4 * (at + CROP)].T.astype(np.float32), wav[at * FRAME:(at + CROP) * FRAME].astype(np.float32) / 32768,
                self.labels[i][at:at + CROP])


def crops(audio, rng, batch):
    """(what the encoder sees, audio, labels)"""
    seen, wavs, labels = [], [], []
    while len(wavs) < batch:
        i = rng.integers(len(audio))
        if audio.frames[i] < CROP:
            continue
        at = rng.integers(audio.frames[i] - CROP + 1)
        for found, x in zip((seen, wavs, labels), audio.crop(i, at)):
            found.append(x)
    move = lambda x: torch.from_numpy(np.stack(x)).to(device())
    return move(seen), move(wavs), move(labels).long()


def losses(model, seen, x, labels, quantised=True):
    """`x`: the spectra that the decoder must give."""
    with autocast():
        latent = model.latent(seen)
        if quantised:
            with torch.autocast(device().type, enabled=False):          # the nearest code in float32, as codes are made
                total, first, codes, commit = model.quantise(latent)
        else:
            total = first = latent
            commit, codes = latent.float().square().mean() * 1e-2, None
        y = model.decoder(total).float()
        ce = F.cross_entropy(model.phoneme_all(total).float(), labels)
        ce_first = F.cross_entropy(model.phoneme_first(first).float(), labels)
    mel = (x - y).abs().mean() * 2
    loss = mel + 0.15 * ce + 0.15 * ce_first + 0.25 * commit
    return loss, dict(mel=mel, phoneme=ce, phoneme0=ce_first, commit=commit), codes


def train(args):
    setup()
    torch.manual_seed(1)
    audio, val, more = Spoken(), Spoken(heldout=True), Spoken(limit=args.utterances, heard=False)
    phonemes = len(json.loads((WORK / "phonemes.json").read_text())) + 1
    model = Codec(phonemes)
    some = np.concatenate(more.seen[:500]).astype(np.float32)
    model.mean.copy_(torch.from_numpy(some.mean(0)))
    model.scale.copy_(1 / torch.from_numpy(some.std(0)).clamp(min=1e-2))
    print(f"codec: {more.frames.sum() / 90000:.2f} hours, {audio.frames.sum() / 90000:.2f} of them with audio", flush=True)
    model.to(device())
    spectra = Spectra(model).to(device())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=1e-3)
    rng = np.random.default_rng(11)
    progress = Progress("codec", args.steps, args.seconds)
    state = load_checkpoint(WORK / "codec.pt")
    if state:
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        progress = Progress("codec", args.steps, args.seconds, state["step"], state["elapsed"])
        rng = np.random.default_rng(11 + state["step"])
    else:
        spectra.learn(audio, val, args.spectra)
    known = (state or {}).get("spectra")
    if known:
        spectra.load_state_dict(known)
        spectra.eval()

    def batch():
        """Half of the crops have the spectra of their audio, the others those that `spectra` tells."""
        seen, wav, labels = crops(audio, rng, args.batch // 2)
        others, _, more_labels = crops(more, rng, args.batch - args.batch // 2)
        with torch.no_grad():
            x = torch.cat([model.spectra(wav), spectra(others)])
        return torch.cat([seen, others]), x, torch.cat([labels, more_labels])

    warm = 2 if SMOKE else 150              # steps without quantisation
    saved = time.time()
    while not progress.done():
        for group in opt.param_groups:
            group["lr"] = 1e-3 * schedule(progress.fraction)
        model.train()
        if progress.step == warm:
            with torch.no_grad(), autocast():
                latents = [model.latent(x).float() for x, _, _ in (crops(more, rng, 48) for _ in range(6))]
            model.quantiser.start(torch.cat(latents).transpose(1, 2).reshape(-1, LATENT))
        loss, parts, _ = losses(model, *batch(), progress.step >= warm)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        progress.tick(loss=loss, **parts)
        if progress.step % 500 == 0:
            model.eval()
            with torch.no_grad():
                seen, wav, labels = crops(val, np.random.default_rng(5), 64)
                _, parts, codes = losses(model, seen, model.spectra(wav), labels)
            used = [len(torch.unique(codes[..., q])) for q in range(BOOKS)]
            print("codec val", {k: round(float(v), 3) for k, v in parts.items()}, "used", used, flush=True)
        if time.time() - saved > 120 or progress.done():
            saved = time.time()
            save_checkpoint(WORK / "codec.pt", model=model.state_dict(), spectra=spectra.state_dict(), opt=opt.state_dict(), step=progress.step, elapsed=progress.elapsed)
    progress.finish()


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=1300)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--utterances", type=int, default=3000, help="of those without audio")
    ap.add_argument("--spectra", type=int, default=600, help="steps in which the spectra of those are learnt")
    train(ap.parse_args())
