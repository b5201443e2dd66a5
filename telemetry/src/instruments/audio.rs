//! Audio that a listener gets from one replica of the last stage.

use std::time::Duration;

use metrics::{Counter, Histogram};

use crate::families as f;
use crate::meter::Meter;
use crate::records::{AudioRecord, Replica};

/// Worst underruns, in milliseconds, up to which a request counts as continuous (inclusive).
const THRESHOLDS: [(u64, &str); 1] = [(100, "100")];

/// Records audio. One per replica of the stage that gives it.
#[derive(Debug)]
pub struct AudioInstruments {
    first_packet: Histogram,
    duration: Histogram,
    rtf: Histogram,
    frames: Counter,
    underrun: Histogram,
    continuous: [Counter; THRESHOLDS.len()],
    skipped: Counter,
    gap: Histogram,
    lead: Histogram,
    level: Histogram,
}

impl AudioInstruments {
    /// Instruments for that replica.
    pub fn new(meter: &Meter, replica: Replica) -> Self {
        let (stage, replica) = replica.ids();
        let at = [stage.as_str(), replica.as_str()];
        let [stage, replica] = at;
        let threshold =
            |(_, label)| meter.counter(f::OMNI_AUDIO_CONTINUITY_OK_TOTAL, [stage, replica, label]);
        let skipped = [stage, replica, "no_audio_data"];
        Self {
            first_packet: meter.histogram(f::OMNI_AUDIO_TTFP_S, at),
            duration: meter.histogram(f::OMNI_AUDIO_DURATION_S, at),
            rtf: meter.histogram(f::OMNI_AUDIO_RTF, at),
            frames: meter.counter(f::OMNI_AUDIO_FRAMES_TOTAL, at),
            underrun: meter.histogram(f::OMNI_AUDIO_UNDERRUN_S, at),
            continuous: THRESHOLDS.map(threshold),
            skipped: meter.counter(f::OMNI_AUDIO_SKIPPED_REQUESTS_TOTAL, skipped),
            gap: meter.histogram(f::OMNI_AUDIO_CHUNK_GAP_S, at),
            lead: meter.histogram(f::OMNI_AUDIO_PLAYBACK_LEAD_S, at),
            level: meter.histogram(f::OMNI_AUDIO_LEVEL_RATIO, at),
        }
    }

    /// A request's first audio was handed to the transport, `since_arrival` after it arrived.
    pub fn first_packet(&self, since_arrival: Duration) {
        self.first_packet.record(since_arrival);
    }

    /// A further chunk was handed to the transport, `gap` after the previous one, with `lead` of audio unplayed.
    pub fn next_chunk(&self, gap: Duration, lead: Duration) {
        self.gap.record(gap);
        self.lead.record(lead);
    }

    /// A request ended, streamed or not, aborted or not. Called once for each that asked for audio.
    pub fn finished(&self, record: &AudioRecord) {
        let seconds = record.frames as f64 / f64::from(record.sample_rate.max(1));
        if record.frames > 0 {
            self.frames.increment(record.frames);
            self.duration.record(seconds);
            // A request that was cut off has sent less than was generated. No stage generated the silence of a text
            // with nothing to speak.
            if record.complete {
                self.rtf.record(record.generation.as_secs_f64() / seconds);
            }
        } else if record.complete {
            self.skipped.increment(1);
        }
        if let Some(level) = record.level {
            self.level.record(level);
        }
        if let Some(worst) = record.worst_underrun {
            self.underrun.record(worst);
            for ((limit, _), counter) in THRESHOLDS.iter().zip(&self.continuous) {
                if worst <= Duration::from_millis(*limit) {
                    counter.increment(1);
                }
            }
        }
    }
}
