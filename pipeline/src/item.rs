//! Items on an edge.

use std::sync::Arc;

use omni_engine::{CodecFrame, LatentFrame, PayloadKind};

/// An item of an edge.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Tokens of text that is to be spoken.
    Text(Vec<u32>),
    /// Codec frames, at least one.
    Frames(Vec<CodecFrame>),
    /// Frames of continuous values.
    Latents(Latents),
    /// Samples.
    Audio(AudioPiece),
    /// A token of an answer.
    Reply(ReplyToken),
    /// Output of an encoder for a recording: rows, one after the other.
    Embedding(Arc<[f32]>),
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// [`Item::Text`].
    Text,
    /// [`Item::Frames`].
    Frames,
    /// [`Item::Latents`].
    Latents,
    /// [`Item::Audio`].
    Audio,
    /// [`Item::Reply`].
    Reply,
    /// [`Item::Embedding`].
    Embedding,
}

impl ItemKind {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Frames => "a codec frame",
            Self::Latents => "latents",
            Self::Audio => "audio",
            Self::Reply => "a token of an answer",
            Self::Embedding => "an embedding",
        }
    }
}

impl From<PayloadKind> for ItemKind {
    /// Kind of the items by which a payload comes, or in which it is requested.
    fn from(payload: PayloadKind) -> Self {
        match payload {
            PayloadKind::Prompt | PayloadKind::Text => Self::Text,
            PayloadKind::Frames => Self::Frames,
            PayloadKind::Latents => Self::Latents,
            PayloadKind::Audio | PayloadKind::Recording => Self::Audio,
            PayloadKind::Embedding => Self::Embedding,
        }
    }
}

/// Frames of continuous values: rows of one width, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Latents {
    width: u32,
    values: Vec<f32>,
}

impl Latents {
    /// Creates frames of `width` values, one after the other; `None` if there is no frame or if one is cut short.
    pub fn new(width: u32, values: Vec<f32>) -> Option<Self> {
        let whole = width > 0 && values.len().is_multiple_of(width as usize);
        (whole && !values.is_empty()).then_some(Self { width, values })
    }

    /// Values of a frame.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Number of frames.
    pub fn rows(&self) -> u32 {
        u32::try_from(self.values.len() / self.width.max(1) as usize).unwrap_or(u32::MAX)
    }

    /// The values, frame after frame.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}

/// A piece of audio as the last stage made it.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioPiece {
    /// Mono samples in `[-1, 1]`; may be empty.
    pub samples: Vec<f32>,
    /// Frames they were decoded from.
    pub frames: u32,
    /// These frames, if they are codec frames and were [requested](crate::request::DecodeRequest::with_codes): the sequence continues from
    /// them elsewhere.
    pub codes: Vec<CodecFrame>,
}

/// One token of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplyToken {
    /// Its id.
    pub id: u32,
    /// With the first token, if requested: a hidden state per row of audio in the prompt, in order.
    pub hidden: Vec<Arc<[f32]>>,
}

impl Item {
    /// Kind of the item.
    pub fn kind(&self) -> ItemKind {
        match self {
            Self::Text(_) => ItemKind::Text,
            Self::Frames(_) => ItemKind::Frames,
            Self::Latents(_) => ItemKind::Latents,
            Self::Audio(_) => ItemKind::Audio,
            Self::Reply(_) => ItemKind::Reply,
            Self::Embedding(_) => ItemKind::Embedding,
        }
    }

    /// Number of outputs in it: tokens, frames or recordings.
    pub fn outputs(&self) -> u32 {
        match self {
            Self::Text(_) | Self::Reply(_) | Self::Embedding(_) => 1,
            Self::Frames(frames) => u32::try_from(frames.len()).unwrap_or(u32::MAX),
            Self::Latents(latents) => latents.rows(),
            Self::Audio(piece) => piece.frames,
        }
    }

    /// Units of an edge's capacity that it takes, at least one.
    pub fn units(&self) -> u32 {
        self.outputs().max(1)
    }

