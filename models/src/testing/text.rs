//! Driving a thinker as an engine would.

use omni_engine::{BlockId, KvCache, ModelError, Sampled, SeqId, SeqStep, Sequences, StepExecutor};

use super::Goldens;
use super::speech::scattered;
use crate::{PromptPiece, TextSampling, Thinker, ThinkerRequest, ThinkerToken};

/// Ids of the tiny checkpoint's special tokens.
const IM_END: u32 = 277;
const AUDIO_PAD: u32 = 289;

/// A greedy request that ends as the tiny checkpoint's reference does.
pub fn ask(prompt: Vec<PromptPiece>) -> ThinkerRequest {
    ThinkerRequest {
        prompt,
        axes: None,
        sampling: TextSampling::default(),
        seed: 0,
        stop: vec![IM_END],
        max_tokens: u32::MAX,
        logprobs: false,
        export_hidden: false,
    }
}

/// A prompt of these tokens.
pub fn text_tokens(ids: &[u32]) -> Vec<PromptPiece> {
    ids.iter().map(|&id| PromptPiece::Token(id)).collect()
}

/// The prompt of the golden case with audio: its run of `<|audio_pad|>` is the rows of the encoder.
///
/// # Panics
/// If the goldens have none.
pub fn audio_prompt(goldens: &Goldens) -> Vec<PromptPiece> {
    let ids = goldens.ids("audio.input_ids");
    let first = ids.iter().position(|&id| id == AUDIO_PAD).expect("audio");
    let last = ids.iter().rposition(|&id| id == AUDIO_PAD).expect("audio");
    let mut prompt = text_tokens(&ids[..first]);
    prompt.push(PromptPiece::Audio(goldens.floats("audio.embeds_windowed").into()));
    prompt.extend(text_tokens(&ids[last + 1..]));
    prompt
}

/// One reply as an engine keeps it.
#[derive(Debug)]
pub struct Reply {
    /// Its name.
    pub seq: SeqId,
    /// Positions of its prompt.
    pub prompt: u32,
    /// Positions computed so far.
    pub computed: u32,
    /// Its blocks.
    pub blocks: Vec<BlockId>,
    /// Tokens of the sequence so far.
    pub said: Vec<ThinkerToken>,
    /// `true` once it has ended.
    pub done: bool,
    most: usize,
}

impl Reply {
    /// Opens a sequence that says at most `most` tokens, beside at most seven others.
    ///
    /// # Errors
    /// Those of the thinker.
    pub fn open(
        thinker: &mut Thinker,
        id: u64,
        request: ThinkerRequest,
        most: usize,
    ) -> Result<Self, ModelError> {
        let blocks = scattered(&thinker.kv_spec(), id, 8);
        let prompt = thinker.open(SeqId(id), request)?;
        Ok(Self {
            seq: SeqId(id),
            prompt,
            computed: 0,
            blocks,
            said: Vec::new(),
            done: false,
            most,
        })
    }

    /// Positions that can be computed now.
    ///
    /// # Panics
    /// After four thousand million tokens.
    pub fn known(&self) -> u32 {
        self.prompt + u32::try_from(self.said.len()).expect("few tokens")
    }

    /// Its tokens' ids.
    pub fn ids(&self) -> Vec<u32> {
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

    /// One engine step over `replies`: at most `chunk` positions of each, then a sample of those that are up to date.
    ///
    /// # Errors
    /// Those of the thinker, and that of a reply that failed.
    pub fn advance(thinker: &mut Thinker, replies: &mut [&mut Self], chunk: u32) -> Result<(), ModelError> {
        let lens: Vec<u32> = replies
            .iter()
            .map(|r| (r.known() - r.computed).min(chunk))
            .collect();
        let steps: Vec<SeqStep<'_>> = replies.iter().zip(&lens).map(|(r, &len)| r.step(len)).collect();
        thinker.execute(&steps)?;
        replies
            .iter_mut()
            .zip(&lens)
            .for_each(|(r, len)| r.computed += len);
        let mut ready: Vec<&mut &mut Self> = replies.iter_mut().filter(|r| r.computed == r.known()).collect();
        let seqs: Vec<SeqId> = ready.iter().map(|r| r.seq).collect();
        let sampled = thinker.sample(&seqs)?;
        for (reply, sampled) in ready.iter_mut().zip(sampled) {
            match sampled {
                Sampled::Item(token) => reply.said.push(token),
                Sampled::End => reply.done = true,
                Sampled::Failed(reason) => return Err(ModelError::Compute(reason)),
            }
            reply.done |= reply.said.len() >= reply.most;
        }
        Ok(())
    }
}

/// The whole of one reply on its own, its prompt in pieces of `chunk`.
///
/// # Errors
/// Those of the thinker.
pub fn say(
    thinker: &mut Thinker,
    id: u64,
    request: ThinkerRequest,
    most: usize,
    chunk: u32,
) -> Result<Reply, ModelError> {
    let mut reply = Reply::open(thinker, id, request, most)?;
    while !reply.done {
        Reply::advance(thinker, &mut [&mut reply], chunk)?;
    }
    thinker.close(reply.seq);
    Ok(reply)
}
