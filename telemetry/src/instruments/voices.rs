//! Voices that callers keep, and recordings that they bring with requests.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::families as f;
use crate::meter::Meter;

/// The kept form of a voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceKind {
    /// The speaker's vector.
    XVector,
    /// The recording's codec frames with it.
    InContext,
    /// Description in words.
    Description,
}

impl VoiceKind {
    const ALL: [&'static str; 3] = ["x_vector", "in_context", "description"];
    /// Those that are computed of recordings.
    const ENCODED: usize = 2;
}

/// The material of a new voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceMaterial {
    /// A recording.
    Recording,
    /// Description in words.
    Description,
    /// The file of a voice.
    File,
}

impl VoiceMaterial {
    const ALL: [&'static str; 3] = ["recording", "description", "file"];
}

/// The outcome of a request for a voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceCreation {
    /// The voice is kept.
    Kept,
    /// Any other invalid request.
    Invalid,
    /// The recording is silent.
    Silent,
    /// The recording is clipped.
    Clipped,
    /// Nothing in the recording is speech.
    NoSpeech,
    /// There is too little speech in the recording.
    TooShort,
    /// There is too much of it.
    TooLong,
    /// The recording could not be decoded.
    Unreadable,
    /// There is a voice of that name.
    Exists,
    /// The limit of kept voices is reached.
    Full,
    /// As many recordings wait to be encoded as may.
    Busy,
    /// The model makes no voices, or not from this source.
    NotSupported,
    /// The voice is of another model.
    OtherModel,
    /// It could not be written.
    NotStored,
    /// There was no place, no quota or no model.
    NotAdmitted,
    /// It could not be computed.
    Failed,
    /// The caller went away.
    Cancelled,
}

impl VoiceCreation {
    const ALL: [&'static str; 17] = [
        "kept",
        "invalid",
        "silent",
        "clipped",
        "no_speech",
        "too_short",
        "too_long",
        "unreadable",
        "exists",
        "full",
        "busy",
        "not_supported",
        "other_model",
        "not_stored",
        "not_admitted",
        "failed",
        "cancelled",
    ];
}

/// The outcome of a request to delete a voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceDeletion {
    /// It is gone.
    Deleted,
    /// No voice of that name.
    NotFound,
    /// It is shared, and the caller has a key.
    NotOwned,
    /// Its file could not be removed.
    NotStored,
}

impl VoiceDeletion {
    const ALL: [&'static str; 4] = ["deleted", "not_found", "not_owned", "not_stored"];
}

/// The source of a request's voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceProvenance {
    /// It is kept.
    Kept,
    /// The request brought a recording.
    Request,
}

impl VoiceProvenance {
    const ALL: [&'static str; 2] = ["kept", "request"];
}

/// Records voices. One per server.
#[derive(Debug)]
pub struct VoiceInstruments {
    kept: [Gauge; VoiceKind::ALL.len()],
    bytes: Gauge,
    creations: [[Counter; VoiceCreation::ALL.len()]; VoiceMaterial::ALL.len()],
    deletions: [Counter; VoiceDeletion::ALL.len()],
    requests: [[Counter; VoiceKind::ALL.len()]; VoiceProvenance::ALL.len()],
    encodings: Gauge,
    encode: [Histogram; VoiceKind::ENCODED],
    queries: Counter,
    hits: Counter,
    evictions: Counter,
}

impl VoiceInstruments {
    /// Instruments for a server.
    pub fn new(meter: &Meter) -> Self {
        let creation = |origin| {
            VoiceCreation::ALL.map(|result| meter.counter(f::OMNI_VOICE_CREATIONS_TOTAL, [origin, result]))
        };
        let request =
            |source| VoiceKind::ALL.map(|kind| meter.counter(f::OMNI_VOICE_REQUESTS_TOTAL, [source, kind]));
        let [x_vector, in_context, _] = VoiceKind::ALL;
        Self {
            kept: VoiceKind::ALL.map(|kind| meter.gauge(f::OMNI_VOICES, [kind])),
            bytes: meter.gauge(f::OMNI_VOICES_BYTES, []),
            creations: VoiceMaterial::ALL.map(creation),
            deletions: VoiceDeletion::ALL
                .map(|result| meter.counter(f::OMNI_VOICE_DELETIONS_TOTAL, [result])),
            requests: VoiceProvenance::ALL.map(request),
            encodings: meter.gauge(f::OMNI_VOICE_ENCODINGS, []),
            encode: [x_vector, in_context].map(|kind| meter.histogram(f::OMNI_VOICE_ENCODE_S, [kind])),
            queries: meter.counter(f::OMNI_VOICE_CACHE_QUERIES_TOTAL, []),
            hits: meter.counter(f::OMNI_VOICE_CACHE_HITS_TOTAL, []),
            evictions: meter.counter(f::OMNI_VOICE_CACHE_EVICTIONS_TOTAL, []),
        }
    }

    /// Sets the kept voices by kind, and the total size of their files in bytes.
    pub fn kept(&self, voices: impl Fn(VoiceKind) -> usize, bytes: u64) {
        for kind in [VoiceKind::XVector, VoiceKind::InContext, VoiceKind::Description] {
            self.kept[kind as usize].set(voices(kind) as f64);
        }
        self.bytes.set(bytes as f64);
    }

    /// A request for a voice is over.
    pub fn created(&self, of: VoiceMaterial, result: VoiceCreation) {
        self.creations[of as usize][result as usize].increment(1);
    }

    /// A request to delete a voice is over.
    pub fn deleted(&self, result: VoiceDeletion) {
        self.deletions[result as usize].increment(1);
    }

    /// A request uses a voice that is not built in.
    pub fn requested(&self, from: VoiceProvenance, kind: VoiceKind) {
        self.requests[from as usize][kind as usize].increment(1);
    }

    /// A recording waits to be encoded, from now on.
    pub fn encoding_began(&self) {
        self.encodings.increment(1.0);
    }

    /// The encoding has finished, or was cancelled.
    pub fn encoding_ended(&self) {
        self.encodings.decrement(1.0);
    }

    /// A recording became a voice. One of words takes no time.
    pub fn encoded(&self, kind: VoiceKind, took: Duration) {
        if let Some(histogram) = self.encode.get(kind as usize) {
            histogram.record(took);
        }
    }

    /// A recording was looked for in the cache.
    pub fn looked_up(&self, found: bool) {
        self.queries.increment(1);
        self.hits.increment(u64::from(found));
    }

    /// A recording was dropped from the cache for another.
    pub fn evicted(&self) {
        self.evictions.increment(1);
    }
}