    /// Bytes of its content.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Text(tokens) => size_of_val(tokens.as_slice()),
            Self::Frames(frames) => codes(frames),
            Self::Latents(latents) => size_of_val(latents.values.as_slice()),
            Self::Audio(piece) => size_of_val(piece.samples.as_slice()) + codes(&piece.codes),
            Self::Reply(token) => {
                let hidden = token.hidden.iter().map(|row| size_of_val(&**row));
                size_of_val(&token.id) + hidden.sum::<usize>()
            }
            Self::Embedding(rows) => size_of_val(&**rows),
        };
        bytes as u64
    }
}

fn codes(frames: &[CodecFrame]) -> usize {
    frames.iter().map(|frame| size_of_val(&*frame.0)).sum()
}

impl From<CodecFrame> for Item {
    fn from(frame: CodecFrame) -> Self {
        Self::Frames(vec![frame])
    }
}

/// A frame has at least one value.
impl From<LatentFrame> for Item {
    fn from(LatentFrame(row): LatentFrame) -> Self {
        Self::Latents(Latents {
            width: u32::try_from(row.len()).unwrap_or(u32::MAX),
            values: row.into_vec(),
        })
    }
}

/// Input that a model takes from the items of the stage before it.
pub trait FromItem: Sized {
    /// Inputs in an item; the item itself if it is of another kind.
    ///
    /// # Errors
    /// The item.
    fn from_item(item: Item) -> Result<Vec<Self>, Item>;
}

/// Text tokens.
impl FromItem for u32 {
    fn from_item(item: Item) -> Result<Vec<Self>, Item> {
        match item {
            Item::Text(tokens) => Ok(tokens),
            other => Err(other),
        }
    }
}

impl FromItem for CodecFrame {
    fn from_item(item: Item) -> Result<Vec<Self>, Item> {
        match item {
            Item::Frames(frames) => Ok(frames),
            other => Err(other),
        }
    }
}

impl FromItem for LatentFrame {
    fn from_item(item: Item) -> Result<Vec<Self>, Item> {
        let Item::Latents(Latents { width, values }) = item else {
            return Err(item);
        };
        let rows = values.chunks_exact(width.max(1) as usize);
        Ok(rows.map(|row| Self(row.into())).collect())
    }
}

/// A model without inputs besides its request.
impl FromItem for () {
    fn from_item(item: Item) -> Result<Vec<Self>, Item> {
        Err(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_weighs_what_it_stands_for_and_at_least_one() {
        let frame = || CodecFrame(Box::new([1, 2]));
        let item = Item::Frames(vec![frame(), frame(), frame()]);
        assert_eq!((item.outputs(), item.units(), item.bytes()), (3, 3, 24));
        let silent = Item::Audio(AudioPiece {
            samples: vec![0.0; 3],
            frames: 0,
            codes: vec![frame()],
        });
        assert_eq!((silent.outputs(), silent.units(), silent.bytes()), (0, 1, 20));
        let token = Item::Reply(ReplyToken {
            id: 7,
            hidden: vec![vec![0.0; 2].into()],
        });
        assert_eq!((token.units(), token.bytes()), (1, 12));
        let latents = Item::Latents(Latents::new(4, vec![0.0; 12]).unwrap());
        assert_eq!((latents.outputs(), latents.units(), latents.bytes()), (3, 3, 48));
    }

    #[test]
    fn latents_are_whole_rows() {
        for (width, values) in [(0, 0), (0, 4), (2, 0), (3, 4), (5, 4)] {
            assert_eq!(Latents::new(width, vec![0.0; values]), None, "{width} {values}");
        }
    }

    #[test]
    fn a_model_takes_items_of_its_kind_and_no_others() {
        assert_eq!(u32::from_item(Item::Text(vec![3, 4])), Ok(vec![3, 4]));
        let frame = CodecFrame(Box::new([9]));
        assert_eq!(CodecFrame::from_item(frame.clone().into()), Ok(vec![frame]));
        assert!(CodecFrame::from_item(Item::Text(vec![1])).is_err());
        let latents = Latents::new(2, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        let rows = [[1.0, 2.0], [3.0, 4.0]].map(|row| LatentFrame(row.into()));
        assert_eq!(LatentFrame::from_item(Item::Latents(latents)), Ok(rows.to_vec()));
        let [first, _] = rows;
        assert_eq!(LatentFrame::from_item(first.clone().into()), Ok(vec![first]));
        assert!(LatentFrame::from_item(Item::Text(vec![1])).is_err());
        assert!(<()>::from_item(Item::Text(vec![1])).is_err());
    }
}
