//! Wire format of events: a line of JSON with the lengths of the rest, data (JSON again), and a payload.

use bytes::{Buf as _, Bytes, BytesMut};
use omni_core::error::{ErrorKind, ServeError, excerpt};
use omni_json::TextPiece;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::codec::Decoder;

/// Longest first line of an event, in bytes. Older clients have the data in it.
const MAX_LINE: usize = 128 << 10;
/// Longest data of an event, in bytes: several times the text that is spoken.
const MAX_DATA: usize = 128 << 10;
/// Longest payload, in bytes. Callers have none that is of use here: it is read and dropped.
const MAX_PAYLOAD: usize = 1 << 20;
/// The version of the protocol that is spoken.
const VERSION: &str = "1.7.0";

/// An event of a client; unused fields are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) data: Data,
}

/// Data of the events that are understood here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Data {
    pub(super) text: Option<TextPiece>,
    pub(super) voice: Option<Voice>,
    pub(super) text_format: Option<String>,
}

/// A voice, by its name or its language.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Voice {
    pub(super) name: Option<String>,
    pub(super) language: Option<String>,
}

impl Data {
    /// Fields of `later` take the place of these.
    fn merged(self, later: Self) -> Self {
        Self {
            text: later.text.or(self.text),
            voice: later.voice.or(self.voice),
            text_format: later.text_format.or(self.text_format),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Header {
    #[serde(rename = "type")]
    kind: String,
    data: Option<Data>,
    data_length: Option<u64>,
    payload_length: Option<u64>,
}

/// An error in the bytes of a client.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    // Errors of serde quote the caller's text, which must not be logged.
    #[error("malformed Wyoming event at line {}, column {}", .0.line(), .0.column())]
    Json(#[from] serde_json::Error),
    #[error("{what} of an event has {got} bytes; expected at most {limit}")]
    TooLong {
        what: &'static str,
        got: u64,
        limit: usize,
    },
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
}

impl From<WireError> for ServeError {
    fn from(error: WireError) -> Self {
        let (kind, reason) = match error {
            WireError::Json(_) => (ErrorKind::InvalidArgument, "INVALID_EVENT"),
            WireError::TooLong { .. } => (ErrorKind::InvalidArgument, "MESSAGE_TOO_LARGE"),
            WireError::Io(_) => (ErrorKind::CallerGone, "CALLER_GONE"),
        };
        Self::new(kind, reason, error.to_string())
    }
}

/// The decoder's position within an event.
#[derive(Debug, Default)]
enum State {
    /// In the first line; its bytes so far without a line end.
    #[default]
    Line,
    Data {
        kind: String,
        data: Data,
        data_length: usize,
        payload_length: usize,
    },
    Payload {
        event: Event,
        left: usize,
    },
}

/// Decodes events incrementally. Its memory is bounded, whatever length an event declares.
#[derive(Debug, Default)]
pub(super) struct EventDecoder {
    state: State,
    /// Bytes that were searched for the end of a line.
    searched: usize,
}

impl EventDecoder {
    /// True if an event has begun that has not come to its end.
    pub(super) fn is_within(&self, buffered: &BytesMut) -> bool {
        !matches!(self.state, State::Line) || !buffered.is_empty()
    }

    fn line(&mut self, bytes: &mut BytesMut) -> Result<bool, WireError> {
        let new = bytes.get(self.searched..).unwrap_or_default();
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.searched = bytes.len();
            return if bytes.len() > MAX_LINE {
                Err(too_long("the first line", bytes.len() as u64, MAX_LINE))
            } else {
                Ok(false)
            };
        };
        let line = bytes.split_to(std::mem::take(&mut self.searched) + end);
        bytes.advance(1);
        if line.len() > MAX_LINE {
            return Err(too_long("the first line", line.len() as u64, MAX_LINE));
        }
        let header: Header = omni_json::read_pieces(&line)?;
        self.state = State::Data {
            kind: header.kind,
            data: header.data.unwrap_or_default(),
            data_length: bounded("the data", header.data_length, MAX_DATA)?,
            payload_length: bounded("the payload", header.payload_length, MAX_PAYLOAD)?,
        };
        Ok(true)
    }
}

fn too_long(what: &'static str, got: u64, limit: usize) -> WireError {
    WireError::TooLong { what, got, limit }
}

fn bounded(what: &'static str, length: Option<u64>, limit: usize) -> Result<usize, WireError> {
    let length = length.unwrap_or_default();
    match usize::try_from(length) {
        Ok(fits) if fits <= limit => Ok(fits),
        _ => Err(too_long(what, length, limit)),
    }
}

impl Decoder for EventDecoder {
    type Item = Event;
    type Error = WireError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, WireError> {
        loop {
            match std::mem::take(&mut self.state) {
                State::Line => {
                    if !self.line(bytes)? {
                        return Ok(None);
                    }
                }
                State::Data {
                    kind,
                    data,
                    data_length,
                    payload_length,
                } => {
                    if bytes.len() < data_length {
                        self.state = State::Data {
                            kind,
                            data,
                            data_length,
                            payload_length,
                        };
                        return Ok(None);
                    }
                    let more = bytes.split_to(data_length);
                    let data = if more.is_empty() {
                        data
                    } else {
                        data.merged(omni_json::read_pieces(&more)?)
                    };
                    let event = Event { kind, data };
                    self.state = State::Payload {
                        event,
                        left: payload_length,
                    };
                }
                State::Payload { event, left } => {
                    let dropped = left.min(bytes.len());
                    bytes.advance(dropped);
                    if dropped == left {
                        return Ok(Some(event));
                    }
                    let left = left - dropped;
                    self.state = State::Payload { event, left };
                    return Ok(None);
                }
            }
        }
    }

    /// A connection that ends within an event has lost it.
    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, WireError> {
        let event = self.decode(bytes)?;
        if event.is_none() && self.is_within(bytes) {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(event)
    }
}

/// An event of the server as bytes.
pub(super) fn encoded(kind: &str, data: &Value, payload: &Bytes) -> Vec<u8> {
    let data = if data.is_null() {
        String::new()
    } else {
        data.to_string()
    };
    let mut header = json!({"type": kind, "version": VERSION});
    if !data.is_empty() {
        header["data_length"] = data.len().into();
    }
    if !payload.is_empty() {
        header["payload_length"] = payload.len().into();
    }
    let mut bytes = header.to_string().into_bytes();
    bytes.push(b'\n');
    bytes.extend_from_slice(data.as_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The error of an event that a client's text or names are in.
pub(super) fn unknown(field: &'static str, got: &str, expected: &str) -> ServeError {
    let got = excerpt(got);
    let message = format!("unsupported {field} '{got}'; expected {expected}");
    ServeError::new(ErrorKind::InvalidArgument, "INVALID_FIELD", message).at(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8], piece: usize) -> Result<Vec<Event>, WireError> {
        let mut decoder = EventDecoder::default();
        let mut buffer = BytesMut::new();
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            buffer.extend_from_slice(piece);
            while let Some(event) = decoder.decode(&mut buffer)? {
                found.push(event);
            }
        }
        decoder.decode_eof(&mut buffer)?;
        Ok(found)
    }

    fn said(kind: &str, text: Option<&str>) -> Event {
        let data = Data {
            text: text.map(TextPiece::from),
            ..Data::default()
        };
        let kind = kind.to_owned();
        Event { kind, data }
    }

    #[test]
    fn events_are_the_same_however_their_bytes_come() {
        let mut bytes = encoded(
            "synthesize",
            &json!({"text": "a\nb"}),
            &Bytes::from_static(b"1\n34"),
        );
        bytes.extend(encoded("describe", &Value::Null, &Bytes::new()));
        bytes.extend(
            b"{\"type\": \"ping\", \"data\": {\"text\": \"x\"}, \"payload_length\": null, \"more\": [1]}\n",
        );
        let expected = [
            said("synthesize", Some("a\nb")),
            said("describe", None),
            said("ping", Some("x")),
        ];
        for piece in [1, 2, 7, 4_096] {
            assert_eq!(events(&bytes, piece).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn data_behind_the_line_takes_the_place_of_data_within_it() {
        let data = br#"{"text": "new", "voice": {"name": "v"}}"#;
        let head = format!(
            "{{\"type\":\"synthesize\",\"data\":{{\"text\":\"old\",\"text_format\":\"text\"}},\"data_length\":{}}}\n",
            data.len()
        );
        let found = events(&[head.as_bytes(), data].concat(), 5).unwrap();
        let data = &found[0].data;
        assert_eq!(
            (&data.text, data.text_format.as_deref()),
            (&Some(TextPiece::from("new")), Some("text"))
        );
        assert_eq!(data.voice.as_ref().unwrap().name.as_deref(), Some("v"));
    }

    #[test]
    fn what_is_promised_too_long_is_refused_before_it_comes() {
        for head in [
            r#"{"type":"synthesize","data_length":1073741824}"#,
            r#"{"type":"audio-chunk","payload_length":18446744073709551615}"#,
        ] {
            let refused = events(format!("{head}\n").as_bytes(), 9);
            assert!(matches!(refused, Err(WireError::TooLong { .. })), "{head}");
        }
        let endless = vec![b' '; MAX_LINE + 2];
        assert!(matches!(events(&endless, 4_096), Err(WireError::TooLong { .. })));
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for bytes in [
            "GET / HTTP/1.1\r\n",
            "{}\n",
            "[]\n",
            "{\"type\": 1}\n",
            "{\"type\": \"a\", \"data_length\": -1}\n",
            "{\"type\": \"a\", \"data\": {\"text\": 1}}\n",
            "{\"type\": \"a\", \"data_length\": 2}\nxx",
        ] {
            assert!(
                matches!(events(bytes.as_bytes(), 3), Err(WireError::Json(_))),
                "{bytes}"
            );
        }
        assert!(matches!(
            events(b"{\"type\": \"a\", \"payload_length\": 2}\nx", 3),
            Err(WireError::Io(_))
        ));
    }

    #[test]
    fn a_payload_is_dropped_as_it_comes() {
        let mut decoder = EventDecoder::default();
        let mut buffer = BytesMut::new();
        buffer.extend_from_slice(b"{\"type\":\"audio-chunk\",\"payload_length\":1048576}\n");
        for _ in 0..255 {
            buffer.extend_from_slice(&[0; 4_096]);
            assert!(decoder.decode(&mut buffer).unwrap().is_none());
            assert!(buffer.is_empty() && decoder.is_within(&buffer));
        }
        buffer.extend_from_slice(&[0; 4_096]);
        assert_eq!(
            decoder.decode(&mut buffer).unwrap(),
            Some(said("audio-chunk", None))
        );
        assert!(!decoder.is_within(&buffer));
    }
}
