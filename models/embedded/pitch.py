"""The pitch of the natural voices as two codes a frame, and the phase that follows from them.

A voiced frame lasts a whole number of `1 / PHASES` cycles of its fundamental (book `advance`), so the phase at the end of
every frame is one of PHASES values (book `phase`): the last one plus the advance. The teacher's harmonic source is given
exactly this phase (`Track.cycles`), so that its waveform, not just its spectrum, follows from the codes: code2wav need not
invent a phase, which a network without a memory of its own cannot keep.
"""
import numpy as np
from scipy.interpolate import CubicHermiteSpline

from common import CODEBOOK_SIZE

PHASES = 16                  # values of a phase
REST = 5                     # what an unvoiced frame adds to it: code2wav is told frames of noise apart by it
UNVOICED = 0                 # the advance of an unvoiced frame
VOICED = 10.0                # Hz: the teacher's own threshold


class Track:
    """f0 [T] in Hz at `step` samples of `rate`; frames of `size` samples from sample `first` on (it may be negative)."""

    def __init__(self, f0, step, rate, first, size, frames):
        self.origin = first
        # where a sound begins or ends the teacher's curve falls towards zero: the pitch beside it is held there
        points = np.flatnonzero(f0 > 0.6 * np.median(f0[f0 > VOICED])) if (f0 > VOICED).any() else []
        samples = len(f0) * step
        self.voiced = np.repeat(f0 > VOICED, step)
        at = np.arange(samples)
        smooth = np.interp(at, (points + 0.5) * step, f0[points]) if len(points) else np.full(samples, 100.0)
        cycles = np.concatenate([[0.0], np.cumsum(smooth / rate)])
        edges = np.clip(first + np.arange(frames + 1) * size, 0, samples)
        share = np.diff(np.concatenate([[0], np.cumsum(self.voiced)])[edges]) / size
        self.advance, self.phase = np.zeros(frames, np.int16), np.zeros(frames, np.int16)
        self.cycles = np.full(samples, np.nan)
        runs = self._runs(share >= 0.5)
        phase, n = 0, 0
        known = []                                  # (first sample, last sample, phase there, phase here) of every run
        for start, end in runs:
            for k in range(n, start):
                phase += REST
                self.phase[k] = phase % PHASES
            wanted = PHASES * (cycles[edges[start:end + 1]] - cycles[edges[start]])
            whole = np.round(wanted).astype(int)
            steps = np.clip(np.diff(whole), 1, CODEBOOK_SIZE - 1)
            total = phase % PHASES + np.concatenate([[0], np.cumsum(steps)])
            self.advance[start:end] = steps
            self.phase[start:end] = total[1:] % PHASES
            phase = int(total[-1])
            slope = np.concatenate([[steps[0]], (steps[1:] + steps[:-1]) / 2, [steps[-1]]]) / size
            x = first + np.arange(start, end + 1) * size
            inside = np.arange(edges[start], edges[end])
            self.cycles[inside] = CubicHermiteSpline(x, total / PHASES, slope / PHASES)(inside)
            known.append((edges[start], edges[end], total[0] / PHASES, total[-1] / PHASES))
            n = end
        for k in range(n, frames):
            phase += REST
            self.phase[k] = phase % PHASES
        self._bridge(known, cycles, samples)

    @staticmethod
    def _runs(mask):
        edge = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
        return list(zip(edge[::2], edge[1::2]))

    def _bridge(self, known, cycles, samples):
        """Outside the runs the phase goes on as it was after the last one, then as it must be before the next one."""
        at = 0
        for k, (start, end, begin, _) in enumerate([*known, (samples, samples, None, None)]):
            if at < start:
                silent = np.flatnonzero(~self.voiced[at:start])
                middle = at + (silent[np.abs(silent - (start - at) / 2).argmin()] if len(silent) else (start - at) // 2)
                middle = at if not k else start if begin is None else middle
                if k:
                    self.cycles[at:middle] = known[k - 1][3] + cycles[at:middle] - cycles[at]
                if begin is not None:
                    self.cycles[middle:start] = begin + cycles[middle:start] - cycles[start]
            at = end
        self.cycles = np.nan_to_num(self.cycles)

    def harmonics(self, count=9, level=0.1):
        """The teacher's source: [samples, count]"""
        turn = 2 * np.pi * np.mod(self.cycles, 1.0)[:, None] * np.arange(1, count + 1)
        return (level * np.sin(turn) * self.voiced[:, None]).astype(np.float32)
