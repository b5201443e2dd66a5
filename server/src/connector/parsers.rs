//! What another process sends, for tests that send anything.

use omni_engine::{CodecFrame, Stamp};
use omni_proto::stage::v1::Frame;
use omni_proto::stage::v1::frame::Body;
use prost::Message as _;

use super::wire::{
    Arrival, Chunk, FrameReader, NO_SEQUENCE, PeerClock, Reports, StageRequest as _, end, end_message,
    payload_of, progress, write_frame,
};
use super::{RemoteJob, WireError};
use crate::stage::{AudioPiece, Code2WavJob, ReplyToken, TalkerJob, ThinkerJob};

/// Reads frames, and what is in them.
pub fn frames(mut bytes: &[u8]) {
    let mut reader = FrameReader::default();
    let mut clock = PeerClock::new(Stamp::default());
    loop {
        let read = reader.fill(&mut bytes).unwrap_or(0);
        loop {
            match reader.next(Stamp::default) {
                Ok(Some(frame)) => {
                    clock.frame(frame.sent, frame.began);
                    // What cannot be read ends the connection.
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

/// Reads the message of a frame, and what is in it.
pub fn payloads(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(bytes) else { return };
    let Some(message) = frame.body else { return };
    let mut again = Vec::new();
    // What came in a frame fits into one.
    if write_frame(&mut again, NO_SEQUENCE, message.clone(), || frame.sent).is_ok() {
        let mut reader = FrameReader::default();
        let mut rest = &again[..];
        while reader.fill(&mut rest).unwrap_or(0) > 0 {}
        let read = reader.next(Stamp::default);
        assert!(matches!(read, Ok(Some(_))), "what is written can be read");
    }
    let _ = body(message, PeerClock::new(Stamp::default()));
}

fn body(body: Body, clock: PeerClock) -> Result<(), WireError> {
    match body {
        Body::Open(open) => {
            if let Some(request) = open.request {
                job::<TalkerJob>(&request);
                job::<Code2WavJob>(&request);
                job::<ThinkerJob>(&request);
            }
        }
        Body::Item(message) => {
            let payload = payload_of(message)?;
            item::<Vec<u32>>(&payload);
            item::<CodecFrame>(&payload);
            item::<AudioPiece>(&payload);
            item::<ReplyToken>(&payload);
        }
        Body::End(message) => {
            let read = end(message)?;
            assert_eq!(
                end(end_message(read.clone())),
                Ok(read),
                "an end says the same again"
            );
        }
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

/// What can be read says the same when it is written again.
fn job<J: RemoteJob>(request: &omni_proto::stage::v1::open::Request) {
    if let Ok(order) = J::Order::from_request(request.clone()) {
        let again = J::Order::from_request(order.into_request());
        assert!(again.is_ok(), "what is written can be read");
    }
}

fn item<T: Chunk>(payload: &omni_proto::stage::v1::item::Payload) {
    if let Ok(item) = T::from_payload(payload.clone()) {
        assert!(item.units() > 0, "an item weighs something");
        assert!(
            T::from_payload(item.into_payload()).is_ok(),
            "what is written can be read"
        );
    }
}
