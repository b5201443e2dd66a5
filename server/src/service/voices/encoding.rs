//! Recordings to voices, one at a time, on a thread for blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::recording::Recording;
use super::{VoiceError, VoiceReference};
use crate::compute::Compute;
use crate::stage::{BackendError, VoiceEncoderSource, VoicePrompt};

/// Recordings that are encoded or wait for it.
const MOST: usize = 8;

/// A voice that was computed, and of how much speech.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    pub(super) prompt: Arc<VoicePrompt>,
    pub(super) duration: Duration,
}

/// The one that encodes, and how many wait for it. Copies are the same.
#[derive(Debug, Clone)]
pub(super) struct Encoders {
    // Apart from what sessions compute on: a recording takes seconds, and their work milliseconds.
    compute: Compute,
    waiting: Arc<AtomicUsize>,
}

impl Default for Encoders {
    fn default() -> Self {
        Self {
            compute: Compute::new(1),
            waiting: Arc::default(),
        }
    }
}

/// One that waits or is encoded.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Encoders {
    fn enter(&self) -> Result<Place, VoiceError> {
        let place = Place(Arc::clone(&self.waiting));
        match self.waiting.fetch_add(1, Ordering::SeqCst) < MOST {
            true => Ok(place),
            false => Err(VoiceError::Busy { limit: MOST }),
        }
    }

    /// The voice of a recording, with its `transcript` in tokens as one in context. It has several parts; if the future is dropped, the
    /// part that runs is the last.
    pub(super) async fn encode(
        &self,
        source: VoiceEncoderSource,
        recording: Recording,
        transcript: Option<Vec<u32>>,
    ) -> Result<Encoded, VoiceError> {
        let _place = self.enter()?;
        let failed = |error: BackendError| VoiceError::Encode(error.0);
        let encoder = self.compute.run(move || source()).await.map_err(failed)?;
        let rate = encoder.sample_rate();
        let speech = self.compute.run(move || recording.speech(rate)).await?;
        let speech: Arc<[f32]> = speech.into();
        let duration = rate.duration(omni_audio::Samples::of(&speech));
        let (own, samples) = (Arc::clone(&encoder), Arc::clone(&speech));
        let x_vector = self
            .compute
            .run(move || own.x_vector(&samples))
            .await
            .map_err(failed)?;
        let reference = match transcript {
            None => None,
            Some(text) => {
                let frames = self
                    .compute
                    .run(move || encoder.frames(&speech))
                    .await
                    .map_err(failed)?;
                Some(VoiceReference { frames, text })
            }
        };
        let prompt = Arc::new(VoicePrompt { x_vector, reference });
        Ok(Encoded { prompt, duration })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use omni_audio::SampleRate;
    use omni_engine::CodecFrame;

    use super::super::recording::tests::{babble, wav};
    use super::*;
    use crate::stage::EncodeVoice;

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
        let ((began, begins), (release, released)) = (mpsc::channel(), mpsc::channel());
        let frames = Arc::new(AtomicUsize::new(0));
        let slow: Arc<dyn EncodeVoice> = Arc::new(Slow(
            parking_lot::Mutex::new((began, released)),
            Arc::clone(&frames),
        ));
        let source: VoiceEncoderSource = Arc::new(move || Ok(Arc::clone(&slow)));
        let encoders = Encoders::default();
        let encode = |text| {
            let (encoders, source, recording) =
                (encoders.clone(), Arc::clone(&source), wav(&babble(2.0, 0.5)));
            tokio::spawn(async move { encoders.encode(source, recording, text).await })
        };
        let gone = encode(Some(vec![1]));
        tokio::task::spawn_blocking(move || begins.recv().map(|()| begins))
            .await
            .unwrap()
            .unwrap();
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(release);
        assert_eq!(encoders.waiting.load(Ordering::SeqCst), 0);
        assert_eq!(frames.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let encoders = Encoders::default();
        let held: Vec<_> = (0..MOST).map(|_| encoders.enter().unwrap()).collect();
        assert!(matches!(encoders.enter(), Err(VoiceError::Busy { limit: MOST })));
        drop(held);
        assert!(encoders.enter().is_ok());
    }
}
