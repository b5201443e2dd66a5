//! code2wav over one backend: the streams, their places in the attention cache, one decode call.

use std::collections::HashMap;
use std::sync::Arc;

use omni_backend::{Backend, Batch, Part, StepKey};
use omni_engine::{ChunkBounds, ChunkModel, CodecFrame, Decoded, ModelError, SeqId, Skipped};

use super::net::{Code2WavNet, clip};

struct Stream {
    /// Part of the cache, and of the convolutions' memory, that belongs to this stream.
    region: usize,
    /// Frames decoded so far, including those in front of the first one.
    position: usize,
    /// The first frame that was decoded.
    first: usize,
    /// The first frame that gives samples; those before leave keys and values alone.
    sounds: usize,
}

/// Frames of streams that go through the network together, and where.
struct Laid {
    batch: Batch,
    codes: Vec<u32>,
    parts: Vec<Part>,
}

/// A pass in flight.
struct Asked<B: Backend> {
    /// Streams in it.
    streams: usize,
    samples: B::PendingSamples,
}

/// Streams of a pass by their number, each with its frames, and where the next pass begins.
type Piece<'a> = (Vec<usize>, Vec<(&'a mut Stream, &'a [CodecFrame])>, usize);

/// The padding stream: what fills up a pass is put there.
const SPARE: usize = 0;

pub(crate) struct Core<B: Backend> {
    b: B,
    net: Arc<Code2WavNet<B>>,
    kv: Vec<B::Kv>,
    pasts: Vec<B::Past>,
    /// Cache rows per stream, used as a ring: the window's past plus the frames of one pass.
    ring: usize,
    regions: usize,
    free: Vec<usize>,
    streams: HashMap<SeqId, Stream>,
}

impl<B: Backend> Core<B> {
    pub(crate) fn new(b: B, net: Arc<Code2WavNet<B>>) -> Result<Self, ModelError> {
        let window = net.config.stack.window.unwrap_or(1);
        let kv = net.stack.kv(&b, 0)?;
        let pasts = net.pasts(&b)?;
        Ok(Self {
            kv,
            pasts,
            ring: window - 1 + B::SIGNAL.per_stream,
            b,
            net,
            regions: 0,
            free: Vec::new(),
            streams: HashMap::new(),
        })
    }

    fn region(&mut self) -> Result<usize, ModelError> {
        if self.free.is_empty() {
            self.regions_for((self.regions * 2).max(4))?;
        }
        let no_room = || ModelError::Compute("no room for another stream".into());
        self.free.pop().ok_or_else(no_room)
    }

    /// Ensures `regions` regions, including the spare one.
    fn regions_for(&mut self, regions: usize) -> Result<(), ModelError> {
        if regions <= self.regions {
            return Ok(());
        }
        for kv in &mut self.kv {
            self.b.grow(kv, regions * self.ring)?;
        }
        for past in &mut self.pasts {
            self.b.grow_past(past, regions)?;
        }
        let first = self.regions.max(SPARE + 1);
        // The lowest are given out first.
        self.free.splice(..0, (first..regions).rev());
        self.regions = regions;
        Ok(())
    }

    fn check(&self, batch: &[(SeqId, &[CodecFrame])]) -> Result<(), ModelError> {
        for (i, (seq, _)) in batch.iter().enumerate() {
            if !self.streams.contains_key(seq) {
                return Err(ModelError::Compute(format!("stream {} is not open", seq.0)));
            }
            if batch[..i].iter().any(|(other, _)| other == seq) {
                return Err(ModelError::Compute(format!(
                    "stream {} is twice in one batch",
                    seq.0
                )));
            }
        }
        Ok(())
    }

    /// Fault in the frames of one stream; `None` if they are valid.
    fn flaw(&self, frames: &[CodecFrame]) -> Option<String> {
        let groups = self.net.config.groups;
        let codebook = self.net.config.codebook;
        let is_bad = |frame: &&CodecFrame| {
            frame.0.len() != groups || frame.0.iter().any(|&code| code as usize >= codebook)
        };
        let frame = frames.iter().find(is_bad)?;
        Some(format!(
            "code2wav: expected {groups} codes below {codebook}, found {frame:?}"
        ))
    }

