//! Talker's state of one reply: the content of each position, independent of how it is computed.

use omni_engine::CodecFrame;

use super::TalkerRequest;
use super::prompt::{Prompt, PromptRow, RowCodec, RowText, Vocabulary};

/// Text track of a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TextTrack<'a> {
    Token(u32),
    Hidden(&'a [f32]),
}

/// Codec track of a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CodecTrack<'a> {
    None,
    Code(u32),
    Frame(&'a [u32]),
    Vector(&'a [f32]),
}

/// No code: adds nothing where a backend rounds sizes up.
pub(super) const NO_CODE: u32 = u32::MAX;

impl CodecTrack<'_> {
    /// Appends its codes to those of other positions, filled up to `groups` of them with [`NO_CODE`].
    pub(super) fn append_codes(&self, codes: &mut Vec<u32>, groups: usize) {
        let full = codes.len() + groups;
        match self {
            Self::None | Self::Vector(_) => {}
            Self::Code(id) => codes.push(*id),
            Self::Frame(frame) => codes.extend_from_slice(frame),
        }
        codes.resize(full, NO_CODE);
    }
}

/// One input position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Input<'a> {
    pub(super) text: TextTrack<'a>,
    pub(super) codec: CodecTrack<'a>,
}

/// A position whose content is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotKnown {
    #[error("position {0} needs text that has not been pushed")]
    Text(usize),
    #[error("position {0} needs a frame that has not been sampled")]
    Frame(usize),
}

/// Prompt, text and frames of one reply.
#[derive(Debug)]
pub(super) struct Sequence {
    request: TalkerRequest,
    ids: Vocabulary,
    prompt: Vec<PromptRow>,
    /// Text token of the first frame; `None`: the prompt contains all text.
    next: Option<usize>,
    /// Text to be spoken, as far as it is known, behind the text that the prompt speaks first.
    text: Vec<u32>,
    /// `true` if the text is complete.
    complete: bool,
    /// Reason why this reply cannot go on.
    broken: Option<String>,
    groups: usize,
    /// All codes of all frames, frame by frame.
    frames: Vec<u32>,
    /// First codes of all frames.
    first: Vec<u32>,
    /// Frames in flight.
    asked: u32,
    /// Slot of the last requested frame, for the step that continues it.
    frame_slot: Option<u32>,
}

impl Sequence {
    pub(super) fn new(request: TalkerRequest, prompt: Prompt, ids: Vocabulary) -> Self {
        Self {
            request,
            ids,
            prompt: prompt.rows,
            next: prompt.next,
            text: prompt.opening,
            complete: false,
            broken: None,
            groups: ids.frame.groups,
            frames: Vec::new(),
            first: Vec::new(),
            asked: 0,
            frame_slot: None,
        }
    }

    /// Appends text. A token that does not exist breaks this reply, not those that it is batched with.
    pub(super) fn push(&mut self, rows: &[u32], last: bool) {
        if let Some(id) = rows.iter().find(|&&id| id as usize >= self.ids.text_vocab) {
            self.broken = Some(format!(
                "text token {id} does not exist, expected below {}",
                self.ids.text_vocab
            ));
            self.complete = true;
            return;
        }
        self.text.extend_from_slice(rows);
        self.complete |= last;
    }

    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    pub(super) fn prompt_len(&self) -> usize {
        self.prompt.len()
    }

    pub(super) fn request(&self) -> &TalkerRequest {
        &self.request
    }

    /// First codes of the frames known so far.
    pub(super) fn first_codes(&self) -> &[u32] {
        &self.first
    }

    /// All frames known so far.
    pub(super) fn known_frames(&self) -> Vec<CodecFrame> {
        let frames = self.frames.chunks(self.groups);
        frames.map(|codes| CodecFrame(codes.into())).collect()
    }

    pub(super) fn add_frame(&mut self, codes: &[u32]) {
        debug_assert_eq!(codes.len(), self.groups, "a frame has one code per group");
        self.first.push(codes[0]);
        self.frames.extend_from_slice(codes);
    }

    /// Puts a frame in the place of the last one.
    pub(super) fn replace_frame(&mut self, codes: &[u32]) {
        self.first.pop();
        self.frames.truncate(self.frames.len() - self.groups);
        self.add_frame(codes);
    }

    /// Frames requested so far, the counter of random draws.
    pub(super) fn frames(&self) -> u32 {
        u32::try_from(self.first.len()).unwrap_or(u32::MAX - self.asked) + self.asked
    }

    /// Its frames are kept there from now on, one at a time.
    pub(super) fn set_frame_slot(&mut self, slot: u32) {
        self.frame_slot = Some(slot);
    }

    /// Counts a requested frame.
    pub(super) fn ask(&mut self) {
        self.asked += 1;
    }

    /// Counts a frame that arrived, or failed.
    pub(super) fn answered(&mut self) {
        self.asked -= 1;
    }

    /// Slot of its last frame.
    pub(super) fn frame_slot(&self) -> Option<u32> {
        self.frame_slot
    }

    /// Slot of the frame that the host does not know yet, if there is one.
    pub(super) fn said(&self) -> Option<u32> {
        self.frame_slot.filter(|_| self.asked > 0)
    }

    /// Slot of the frame that position `p` continues, if it is the last one.
    pub(super) fn frame_slot_at(&self, p: usize) -> Option<u32> {
        let frames = self.frames() as usize;
        self.frame_slot
            .filter(|_| frames > 0 && p + 1 == self.prompt_len() + frames)
    }

    /// Text token of decode position `p`.
    pub(super) fn text_at(&self, p: usize) -> Result<u32, NotKnown> {
        self.text_of_frame(p - self.prompt_len(), p)
    }

    /// Input of position `p`.
    pub(super) fn input(&self, p: usize) -> Result<Input<'_>, NotKnown> {
        let Some(row) = self.prompt.get(p) else {
            return self.frame_row(p - self.prompt.len(), p);
        };
        let text = match &row.text {
            RowText::Token(id) => TextTrack::Token(*id),
            RowText::Hidden(state) => TextTrack::Hidden(state),
            RowText::Spoken(n) => TextTrack::Token(self.spoken(*n, p)?),
        };
        let codec = match &row.codec {
            RowCodec::None => CodecTrack::None,
            RowCodec::Code(id) => CodecTrack::Code(*id),
            RowCodec::Frame(codes) => CodecTrack::Frame(codes),
            RowCodec::Vector(values) => CodecTrack::Vector(values),
        };
        Ok(Input { text, codec })
    }

    fn frame_row(&self, frame: usize, p: usize) -> Result<Input<'_>, NotKnown> {
        let at = frame * self.groups;
        let codes = self.frames.get(at..at + self.groups).ok_or(NotKnown::Frame(p))?;
        Ok(Input {
            text: TextTrack::Token(self.text_of_frame(frame, p)?),
            codec: CodecTrack::Frame(codes),
        })
    }

    /// The text that position `p` adds to frame `frame`.
    fn text_of_frame(&self, frame: usize, p: usize) -> Result<u32, NotKnown> {
        match self.next {
            Some(next) => self.spoken(next + frame, p),
            None => Ok(self.ids.text.tts_pad),
        }
    }

    /// The `n`-th token of the text as spoken: the text, its end, then padding.
    fn spoken(&self, n: usize, p: usize) -> Result<u32, NotKnown> {
        match self.text.get(n) {
            Some(&id) => Ok(id),
            None if !self.complete => Err(NotKnown::Text(p)),
            None if n == self.text.len() => Ok(self.ids.text.tts_eos),
            None => Ok(self.ids.text.tts_pad),
        }
    }
}
