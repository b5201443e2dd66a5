//! PCM, WAV, chunk cadence and the playback-continuity simulation. No async, no tensors.