    /// Plans the next pass: at least one frame of every stream, and at most as many as the ring has room for.
    fn lay(&self, work: &[(&mut Stream, &[CodecFrame])]) -> Laid {
        let window = self.net.config.stack.window.unwrap_or(1);
        let ring = self.ring;
        let mut batch = Batch::default();
        let mut codes = Vec::new();
        let mut parts = Vec::new();
        for (stream, frames) in work {
            let start = stream.position;
            let region = stream.region;
            let first_key = start.saturating_sub(window - 1).max(stream.first);
            batch.push(start, frames.len(), first_key, |p| {
                small(region * ring + p % ring)
            });
            parts.push(Part {
                stream: small(region),
                before: start,
                frames: frames.len(),
            });
            codes.extend(frames.iter().flat_map(|f| f.0.iter().copied()));
        }
        Laid { batch, codes, parts }
    }

    /// Passes frames through the transformer only, of which no samples are wanted.
    fn attend(&mut self, work: &mut [(&mut Stream, &[CodecFrame])]) -> Result<(), ModelError> {
        let Laid { batch, codes, parts } = self.lay(work);
        let net = &self.net;
        let kv = &mut self.kv;
        let pasts = &mut self.pasts;
        self.b.step_once("code2wav", |b| {
            let signals = b.signals(parts)?;
            net.attend(b, &codes, &signals, &batch, kv, &mut pasts.iter_mut())
                .map(drop)
        })?;
        for (stream, frames) in work {
            stream.position += frames.len();
        }
        Ok(())
    }

    /// Asks for one pass over frames as [`Core::lay`] takes them. It is filled up to `rows` frames of `signals`
    /// streams at least, with padding.
    fn pass(
        &mut self,
        work: &mut [(&mut Stream, &[CodecFrame])],
        rows: usize,
        signals: usize,
    ) -> Result<Asked<B>, ModelError> {
        let window = self.net.config.stack.window.unwrap_or(1);
        let ring = self.ring;
        let Laid {
            mut batch,
            mut codes,
            mut parts,
        } = self.lay(work);
        let streams = parts.len();
        let frames = batch.rows();
        let rows = self.b.bucket(frames.max(rows));
        let signals = self.b.bucket(signals.max(streams + usize::from(rows > frames)));
        for i in frames..rows {
            batch.push(0, 1, 0, |_| small(SPARE * ring + i % ring));
        }
        // What fills the pass up is one signal of the padding stream, and others without frames.
        for i in streams..signals {
            parts.push(Part {
                stream: small(SPARE),
                before: 0,
                frames: if i == streams { rows - frames } else { 0 },
            });
        }
        let groups = self.net.config.groups;
        codes.resize(rows * groups, 0);
        batch.make_room(window);
        let key = StepKey {
            stage: "code2wav",
            rows,
            also: signals,
            ends: 0,
        };
        let net = &self.net;
        let kv = &mut self.kv;
        let pasts = &mut self.pasts;
        let (x, signals) = self.b.step(key, |b| {
            let mut signals = b.signals(parts)?;
            let x = net.forward(b, &codes, &mut signals, &batch, kv, pasts)?;
            Ok((x, signals))
        })?;
        for (stream, frames) in work.iter_mut() {
            stream.position += frames.len();
        }
        let samples = self.b.download_samples(&x, &signals)?;
        Ok(Asked { streams, samples })
    }

    /// Waits for a pass.
    fn answer(&self, asked: Asked<B>) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut samples = self.b.wait_samples(asked.samples)?;
        samples.truncate(asked.streams);
        Ok(samples)
    }

    /// In as many passes as it takes, each asked for before the one in front of it is waited for. A stream with samples
    /// that are no numbers fails alone: no stream reads what another remembers.
    fn decode_taken(
        &mut self,
        streams: &mut [Stream],
        batch: &[(SeqId, &[CodecFrame])],
    ) -> Result<Vec<Decoded<f32>>, ModelError> {
        let pieces = streams.iter().zip(batch).map(|(stream, (_, frames))| {
            let unheard = stream.sounds.saturating_sub(stream.position);
            frames.split_at(frames.len().min(unheard))
        });
        let (unheard, heard): (Vec<_>, Vec<_>) = pieces.unzip();
        let mut start = 0;
        while let Some((_, mut work, end)) = Self::piece(streams, &unheard, start) {
            self.attend(&mut work)?;
            start = end;
        }
        let mut samples: Vec<Decoded<f32>> = vec![Ok(Vec::new()); batch.len()];
        let mut asked: Option<(Vec<usize>, Asked<B>)> = None;
        let mut take = |this: &Self, (parts, asked): (Vec<usize>, Asked<B>)| {
            for (i, mut part) in parts.into_iter().zip(this.answer(asked)?) {
                let Ok(before) = &mut samples[i] else { continue };
                match clip(&mut part) {
                    Ok(()) => before.extend(part),
                    Err(flaw) => samples[i] = Err(flaw),
                }
            }
            Ok::<_, ModelError>(())
        };
        start = 0;
        while let Some((parts, mut work, end)) = Self::piece(streams, &heard, start) {
            let pass = self.pass(&mut work, 0, 0)?;
            if let Some(before) = asked.replace((parts, pass)) {
                take(self, before)?;
            }
            start = end;
        }
        if let Some(last) = asked {
            take(self, last)?;
        }
        Ok(samples)
    }

    /// Frames of the streams for one pass that begins with the `start`-th of each: the streams, their part, and the
    /// start of the next pass; none if all have been computed.
    fn piece<'a>(streams: &'a mut [Stream], frames: &[&'a [CodecFrame]], start: usize) -> Option<Piece<'a>> {
        let live = frames.iter().filter(|frames| start < frames.len()).count();
        if live == 0 {
            return None;
        }
        let end = start + (B::SIGNAL.in_all / live).clamp(1, B::SIGNAL.per_stream);
        let mut parts = Vec::new();
        let mut work = Vec::new();
        for (i, (stream, frames)) in streams.iter_mut().zip(frames).enumerate() {
            if start < frames.len() {
                parts.push(i);
                work.push((stream, &frames[start..frames.len().min(end)]));
            }
        }
        Some((parts, work, end))
    }
}

