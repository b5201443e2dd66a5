//! Encoding recordings, one at a time, on a thread for blocking work.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::{Loudness, SampleRate};
use omni_core::caller::Tenant;
use omni_core::compute::Compute;
use omni_family::VoiceEncoderSource;
use omni_pipeline::clock::Clock;
use omni_pipeline::request::VoicePrompt;
use omni_pipeline::stage::BackendError;

use super::figures::Figures;
use super::recording::Recording;
use super::{VoiceError, VoiceReference};
use crate::limiter::{FairLimiter, FairPermit};

/// Most recordings that are encoded or wait for it.
const MOST: usize = 8;

/// An encoded voice, and the length of its speech.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    pub(super) prompt: Arc<VoicePrompt>,
    pub(super) duration: Duration,
}

/// The encoder and the number of recordings that wait for it. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Encoders {
    // Apart from the threads of sessions: a recording takes seconds, and their jobs milliseconds.
    compute: Compute,
    places: FairLimiter,
    clock: Clock,
    /// Loudness to which recordings are normalised: it decides on that of the voice.
    loudness: Option<Loudness>,
    figures: Figures,
}

impl Encoders {
    pub(super) fn new(clock: Clock, loudness: Option<Loudness>, figures: Figures) -> Self {
        Self {
            compute: Compute::new(1),
            places: FairLimiter::new(MOST),
            clock,
            loudness,
            figures,
        }
    }

    fn enter(&self, tenant: Tenant) -> Result<FairPermit, VoiceError> {
        let place = self.places.take(tenant);
        place.map_err(|limit| VoiceError::Busy { limit })
    }

    /// Encodes a recording, with its `transcript` in tokens for one in context. The work has several parts; if the
    /// future is dropped, the running part is the last.
    pub(super) async fn encode(
        &self,
        tenant: Tenant,
        source: VoiceEncoderSource,
        recording: Recording,
        transcript: Option<Vec<u32>>,
    ) -> Result<Encoded, VoiceError> {
        let _place = self.enter(tenant)?;
        let counted = self.figures.encoding();
        let mut took = Duration::ZERO;
        let failed = |error: BackendError| VoiceError::Encode(error.to_string());
        let encoder = self.compute.run(move || source()).await.map_err(failed)?;
        let rate = encoder.sample_rate();
        let loudness = self.loudness;
        let heard = move || {
            recording
                .speech(rate)
                .map(|speech| levelled(speech, rate, loudness))
        };
        let speech = self.timed(&mut took, heard).await?;
        let speech: Arc<[f32]> = speech.into();
        let duration = rate.duration(omni_audio::Samples::of(&speech));
        let own = Arc::clone(&encoder);
        let samples = Arc::clone(&speech);
        let x_vector = self.timed(&mut took, move || own.x_vector(&samples));
        let x_vector = x_vector.await.map_err(failed)?;
        let reference = match transcript {
            None => None,
            Some(text) => {
                let frames = self.timed(&mut took, move || encoder.frames(&speech));
                let frames = frames.await.map_err(failed)?;
                Some(VoiceReference { frames, text })
            }
        };
        let prompt = Arc::new(VoicePrompt { x_vector, reference });
        counted.encoded(&prompt, took);
        Ok(Encoded { prompt, duration })
    }

    /// Runs `work`; its time, without the wait for its turn, is added to `took`.
    async fn timed<T: Send + 'static>(
        &self,
        took: &mut Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let clock = self.clock;
        let done = self.compute.run(move || {
            let began = clock.now();
            (work(), clock.since(began))
        });
        let (done, spent) = done.await;
        *took += spent;
        done
    }
}

fn levelled(mut speech: Vec<f32>, rate: SampleRate, loudness: Option<Loudness>) -> Vec<f32> {
    if let Some(loudness) = loudness {
        loudness.apply(&mut speech, rate);
    }
    speech
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use omni_engine::CodecFrame;

    use super::super::recording::tests::{babble, wav};
    use super::*;
    use omni_family::EncodeVoice;

    fn encoders() -> Encoders {
        let telemetry = omni_telemetry::Telemetry::new(&omni_telemetry::TelemetryOptions::default());
        let telemetry = telemetry.expect("the catalogue");
        let instruments = omni_telemetry::VoiceInstruments::new(telemetry.meter());
        Encoders::new(Clock::start(), None, Figures::new(Arc::new(instruments)))
    }

    /// Tells when a vector begins, and goes on when it is let.
    struct Slow(
        parking_lot::Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>,
        Arc<AtomicUsize>,
    );

    impl EncodeVoice for Slow {
        fn sample_rate(&self) -> SampleRate {
            SampleRate::new(24_000).unwrap()
        }

        fn x_vector(&self, _: &[f32]) -> Result<Vec<f32>, BackendError> {
            let gate = self.0.lock();
            gate.0.send(()).unwrap();
            let _ = gate.1.recv();
            Ok(vec![1.0])
        }

        fn frames(&self, _: &[f32]) -> Result<Vec<CodecFrame>, BackendError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_not_gone_on_with() {
        let (began, begins) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let frames = Arc::new(AtomicUsize::new(0));
        let slow: Arc<dyn EncodeVoice> = Arc::new(Slow(
            parking_lot::Mutex::new((began, released)),
            Arc::clone(&frames),
        ));
        let source: VoiceEncoderSource = Arc::new(move || Ok(Arc::clone(&slow)));
        let encoders = encoders();
        let encode = |text| {
            let encoders = encoders.clone();
            let source = Arc::clone(&source);
            let recording = wav(&babble(2.0, 0.5));
            tokio::spawn(async move { encoders.encode(Tenant::Unknown, source, recording, text).await })
        };
        let gone = encode(Some(vec![1]));
        tokio::task::spawn_blocking(move || begins.recv().map(|()| begins))
            .await
            .unwrap()
            .unwrap();
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(release);
        // Runs behind whatever is left of the one that is gone.
        encoders.compute.run(|| ()).await;
        assert_eq!(frames.load(Ordering::SeqCst), 0);
        assert!(
            (0..MOST)
                .map(|_| encoders.enter(Tenant::Unknown))
                .collect::<Result<Vec<_>, _>>()
                .is_ok()
        );
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let encoders = encoders();
        let greedy = Tenant::Key(1);
        let other = Tenant::Key(2);
        let held: Vec<_> = (0..MOST).map(|_| encoders.enter(greedy).unwrap()).collect();
        assert!(matches!(
            encoders.enter(other),
            Err(VoiceError::Busy { limit: MOST })
        ));
        drop(held);
        let one = encoders.enter(other).unwrap();
        let held: Vec<_> = (0..MOST).map_while(|_| encoders.enter(greedy).ok()).collect();
        assert!(held.len() < MOST - 1, "the last is kept for those that have less");
        assert!(encoders.enter(other).is_ok());
        drop(one);
    }
}
