//! Suitability of a recording for a voice: loud enough, not clipped, of a good length, and speech.
//!
//! Speech is told from other sounds by three measures over pieces of 20 ms: its level moves up and down with the
//! syllables; parts of it repeat themselves at the pitch of a voice; and it crosses zero less often than noise. A
//! hum, a whistle and noise fail one of them each. Music with a melody passes: words are not recognised.

use std::time::Duration;

use omni_audio::{Level, SampleRate};

use super::VoiceError;

/// Shortest and longest speech that becomes a voice.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Level up to which a recording is silent, in dBFS.
const SILENT: f32 = -50.0;
/// Distance to the loudest piece, in dB, from which sound around the speech counts as silence.
const QUIET: f32 = 35.0;
/// Silence that is left around the speech.
const MARGIN: Duration = Duration::from_millis(100);
/// Most samples at full scale, in percent, in runs of at least [`RUN`].
const MOST_CLIPPED: f32 = 0.5;
const FULL_SCALE: f32 = 0.999;
const RUN: usize = 3;

/// Length of the pieces that are measured.
const PIECE: Duration = Duration::from_millis(20);
/// Least difference of levels between the loudest and the softest tenth of speech, in dB.
const LEAST_SPAN: f32 = 9.0;
/// Least part of the loud pieces that repeats itself at the pitch of a voice.
const LEAST_VOICED: f32 = 0.1;
/// Least correlation of two periods of a voice.
const VOICED: f32 = 0.5;
/// Pitches of voices, in Hz.
const PITCHES: (u32, u32) = (60, 500);
/// Most zero crossings per sample in most loud pieces; white noise has 0.5.
const MOST_CROSSINGS: f32 = 0.35;

/// The speech in `samples`.
pub(super) fn speech(samples: &[f32], rate: SampleRate) -> Result<Vec<f32>, VoiceError> {
    let piece = rate.samples(PIECE).len().max(1);
    let levels: Vec<f32> = samples
        .chunks(piece)
        .map(|piece| Level::of(piece).rms_dbfs())
        .collect();
    let loudest = levels.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if loudest < SILENT {
        return Err(VoiceError::Silent { limit: SILENT });
    }
    let heard = |level: &f32| *level > (loudest - QUIET).max(SILENT);
    let first = levels.iter().position(heard);
    let last = levels.iter().rposition(heard);
    let margin = rate.samples(MARGIN).len();
    let from = (first.unwrap_or(0) * piece).saturating_sub(margin);
    let to = ((last.unwrap_or(0) + 1) * piece + margin).min(samples.len());
    let speech = samples[from..to].to_vec();
    length(&speech, rate)?;
    clipping(&speech)?;
    voice(&speech, rate, piece)?;
    Ok(speech)
}

fn length(speech: &[f32], rate: SampleRate) -> Result<(), VoiceError> {
    let found = rate.duration(omni_audio::Samples::of(speech));
    if found < SHORTEST {
        let least = SHORTEST;
        return Err(VoiceError::TooShort { found, least });
    }
    if found > LONGEST {
        Err(VoiceError::TooLong { found, most: LONGEST })
    } else {
        Ok(())
    }
}

fn clipping(speech: &[f32]) -> Result<(), VoiceError> {
    let runs = speech.chunk_by(|a, b| (a.abs() >= FULL_SCALE) == (b.abs() >= FULL_SCALE));
    let clipped: usize = runs
        .filter(|run| run.len() >= RUN && run[0].abs() >= FULL_SCALE)
        .map(<[f32]>::len)
        .sum();
    let percent = 100.0 * clipped as f32 / speech.len() as f32;
    if percent > MOST_CLIPPED {
        Err(VoiceError::Clipped {
            percent,
            limit: MOST_CLIPPED,
        })
    } else {
        Ok(())
    }
}

fn voice(speech: &[f32], rate: SampleRate, piece: usize) -> Result<(), VoiceError> {
    let no = |why| Err(VoiceError::NoSpeech { why });
    let mut pieces: Vec<(f32, usize)> = speech
        .chunks_exact(piece)
        .enumerate()
        .map(|(n, samples)| (Level::of(samples).rms_dbfs(), n * piece))
        .collect();
    pieces.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tenth = pieces.len() / 10;
    let softest = pieces[tenth].0;
    let loudest = pieces[pieces.len() - 1 - tenth].0;
    if loudest - softest < LEAST_SPAN {
        return no("its level does not move as that of speech does");
    }
    let loud = &pieces[pieces.len() / 2..];
    let mut crossings: Vec<f32> = loud
        .iter()
        .map(|(_, at)| crossings(&speech[*at..at + piece]))
        .collect();
    crossings.sort_by(f32::total_cmp);
    if crossings[crossings.len() / 2] > MOST_CROSSINGS {
        return no("it sounds like noise");
    }
    let voiced = loud.iter().filter(|(_, at)| is_voiced(speech, *at, rate)).count();
    if (voiced as f32) < LEAST_VOICED * loud.len() as f32 {
        no("nothing in it has the pitch of a voice")
    } else {
        Ok(())
    }
}

