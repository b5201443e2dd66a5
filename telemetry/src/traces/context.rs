//! The trace of a request's spans: the caller's, or one of the server's own.
//!
//! Source: W3C Trace Context, level 1 (headers `traceparent` and `tracestate`).

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};

/// Longest `tracestate` that is passed on, in bytes. The standard asks for no more.
const LONGEST_STATE: usize = 512;

fn trace_id(hex: &str) -> Option<TraceId> {
    digits(hex, 32)
        .map(TraceId::from)
        .filter(|id| *id != TraceId::INVALID)
}

fn span_id(hex: &str) -> Option<SpanId> {
    let id = u64::try_from(digits(hex, 16)?).ok().map(SpanId::from);
    id.filter(|id| *id != SpanId::INVALID)
}

pub(super) fn new_trace_id() -> TraceId {
    RandomIdGenerator::default().new_trace_id()
}

pub(super) fn new_span_id() -> SpanId {
    RandomIdGenerator::default().new_span_id()
}

/// So many hexadecimal digits; capital letters are none here.
fn digits(text: &str, count: usize) -> Option<u128> {
    let small = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = text.len() == count && text.bytes().all(small);
    fits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// The caller's span, as its headers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// True if the caller records its own.
    pub sampled: bool,
    /// State of the caller's tracing system, to be passed on.
    pub state: TraceState,
}

impl TraceParent {
    /// Reads a `traceparent`. One that is malformed counts as absent, as the standard has it.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let version = digits(parts.next()?, 2)?;
        let trace = trace_id(parts.next()?)?;
        let span = span_id(parts.next()?)?;
        let flags = digits(parts.next()?, 2)?;
        // Later versions may say more behind this.
        let whole = version != 0 || parts.next().is_none();
        (version != 0xff && whole).then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
            state: TraceState::NONE,
        })
    }

    /// With the caller's `tracestate`. One that is malformed counts as absent.
    #[must_use]
    pub fn with_state(mut self, header: &str) -> Self {
        let printable = header.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
        let fits = printable && header.len() <= LONGEST_STATE;
        self.state = fits.then(|| header.parse().ok()).flatten().unwrap_or_default();
        self
    }

    /// The same in the SDK's words.
    pub(super) fn remote(&self) -> SpanContext {
        let flags = TraceFlags::default().with_sampled(self.sampled);
        SpanContext::new(self.trace, self.span, flags, true, self.state.clone())
    }
}

/// The trace of one request, and the times of day of its stamps. A clock that is set while the request runs
/// does not change their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span of the request itself, the parent of all others.
    pub span: SpanId,
    /// The caller's span.
    pub parent: Option<SpanId>,
    /// State of the caller's tracing system, to be passed on.
    pub state: TraceState,
    /// A stamp, and the time of day that it stands for.
    anchor: (Duration, SystemTime),
}

impl TraceContext {
    /// Of a request that is called from `parent` and is at the stamp `now`.
    pub fn new(trace: TraceId, parent: Option<&TraceParent>, now: Duration, wall: SystemTime) -> Self {
        Self {
            trace,
            span: new_span_id(),
            parent: parent.map(|parent| parent.span),
            state: parent.map(|parent| parent.state.clone()).unwrap_or_default(),
            anchor: (now, wall),
        }
    }

    /// The time of day at a stamp.
    pub fn time(&self, at: Duration) -> SystemTime {
        let (stamp, wall) = self.anchor;
        let time = match at.checked_sub(stamp) {
            Some(later) => wall.checked_add(later),
            None => wall.checked_sub(stamp.saturating_sub(at)),
        };
        time.unwrap_or(wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_caller_is_understood() {
        let parent = TraceParent::parse(HEADER).expect("a good header");
        assert_eq!(format!("{:?}", parent.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(format!("{:?}", parent.span), "00f067aa0ba902b7");
        assert_eq!(parent.trace.to_bytes()[..3], [0x4b, 0xf9, 0x2f]);
        assert!(parent.sampled);
        let quiet = TraceParent::parse(&HEADER.replace("-01", "-00")).expect("a good header");
        assert!(!quiet.sampled);
        let later = TraceParent::parse(&format!("{}-more", HEADER.replacen("00", "01", 1)));
        assert!(later.is_some_and(|later| later.sampled), "a version to come");
    }

    #[test]
    fn what_is_no_header_counts_as_absent() {
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_state_is_passed_on_unless_it_is_none() {
        let state = |header: &str| {
            let parent = TraceParent::parse(HEADER).expect("a good header");
            parent.with_state(header).state.header()
        };
        assert_eq!(state(" congo=t61,rojo=1 "), "congo=t61,rojo=1");
        for none in [
            "",
            "a",
            "A=b",
            "a=\u{7}b",
            &format!("a={}", "x".repeat(LONGEST_STATE)),
        ] {
            assert_eq!(state(none), "", "{none:?}");
        }
    }

    #[test]
    fn stamps_become_times_of_day_on_both_sides_of_the_anchor() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let context = TraceContext::new(new_trace_id(), None, Duration::from_secs(10), wall);
        let time = |at: Duration| context.time(at);
        assert_eq!(
            time(Duration::from_millis(12_500)),
            wall + Duration::from_millis(2_500)
        );
        assert_eq!(time(Duration::from_secs(7)), wall - Duration::from_secs(3));
    }
}
