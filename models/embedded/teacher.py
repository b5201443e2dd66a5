"""The teacher: espeak-ng through its C library, resampled to 16 kHz, with phoneme times.

Every utterance starts with LEAD_FRAMES silent frames, the speech begins exactly on a frame
boundary, and TAIL_FRAMES silent frames follow it.
"""
import ctypes
import math

import numpy as np
from scipy.signal import firwin, upfirdn

from common import FRAME, LEAD_FRAMES, SAMPLE_RATE, TAIL_FRAMES, VOICES

SYNCHRONOUS, PHONEME_EVENTS = 2, 1
RATE, VOLUME, PITCH, RANGE = 1, 2, 3, 4
EVENT_END, EVENT_PHONEME = 0, 7
CHARS_UTF8 = 1
PEAK = 0.86                  # louder utterances are scaled down to this


class _Event(ctypes.Structure):
    class Id(ctypes.Union):
        _fields_ = [("number", ctypes.c_int), ("string", ctypes.c_char * 8)]
    _fields_ = [("type", ctypes.c_int), ("unique", ctypes.c_uint), ("text_position", ctypes.c_int),
                ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
                ("user_data", ctypes.c_void_p), ("id", Id)]


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class Teacher:
    """One instance per process (the library is global)."""

    def __init__(self):
        self.lib = ctypes.CDLL("libespeak-ng.so.1")
        self.rate = self.lib.espeak_Initialize(SYNCHRONOUS, 0, None, PHONEME_EVENTS)
        assert self.rate > 0, "espeak-ng did not start"
        self.chunks, self.events = [], []
        self.callback = _Callback(self._receive)
        self.lib.espeak_SetSynthCallback(self.callback)
        self.voice = None
        g = math.gcd(self.rate, SAMPLE_RATE)
        self.up, self.down = SAMPLE_RATE // g, self.rate // g
        half = 16 * self.down          # 16 zero crossings a side
        cut = 0.94 * min(1 / self.up, 1 / self.down)
        self.filter = (firwin(2 * half + 1, cut, window=("kaiser", 9.0)) * self.up).astype(np.float32)
        self.delay = half

    def _receive(self, wav, count, events):
        if count > 0:
            self.chunks.append(np.ctypeslib.as_array(wav, (count,)).copy())
        i = 0
        while events[i].type != EVENT_END:
            if events[i].type == EVENT_PHONEME:
                self.events.append((events[i].sample, events[i].id.string.decode("utf-8", "replace")))
            i += 1
        return 0

    def _select(self, voice):
        if self.voice == voice:
            return
        name, pitch, rng, wpm = VOICES[voice]
        assert self.lib.espeak_SetVoiceByName(name.encode()) == 0, name
        for parameter, value in ((RATE, wpm), (PITCH, pitch), (RANGE, rng), (VOLUME, 100)):
            self.lib.espeak_SetParameter(parameter, value, 0)
        self.voice = voice

    def _resample(self, x):
        n = math.ceil(len(x) * self.up / self.down)
        y = upfirdn(self.filter, x, self.up, self.down)
        # output sample k of upfirdn sits at k*down in the upsampled grid; the filter delays by half
        start = round(self.delay / self.down)
        return y[start:start + n]

    def say(self, text, voice):
        """-> (int16 samples, a whole number of frames; [(frame position as float, phoneme)])"""
        self._select(voice)
        self.chunks.clear()
        self.events.clear()
        data = text.encode() + b"\0"
        self.lib.espeak_Synth(data, len(data), 0, 1, 0, CHARS_UTF8, None, None)
        raw = np.concatenate(self.chunks).astype(np.float32) / 32768 if self.chunks else np.zeros(0, np.float32)
        loud = np.flatnonzero(np.abs(raw) > 0.003)
        first, last = (loud[0], loud[-1] + 1) if len(loud) else (0, 0)
        first = max(0, first - 64)
        wav = self._resample(raw[first:last])
        peak = np.abs(wav).max(initial=0.0)
        if peak > PEAK:
            wav = wav * (PEAK / peak)
        speech = math.ceil(len(wav) / FRAME)
        out = np.zeros((LEAD_FRAMES + speech + TAIL_FRAMES) * FRAME, np.float32)
        out[LEAD_FRAMES * FRAME:LEAD_FRAMES * FRAME + len(wav)] = wav
        scale = SAMPLE_RATE / self.rate / FRAME
        events = [(LEAD_FRAMES + max(0, s - first) * scale, p) for s, p in self.events]
        return np.round(out * 32767).astype(np.int16), events
