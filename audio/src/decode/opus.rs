//! Opus packets by libopus.

use opus::Channels;

use super::DecodeError;
use crate::format::Encoding;
use crate::units::SampleRate;

/// The longest packet (RFC 6716, 3.2.5), as a part of a second.
const LONGEST: (u32, u32) = (120, 1_000);
/// Rate at which libopus decodes if it does not support the wanted rate.
const FULL_HZ: u32 = 48_000;

/// Decodes packets to one channel.
pub(super) struct Packets {
    decoder: opus::Decoder,
    rate: SampleRate,
    room: Vec<f32>,
}

impl Packets {
    /// At `to` if libopus can do that, else at 48 kHz.
    pub(super) fn new(to: SampleRate) -> Self {
        let rate = if Encoding::Opus.takes(to) {
            to
        } else {
            SampleRate::new(FULL_HZ).unwrap_or(to)
        };
        Self {
            decoder: opus::Decoder::new(rate.hz(), Channels::Mono)
                .expect("libopus takes this rate, and one channel"),
            rate,
            room: vec![0.0; (rate.hz() * LONGEST.0 / LONGEST.1) as usize],
        }
    }

    /// Rate of the decoded samples.
    pub(super) fn rate(&self) -> SampleRate {
        self.rate
    }

    /// Sets the gain in 256ths of a dB, from an Ogg Opus header.
    pub(super) fn set_gain(&mut self, q8_db: i16) {
        self.decoder
            .set_gain(i32::from(q8_db))
            .expect("libopus takes every 16-bit gain");
    }

    /// Appends the samples of one packet.
    pub(super) fn decode(&mut self, packet: &[u8], out: &mut Vec<f32>) -> Result<(), DecodeError> {
        let bad = DecodeError::Opus { bytes: packet.len() };
        // To libopus a packet without bytes is one that was lost, for which it makes something up.
        if packet.is_empty() {
            return Err(bad);
        }
        let made = self
            .decoder
            .decode_float(packet, &mut self.room, false)
            .map_err(|_| bad)?;
        let made = self.room.get(..made).ok_or(bad)?;
        out.extend_from_slice(made);
        Ok(())
    }
}
