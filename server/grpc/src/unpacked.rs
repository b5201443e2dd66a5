//! Unpacked size of compressed messages, charged to the budget of bodies.
//!
//! A few KiB of gzip can unpack to a message of the largest size, which tonic does before a service sees it. So it is
//! unpacked here, too, on its way and without being kept, and each piece is charged before tonic holds it.

use std::io::{self, Write};

use flate2::write::GzDecoder;
use omni_core::error::ServeError;
use omni_transport::BodyHold;

/// Bytes before every message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Finds and unpacks the messages of one body.
pub(super) struct Unpacked {
    hold: BodyHold,
    /// Largest message, in bytes; tonic refuses a larger one itself.
    most: usize,
    state: State,
}

enum State {
    Prefix {
        bytes: [u8; PREFIX],
        have: usize,
    },
    Message {
        left: usize,
        /// None for a plain message, or one that is no longer followed.
        unpack: Option<Box<GzDecoder<Tally>>>,
    },
}

const BEGIN: State = State::Prefix {
    bytes: [0; PREFIX],
    have: 0,
};

impl Unpacked {
    pub(super) fn new(hold: BodyHold, most: usize) -> Self {
        let state = BEGIN;
        Self { hold, most, state }
    }

    /// Charges the unpacked size of `data`.
    pub(super) fn pass(&mut self, mut data: &[u8]) -> Result<(), ServeError> {
        while !data.is_empty() {
            let taken = match &mut self.state {
                State::Prefix { bytes, have } => {
                    let taken = data.len().min(PREFIX - *have);
                    bytes[*have..*have + taken].copy_from_slice(&data[..taken]);
                    *have += taken;
                    if *have == PREFIX {
                        let [flag, length @ ..] = *bytes;
                        self.state = self.begin(flag == 1, u32::from_be_bytes(length));
                    }
                    taken
                }
                State::Message { left, unpack } => {
                    let taken = data.len().min(*left);
                    *left -= taken;
                    if let Some(decoder) = unpack {
                        let mut written = decoder.write_all(&data[..taken]);
                        if *left == 0 {
                            written = written.and_then(|()| decoder.try_finish());
                        }
                        if written.is_err() {
                            // tonic refuses malformed gzip, and messages that are too large.
                            let refused = decoder.get_mut().refused.take();
                            *unpack = None;
                            refused.map_or(Ok(()), Err)?;
                        }
                    }
                    if *left == 0 {
                        self.state = BEGIN;
                    }
                    taken
                }
            };
            data = &data[taken..];
        }
        Ok(())
    }

    fn begin(&self, packed: bool, length: u32) -> State {
        let tally = || Tally {
            hold: self.hold.clone(),
            left: self.most,
            refused: None,
        };
        match length as usize {
            0 => BEGIN,
            left => State::Message {
                left,
                unpack: packed.then(|| Box::new(GzDecoder::new(tally()))),
            },
        }
    }
}

/// Charges the bytes written to it, and keeps none.
struct Tally {
    hold: BodyHold,
    left: usize,
    refused: Option<ServeError>,
}

impl Write for Tally {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(data.len());
        self.left = left.ok_or_else(|| io::Error::other("the message is too large"))?;
        self.hold.take(data.len()).map_err(|error| {
            self.refused = Some(error);
            io::Error::other("the budget has no room")
        })?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::Request;

    use super::*;
    use omni_session::{EndedRequest, RecordSink, Track};
    use omni_transport::BodyBudget;

    struct Ignore;

    impl RecordSink for Ignore {
        fn ended(&self, _: &EndedRequest, _: Option<&Track>) {}
    }

    fn follow(budget: &BodyBudget, most: usize) -> Unpacked {
        let mut request = budget.count(Request::new(axum::body::Body::empty()));
        let hold = request.extensions_mut().remove().expect("it is counted");
        Unpacked::new(hold, most)
    }

    fn packed(bytes: usize) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&vec![0; bytes]).unwrap();
        let data = encoder.finish().unwrap();
        let mut frame = vec![1];
        frame.extend((data.len() as u32).to_be_bytes());
        frame.extend(data);
        frame
    }

    #[test]
    fn a_small_body_is_charged_for_the_large_message_that_it_stands_for() {
        let budget = BodyBudget::new(200_000, Arc::new(Ignore));
        let frame = packed(120_000);
        assert!(frame.len() < 2_000);
        for cut in [1, 7, frame.len()] {
            let pass = |body: &mut Unpacked| frame.chunks(cut).try_for_each(|piece| body.pass(piece));
            // One caller may hold half of the budget.
            let error = pass(&mut follow(&budget, 1 << 20)).unwrap_err();
            assert_eq!(error.reason(), "SERVER_OVERLOADED", "{cut}");
            // A message that tonic refuses by its size is not unpacked to the end.
            pass(&mut follow(&budget, 60_000)).unwrap();
        }
        let mut fits = follow(&budget, 1 << 20);
        fits.pass(&packed(60_000)).unwrap();
        let second = fits.pass(&packed(60_000)).unwrap_err();
        assert_eq!(second.reason(), "SERVER_OVERLOADED");
        drop(fits);
        follow(&budget, 1 << 20)
            .pass(&packed(90_000))
            .expect("it is free again");
    }

    #[test]
    fn plain_messages_and_nonsense_are_not_charged_here() {
        let budget = BodyBudget::new(100, Arc::new(Ignore));
        let mut body = follow(&budget, 1 << 20);
        let mut plain = vec![0, 0, 0, 16, 0];
        plain.extend([7; 4096]);
        plain.extend([0; 5]);
        body.pass(&plain).unwrap();
        body.pass(&[1, 0, 0, 0, 3, 1, 2, 3]).unwrap();
        body.pass(&[0, 0, 0, 0, 1, 9]).unwrap();
    }
}
