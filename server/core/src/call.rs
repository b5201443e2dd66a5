//! Context of a call besides the request: its deadline, and the trace that it is part of.

use std::time::Duration;

use http::HeaderMap;
use omni_telemetry::TraceParent;

/// Context in the headers of a call.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    pub timeout: Option<Duration>,
    pub trace: Option<TraceParent>,
}

impl CallContext {
    /// Reads the context; headers that cannot be read count as absent, as in other servers.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        Self {
            timeout: timeout(headers),
            trace: trace(headers),
        }
    }
}

/// Timeout of the caller. tonic's own handling ends with the response headers and answers CANCELLED; a session needs
/// the time itself.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get("grpc-timeout")?.to_str().ok()?)
}

fn trace(headers: &HeaderMap) -> Option<TraceParent> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = TraceParent::parse(parents.next()?.to_str().ok()?)?;
    if parents.next().is_some() {
        return None;
    }
    let states = headers.get_all("tracestate").iter();
    let states: Vec<_> = states.filter_map(|state| state.to_str().ok()).collect();
    Some(parent.with_state(&states.join(",")))
}

/// "1 to 8 digits and a unit" (gRPC over HTTP/2, "Timeout").
fn parse(header: &str) -> Option<Duration> {
    let unit = header.chars().last()?;
    let digits = &header[..header.len() - unit.len_utf8()];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(value * 3600),
        'M' => Duration::from_secs(value * 60),
        'S' => Duration::from_secs(value),
        'm' => Duration::from_millis(value),
        'u' => Duration::from_micros(value),
        'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(parse("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(parse("3M"), Some(Duration::from_secs(180)));
        assert_eq!(parse("10S"), Some(Duration::from_secs(10)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(parse("7n"), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn anything_else_is_no_deadline() {
        for header in ["", "S", "10", "10X", "123456789S", "-1S", "1.5S", "1é"] {
            assert_eq!(parse(header), None, "{header}");
        }
    }
}
