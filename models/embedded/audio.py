"""Spectral features in torch: log-mels and short-time spectra aligned with the codec frames."""
import functools
import math

import torch
import torch.nn.functional as F

from common import FRAME, SAMPLE_RATE

HOP = FRAME // 4                                     # four spectra a frame
WINDOW, SIZE = 400, 512


@functools.lru_cache(maxsize=None)
def mel_matrix(bands, n_fft, low=0.0, high=SAMPLE_RATE / 2):
    """Triangular filters of unit height, equally spaced in mel, [bands, n_fft/2+1]."""
    to_mel = lambda f: 2595 * math.log10(1 + f / 700)
    points = torch.linspace(to_mel(low), to_mel(high), bands + 2, dtype=torch.float64)
    hertz = 700 * (10 ** (points / 2595) - 1)
    freqs = torch.linspace(0, SAMPLE_RATE / 2, n_fft // 2 + 1, dtype=torch.float64)
    up = (freqs - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    down = (hertz[2:, None] - freqs) / (hertz[2:] - hertz[1:-1])[:, None]
    m = torch.minimum(up, down).clamp(min=0)
    return (m / m.sum(1, keepdim=True).clamp(min=1e-6)).float()


@functools.lru_cache(maxsize=None)
def hann(n):
    return torch.hann_window(n)


def magnitude(wav, window, hop, n_fft=None):
    """|STFT| of [B, N] with frame j centred on sample (j + 0.5) * hop: [B, bins, N // hop]."""
    n_fft = n_fft or window
    pad = (n_fft - hop) // 2
    x = F.pad(wav, (pad, n_fft - hop - pad))
    w = hann(window).to(wav.device)
    s = torch.stft(x, n_fft, hop, window, w, center=False, return_complex=True)
    return torch.sqrt(s.real.square() + s.imag.square() + 1e-9) / (window ** 0.5)


def log_mel(wav, bands=64, window=WINDOW, hop=HOP, n_fft=SIZE, floor=1e-3):
    m = mel_matrix(bands, n_fft).to(wav.device) @ magnitude(wav, window, hop, n_fft)
    return torch.log(m.clamp(min=floor))
