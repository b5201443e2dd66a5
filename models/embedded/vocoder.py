"""Stage `vocoder`: code2wav (the reference class itself) learns the teacher's audio from the codec's codes.

The reference trims its transposed convolutions on both sides: F frames give F * FRAME - TRIM samples,
aligned with the start of the first frame, so every sample may use TRIM samples of look-ahead.

The teacher's waveform follows from the codes up to its noise, for they tell the phase (`pitch.py`): so a part of the
loss compares complex spectra, and voiced sounds learn their harmonics from it.
"""
import argparse
import functools
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import angles
import codec
import sound
from audio import hann, mel_matrix
from common import CODEBOOK_SIZE, CODEBOOKS, FRAME, SAMPLE_RATE, SMOKE, WORK, Progress, autocast, blend, check_blend, device, load_checkpoint, save_checkpoint, schedule, setup
from config import VOCODER, omni_config
from muon import Optimisers, split

CONTEXT = 8             # frames before the scored part of a crop
SCORED = 24
TRIM = functools.reduce(lambda trim, rate: (trim + 1) * rate, VOCODER["rates"], 0)
JUDGED = (512, 1024, 2048)      # windows of the discriminators of spectra
PERIODS = (2, 3, 5, 7, 11)      # of those of waveforms
RESOLUTIONS = (128, 256, 512, 1024, 2048)
COMPLEX = (256, 512, 1024)      # windows of the complex part
FOLLOWED = 2500                 # Hz up to which phases are asked for: above, what cannot be foretold would be learnt as silence
SETTLING = 0.05                 # fraction of a run that goes on in which only the head of the angles, which an export drops, learns from their loss
QUIET = 1e-3            # magnitudes far below this count as silence


# sin(pi r)^2 and sin(2 pi r) / r as polynomials of r^2 for |r| <= 1/2, to 4e-7
SQUARE = (3.946088e-7, 9.869490177882025, -32.46432871051728, 42.6358107671554, -29.395246060086244, 10.53555281384786)
DOUBLE = (6.283184916495429, -41.34158923268874, 81.59994332978829, -76.6144725313102, 41.34288235484917, -12.471243535490528)


def horner(s, coefficients):
    y = coefficients[-1]
    for c in coefficients[-2::-1]:
        y = y * s + c
    return y


def turns(x, alpha):
    u = x.float() * (alpha.exp() / math.pi)[None, :, None]
    r = u - u.round()
    return r, r * r


def snake_forward(x, alpha, beta):
    _, s = turns(x, alpha)
    return (x.float() + horner(s, SQUARE) * (-beta).exp()[None, :, None]).to(x.dtype)


def snake_backward(g, x, alpha, beta):
    r, s = turns(x, alpha)
    g, y = g.float(), x.float()
    double = r * horner(s, DOUBLE) * (alpha.exp() * (-beta).exp())[None, :, None]
    return ((g * (1 + double)).to(x.dtype), (g * y * double).sum((0, 2)), -(g * horner(s, SQUARE)).sum((0, 2)) * (-beta).exp())


class Snake(torch.autograd.Function):
    """The reference's activation x + sin(e^alpha x)^2 / e^beta, fused, with sines that a processor computes many at a time."""

    forward_fused = torch.compile(snake_forward, dynamic=True)
    backward_fused = torch.compile(snake_backward, dynamic=True)

    @staticmethod
    def forward(ctx, x, alpha, beta):
        ctx.save_for_backward(x, alpha, beta)
        return Snake.forward_fused(x, alpha, beta)

    @staticmethod
    def backward(ctx, g):
        return Snake.backward_fused(g, *ctx.saved_tensors)


def build(fast=False):
    """The reference class. `fast` fuses its activation and keeps the activations in bfloat16, for training."""
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference
    model = reference.Qwen3OmniMoeCode2Wav._from_config(omni_config().code2wav_config)
    if fast and not SMOKE:
        for m in model.modules():
            if isinstance(m, reference.SnakeBeta):
                m.forward = lambda x, m=m: Snake.apply(x, m.alpha, m.beta)
    return model


def is_transposed(name):
    return ".block.1." in name or (name.startswith("upsample") and ".0.conv" in name)


def is_matrix(name, p):
    """What Muon trains: matrices and convolution kernels, but no tables and nothing of one row."""
    return p.dim() >= 2 and "embedding" not in name and min(p.shape[:2]) > 1


def first_projection(books):
    """A matrix [LATENT, width] that turns the codec's vectors into code embeddings of unit scale."""
    project = nn.init.orthogonal_(torch.empty(books.shape[-1], VOCODER["width"]))
    return project * CODEBOOKS / (books[0] @ project).square().mean().sqrt()


