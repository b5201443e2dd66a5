//! Step times, stage by stage, and the launches meanwhile.

use std::time::{Duration, Instant};

use omni_engine::{
    AsyncExecutor, BlockId, ChunkModel, CodecFrame, Sampled, SeqId, SeqStep, Sequences, StepExecutor,
};
use omni_models::testing::tokens;
use omni_models::{Code2Wav, GpuFigures, KvOptions, Sampling, SpeechModel, Talker, TalkerRequest};

use super::percentile;

/// Positions of a block of the cache.
const BLOCK: u32 = 16;
/// Frames before any is measured: by then steps are known, and their graphs made.
const WARM: u32 = 4;

/// Steps of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Timed {
    /// Seconds each took, until its result was on the host.
    pub(super) wall: Vec<f64>,
    /// Seconds the device worked on graphs in all of them.
    pub(super) busy: f64,
    /// Launches in all of them, alone and in graphs.
    pub(super) launches: u64,
}

impl Timed {
    /// The value that at least `share` of the steps did not exceed (nearest rank); not a number without steps.
    pub(super) fn at(&self, share: f64) -> f64 {
        let mut sorted = self.wall.clone();
        sorted.sort_by(f64::total_cmp);
        percentile(&sorted, share)
    }

    /// Share of the time in which the device worked on graphs.
    pub(super) fn busy_share(&self) -> f64 {
        self.busy / self.wall.iter().sum::<f64>()
    }

    /// Launches of one step.
    pub(super) fn launches_each(&self) -> f64 {
        self.launches as f64 / self.wall.len() as f64
    }

    /// Measures until there are `count`, or until `time` has passed and there are some.
    fn take(
        model: &SpeechModel,
        count: u32,
        time: Duration,
        mut step: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let before = model.gpu_figures().unwrap_or_default();
        let mut wall = Vec::new();
        while wall.len() < count as usize && (wall.is_empty() || begun.elapsed() < time) {
            let start = Instant::now();
            step()?;
            wall.push(start.elapsed().as_secs_f64());
        }
        let after = model.gpu_figures().unwrap_or_default();
        Ok(Self {
            wall,
            busy: (after.busy - before.busy).as_secs_f64(),
            launches: launches(after) - launches(before),
        })
    }
}

/// All launches so far, alone and in graphs.
fn launches(figures: GpuFigures) -> u64 {
    figures.launches + figures.recorded_launches + figures.replayed_launches
}

/// A frame of every sequence of a batch.
#[derive(Debug, Clone)]
pub(super) struct FrameTimes {
    /// The talker's half, waited for.
    pub(super) talker: Timed,
    /// The predictor's half, waited for.
    pub(super) predictor: Timed,
    /// Both, each step submitted before the one in front of it is waited for, as a server does.
    pub(super) overlapped: Timed,
    /// Positions that a sequence had, on average over what was measured.
    pub(super) context: f64,
}

/// A talker in the middle of `batch` sentences.
struct Speakers {
    talker: Talker,
    blocks: Vec<Vec<BlockId>>,
    position: u32,
}

/// Measures up to `count` frames of each kind, within `time` or little more.
pub(super) fn frames(
    model: &SpeechModel,
    batch: u32,
    count: u32,
    time: Duration,
) -> anyhow::Result<FrameTimes> {
    let mut speakers = Speakers::warm(model, batch, count)?;
    let from = speakers.position;
    speakers.ask()?;
    let overlapped = Timed::take(model, count, time / 2, || {
        speakers.ask()?;
        speakers.answer()
    })?;
    speakers.answer()?;
    let context = f64::from(from + speakers.position) / 2.0;
    // Starts at the same position, and runs as far as the one before.
    let mut speakers = Speakers::warm(model, batch, count)?;
    let mut talker = Timed::default();
    let mut predictor = Timed::default();
    let begun = Instant::now();
    for done in 0..count {
        if done > 0 && begun.elapsed() > time / 2 {
            break;
        }
        talker.add(Timed::take(model, 1, time, || speakers.execute(1))?);
        predictor.add(Timed::take(model, 1, time, || speakers.sample())?);
    }
    Ok(FrameTimes {
        talker,
        predictor,
        overlapped,
        context,
    })
}

impl Timed {
    fn add(&mut self, other: Self) {
        self.wall.extend(other.wall);
        self.busy += other.busy;
        self.launches += other.launches;
    }
}

impl Speakers {
    /// Sequences with room for `count` steps, after a warm-up. Every step ends with its result on the host, so that
    /// none of its work falls into the next one's time.
    fn warm(model: &SpeechModel, batch: u32, count: u32) -> anyhow::Result<Self> {
        let mut speakers = Self::new(model, batch, WARM + count + 2)?;
        speakers.sample()?;
        for _ in 0..WARM {
            speakers.execute(1)?;
            speakers.sample()?;
        }
        Ok(speakers)
    }