fn crossings(piece: &[f32]) -> f32 {
    let crossed = piece
        .windows(2)
        .filter(|pair| (pair[0] >= 0.0) != (pair[1] >= 0.0))
        .count();
    crossed as f32 / piece.len() as f32
}

/// Returns true if the sound around `at` repeats itself at the pitch of a voice: the correlation with itself has its
/// highest peak there, and not at an edge of the range, where higher and lower tones end up.
fn is_voiced(speech: &[f32], at: usize, rate: SampleRate) -> bool {
    let (lowest, highest) = PITCHES;
    let least = (rate.hz() / highest) as usize;
    let most = (rate.hz() / lowest) as usize;
    let Some(sound) = speech.get(at..at + 2 * most) else {
        return false;
    };
    let alike = |lag: usize| {
        let a = &sound[..most];
        let b = &sound[lag..lag + most];
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).step_by(2).map(|(a, b)| a * b).sum::<f32>();
        product(a, b) / (product(a, a) * product(b, b)).sqrt().max(f32::MIN_POSITIVE)
    };
    let likeness: Vec<f32> = (least..most).map(alike).collect();
    let peak = |n: &usize| likeness[*n] > likeness[n - 1] && likeness[*n] >= likeness[n + 1];
    let peaks = (1..likeness.len() - 1).filter(peak);
    peaks.map(|n| likeness[n]).any(|likeness| likeness > VOICED)
}

#[cfg(test)]
mod tests {
    use std::f32::consts::TAU;

    use super::super::recording::tests::babble;
    use super::*;

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    fn judged(samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        speech(samples, rate())
    }

    fn noise(seconds: usize) -> Vec<f32> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..24_000 * seconds).map(|_| 0.3 * next()).collect()
    }

    fn syllables(samples: &[f32]) -> Vec<f32> {
        let loud = |n: usize| (0.5 - 0.5 * (TAU * 4.0 * n as f32 / 24_000.0).cos()).powi(2);
        samples.iter().enumerate().map(|(n, s)| s * loud(n)).collect()
    }

    #[test]
    fn silence_around_speech_is_cut_off() {
        let pause = vec![0.0001; 24_000 * 20];
        let said = [pause.clone(), babble(2.0, 0.5), pause].concat();
        let heard = judged(&said).unwrap();
        let seconds = heard.len() as f32 / 24_000.0;
        assert!((1.9..2.3).contains(&seconds), "{seconds} s");
    }

    #[test]
    fn soft_speech_is_as_good_as_loud_speech() {
        assert!(judged(&babble(2.0, 0.02)).is_ok());
        assert!(judged(&babble(2.0, 0.8)).is_ok());
    }

    #[test]
    fn lengths_are_those_without_silence() {
        let pause = vec![0.0; 24_000 * 90];
        let short = [pause.clone(), babble(0.5, 0.5), pause].concat();
        assert!(matches!(judged(&short), Err(VoiceError::TooShort { .. })));
        assert!(matches!(
            judged(&babble(61.0, 0.5)),
            Err(VoiceError::TooLong { .. })
        ));
        assert!(judged(&babble(59.5, 0.5)).is_ok());
    }

    #[test]
    fn what_is_no_speech_is_told_apart() {
        assert!(matches!(
            judged(&vec![0.001; 48_000]),
            Err(VoiceError::Silent { .. })
        ));
        let clipped: Vec<f32> = babble(2.0, 3.0).iter().map(|s| s.clamp(-1.0, 1.0)).collect();
        assert!(matches!(judged(&clipped), Err(VoiceError::Clipped { .. })));
        let tone = |hz: f32| (0..48_000).map(move |n| 0.3 * (TAU * hz * n as f32 / 24_000.0).sin());
        for (what, sound) in [
            ("a hum", tone(150.0).collect::<Vec<_>>()),
            ("noise", noise(2)),
            ("noise with the rhythm of speech", syllables(&noise(2))),
        ] {
            let error = judged(&sound).expect_err(what);
            assert!(matches!(error, VoiceError::NoSpeech { .. }), "{what}: {error}");
        }
    }
}
