//! Opus (RFC 6716) by libopus: bare packets, and packets in an Ogg stream (RFC 7845).
//!
//! Packets hold 20 ms unless the format says otherwise. libopus looks a little ahead (6.5 ms), so that much of the
//! first packet precedes the first sample. The stream is filled up with silence until everything is in a packet. In
//! Ogg both are written down, and players leave them out.

use std::mem;

use ogg::{PacketWriteEndInfo, PacketWriter};
use opus::{Application, Bitrate, Channels};

use super::Encoded;
use crate::format::Format;
use crate::units::{SampleRate, Samples};

const PACKETS_PER_SECOND: u32 = 50;
/// Packets of one page after the first: 40 ms. A page costs 28 bytes.
const PACKETS_PER_PAGE: usize = 2;
/// Rate of granule positions in an Ogg Opus stream, for any sample rate.
const OGG_HZ: u32 = 48_000;
/// No packet of 60 ms is longer: three times 20 ms, each at most 1275 bytes (RFC 6716, 3.2.1), and their lengths.
const MAX_PACKET: usize = 3 * 1_275 + 8;
/// Complexity setting of libopus, of 10. Beyond this, speech at these rates gains nothing audible.
const COMPLEXITY: i32 = 8;

/// Bits per second: enough that speech at a rate sounds as it did.
fn bitrate(rate: SampleRate) -> i32 {
    match rate.hz() {
        8_000 => 16_000,
        12_000 => 20_000,
        16_000 => 24_000,
        24_000 => 32_000,
        _ => 40_000,
    }
}

fn usual_packet(rate: SampleRate) -> Samples {
    Samples(u64::from(rate.hz() / PACKETS_PER_SECOND))
}

/// Makes packets.
#[derive(derive_more::Debug)]
#[debug("OpusPackets {{ frame: {:?}, packets: {:?}, .. }}", self.frame, self.packets)]
pub(super) struct OpusPackets {
    encoder: opus::Encoder,
    /// Samples of one packet.
    frame: usize,
    lookahead: usize,
    waiting: Vec<f32>,
    taken: u64,
    packets: u64,
}

impl OpusPackets {
    pub(super) fn new(format: Format) -> Self {
        let usual = usual_packet(format.rate());
        Self::with_packets(format.rate(), format.frame().unwrap_or(usual))
    }

    fn with_packets(rate: SampleRate, frame: Samples) -> Self {
        let mut encoder = opus::Encoder::new(rate.hz(), Channels::Mono, Application::Audio)
            .expect("libopus takes the rates of the format");
        encoder
            .set_bitrate(Bitrate::Bits(bitrate(rate)))
            .and_then(|()| encoder.set_complexity(COMPLEXITY))
            .expect("libopus knows its own settings");
        let lookahead = encoder.get_lookahead().expect("libopus knows its own settings");
        Self {
            encoder,
            frame: frame.len(),
            lookahead: usize::try_from(lookahead).unwrap_or(0),
            waiting: Vec::new(),
            taken: 0,
            packets: 0,
        }
    }

    /// Samples before the first one in the first packet.
    pub(super) fn delay(&self) -> Samples {
        Samples(self.lookahead as u64)
    }

    /// Every packet that is full.
    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Encoded>) {
        self.taken += samples.len() as u64;
        self.waiting.extend_from_slice(samples);
        let mut whole = 0;
        while self.waiting.len() - whole >= self.frame {
            let packet = self.packet(whole);
            out.push(packet);
            whole += self.frame;
        }
        self.waiting.drain(..whole);
    }

    /// The rest, the last packet filled up. There always is one, because of what libopus looks ahead.
    pub(super) fn finish(&mut self, out: &mut Vec<Encoded>) {
        if self.taken == 0 {
            return;
        }
        let last = (self.taken + self.lookahead as u64).div_ceil(self.frame as u64);
        let missing = (last - self.packets) as usize * self.frame;
        self.waiting.resize(missing, 0.0);
        for at in (0..missing).step_by(self.frame) {
            let packet = self.packet(at);
            out.push(packet);
        }
        self.waiting.clear();
    }

    fn packet(&mut self, at: usize) -> Encoded {
        let samples = &self.waiting[at..at + self.frame];
        let data = self
            .encoder
            .encode_vec_float(samples, MAX_PACKET)
            .expect("a frame of the right length, and room for the longest packet");
        self.packets += 1;
        Encoded {
            data,
            samples: Samples(self.frame as u64),
        }
    }
}

