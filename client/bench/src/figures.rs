//! Figures of a request shown as distributions: their names, units and definitions.

use super::record::Record;

/// A figure of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    /// Behind the name; empty for a pure number.
    pub(crate) unit: &'static str,
    /// Factor from seconds to `unit`.
    pub(crate) scale: f64,
    pub(crate) digits: usize,
    pub(crate) value: fn(&Record) -> Option<f64>,
}

impl Figure {
    const fn time(name: &'static str, digits: usize, value: fn(&Record) -> Option<f64>) -> Self {
        Self {
            name,
            unit: "ms",
            scale: 1e3,
            digits,
            value,
        }
    }

    const fn factor(name: &'static str, value: fn(&Record) -> Option<f64>) -> Self {
        Self {
            name,
            unit: "",
            scale: 1.0,
            digits: 4,
            value,
        }
    }

    pub(crate) fn title(&self) -> String {
        [self.name, self.unit].join(" ").trim_end().to_owned()
    }

    /// Formats a value with the figure's precision.
    pub(crate) fn written(&self, value: f64) -> String {
        format!("{:.*}", self.digits, value * self.scale)
    }
}

pub(crate) const TTFT: Figure = Figure::time("TTFT", 1, |record| record.time_to_first_text_seconds);
pub(crate) const TPOT: Figure = Figure::time("TPOT", 2, Record::time_per_token);
pub(crate) const TTFA: Figure = Figure::time("TTFA", 1, |record| record.time_to_first_audio_seconds);
pub(crate) const FIRST_SOUND: Figure =
    Figure::time("first sound", 1, |record| record.time_to_first_audible_seconds);
pub(crate) const SENTENCE: Figure = Figure::time("TTFA of sentence", 1, |record| {
    record.sentence_to_first_audio_seconds
});
pub(crate) const RTF: Figure = Figure::factor("RTF", |record| record.real_time_factor);
pub(crate) const BUSY_RTF: Figure = Figure::factor("busy RTF", |record| record.server_busy_real_time_factor);
pub(crate) const WORST_GAP: Figure = Figure::time("worst gap", 1, |record| record.worst_underrun_seconds);
pub(crate) const LAG: Figure = Figure::time("send lag", 1, |record| Some(record.send_lag_seconds));

/// Properties of the load that decide which figures exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) chat: bool,
    pub(crate) spoken: bool,
    /// Requests come when they are due, not when the last one is answered.
    pub(crate) open: bool,
    /// The text is streamed.
    pub(crate) streamed: bool,
    pub(crate) cancelled: bool,
}

impl Shape {
    /// The figures there are, in the order of the tables.
    pub(crate) fn figures(self) -> Vec<Figure> {
        let mut figures = Vec::new();
        if self.open {
            figures.push(LAG);
        }
        if self.chat {
            figures.extend([TTFT, TPOT]);
        }
        if self.spoken {
            figures.extend([TTFA, FIRST_SOUND]);
            figures.extend(self.streamed.then_some(SENTENCE));
            figures.extend([RTF, BUSY_RTF, WORST_GAP]);
        }
        figures
    }

    /// Legend of the figures.
    pub(crate) fn legend(self) -> Vec<&'static str> {
        let mut legend = vec![
            "Of distributions: p50 / p95 / p99 / max, over the good requests that were not chosen for cancelling. Percentiles \
             are exact (nearest rank).",
        ];
        if self.open {
            legend.push(OPEN);
        }
        if self.spoken {
            legend.push(SPOKEN);
        }
        if self.streamed {
            legend.push(STREAMED);
        }
        if self.cancelled {
            legend.push(CANCELLED);
        }
        if self.chat {
            legend.push(CHAT);
        }
        legend
    }
}

const OPEN: &str = "Requests are due at the times of a Poisson process, whether or not others are answered; times to a \
first something count from the moment a request was due, so that a request that had to wait counts as slow. Send lag: how \
much later it was sent.";

const SPOKEN: &str = "TTFA: first text sent (or due, where requests have times) to first audio received. First sound: plus the \
silence at the head of the audio (up to the first 5 ms window from which the RMS stays at 5 % of the peak for 20 ms). RTF: \
first text sent to last audio received, over audio seconds, measured here. Busy RTF: the server's own steps over audio \
seconds, steps shared between streams counted in full for each. Gap: how much later than it was to be played audio came, for a \
player which starts with the first chunk and never pauses. Without a gap: share of all requests whose worst gap is at most that \
long (a request of a single chunk counts, one without audio does not). Chunk interval: time between chunks, and that time \
over the playing time of the earlier one.";

const STREAMED: &str = "The text was sent word by word. TTFA of sentence: from the word that completed the first sentence \
to the first audio. RTF and gaps include the time in which there was no text.";

const CANCELLED: &str = "Cancelled: of those chosen for it, the requests that had not ended by then. Cancel: cancel sent to \
the end of the utterance received.";

const CHAT: &str = "A request is one turn of a conversation that is already open; its time counts from the moment the turn \
was sent (\"first text sent\" above). TTFT: until the first text of the answer was received. TPOT: from there to the last \
text, over the tokens behind the first. tokens/s: text tokens of all streams over the time of the level.";
