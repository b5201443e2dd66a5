//! Parsers of data from another process, for tests that feed them arbitrary bytes.

use omni_engine::Stamp;
use omni_proto::stage::v1::Frame;
use omni_proto::stage::v1::frame::Body;
use prost::Message as _;

use super::wire::{
    Arrival, FrameReader, NO_SEQUENCE, PeerClock, Reports, WireError, end, end_message, item, next_stage,
    payload, payload_of, progress, request, request_message, token, write_frame,
};

/// Reads frames and decodes their messages.
pub fn frames(mut bytes: &[u8]) {
    let mut reader = FrameReader::default();
    let mut clock = PeerClock::new(Stamp::default());
    loop {
        let read = reader.fill(&mut bytes).unwrap_or(0);
        loop {
            match reader.next(Stamp::default) {
                Ok(Some(frame)) => {
                    clock.frame(frame.sent, frame.began);
                    // Unreadable data ends the connection.
                    let _ = body(frame.body, clock);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if read == 0 {
            return;
        }
    }
}

/// Decodes the message of a frame.
pub fn payloads(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(bytes) else { return };
    let Some(message) = frame.body else { return };
    let mut again = Vec::new();
    // A message that came in a frame fits into one.
    if write_frame(&mut again, NO_SEQUENCE, message.clone(), || frame.sent).is_ok() {
        let mut reader = FrameReader::default();
        let mut rest = &again[..];
        while reader.fill(&mut rest).unwrap_or(0) > 0 {}
        let read = reader.next(Stamp::default);
        assert!(matches!(read, Ok(Some(_))), "what is written can be read");
    }
    let _ = body(message, PeerClock::new(Stamp::default()));
}

/// Stages that ends may name.
const STAGES: [&str; 2] = ["first", "last"];

fn body(body: Body, clock: PeerClock) -> Result<(), WireError> {
    match body {
        Body::Open(open) => {
            if let Some(link) = open.link {
                let _ = next_stage(link, &STAGES);
            }
            if let Some(message) = open.request
                && let Ok(read) = request(message)
            {
                let again = request(request_message(read));
                assert!(again.is_ok(), "what is written can be read");
            }
        }
        Body::Item(message) => {
            let read = item(payload_of(message)?)?;
            assert!(read.units() > 0, "an item weighs something");
            let kind = read.kind();
            let again = item(payload(read)).map(|item| item.kind());
            assert_eq!(again, Ok(kind), "an item says the same again");
        }
        Body::End(message) => {
            let read = end(message, &STAGES)?;
            assert_eq!(
                end(end_message(read.clone()), &STAGES),
                Ok(read),
                "an end says the same again"
            );
        }
        Body::Attach(message) => _ = token(&message.token)?,
        Body::Progress(message) => _ = progress(&message, clock),
        Body::Events(message) => _ = Reports::of(message, clock)?.message(clock),
        Body::Arrivals(message) => {
            for arrival in &message.arrivals {
                let _ = Arrival::of(arrival, clock);
            }
        }
        _ => {}
    }
    Ok(())
}
