"""What a spectrogram shows, as figures: how periodic voiced sounds are, and how loud each band is.

A frame is loud when its level is within 30 dB of the loudest of its utterance, and voiced when its band of 80 to 900 Hz
repeats itself (autocorrelation of at least 0.7) after some time between 2.5 and 14 ms.
"""
import numpy as np
from scipy.signal import butter, sosfiltfilt

WINDOW, HOP = 0.040, 0.010                           # seconds
LAGS = 0.0025, 0.014                                 # periods of 400 and 71 Hz
LOW, HIGH = (80, 900), (1000, 3800)                  # Hz
BANDS = ((80, 500), (500, 1000), (1000, 2000), (2000, 4000), (4000, 7600))
LOUD, VOICED, CLEAR = -30.0, 0.7, 0.85


def band(x, rate, low, high):
    return sosfiltfilt(butter(4, (low, min(high, 0.495 * rate)), "bandpass", fs=rate, output="sos"), x)


def frames(x, rate):
    size, hop = round(WINDOW * rate), round(HOP * rate)
    count = max(0, (len(x) - size) // hop + 1)
    return np.stack([x[i * hop:i * hop + size] for i in range(count)]) if count else np.zeros((0, size))


def autocorrelation(f, lags):
    """Normalised by the energies of both parts: [frames, lags], 1 where a frame repeats itself exactly."""
    size = f.shape[1]
    spectrum = np.fft.rfft(f, 2 * size)
    product = np.fft.irfft(np.abs(spectrum) ** 2)[:, :size]
    energy = np.concatenate([np.zeros((len(f), 1)), np.cumsum(f ** 2, 1)], 1)
    head, tail = energy[:, size - lags], energy[:, -1:] - energy[:, lags]
    return product[:, lags] / np.sqrt(head * tail + 1e-12)


def measure(x, rate):
    """-> figures of one utterance, or None when it is silent."""
    x = np.asarray(x, np.float64)
    f = frames(x, rate)
    level = 10 * np.log10(np.mean(f ** 2, 1) + 1e-10) if len(f) else np.zeros(0)
    if not len(level) or level.max() < -60:
        return None
    loud = level > level.max() + LOUD
    lags = np.arange(round(LAGS[0] * rate), round(LAGS[1] * rate))
    low = autocorrelation(frames(band(x, rate, *LOW), rate)[loud], lags)
    best, voiced = low.max(1), low.max(1) >= VOICED
    high = autocorrelation(frames(band(x, rate, *HIGH), rate)[loud], lags)
    # one sample beside the low band's period: the high band's own period is much finer
    near = np.clip(low.argmax(1)[:, None] + np.arange(-2, 3), 0, len(lags) - 1)
    at_period = np.take_along_axis(high, near, 1).max(1)
    levels = {f"{a}-{b}": 10 * np.log10(np.mean(frames(band(x, rate, a, b), rate)[loud] ** 2) + 1e-10) for a, b in BANDS}
    return dict(low=best, clear=best >= CLEAR, high=at_period[voiced], voiced=voiced, level=np.array([10 * np.log10(np.mean(f[loud] ** 2))]),
                **{k: np.array([v]) for k, v in levels.items()})


def summary(utterances):
    """Means over (samples, rate) pairs: periodicities from 0 to 1, shares in per cent, levels in dB of full scale."""
    found = [m for x, rate in utterances if (m := measure(x, rate))]
    if not found:
        return {}
    pool = lambda k: float(np.mean(np.concatenate([m[k] for m in found])))
    return dict(periodicity_low=round(pool("low"), 3), clear=round(100 * pool("clear"), 1), voiced=round(100 * pool("voiced"), 1),
                periodicity_high=round(pool("high"), 3), level=round(pool("level"), 1), bands={f"{a}-{b}": round(pool(f"{a}-{b}"), 1) for a, b in BANDS})
