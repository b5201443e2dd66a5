//! FLAC (RFC 9639): 16-bit samples, lossless, in frames of 40 ms unless the format says otherwise, after a header
//! with unknown length.

use std::io;
use std::mem;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use flac_codec::encode::{FlacStreamWriter, Options};
use flac_codec::metadata::{Streaminfo, write_blocks};

use super::Encoded;
use crate::format::Format;
use crate::pcm::to_i16;
use crate::units::{SampleRate, Samples};

const FRAMES_PER_SECOND: u32 = 25;
const BITS: u32 = 16;

#[derive(derive_more::Debug)]
#[debug("FlacFrames {{ rate: {:?}, waiting: {:?}, .. }}", self.rate, self.waiting.len())]
pub(super) struct FlacFrames {
    rate: SampleRate,
    frame: usize,
    /// `true` if every frame is a chunk of its own.
    apart: bool,
    writer: FlacStreamWriter<Written>,
    written: Written,
    /// Samples of the frame to come: never fewer than one once there was one, so that the end has something to say.
    waiting: Vec<i32>,
    begun: bool,
}

/// Output of the library, which keeps the writer to itself.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self) -> Vec<u8> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FlacFrames {
    pub(super) fn new(format: Format) -> Self {
        let written = Written::default();
        let rate = format.rate();
        let usual = (rate.hz() / FRAMES_PER_SECOND) as usize;
        Self {
            rate,
            frame: format.frame().map_or(usual, Samples::len),
            apart: format.frame().is_some(),
            writer: FlacStreamWriter::new(written.clone(), Options::default()),
            written,
            waiting: Vec::new(),
            begun: false,
        }
    }

    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Encoded>) {
        self.waiting
            .extend(samples.iter().map(|&sample| i32::from(to_i16(sample))));
        let mut whole = 0;
        let mut given = 0;
        while self.waiting.len() - whole > self.frame {
            self.write(whole..whole + self.frame);
            whole += self.frame;
            if self.apart {
                out.push(self.encoded(whole - given));
                given = whole;
            }
        }
        self.waiting.drain(..whole);
        out.push(self.encoded(whole - given));
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Encoded>) {
        let rest = self.waiting.len();
        if rest > 0 {
            self.write(0..rest);
            self.waiting.clear();
        }
        out.push(self.encoded(rest));
    }

    fn write(&mut self, range: std::ops::Range<usize>) {
        if !mem::replace(&mut self.begun, true) {
            let size = self.frame as u16;
            let info = Streaminfo {
                minimum_block_size: size,
                maximum_block_size: size,
                minimum_frame_size: None,
                maximum_frame_size: None,
                sample_rate: self.rate.hz(),
                channels: NonZero::<u8>::MIN,
                bits_per_sample: BITS.try_into().expect("FLAC has 16-bit samples"),
                total_samples: None,
                md5: None,
            };
            write_blocks(self.written.clone(), [info]).expect("memory takes all bytes");
        }
        self.writer
            .write(self.rate.hz(), 1, BITS, &self.waiting[range])
            .expect("rate, size and samples are those of a FLAC frame, and memory takes all bytes");
    }

    fn encoded(&self, samples: usize) -> Encoded {
        Encoded {
            data: self.written.take(),
            samples: Samples(samples as u64),
        }
    }
}
