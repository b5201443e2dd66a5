//! Driving a thinker as an engine would.

use omni_engine::{ArModel, BlockId, Sampled, SeqId, SeqStep};
use omni_models::{PromptPiece, TextSampling, Thinker, ThinkerRequest, ThinkerToken};

use crate::golden::Goldens;

pub(crate) const IM_END: u32 = 277;
pub(crate) const AUDIO_PAD: u32 = 289;
pub(crate) const HIDDEN: usize = 48;

/// A greedy request that ends as the reference does.
pub(crate) fn ask(prompt: Vec<PromptPiece>) -> ThinkerRequest {
    ThinkerRequest {
        prompt,
        axes: None,
        sampling: TextSampling::default(),
        seed: 0,
        stop: vec![IM_END],
        logprobs: false,
        export_hidden: false,
    }
}

pub(crate) fn tokens(ids: &[u32]) -> Vec<PromptPiece> {
    ids.iter().map(|&id| PromptPiece::Token(id)).collect()
}

/// The prompt of the golden case with audio: its run of `<|audio_pad|>` is the rows of the encoder.
pub(crate) fn audio_prompt(goldens: &Goldens) -> Vec<PromptPiece> {
    let ids = goldens.ids("audio.input_ids");
    let first = ids.iter().position(|&id| id == AUDIO_PAD).expect("audio");
    let last = ids.iter().rposition(|&id| id == AUDIO_PAD).expect("audio");
    let mut prompt = tokens(&ids[..first]);
    prompt.push(PromptPiece::Audio(goldens.floats("audio.embeds_windowed").into()));
    prompt.extend(tokens(&ids[last + 1..]));
    prompt
}

/// One reply as an engine keeps it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) seq: SeqId,
    pub(crate) prompt: u32,
    pub(crate) computed: u32,
    pub(crate) blocks: Vec<BlockId>,
    pub(crate) said: Vec<ThinkerToken>,
    pub(crate) done: bool,
    most: usize,
}

impl Reply {
    /// Opens a sequence that says at most `most` tokens. Its blocks lie scattered over the pool.
    pub(crate) fn open(thinker: &mut Thinker, id: u64, request: ThinkerRequest, most: usize) -> Self {
        // Block 0 is the model's own.
        let share = (thinker.kv_spec().num_blocks - 1) / 8;
        let index = u32::try_from(id).expect("a small id") % 8;
        let prompt = thinker.open(SeqId(id), request).expect("the request is served");
        Self {
            seq: SeqId(id),
            prompt,
            computed: 0,
            // 11 steps through every residue of a share that 11 does not divide.
            blocks: (0..share)
                .map(|i| BlockId(1 + (i * 11 % share) * 8 + index))
                .collect(),
            said: Vec::new(),
            done: false,
            most,
        }
    }

    pub(crate) fn known(&self) -> u32 {
        self.prompt + u32::try_from(self.said.len()).expect("few tokens")
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.said.iter().map(|t| t.token).collect()
    }

    fn step(&self, len: u32) -> SeqStep<'_> {
        SeqStep {
            seq: self.seq,
            start: self.computed,
            len,
            blocks: &self.blocks,
        }
    }
}

/// One engine step: at most `chunk` positions of each reply, then a sample of those that are up to date.
pub(crate) fn step(thinker: &mut Thinker, replies: &mut [&mut Reply], chunk: u32) {
    let lens: Vec<u32> = replies
        .iter()
        .map(|r| (r.known() - r.computed).min(chunk))
        .collect();
    let steps: Vec<SeqStep<'_>> = replies.iter().zip(&lens).map(|(r, &len)| r.step(len)).collect();
    thinker.execute(&steps).expect("the step computes");
    replies
        .iter_mut()
        .zip(&lens)
        .for_each(|(r, len)| r.computed += len);
    let mut ready: Vec<&mut &mut Reply> = replies.iter_mut().filter(|r| r.computed == r.known()).collect();
    let seqs: Vec<SeqId> = ready.iter().map(|r| r.seq).collect();
    let sampled = thinker.sample(&seqs).expect("the step samples");
    for (reply, sampled) in ready.iter_mut().zip(sampled) {
        match sampled {
            Sampled::Item(token) => reply.said.push(token),
            Sampled::End => reply.done = true,
            Sampled::Failed(reason) => panic!("{reason}"),
        }
        reply.done |= reply.said.len() >= reply.most;
    }
}

/// The whole of one reply on its own, its prompt in pieces of `chunk`.
pub(crate) fn say(thinker: &mut Thinker, id: u64, request: ThinkerRequest, most: usize, chunk: u32) -> Reply {
    let mut reply = Reply::open(thinker, id, request, most);
    while !reply.done {
        step(thinker, &mut [&mut reply], chunk);
    }
    thinker.close(reply.seq);
    reply
}
