//! The talker: a character of text becomes a frame.

use std::collections::{HashMap, VecDeque};

use omni_engine::{
    AsyncExecutor, CodecFrame, KvCache, KvSpec, ModelError, Sampled, SeqId, SeqStep, Sequences, StepExecutor,
    Warmup,
};
use omni_pipeline::request::SpeechRequest;

use super::{FakeScript, Life, MAX_LEN, Prepared};

#[derive(Debug)]
struct Speaking {
    seed: u64,
    bass: bool,
    text: Vec<u32>,
    spoken: usize,
    /// Frames that its request brought.
    prior: Vec<CodecFrame>,
}

/// The talker of [`super::FakeSpeech`].
#[derive(Debug)]
pub(super) struct FakeTalker {
    script: FakeScript,
    _life: Life,
    speaking: HashMap<SeqId, Speaking>,
    /// Samples that were requested and not waited for yet.
    submitted: VecDeque<Vec<(SeqId, Sampled<CodecFrame>)>>,
}

impl FakeTalker {
    pub(super) fn new(script: FakeScript) -> Self {
        Self {
            _life: script.talkers.one(),
            script,
            speaking: HashMap::new(),
            submitted: VecDeque::new(),
        }
    }
}

impl Sequences for FakeTalker {
    type Request = SpeechRequest;
    type Row = u32;

    fn open(&mut self, seq: SeqId, request: SpeechRequest) -> Result<u32, ModelError> {
        let bass = request.head.voice == "bass" || request.head.voice_prompt.is_some();
        self.script.prior.add(request.prior_frames.len());
        let speaking = Speaking {
            seed: request.head.seed,
            bass,
            text: Vec::new(),
            spoken: request.prior_frames.len(),
            prior: request.prior_frames.to_vec(),
        };
        self.speaking.insert(seq, speaking);
        Ok(3)
    }

    fn push(&mut self, seq: SeqId, rows: Vec<u32>, _last: bool) {
        self.speaking
            .get_mut(&seq)
            .expect("pushed to a known sequence")
            .text
            .extend(rows);
    }

    fn close(&mut self, seq: SeqId) {
        self.speaking.remove(&seq);
    }
}

impl StepExecutor for FakeTalker {
    type Output = CodecFrame;

    fn execute(&mut self, batch: &[SeqStep<'_>]) -> Result<(), ModelError> {
        self.script.talker.pass();
        assert!(!self.script.talker_dies.burns(), "the test lit the fuse");
        if self.script.talker_device_dies.burns() {
            return Err(ModelError::Lost("the test lit the fuse".to_owned()));
        }
        assert!(!batch.is_empty(), "a step computes something");
        Ok(())
    }

    fn sample(&mut self, seqs: &[SeqId]) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        seqs.iter().map(|seq| Ok(self.speak(*seq))).collect()
    }

    fn prior_outputs(&self, seq: SeqId) -> Vec<CodecFrame> {
        self.speaking[&seq].prior.clone()
    }
}

impl AsyncExecutor for FakeTalker {
    fn submit_sample(&mut self, seqs: &[SeqId]) -> Result<bool, ModelError> {
        if !self.script.apart.is_set() {
            return Ok(false);
        }
        if !self.submitted.is_empty() {
            self.script.apart.ahead();
        }
        let frames = self.sample(seqs)?;
        self.submitted
            .push_back(seqs.iter().copied().zip(frames).collect());
        Ok(true)
    }

    fn wait_sample(&mut self) -> Result<Vec<Sampled<CodecFrame>>, ModelError> {
        self.script.answers.pass();
        let submitted = self.submitted.pop_front().expect("samples were requested");
        let open = submitted.iter().all(|(seq, _)| self.speaking.contains_key(seq));
        assert!(open, "a sequence was closed before its answer");
        Ok(submitted.into_iter().map(|(_, frame)| frame).collect())
    }

    fn can_run_ahead(&self, _: &[SeqId]) -> bool {
        self.script.apart.is_set()
    }
}

impl KvCache for FakeTalker {
    fn kv_spec(&self) -> KvSpec {
        KvSpec {
            block_size: 1_024,
            num_blocks: 1 << 16,
            max_len: MAX_LEN,
        }
    }
}

impl Warmup for FakeTalker {
    fn prepare(&mut self, nth: u32, seqs: u32) -> Result<bool, ModelError> {
        self.script.preparation.prepare(Prepared {
            nth,
            most: seqs,
            steps: self.script.talker.passed(),
        })
    }
}

impl FakeTalker {
    fn speak(&mut self, seq: SeqId) -> Sampled<CodecFrame> {
        let speaking = self.speaking.get_mut(&seq).expect("sampled a known sequence");
        let token = match speaking.text.get(speaking.spoken) {
            Some(token) => *token,
            None => return Sampled::End,
        };
        let spoken = char::from_u32(token);
        assert!(
            spoken.is_none() || spoken != self.script.talker_panics_on,
            "the script says so"
        );
        if spoken.is_some() && spoken == self.script.talker_hangs_on {
            self.script.hangs.pass();
        }
        if spoken.is_some() && spoken == self.script.talker_fails_on {
            return Sampled::Failed("the script says so".to_owned());
        }
        if spoken.is_some() && spoken == self.script.talker_ends_on {
            self.script.ends.pass();
            return Sampled::End;
        }
        speaking.spoken += 1;
        let colour = (speaking.seed % 101) as u32 + if speaking.bass { 200 } else { 0 };
        Sampled::Item(CodecFrame(Box::new([token, colour])))
    }
}
