//! Frames of an HTTP/2 connection, by their headers: open calls, and the rate of resets.
//!
//! hyper counts resets over a connection's whole life, and does not report unsent parts of an answer. Here resets are
//! counted as a rate, and a call is open until its answer's last frame has left. A reset after that, by callers that
//! still had something to send, does not count.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Bytes of a frame header, and of a client's preface.
const HEAD: usize = 9;
const PREFACE: usize = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// Resets that a connection may have at once, and in every second after. A gateway that ends some hundred calls at once has them.
const RESETS: f64 = 1_000.0;
const RESETS_PER_SECOND: f64 = 100.0;

/// A frame's kind, flags and stream.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// Finds the heads of frames in one direction.
#[derive(Debug, Default)]
struct Heads {
    head: [u8; HEAD],
    filled: usize,
    /// Bytes that are no head.
    skip: usize,
}

impl Heads {
    fn read(&mut self, mut data: &[u8], mut each: impl FnMut(Head)) {
        while !data.is_empty() {
            let skipped = self.skip.min(data.len());
            self.skip -= skipped;
            data = &data[skipped..];
            let taken = data.len().min(HEAD - self.filled);
            self.head[self.filled..self.filled + taken].copy_from_slice(&data[..taken]);
            self.filled += taken;
            data = &data[taken..];
            if self.filled == HEAD {
                let [a, b, c, kind, flags, stream @ ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.filled = 0;
                let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
                each(Head { kind, flags, stream });
            }
        }
    }

    /// True if no frame is half through.
    fn is_between(&self) -> bool {
        self.filled == 0 && self.skip == 0
    }
}

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    incoming: Heads,
    outgoing: Heads,
    open: HashSet<u32>,
    last: u32,
    /// Resets that are left, at `counted`.
    resets: f64,
    counted: Instant,
}

impl Frames {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            incoming: Heads {
                skip: PREFACE,
                ..Heads::default()
            },
            outgoing: Heads::default(),
            open: HashSet::new(),
            last: 0,
            resets: RESETS,
            counted: now,
        }
    }

    /// Bytes of the peer.
    pub(super) fn received(&mut self, data: &[u8], now: Instant) {
        let Self {
            incoming, open, last, ..
        } = self;
        let mut resets = 0;
        incoming.read(data, |head| match head.kind {
            HEADERS if head.stream > *last => {
                *last = head.stream;
                open.insert(head.stream);
            }
            RST_STREAM => resets += u32::from(open.remove(&head.stream)),
            _ => {}
        });
        self.reset(resets, now);
    }

    /// Bytes to the peer.
    pub(super) fn sent(&mut self, data: &[u8], now: Instant) {
        let Self { outgoing, open, .. } = self;
        let mut resets = 0;
        outgoing.read(data, |head| match head.kind {
            RST_STREAM => resets += u32::from(open.remove(&head.stream)),
            DATA | HEADERS if head.flags & END_STREAM != 0 => _ = open.remove(&head.stream),
            _ => {}
        });
        self.reset(resets, now);
    }

    fn reset(&mut self, resets: u32, now: Instant) {
        if resets > 0 {
            let since = now.saturating_duration_since(self.counted);
            let refilled = self.resets + since.max(Duration::ZERO).as_secs_f64() * RESETS_PER_SECOND;
            self.resets = refilled.min(RESETS) - f64::from(resets);
            self.counted = now;
        }
    }

    /// Calls whose answers have not left in full.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// True if more was reset than a connection may.
    pub(super) fn is_flooded(&self) -> bool {
        self.resets < 0.0
    }

    /// True if a frame of ours may be written now.
    pub(super) fn may_write(&self) -> bool {
        self.outgoing.is_between()
    }
}

/// A GOAWAY frame that says why (RFC 9113, section 6.8). No call after `last` is worked on.
pub(super) fn go_away(code: u32, last: u32, why: &str) -> Vec<u8> {
    const GOAWAY: [u8; 6] = [7, 0, 0, 0, 0, 0];
    let payload = [&last.to_be_bytes(), &code.to_be_bytes(), why.as_bytes()].concat();
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &GOAWAY, &payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let [_, size @ ..] = (length as u32).to_be_bytes();
        let mut frame = [&size[..], &[kind, flags], &stream.to_be_bytes()].concat();
        frame.resize(HEAD + length, 0xff);
        frame
    }

    #[test]
    fn a_call_is_open_until_its_answer_has_left_however_the_bytes_are_cut() {
        let now = Instant::now();
        let asked = [
            vec![b'P'; PREFACE],
            frame(4, 0, 0, 12),
            frame(HEADERS, 4, 1, 40),
            frame(DATA, 0, 1, 300),
            frame(HEADERS, 5, 3, 40),
            // Trailers are no call.
            frame(HEADERS, 5, 1, 3),
        ]
        .concat();
        for piece in [1, 5, 9, 100, asked.len()] {
            let mut frames = Frames::new(now);
            asked.chunks(piece).for_each(|piece| frames.received(piece, now));
            assert_eq!(frames.open(), 2, "{piece}");
            let answered = [frame(HEADERS, 4, 1, 30), frame(DATA, 0, 1, 900)].concat();
            answered.chunks(piece).for_each(|piece| frames.sent(piece, now));
            assert_eq!(frames.open(), 2);
            let over = [frame(HEADERS, 5, 1, 30), frame(RST_STREAM, 0, 3, 4)].concat();
            over.chunks(piece).for_each(|piece| frames.sent(piece, now));
            assert_eq!(frames.open(), 0);
            assert!(frames.may_write() && !frames.is_flooded());
            // Trailers behind the answer open nothing.
            frames.received(&frame(HEADERS, 5, 1, 3), now);
            assert_eq!(frames.open(), 0);
        }
    }

    #[test]
    fn resets_have_a_rate_and_no_total() {
        let begun = Instant::now();
        let mut frames = Frames::new(begun);
        frames.received(&[0; PREFACE], begun);
        let mut stream = 1;
        let mut open = |frames: &mut Frames| {
            stream += 2;
            frames.received(&frame(HEADERS, 4, stream, 9), begun);
            stream
        };
        for second in 0..100 {
            for _ in 0..RESETS_PER_SECOND as u32 {
                let stream = open(&mut frames);
                frames.received(
                    &frame(RST_STREAM, 0, stream, 4),
                    begun + Duration::from_secs(second),
                );
            }
        }
        assert!(!frames.is_flooded(), "10,000 in 100 s");
        let now = begun + Duration::from_secs(1_000);
        for _ in 0..1_000 {
            let stream = open(&mut frames);
            frames.received(&frame(RST_STREAM, 0, stream, 4), now);
        }
        assert!(!frames.is_flooded(), "1,000 at once");
        for _ in 0..1_000 {
            let stream = open(&mut frames);
            frames.sent(&frame(HEADERS, 5, stream, 9), now);
            frames.received(&frame(RST_STREAM, 0, stream, 4), now);
        }
        assert!(!frames.is_flooded(), "they were answered before");
        let stream = open(&mut frames);
        frames.sent(&frame(RST_STREAM, 0, stream, 4), now);
        assert!(frames.is_flooded());
    }
}
