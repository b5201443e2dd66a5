//! code2wav over one backend: the streams, their places in the attention cache, one decode call.

use std::collections::HashMap;
use std::sync::Arc;

use omni_engine::{ChunkModel, CodecFrame, ModelError, SeqId};

use crate::backend::{Backend, Batch};

use super::net::{Code2WavNet, Past};

struct Stream<B: Backend> {
    /// Which part of the cache is this stream's.
    region: usize,
    /// Frames decoded so far.
    position: usize,
    pasts: Vec<Past<B>>,
}

pub(crate) struct Core<B: Backend> {
    b: B,
    net: Arc<Code2WavNet<B>>,
    kv: Vec<B::Kv>,
    /// Cache rows per stream, used as a ring: the window's past and the frames of one pass.
    ring: usize,
    regions: usize,
    free: Vec<usize>,
    streams: HashMap<SeqId, Stream<B>>,
}

impl<B: Backend> Core<B> {
    pub(crate) fn new(b: B, net: Arc<Code2WavNet<B>>) -> Result<Self, ModelError> {
        let window = net.config.stack.window.unwrap_or(1);
        let (kv, longest) = (net.stack.kv(&b, 0)?, B::SIGNAL.per_stream);
        Ok(Self {
            kv,
            ring: window - 1 + longest,
            b,
            net,
            regions: 0,
            free: Vec::new(),
            streams: HashMap::new(),
        })
    }

    fn region(&mut self) -> Result<usize, ModelError> {
        if let Some(region) = self.free.pop() {
            return Ok(region);
        }
        let regions = (self.regions * 2).max(4);
        for kv in &mut self.kv {
            self.b.grow(kv, regions * self.ring)?;
        }
        self.free.extend((self.regions..regions).rev());
        self.regions = regions;
        self.free
            .pop()
            .ok_or_else(|| ModelError::Compute("no room for another stream".into()))
    }

    fn check(&self, batch: &[(SeqId, &[CodecFrame])]) -> Result<(), ModelError> {
        let (groups, codebook) = (self.net.config.groups, self.net.config.codebook);
        for (i, (seq, frames)) in batch.iter().enumerate() {
            if !self.streams.contains_key(seq) {
                return Err(ModelError::Compute(format!("stream {} is not open", seq.0)));
            }
            if batch[..i].iter().any(|(other, _)| other == seq) {
                return Err(ModelError::Compute(format!(
                    "stream {} is twice in one batch",
                    seq.0
                )));
            }
            for frame in *frames {
                if frame.0.len() != groups || frame.0.iter().any(|&code| code as usize >= codebook) {
                    let reason = format!("expected {groups} codes below {codebook}, found {frame:?}");
                    return Err(ModelError::Compute(format!("stream {}: {reason}", seq.0)));
                }
            }
        }
        Ok(())
    }

    /// Decodes one pass: of every stream at least one frame and at most as many as the ring has room for.
    fn pass(&mut self, work: &mut [(&mut Stream<B>, &[CodecFrame])]) -> Result<Vec<Vec<f32>>, ModelError> {
        let (window, ring) = (self.net.config.stack.window.unwrap_or(1), self.ring);
        let (mut batch, mut codes) = (Batch::default(), Vec::new());
        let codebook = u32::try_from(self.net.config.codebook).unwrap_or(u32::MAX);
        for (stream, frames) in work.iter() {
            let (start, region) = (stream.position, stream.region);
            let first_key = start.saturating_sub(window - 1);
            batch.push(start, frames.len(), first_key, |p| {
                u32::try_from(region * ring + p % ring).unwrap_or(u32::MAX)
            });
            // Every codebook has its own part of the table.
            codes.extend(
                frames
                    .iter()
                    .flat_map(|f| (0..).zip(&f.0).map(|(q, &code)| q * codebook + code)),
            );
        }
        let lens = work.iter().map(|(_, frames)| frames.len()).collect();
        let mut pasts = Vec::with_capacity(work.len());
        for (stream, frames) in work.iter_mut() {
            stream.position += frames.len();
            pasts.push(stream.pasts.as_mut_slice());
        }
        let (samples, lens) = self
            .net
            .forward(&self.b, &codes, lens, &batch, &mut self.kv, pasts)?;
        let mut rest = samples.as_slice();
        let split = |len| {
            let (one, others) = rest.split_at(len);
            rest = others;
            one.to_vec()
        };
        Ok(lens.into_iter().map(split).collect())
    }

    fn decode_taken(
        &mut self,
        streams: &mut [Stream<B>],
        batch: &[(SeqId, &[CodecFrame])],
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut samples = vec![Vec::new(); batch.len()];
        let longest = batch.iter().map(|(_, frames)| frames.len()).max().unwrap_or(0);
        let mut start = 0;
        while start < longest {
            let live = batch.iter().filter(|(_, frames)| start < frames.len()).count();
            let end = start + (B::SIGNAL.in_all / live).clamp(1, B::SIGNAL.per_stream);
            let (mut who, mut work) = (Vec::new(), Vec::new());
            for (i, (stream, (_, frames))) in streams.iter_mut().zip(batch).enumerate() {
                if start < frames.len() {
                    who.push(i);
                    work.push((stream, &frames[start..frames.len().min(end)]));
                }
            }
            for (i, part) in who.into_iter().zip(self.pass(&mut work)?) {
                samples[i].extend(part);
            }
            start = end;
        }
        Ok(samples)
    }
}

impl<B: Backend> ChunkModel for Core<B> {
    type Item = CodecFrame;
    type Sample = f32;

    fn open(&mut self, seq: SeqId) -> Result<(), ModelError> {
        if self.streams.contains_key(&seq) {
            return Err(ModelError::Rejected(format!("stream {} is already open", seq.0)));
        }
        let pasts = self.net.fresh(&self.b)?;
        let region = self.region()?;
        self.streams.insert(
            seq,
            Stream {
                region,
                position: 0,
                pasts,
            },
        );
        Ok(())
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.check(batch)?;
        // The streams leave the map for the call, so that the batch can borrow all of them at once.
        let mut taken: Vec<Stream<B>> = batch
            .iter()
            .filter_map(|(seq, _)| self.streams.remove(seq))
            .collect();
        let samples = self.decode_taken(&mut taken, batch);
        if samples.is_ok() {
            self.streams.extend(batch.iter().map(|(seq, _)| *seq).zip(taken));
        } else {
            // What these streams remember is half old, half new.
            self.free.extend(taken.into_iter().map(|stream| stream.region));
        }
        samples
    }

    fn close(&mut self, seq: SeqId) {
        if let Some(stream) = self.streams.remove(&seq) {
            self.free.push(stream.region);
        }
    }
}