impl<B: Backend> ChunkModel for Core<B> {
    type Request = ();
    type Item = CodecFrame;
    type Sample = f32;

    fn open(&mut self, seq: SeqId, (): (), lead: u32) -> Result<Skipped, ModelError> {
        if self.streams.contains_key(&seq) {
            return Err(ModelError::Rejected(format!("stream {} is already open", seq.0)));
        }
        let region = self.region()?;
        for past in &mut self.pasts {
            self.b.clear_past(past, small(region))?;
        }
        let reach = self.net.reach();
        let first = (lead as usize).saturating_sub(reach.all);
        let sounds = (lead as usize).saturating_sub(reach.convolutions);
        let stream = Stream {
            region,
            position: first,
            first,
            sounds,
        };
        self.streams.insert(seq, stream);
        Ok(Skipped {
            items: small(first),
            samples: self.net.config.samples_of(sounds) as u64,
        })
    }

    fn decode(&mut self, batch: &[(SeqId, &[CodecFrame])]) -> Result<Vec<Decoded<f32>>, ModelError> {
        self.check(batch)?;
        let flaws: Vec<_> = batch.iter().map(|(_, frames)| self.flaw(frames)).collect();
        let sound: Vec<_> = batch
            .iter()
            .zip(&flaws)
            .filter(|(_, flaw)| flaw.is_none())
            .map(|(entry, _)| *entry)
            .collect();
        // The streams leave the map for the call, so that the batch can borrow all of them at once.
        let mut taken: Vec<Stream> = sound
            .iter()
            .filter_map(|(seq, _)| self.streams.remove(seq))
            .collect();
        match self.decode_taken(&mut taken, &sound) {
            Ok(samples) => {
                self.streams.extend(sound.iter().map(|(seq, _)| *seq).zip(taken));
                let mut samples = samples.into_iter();
                let decoded =
                    |flaw: Option<String>| flaw.map_or_else(|| samples.next(), |flaw| Some(Err(flaw)));
                Ok(flaws.into_iter().filter_map(decoded).collect())
            }
            Err(error) => {
                // What these streams remember is half old, half new.
                self.free.extend(taken.into_iter().map(|stream| stream.region));
                Err(error)
            }
        }
    }

    fn prepare(&mut self, nth: u32, bounds: ChunkBounds) -> Result<bool, ModelError> {
        let ChunkBounds {
            streams,
            batch,
            items,
        } = bounds;
        let most = (items as usize).min(B::SIGNAL.in_all);
        // Allocate for all streams now, so that nothing grows while they are playing.
        self.regions_for(streams as usize + SPARE + 1)?;
        // With one signal of the padding stream.
        let signals = self.b.buckets(batch as usize + 1);
        let mut sizes = Vec::new();
        for rows in self.b.buckets(most) {
            sizes.extend(
                signals
                    .iter()
                    .filter(|s| **s <= rows)
                    .map(|&signals| (rows, signals)),
            );
        }
        let Some(&(rows, signals)) = sizes.get(nth as usize) else {
            return Ok(false);
        };
        let asked = self.pass(&mut [], rows, signals)?;
        self.answer(asked)?;
        Ok(true)
    }

    fn close(&mut self, seq: SeqId) {
        if let Some(stream) = self.streams.remove(&seq) {
            self.free.push(stream.region);
        }
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
