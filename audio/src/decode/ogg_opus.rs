//! Ogg Opus (RFC 7845): one stream of one or two channels, read page by page.

use ogg::reading::{BasePacketReader, PageParser};

use super::DecodeError;
use super::opus::Packets;
use crate::units::SampleRate;

const PAGE_HEADER: usize = 27;
/// Positions are counted at this rate.
const OGG_HZ: u64 = 48_000;
/// Most bytes of packets that have not come to their end. Opus packets are shorter; comments with pictures are long.
const MAX_UNFINISHED: usize = 1 << 20;

pub(super) struct OggOpus {
    packets: Packets,
    reader: BasePacketReader,
    /// Bytes that are no whole page yet; shorter than one.
    bytes: Vec<u8>,
    unfinished: usize,
    serial: Option<u32>,
    state: State,
    /// Samples to drop.
    skip: usize,
    /// Position at the end of the page before.
    position: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Tags,
    Audio,
    Over,
}

/// Header of a page.
struct Page {
    len: usize,
    position: u64,
    last: bool,
    serial: u32,
}

impl OggOpus {
    pub(super) fn new(to: SampleRate) -> Self {
        Self {
            packets: Packets::new(to),
            reader: BasePacketReader::new(),
            bytes: Vec::new(),
            unfinished: 0,
            serial: None,
            state: State::Head,
            skip: 0,
            position: 0,
        }
    }

    /// Rate of the decoded samples.
    pub(super) fn rate(&self) -> SampleRate {
        self.packets.rate()
    }

    /// Appends the samples of all pages that are complete; false if these would be more than `limit`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        limit: usize,
        out: &mut Vec<f32>,
    ) -> Result<bool, DecodeError> {
        self.bytes.extend_from_slice(bytes);
        let mut read = 0;
        while let Some(page) = header(&self.bytes[read..])? {
            let body = read..read + page.len;
            self.page(&page, body.clone(), out)?;
            read = body.end;
            if out.len() > limit {
                return Ok(false);
            }
        }
        self.bytes.drain(..read);
        Ok(true)
    }

    /// Nothing follows.
    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        match self.state {
            State::Head | State::Tags => Err(DecodeError::Ogg("it ends before its audio")),
            _ if !self.bytes.is_empty() || self.unfinished > 0 => {
                Err(DecodeError::Ogg("it ends within a page or a packet"))
            }
            State::Audio | State::Over => Ok(()),
        }
    }

    fn page(
        &mut self,
        page: &Page,
        range: std::ops::Range<usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        if self.state == State::Over || *self.serial.get_or_insert(page.serial) != page.serial {
            return Err(DecodeError::Ogg("it holds more than one stream"));
        }
        self.unfinished += range.len();
        let whole = parse(&self.bytes[range]).ok_or(DecodeError::Ogg("a page is damaged"))?;
        self.reader
            .push_page(whole)
            .map_err(|_| DecodeError::Ogg("its pages are in disorder"))?;
        let begin = out.len();
        while let Some(packet) = self.reader.read_packet() {
            self.unfinished = 0;
            self.packet(&packet.data, out)?;
        }
        if self.unfinished > MAX_UNFINISHED {
            return Err(DecodeError::Ogg("a packet is too long"));
        }
        if self.state == State::Audio {
            self.end_page(page, begin, out);
        }
        Ok(())
    }

    fn packet(&mut self, packet: &[u8], out: &mut Vec<f32>) -> Result<(), DecodeError> {
        match self.state {
            State::Head => self.head(packet),
            State::Tags if packet.starts_with(b"OpusTags") => {
                self.state = State::Audio;
                Ok(())
            }
            State::Tags => Err(DecodeError::Ogg("it has no comment header")),
            State::Audio | State::Over => self.packets.decode(packet, out),
        }
    }

    fn head(&mut self, packet: &[u8]) -> Result<(), DecodeError> {
        let wrong = |what| Err(DecodeError::Ogg(what));
        let Some(&[version, channels, s0, s1, _, _, _, _, g0, g1, family, ..]) = packet
            .strip_prefix(b"OpusHead")
            .and_then(<[u8]>::first_chunk::<11>)
        else {
            return wrong("it does not begin with an Opus header");
        };
        if version > 15 || !(1..=2).contains(&channels) || family != 0 {
            return wrong("its channels are laid out in a way that is not read, expected one or two");
        }
        self.skip = self.at_rate(u16::from_le_bytes([s0, s1]).into());
        self.packets.set_gain(i16::from_le_bytes([g0, g1]));
        self.state = State::Tags;
        Ok(())
    }

    /// Cuts off what fills up the end, and what precedes the beginning.
    fn end_page(&mut self, page: &Page, begin: usize, out: &mut Vec<f32>) {
        if page.last {
            let due = self.at_rate(page.position.saturating_sub(self.position));
            out.truncate(out.len().min(begin.saturating_add(due)));
            self.state = State::Over;
        }
        // A page on which no packet ends has no position.
        if page.position != u64::MAX {
            self.position = page.position;
        }
        let skipped = self.skip.min(out.len() - begin);
        out.drain(begin..begin + skipped);
        self.skip -= skipped;
    }

    /// Converts a number of samples from Ogg's rate to ours.
    fn at_rate(&self, samples: u64) -> usize {
        let exact = u128::from(samples) * u128::from(self.rate().hz()) / u128::from(OGG_HZ);
        usize::try_from(exact).unwrap_or(usize::MAX)
    }
}

/// Header of the page that `bytes` begin with; `None` if it is not complete.
fn header(bytes: &[u8]) -> Result<Option<Page>, DecodeError> {
    let magic = &bytes[..bytes.len().min(4)];
    if !b"OggS".starts_with(magic) {
        return Err(DecodeError::Ogg("it does not consist of Ogg pages"));
    }
    let Some(head) = bytes.first_chunk::<PAGE_HEADER>() else {
        return Ok(None);
    };
    let segments = usize::from(head[26]);
    let Some(table) = bytes.get(PAGE_HEADER..PAGE_HEADER + segments) else {
        return Ok(None);
    };
    let body: usize = table.iter().map(|&len| usize::from(len)).sum();
    let len = PAGE_HEADER + segments + body;
    let position = head[6..14]
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Ok((bytes.len() >= len).then(|| Page {
        len,
        position,
        last: head[5] & 4 != 0,
        serial: u32::from_le_bytes([head[14], head[15], head[16], head[17]]),
    }))
}

/// A whole page, its checksum verified.
fn parse(page: &[u8]) -> Option<ogg::reading::OggPage> {
    let (mut parser, segments) = PageParser::new(*page.first_chunk()?).ok()?;
    let table = page.get(PAGE_HEADER..PAGE_HEADER + segments)?;
    let len = parser.parse_segments(table.to_vec());
    let body = page.get(PAGE_HEADER + segments..PAGE_HEADER + segments + len)?;
    parser.parse_packet_data(body.to_vec()).ok()
}
