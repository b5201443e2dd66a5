"""Stage `loudness`: the last layer of code2wav, fitted so that every band is as loud as the teacher's.

What is learnt from distances of spectra is too quiet where a spectrum cannot be foretold, above 1 kHz by 2 to 3 dB. A filter that undoes
this needs no layer of its own: the last layer, a convolution, is replaced by the one whose output comes closest to its
filtered output. Another run of the stage begins at the weights that the last one fitted.
"""
import numpy as np
import torch
from scipy.signal import firwin2, minimum_phase
from torch.nn import functional as F

import angles
import codec
import sound
import vocoder
from common import SAMPLE_RATE, WORK, autocast, device, load_checkpoint, save_checkpoint, setup

UTTERANCES = 60         # of the teacher's audio
TAPS = 64               # of the filter
LIMIT = 9               # dB: what needs more is not learnt yet
ROUNDS = 3              # the fit reaches a part of what is asked for: what is left is asked for again
RIDGE = 1e-6            # of the mean square of an input


@torch.no_grad()
def inputs(model, codes):
    """What the last layer sees of the codes [T, CODEBOOKS]: windows [samples, channels * taps], in float32."""
    conv = model.decoder[-1]
    with autocast():
        h = angles.first_half(model, torch.as_tensor(codes).long()[None].to(device()))
        for block in list(model.decoder)[:-1]:
            h = block(h)
    return F.pad(h.float(), (conv.padding, 0)).unfold(2, conv.kernel_size, 1)[0].transpose(0, 1).flatten(1).cpu()


def bands(waves):
    """Levels in dB; those of silence if nothing is heard."""
    found = sound.summary((w, SAMPLE_RATE) for w in waves)
    return np.array([*found["bands"].values()] if found else [-100.0] * len(sound.BANDS))


def filter_of(gains):
    """A filter of minimum phase with these gains (dB) at the middles of `sound.BANDS`, between them straight over the logarithm of the frequency."""
    hz = np.linspace(0, SAMPLE_RATE / 2, 513)
    db = np.interp(np.log(np.maximum(hz, 1)), [np.log((a * b) ** 0.5) for a, b in sound.BANDS], gains)
    return minimum_phase(firwin2(2 * TAPS - 1, hz, 10 ** (db / 20), fs=SAMPLE_RATE), half=False)[:TAPS]


@torch.no_grad()
def fit(model, codes, waves):
    """Replaces the last layer's weights. `waves`: the teacher's audio of these codes. -> (dB by which it is louder before the fit, and after)"""
    conv = model.decoder[-1].conv
    wanted, seen = bands(waves), [inputs(model, c) for c in codes]
    weight = conv.weight.flatten().cpu()
    square = sum(x.T.double() @ x.double() for x in seen)
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square))
    said = [(x @ weight).numpy() for x in seen]
    missing = [wanted - bands(said)]
    gains = np.zeros(len(sound.BANDS))
    for _ in range(ROUNDS):
        gains = np.clip(gains + missing[-1], -LIMIT, LIMIT)
        taps = filter_of(gains)
        taps[0] -= 1
        change = [torch.from_numpy(np.convolve(y, taps)[:len(y)]) for y in said]
        found = weight + torch.linalg.solve(square, sum(x.T.double() @ d for x, d in zip(seen, change))).float()
        missing.append(wanted - bands([(x @ found).numpy() for x in seen]))
    conv.weight.copy_(found.view_as(conv.weight))
    return missing[0], missing[-1]


def main():
    setup()
    spoken, coder, state = codec.Spoken(limit=UTTERANCES), codec.load(), load_checkpoint(WORK / "vocoder.pt")
    model = vocoder.load()
    codes = [coder.whole(x, t) for x, t in zip(spoken.seen, spoken.tracks)]
    before, after = fit(model, codes, [spoken.late(i, 0, n) for i, n in enumerate(spoken.frames)])
    save_checkpoint(WORK / "vocoder.pt", **{**state, "average": model.state_dict()})
    for (low, high), a, b in zip(sound.BANDS, before, after):
        print(f"loudness {low}-{high} Hz: the teacher is {a:.1f} dB louder, {b:.1f} dB after the fit", flush=True)


if __name__ == "__main__":
    main()