/// Puts packets on pages.
#[derive(derive_more::Debug)]
#[debug("OggOpus {{ packets: {:?}, paged: {:?}, .. }}", self.packets, self.paged)]
pub(super) struct OggOpus {
    packets: OpusPackets,
    rate: SampleRate,
    serial: u32,
    writer: PacketWriter<'static, Vec<u8>>,
    /// Packets that are not on a page yet.
    waiting: Vec<Vec<u8>>,
    begun: bool,
    /// Packets per page, each page a chunk, where the format sets the page length.
    page: Option<usize>,
    /// Packets on pages.
    paged: u64,
    /// Samples that a player plays of them.
    given: u64,
}

impl OggOpus {
    pub(super) fn new(format: Format, serial: u32) -> Self {
        let rate = format.rate();
        let packet = format
            .frame()
            .unwrap_or(Samples(u64::MAX))
            .min(usual_packet(rate));
        Self {
            packets: OpusPackets::with_packets(rate, packet),
            rate,
            serial,
            writer: PacketWriter::new(Vec::new()),
            waiting: Vec::new(),
            begun: false,
            page: format.frame().map(|frame| frame.len() / packet.len()),
            paged: 0,
            given: 0,
        }
    }

    pub(super) fn push(&mut self, samples: &[f32], out: &mut Vec<Encoded>) {
        let mut packets = Vec::new();
        self.packets.push(samples, &mut packets);
        self.waiting.extend(packets.into_iter().map(|packet| packet.data));
        let mut played = self.given;
        // The first page has one packet unless it is to be longer, so that sound begins with it.
        while self.waiting.len() >= self.page() {
            played = self.write_page(self.page(), false);
            if self.page.is_some() {
                out.push(self.encoded(played));
            }
        }
        out.push(self.encoded(played));
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Encoded>) {
        let mut packets = Vec::new();
        self.packets.finish(&mut packets);
        self.waiting.extend(packets.into_iter().map(|packet| packet.data));
        let mut played = self.given;
        while !self.waiting.is_empty() {
            let page = self.waiting.len().min(self.page());
            played = self.write_page(page, page == self.waiting.len());
            if self.page.is_some() {
                out.push(self.encoded(played));
            }
        }
        out.push(self.encoded(played));
    }

    fn page(&self) -> usize {
        match (self.page, self.paged) {
            (Some(page), _) => page,
            (None, 0) => 1,
            (None, _) => PACKETS_PER_PAGE,
        }
    }

    /// Writes one page; says up to which sample a player can play then.
    fn write_page(&mut self, packets: usize, end: bool) -> u64 {
        if !mem::replace(&mut self.begun, true) {
            self.write_headers();
        }
        let frame = self.packets.frame as u64;
        let before = self.packets.lookahead as u64;
        for (n, packet) in self.waiting.drain(..packets).enumerate() {
            self.paged += 1;
            let (info, position) = match (n + 1 == packets, end) {
                // The end lies within the last packet.
                (true, true) => (PacketWriteEndInfo::EndStream, before + self.packets.taken),
                (true, false) => (PacketWriteEndInfo::EndPage, self.paged * frame),
                (false, _) => (PacketWriteEndInfo::NormalPacket, self.paged * frame),
            };
            let position = position * u64::from(OGG_HZ / self.rate.hz());
            self.writer
                .write_packet(packet, self.serial, info, position)
                .expect("memory takes all bytes");
        }
        if end {
            self.packets.taken
        } else {
            (self.paged * frame).saturating_sub(before)
        }
    }

    fn write_headers(&mut self) {
        // Before the first sample, at Ogg's rate.
        let skip = self.packets.lookahead as u32 * (OGG_HZ / self.rate.hz());
        let mut head = b"OpusHead\x01\x01".to_vec();
        head.extend((skip as u16).to_le_bytes());
        head.extend(self.rate.hz().to_le_bytes());
        // No gain, channels in the usual order.
        head.extend([0, 0, 0]);
        let vendor = opus::version();
        let mut tags = b"OpusTags".to_vec();
        tags.extend((vendor.len() as u32).to_le_bytes());
        tags.extend(vendor.as_bytes());
        tags.extend(0u32.to_le_bytes());
        for header in [head, tags] {
            self.writer
                .write_packet(header, self.serial, PacketWriteEndInfo::EndPage, 0)
                .expect("memory takes all bytes");
        }
    }

    fn encoded(&mut self, played: u64) -> Encoded {
        let samples = Samples(played - self.given);
        self.given = played;
        Encoded {
            data: mem::take(self.writer.inner_mut()),
            samples,
        }
    }
}