def pitch_table():
    """Rows [2, CODEBOOK_SIZE, width] of advance and phase, as angles: what a frame adds to the phase at its quarters, and where it ends."""
    from pitch import PHASES, UNVOICED
    turn = 2 * torch.pi * torch.arange(CODEBOOK_SIZE)[:, None] / PHASES
    waves = lambda speeds: torch.cat([f(turn * torch.tensor(speeds)) for f in (torch.sin, torch.cos)], 1)
    advance = waves([0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5])
    advance[UNVOICED] = 0
    phase = waves([1.0, 2.0, 3.0, 4.0])
    out = torch.stack([x @ nn.init.orthogonal_(torch.empty(x.shape[1], VOCODER["width"])) for x in (advance, phase)])
    return out * CODEBOOKS / out.square().mean((1, 2), keepdim=True).sqrt()


def code_table(books, project):
    """Code embeddings [CODEBOOKS * CODEBOOK_SIZE, width] from the codec's own vectors."""
    rows = books @ project
    return torch.cat([rows[:1], pitch_table(), rows[1:]]).flatten(0, 1)


def initialise(model, books, project):
    """Unit-scale activations, a quiet output, code embeddings from the codec's own vectors."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("scale", "gamma")):
                p.fill_(0.1)
            elif name.endswith(("alpha", "beta", "bias")):
                p.zero_()
            elif "code_embedding" in name:
                p.copy_(code_table(books, project))
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
    return second_half(model, angles.first_half(model, codes))


def second_half(model, h):
    with autocast():
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


def complex_loss(y, x):
    """Distance of spectra with their phases, magnitudes compressed by a root so that quiet harmonics count."""
    total = 0.0
    for n in COMPLEX:
        parts = []
        for w in (y, x):
            c = torch.stft(w, n, n // 4, n, hann(n).to(w.device), return_complex=True)[:, :n * FOLLOWED // SAMPLE_RATE] / n ** 0.5
            size = torch.sqrt(c.real.square() + c.imag.square() + 1e-6)
            parts.append(torch.view_as_real(c) / size.sqrt().unsqueeze(-1))
        total = total + (parts[0] - parts[1]).square().mean() / parts[1].square().mean()
    return total / len(COMPLEX)


def bandpass(x, low, high):
    """x [B, N] with the frequencies from low to high in Hz, as `sound.band` has them: a Butterworth filter of order 4, forth and back."""
    hertz = torch.fft.rfftfreq(x.shape[-1], 1 / SAMPLE_RATE, device=x.device).clamp(min=1e-3)
    gain = 1 / (1 + ((hertz.square() - low * high) / (hertz * (high - low))).pow(8))
    return torch.fft.irfft(torch.fft.rfft(x) * gain, x.shape[-1])


def autocorrelation(f, lags):
    """`sound.autocorrelation` of frames f [..., N]: [..., lags]; its 1e-12 would give the gradients of silence a norm of 30."""
    n = f.shape[-1]
    product = torch.fft.irfft(torch.fft.rfft(f, 2 * n).abs().square())[..., lags]
    energy = F.pad(f.square().cumsum(-1), (1, 0))
    return product / torch.sqrt(energy[..., n - lags] * (energy[..., -1:] - energy[..., lags]) + 1e-8)


def periodicity_loss(y, x):
    """Mean difference of y and x [B, N] in what `sound.measure` calls the periodicity of the high band, over the loud and voiced frames of x."""
    cut = lambda w: w.unfold(-1, round(sound.WINDOW * SAMPLE_RATE), round(sound.HOP * SAMPLE_RATE))
    lags = torch.arange(*(round(t * SAMPLE_RATE) for t in sound.LAGS), device=x.device)
    with torch.no_grad():
        level = 10 * torch.log10(cut(x).square().mean(-1) + 1e-10)
        low = autocorrelation(cut(bandpass(x, *sound.LOW)), lags)
        use = (level > level.amax(-1, keepdim=True) + sound.LOUD) & (low.amax(-1) >= sound.VOICED)
        near = (low.argmax(-1, keepdim=True) + torch.arange(-2, 3, device=x.device)).clamp(0, len(lags) - 1)[use]
    if not use.any():                                # nothing voiced in these crops
        return y.new_zeros(())
    at_period = lambda w: autocorrelation(cut(bandpass(w, *sound.HIGH))[use], lags).gather(-1, near).amax(-1)
    with torch.no_grad():
        wanted = at_period(x)
    return (at_period(y) - wanted).abs().mean()


def crops(audio, codes, rng, batch, known=None):
    """(audio, codes, and what is `known` of the angles) of random places."""
    length = CONTEXT + SCORED
    wavs, picked, turns = [], [], []
    while len(wavs) < batch:
        i = rng.integers(len(audio))
        if audio.frames[i] < length:
            continue
        at = rng.integers(audio.frames[i] - length + 1)
        turns.append(known and tuple(x[angles.STEPS * at:angles.STEPS * (at + length)] for x in known[i]))
        wavs.append(audio.late(i, at, at + length)[:-TRIM])
        picked.append(codes[i][at:at + length])
    move = lambda x: torch.from_numpy(np.stack(x)).to(device())
    return move(wavs), move(picked).long(), known and [move(x) for x in zip(*turns)]


def load(path=None, average=True):
    state = load_checkpoint(path or WORK / "vocoder.pt")
    model = build()
    model.load_state_dict(state["average" if average else "model"])
    return model.to(device()).eval()


@torch.no_grad()
def decode(model, codes):
    """codes [T, CODEBOOKS] -> float waveform, in one pass over the whole sequence."""
    return model(torch.as_tensor(np.asarray(codes)).long().T[None].to(device()))[0, 0].cpu().numpy()


class Run:
    """Everything that a run keeps: networks, optimisers, averages."""

    def __init__(self, args):
        self.args = args
        books = codec.load().quantiser.codes.cpu()
        self.model = build(fast=True)
        initialise(self.model, books, first_projection(books))
        self.goes_on = bool(args.start) and codec.made_for(args.start)
        if self.goes_on:
            self.model.load_state_dict({k.removeprefix("code2wav."): v.float() for k, v in load_file(f"{args.start}/model.safetensors").items()
                                        if k.startswith("code2wav.")})
        self.model.to(device())
        matrices, others = split(self.model, is_matrix)
        taught = {id(p) for p in angles.parameters(self.model)}
        special = {id(self.model.decoder[-1].conv.weight), id(self.model.decoder[-1].conv.bias), id(self.model.code_embedding.weight)}
        self.others = [p for p in others if id(p) not in special]
        for name, p in self.model.named_parameters():
            p.transposed = is_transposed(name)
        self.opt = Optimisers([p for p in matrices if id(p) not in taught], self.others, muon=args.muon, adam=args.adam, weight_decay=0.0, keep_norm=True)
        self.opt.add_matrices([p for p in matrices if id(p) in taught], args.first * args.muon, keep_norm=True)
        self.opt.add(list(self.model.decoder[-1].parameters()), 0.1 * args.adam)
        self.opt.add([self.model.code_embedding.weight], 3 * args.adam)
        self.judge = Discriminators(args.width).to(device()).to(memory_format=torch.channels_last)
        self.judge_opt = torch.optim.AdamW(self.judge.parameters(), lr=args.adam, betas=(0.8, 0.98), weight_decay=1e-3)
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()}
        check_blend(args.blend, self.goes_on)
        self.before = {k: v.clone() for k, v in self.average.items()} if args.blend else {}
        self.head, self.known = angles.Head().to(device()), None
        self.opt.add(list(self.head.parameters()), args.adam)
        self.progress = Progress("vocoder", args.steps, args.seconds)
        state = load_checkpoint(WORK / "vocoder.pt")
        self.fresh = not state
        if state:
            self.restore(state)

    def restore(self, state):
        for name in ("model", "opt", "head", "judge", "judge_opt"):
            getattr(self, name).load_state_dict(state[name])
        self.average, self.before = ({k: v.to(device()) for k, v in state[name].items()} for name in ("average", "before"))
        self.progress = Progress("vocoder", self.args.steps, self.args.seconds, state["step"], state["elapsed"])

    def end(self):
        """Blends the averaged weights with those that the run went on from."""
        blend(self.average, self.before, self.args.blend)
        self.save()

    def save(self):
        save_checkpoint(WORK / "vocoder.pt", model=self.model.state_dict(), average=self.average, before=self.before, opt=self.opt.state_dict(), head=self.head.state_dict(), judge=self.judge.state_dict(),
                        judge_opt=self.judge_opt.state_dict(), step=self.progress.step, elapsed=self.progress.elapsed)

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
        self.model.train()
        start = CONTEXT * FRAME
        x, c, turns = crops(audio, codes["train"], rng, self.args.batch, self.known)
        held = self.progress.fraction < self.args.held
        hidden = angles.first_half(self.model, c)
        y = second_half(self.model, hidden.detach() if held else hidden)
        x, y = x[:, start:], y[:, start:]
        loss = spectral_loss(y, x)
        total = loss + 10 * F.relu(y.abs() - 0.98).mean()       # never lean on the clamp
        settling = self.goes_on and self.progress.fraction < SETTLING
        rest, spectra = self.head.loss(hidden.detach() if settling else hidden, *turns)
        parts = dict(angles=rest.mean(), spectra=spectra)
        total = total + self.args.angles * (rest.mean() + 2 * spectra)
        if self.args.complex:
            parts["complex"] = complex_loss(y, x)
            total = total + self.args.complex * parts["complex"]
        if self.args.periodic:
            parts["periodic"] = periodicity_loss(y, x)
            total = total + self.args.periodic * parts["periodic"]
        if self.progress.fraction >= self.args.adversarial:
            guided, verdict = self.adversarial(x, y)
            parts.update(verdict)
            total = total + guided
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.others, 1.0)
        self.opt.step(scale)
        with torch.no_grad():
            keep = min(0.998, (1 + self.progress.step) / (10 + self.progress.step))
            for k, v in self.model.state_dict().items():
                self.average[k].lerp_(v, 1 - keep) if v.is_floating_point() else self.average[k].copy_(v)
        self.progress.tick(loss=loss, norm=norm, **parts)


def train(args):
    setup()
    torch.manual_seed(3)
    audio, val = codec.Spoken(limit=args.utterances), codec.Spoken(heldout=True)
    run = Run(args)
    progress = run.progress
    coder = codec.load()
    codes = {name: [coder.whole(x, t) for x, t in zip(s.seen, s.tracks)] for name, s in (("train", audio), ("val", val))}
    run.known = [angles.places(t, audio.late(i, 0, n), n, TRIM) for i, (t, n) in enumerate(zip(audio.tracks, audio.frames))]
    if run.fresh and args.half and not run.goes_on:
        angles.teach(run.model, run.head, codes["train"], run.known, args.half)
        run.average = {k: v.clone() for k, v in run.model.state_dict().items()}
        run.save()
    print(f"vocoder: {len(audio)} utterances, {audio.frames.sum() / 90000:.2f} hours", flush=True)
    rng = np.random.default_rng(13 + progress.step)
    saved = time.time()
    while not progress.done():
        run.step(audio, codes, rng)
        if progress.step % 500 == 0:
            run.model.eval()
            with torch.no_grad():
                start = CONTEXT * FRAME
                x, c, _ = crops(val, codes["val"], np.random.default_rng(5), 24)
                y, x = forward(run.model, c)[:, start:], x[:, start:]
                print("vocoder val %.4f complex %.4f periodic %.4f" % (spectral_loss(y, x), complex_loss(y, x), periodicity_loss(y, x)), flush=True)
        if progress.fraction >= 1:
            run.end()
        elif time.time() - saved > 180 or progress.done():
            saved = time.time()
            run.save()
    progress.finish()


if __name__ == "__main__":
    gpu = torch.cuda.is_available()
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=4000)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--from", dest="start", help="go on from code2wav of this checkpoint, unless the codec is another one")
    ap.add_argument("--batch", type=int, default=32 if gpu else 6)
    ap.add_argument("--utterances", type=int, default=0, help="how much of the teacher's audio to use; 0: all")
    ap.add_argument("--muon", type=float, default=0.012)
    ap.add_argument("--complex", type=float, default=0.5, help="weight of the spectra with their phases")
    ap.add_argument("--periodic", type=float, default=1.0, help="weight of how periodic voiced sounds are above 1 kHz")
    ap.add_argument("--blend", type=float, default=0.0, help="share of the weights of --from in those that the run ends with")
    ap.add_argument("--adam", type=float, default=1e-3)
    ap.add_argument("--adversarial", type=float, default=0.5,
                    help="fraction of the run after which the discriminators join; above 1: never")
    ap.add_argument("--half", type=int, default=800, help="steps in which the first half learns the angles before everything is trained")
    ap.add_argument("--held", type=float, default=0.1, help="fraction of the run in which that half learns nothing else")
    ap.add_argument("--first", type=float, default=0.35, help="learning rate of its matrices over those of the other half: at the full one it loses the angles within 50 steps")
    ap.add_argument("--angles", type=float, default=3.0, help="weight of the angles after that")
    ap.add_argument("--width", type=int, default=32 if gpu else 16, help="channels of the discriminators")
    ap.add_argument("--fool", type=float, default=0.1, help="weight of the discriminators' verdict")
    ap.add_argument("--match", type=float, default=0.5, help="weight of matching their features")
    train(ap.parse_args())