    /// With their prompts computed, one sequence after another.
    fn new(model: &SpeechModel, batch: u32, frames: u32) -> anyhow::Result<Self> {
        let request = request(model)?;
        let prompt = u32::try_from(request.user.len())? + 16;
        let each = (prompt + frames).div_ceil(BLOCK);
        let kv = KvOptions {
            block_size: BLOCK,
            num_blocks: 1 + batch * each,
        };
        let mut talker = model.talker(kv)?;
        let text = model.tokenizer().encode("speech out of text, all the time. ")?;
        let mut position = 0;
        let mut blocks: Vec<Vec<BlockId>> = Vec::new();
        for id in 0..batch {
            let seq = SeqId(id.into());
            let request = TalkerRequest {
                seed: id.into(),
                ..request.clone()
            };
            position = talker.open(seq, request)?;
            talker.push(seq, text.clone(), true);
            // Block 0 is the model's own.
            blocks.push((0..each).map(|i| BlockId(1 + id * each + i)).collect());
        }
        let mut this = Self {
            talker,
            blocks,
            position: 0,
        };
        this.execute(position)?;
        Ok(this)
    }

    /// Asks for the next positions of all.
    fn execute_only(&mut self, len: u32) -> anyhow::Result<()> {
        let start = self.position;
        let step = |(id, blocks)| SeqStep {
            seq: SeqId(id),
            start,
            len,
            blocks,
        };
        let blocks = self.blocks.iter().map(Vec::as_slice);
        let steps: Vec<SeqStep<'_>> = (0..).zip(blocks).map(step).collect();
        self.talker.execute(&steps)?;
        self.position += len;
        Ok(())
    }

    /// And waits for them.
    fn execute(&mut self, len: u32) -> anyhow::Result<()> {
        self.execute_only(len)?;
        let computed = self.talker.hidden(SeqId(0));
        anyhow::ensure!(computed.is_some(), "nothing was computed");
        Ok(())
    }

    /// The next frame of all.
    fn sample(&mut self) -> anyhow::Result<()> {
        let sampled = self.talker.sample(&self.seqs())?;
        all_made(&sampled)
    }

    /// Asks for the next position and the next frame of all.
    fn ask(&mut self) -> anyhow::Result<()> {
        self.execute_only(1)?;
        let asked = self.talker.submit_sample(&self.seqs())?;
        anyhow::ensure!(asked, "it is sampled on the processor");
        Ok(())
    }

    /// Waits for the oldest frame in flight.
    fn answer(&mut self) -> anyhow::Result<()> {
        let sampled = self.talker.wait_sample()?;
        all_made(&sampled)
    }

    fn seqs(&self) -> Vec<SeqId> {
        (0..self.blocks.len() as u64).map(SeqId).collect()
    }
}

fn all_made(sampled: &[Sampled<CodecFrame>]) -> anyhow::Result<()> {
    let other = sampled
        .iter()
        .find(|sampled| !matches!(sampled, Sampled::Item(_)));
    anyhow::ensure!(other.is_none(), "a sequence ended: {other:?}");
    Ok(())
}

/// A request that never ends, drawn as the checkpoint wants it.
fn request(model: &SpeechModel) -> anyhow::Result<TalkerRequest> {
    let voice = model.limits().voices.first();
    Ok(TalkerRequest {
        user: tokens(&model.user_turn("")?),
        voice: voice.map_or("", String::as_str).into(),
        language: None,
        text: None,
        talker: Sampling {
            min_tokens: u32::MAX,
            ..model.defaults().talker
        },
        predictor: model.defaults().predictor,
        seed: 0,
        max_frames: u32::MAX,
        prior_frames: Vec::new(),
    })
}

/// Vocoder in the middle of streams, each of which gets the same frames again and again.
struct Decoders {
    code2wav: Code2Wav,
    streams: u32,
    frames: Vec<CodecFrame>,
}

impl Decoders {
    /// With steps that are known.
    fn ready(model: &SpeechModel, streams: u32, chunk: u32) -> anyhow::Result<Self> {
        let limits = model.limits();
        let frame = |t: u32| {
            let codes = (0..limits.code_groups).map(|q| (t * 31 + q * 17) % limits.codebook_size);
            CodecFrame(codes.collect())
        };
        let mut code2wav: Code2Wav = model.code2wav()?;
        (0..streams).try_for_each(|id| code2wav.open(SeqId(id.into()), (), 0).map(drop))?;
        let mut decoders = Self {
            code2wav,
            streams,
            frames: (0..chunk).map(frame).collect(),
        };
        for _ in 0..2 {
            decoders.step()?;
        }
        Ok(decoders)
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let frames = self.frames.as_slice();
        let batch: Vec<_> = (0..self.streams).map(|id| (SeqId(id.into()), frames)).collect();
        let samples = self.code2wav.decode(&batch)?;
        anyhow::ensure!(samples.len() == batch.len(), "a stream gave nothing");
        anyhow::ensure!(samples.iter().all(Result::is_ok), "a stream failed");
        Ok(())
    }
}

/// Pieces of `chunk` frames of each of `streams` streams, up to `count` of them, within `time` or little more.
pub(super) fn pieces(
    model: &SpeechModel,
    streams: u32,
    chunk: u32,
    count: u32,
    time: Duration,
) -> anyhow::Result<Timed> {
    let mut decoders = Decoders::ready(model, streams, chunk)?;
    Timed::take(model, count, time, || decoders.step())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let timed = Timed {
            wall: vec![3.0, 1.0, 2.0, 10.0],
            busy: 8.0,
            launches: 40,
        };
        assert_eq!((timed.at(0.5), timed.at(0.95), timed.at(0.0)), (2.0, 10.0, 1.0));
        assert_eq!((timed.busy_share(), timed.launches_each()), (0.5, 10.0));
        assert!(Timed::default().at(0.5).is_nan());
    }
}
