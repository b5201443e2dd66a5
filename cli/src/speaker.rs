//! Plays audio through the default sound device, where the program was built with one (`--features playback`).

#[cfg(feature = "playback")]
pub(crate) use device::Speaker;
#[cfg(not(feature = "playback"))]
pub(crate) use none::Speaker;

/// The device itself.
#[cfg(feature = "playback")]
mod device {
    use std::io;
    use std::num::NonZero;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
    use std::time::Duration;

    use omni_client::{Audio, SampleRate};
    use rodio::{DeviceSinkBuilder, MixerDeviceSink, Player, Source};

    use crate::failure::Failure;

    /// Pieces that may wait to be played; the sender waits for room, and so does the server.
    const QUEUE: usize = 256;

    /// An open device. Stays on the thread that opened it.
    pub(crate) struct Speaker {
        device: MixerDeviceSink,
        playing: Option<Playing>,
        hush: Arc<AtomicBool>,
    }

    struct Playing {
        player: Player,
        pieces: SyncSender<Vec<f32>>,
        rate: SampleRate,
    }

    impl Speaker {
        /// Checks that there is a device, before any request to a server.
        pub(crate) fn check() -> Result<(), Failure> {
            let opened = Self::open(Arc::default());
            opened
                .map(drop)
                .map_err(|error| Failure::io("cannot use the sound device", error))
        }

        /// Silent once `hush` is set.
        pub(crate) fn open(hush: Arc<AtomicBool>) -> io::Result<Self> {
            let mut device = DeviceSinkBuilder::open_default_sink().map_err(io::Error::other)?;
            device.log_on_drop(false);
            Ok(Self {
                device,
                playing: None,
                hush,
            })
        }

        /// Queues `audio`.
        pub(crate) fn play(&mut self, audio: &Audio) -> io::Result<()> {
            if self
                .playing
                .as_ref()
                .is_some_and(|playing| playing.rate != audio.rate)
            {
                self.finish();
            }
            let playing = match &mut self.playing {
                Some(playing) => playing,
                none => none.insert(Playing::start(&self.device, audio.rate, self.hush.clone())?),
            };
            let sent = playing.pieces.send(audio.floats().collect());
            match sent {
                Err(_) if !self.hush.load(Ordering::Relaxed) => {
                    Err(io::Error::other("the sound device has stopped"))
                }
                _ => Ok(()),
            }
        }

        /// Waits until everything is heard.
        pub(crate) fn finish(&mut self) {
            if let Some(playing) = self.playing.take() {
                drop(playing.pieces);
                playing.player.sleep_until_end();
            }
        }
    }

    impl Playing {
        fn start(device: &MixerDeviceSink, rate: SampleRate, hush: Arc<AtomicBool>) -> io::Result<Self> {
            let (pieces, waiting) = sync_channel(QUEUE);
            let hz = NonZero::new(rate.hz()).ok_or_else(|| io::Error::other("audio without a rate"))?;
            let player = Player::connect_new(device.mixer());
            player.append(Stream {
                waiting,
                piece: Vec::new().into_iter(),
                hz,
                hush,
            });
            Ok(Self { player, pieces, rate })
        }
    }

    /// Source of the device's samples: never waits, and is silent while nothing has come.
    struct Stream {
        waiting: Receiver<Vec<f32>>,
        piece: std::vec::IntoIter<f32>,
        hz: NonZero<u32>,
        hush: Arc<AtomicBool>,
    }

    impl Iterator for Stream {
        type Item = f32;

        fn next(&mut self) -> Option<f32> {
            if self.hush.load(Ordering::Relaxed) {
                return None;
            }
            loop {
                if let Some(sample) = self.piece.next() {
                    return Some(sample);
                }
                match self.waiting.try_recv() {
                    Ok(piece) => self.piece = piece.into_iter(),
                    Err(TryRecvError::Empty) => return Some(0.0),
                    Err(TryRecvError::Disconnected) => return None,
                }
            }
        }
    }

    impl Source for Stream {
        fn current_span_len(&self) -> Option<usize> {
            None
        }

        fn channels(&self) -> NonZero<u16> {
            NonZero::<u16>::MIN
        }

        fn sample_rate(&self) -> NonZero<u32> {
            self.hz
        }

        fn total_duration(&self) -> Option<Duration> {
            None
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn stream(hush: &Arc<AtomicBool>) -> (SyncSender<Vec<f32>>, Stream) {
            let (pieces, waiting) = sync_channel(4);
            let stream = Stream {
                waiting,
                piece: Vec::new().into_iter(),
                hz: NonZero::<u32>::MIN,
                hush: hush.clone(),
            };
            (pieces, stream)
        }

        #[test]
        fn a_stream_is_silent_until_more_comes_and_ends_when_nothing_can() {
            let (pieces, mut stream) = stream(&Arc::default());
            assert_eq!(stream.next(), Some(0.0));
            pieces.send(vec![0.5, -0.5]).unwrap();
            pieces.send(vec![0.25]).unwrap();
            let next = [stream.next(), stream.next(), stream.next()];
            assert_eq!(next, [Some(0.5), Some(-0.5), Some(0.25)]);
            assert_eq!(stream.next(), Some(0.0));
            drop(pieces);
            assert_eq!(stream.next(), None);
        }

        #[test]
        fn a_stream_that_is_hushed_ends_at_once() {
            let hush = Arc::default();
            let (pieces, mut stream) = stream(&hush);
            pieces.send(vec![0.5; 100]).unwrap();
            assert_eq!(stream.next(), Some(0.5));
            hush.store(true, Ordering::Relaxed);
            assert_eq!(stream.next(), None);
        }
    }
}

/// Systems without a speaker.
#[cfg(not(feature = "playback"))]
mod none {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use omni_client::Audio;

    use crate::failure::Failure;

    const WHY: &str = "this program was built without sound: build it with `--features playback`, or pipe the audio \
                       (`-o - | aplay -q`)";

    /// Never open.
    pub(crate) enum Speaker {}

    impl Speaker {
        pub(crate) fn check() -> Result<(), Failure> {
            Err(Failure::Usage(WHY.into()))
        }

        pub(crate) fn open(_: Arc<AtomicBool>) -> io::Result<Self> {
            Err(io::Error::other(WHY))
        }

        pub(crate) fn play(&mut self, _: &Audio) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn finish(&mut self) {
            match *self {}
        }
    }
}
