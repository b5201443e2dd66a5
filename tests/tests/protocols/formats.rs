//! Output formats: the same sound as plain samples of the same seed.

use omni_audio::{Decoder, InputEncoding, InputFormat, Level, SampleRate, Samples, leading_silence};
use omni_proto::v1;
use omni_proto::v1::AudioEncoding as E;
use omni_proto::v1::speak_response::Event;
use omni_tests::{Call, FAKE_RATE, FakeScript, TestServer, audio_of, config, finish, text};

const TEXT: &str = "a sentence that takes a while.";

async fn server() -> TestServer {
    TestServer::fake(FakeScript::default(), &[]).await
}

fn rate(hz: u32) -> SampleRate {
    SampleRate::new(hz).unwrap()
}

fn asked(encoding: E, hz: u32) -> v1::SpeechConfig {
    let sampling = v1::SamplingParams {
        seed: Some(11),
        ..Default::default()
    };
    v1::SpeechConfig {
        output: Some(v1::AudioDelivery {
            format: Some(v1::AudioFormat {
                encoding: encoding.into(),
                sample_rate_hz: hz,
                channels: 1,
            }),
            ..Default::default()
        }),
        sampling: Some(sampling),
        ..Default::default()
    }
}

/// All chunks of one utterance, checked against the protocol, and its settings in force.
async fn spoken(server: &TestServer, settings: v1::SpeechConfig) -> (Vec<v1::AudioChunk>, v1::SpeechConfig) {
    let mut call = server.call().await;
    call.send(config(settings)).await;
    let ready = call.ready().await;
    call.send(text(TEXT)).await;
    call.send(finish()).await;
    call.hang_up();
    let history = call.end().await.unwrap();
    let chunks = history
        .responses
        .into_iter()
        .filter_map(|response| match response.event {
            Some(Event::Audio(chunk)) => Some(chunk),
            _ => None,
        });
    (chunks.collect(), ready.resolved.unwrap())
}

/// The samples of all chunks, at the rate of the format.
fn decoded(chunks: &[v1::AudioChunk], encoding: E, hz: u32) -> Vec<f32> {
    let known = match encoding {
        E::PcmS16le => InputEncoding::Pcm16,
        E::PcmF32le => InputEncoding::PcmF32,
        E::Mulaw => InputEncoding::Mulaw,
        E::Alaw => InputEncoding::Alaw,
        E::Opus => InputEncoding::Opus,
        E::OggOpus => InputEncoding::OggOpus,
        E::Wav => InputEncoding::Wav,
        E::Flac => InputEncoding::Flac,
        E::Mp3 => return from_mp3(chunks, hz),
        E::Aac => return from_adts(chunks, hz),
        other => panic!("{other:?} is not offered"),
    };
    let format = InputFormat {
        encoding: known,
        rate: rate(hz),
        channels: 1,
    };
    let mut decoder = Decoder::new(format, rate(hz), Samples(10_000_000)).unwrap();
    let mut samples = Vec::new();
    for chunk in chunks {
        decoder.push(&chunk.data, &mut samples).unwrap();
    }
    decoder.finish(&mut samples).unwrap();
    samples
}

fn bytes(chunks: &[v1::AudioChunk]) -> Vec<u8> {
    chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect()
}

fn from_mp3(chunks: &[v1::AudioChunk], hz: u32) -> Vec<f32> {
    let decoded = nanomp3::decode_all::<f32>(&bytes(chunks));
    assert_eq!(decoded.sample_rate, hz);
    decoded.samples
}

fn from_adts(chunks: &[v1::AudioChunk], hz: u32) -> Vec<f32> {
    let mut decoder = rusty_aac::AacDecoder::new();
    let mut samples = Vec::new();
    for chunk in chunks {
        let head = rusty_aac::parse_adts(&chunk.data).unwrap();
        assert_eq!(
            (head.sample_rate, head.channels, head.frame_length),
            (hz, 1, chunk.data.len())
        );
        samples.extend(decoder.decode(&chunk.data, None).unwrap().samples);
    }
    samples
}

/// Spectrum of `samples` in bands, in dB, cut off at -50 dB.
fn spectrum(samples: &[f32], hz: u32) -> Vec<f32> {
    let bands = (200..3_400).step_by(50);
    let band = bands.map(|band| {
        let turn = std::f64::consts::TAU * f64::from(band) / f64::from(hz);
        // Half a window of 20 ms.
        let step = hz as usize / 100;
        let mut power = 0.0;
        for window in samples.windows(2 * step).step_by(step) {
            let mut re = 0.0;
            let mut im = 0.0;
            for (n, &sample) in window.iter().enumerate() {
                let angle = turn * n as f64;
                let fade = (std::f64::consts::PI * n as f64 / window.len() as f64)
                    .sin()
                    .powi(2);
                re += f64::from(sample) * fade * angle.cos();
                im += f64::from(sample) * fade * angle.sin();
            }
            power += (re * re + im * im) / (window.len() * window.len()) as f64;
        }
        (10.0 * (power / (samples.len() / step) as f64).log10()).max(-50.0) as f32
    });
    band.collect()
}

fn assert_same_sound(a: (&[f32], u32), b: (&[f32], u32), what: &str) {
    let worst = spectrum(a.0, a.1)
        .into_iter()
        .zip(spectrum(b.0, b.1))
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(worst < 3.0, "{what}: a band differs by {worst} dB");
    let a = Level::of(a.0).rms_dbfs();
    let b = Level::of(b.0).rms_dbfs();
    assert!((a - b).abs() < 0.5, "{what}: {a} dB, {b} dB");
}

const FORMATS: [(E, u32); 21] = [
    (E::PcmS16le, 8_000),
    (E::PcmS16le, 22_050),
    (E::PcmS16le, 44_100),
    (E::PcmS16le, 48_000),
    (E::PcmF32le, 16_000),
    (E::PcmF32le, 24_000),
    (E::Mulaw, 8_000),
    (E::Mulaw, 16_000),
    (E::Alaw, 8_000),
    (E::Opus, 16_000),
    (E::Opus, 48_000),
    (E::OggOpus, 8_000),
    (E::OggOpus, 24_000),
    (E::Wav, 11_025),
    (E::Flac, 16_000),
    (E::Flac, 48_000),
    (E::Mp3, 16_000),
    (E::Mp3, 24_000),
    (E::Mp3, 44_100),
    (E::Aac, 16_000),
    (E::Aac, 24_000),
];

#[tokio::test]
async fn every_format_carries_the_same_sound_for_the_same_time() {
    let server = server().await;
    let (plain, _) = spoken(&server, asked(E::PcmS16le, 0)).await;
    let plain = decoded(&plain, E::PcmS16le, FAKE_RATE);
    let seconds = plain.len() as f64 / f64::from(FAKE_RATE);
    for (encoding, hz) in FORMATS {
        let what = format!("{encoding:?} at {hz} Hz");
        let (chunks, resolved) = spoken(&server, asked(encoding, hz)).await;
        let format = resolved.output.unwrap().format.unwrap();
        assert_eq!((format.encoding(), format.sample_rate_hz), (encoding, hz));
        let samples = decoded(&chunks, encoding, hz);
        let told: u64 = chunks.iter().map(|chunk| u64::from(chunk.sample_count)).sum();
        assert_eq!(samples.len() as u64, told, "{what}");
        // What precedes the sound, and what fills the last of bare packets and frames.
        let (before, filled) = match encoding {
            E::Opus => (0, 0.03),
            E::Mp3 => (1_057, 4.0 * 1_152.0 / f64::from(hz)),
            E::Aac => (1_024, 3.0 * 1_024.0 / f64::from(hz)),
            _ => (0, 0.0),
        };
        let longer = samples.len() as f64 / f64::from(hz) - seconds;
        assert!(
            (0.0..=filled + 1.0 / f64::from(hz)).contains(&longer),
            "{what}: {longer} s"
        );
        let length = plain.len() * hz as usize / FAKE_RATE as usize;
        assert_same_sound((&samples[before..][..length], hz), (&plain, FAKE_RATE), &what);
    }
    server.stop().await;
}

#[tokio::test]
async fn lossless_formats_carry_the_very_same_samples() {
    let server = server().await;
    let (plain, _) = spoken(&server, asked(E::PcmS16le, 0)).await;
    let plain = decoded(&plain, E::PcmS16le, FAKE_RATE);
    for encoding in [E::Wav, E::Flac] {
        let (chunks, _) = spoken(&server, asked(encoding, 0)).await;
        assert!(decoded(&chunks, encoding, FAKE_RATE) == plain, "{encoding:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_rate_that_is_not_named_is_one_that_the_format_takes() {
    let server = server().await;
    for (encoding, hz) in [
        (E::Unspecified, FAKE_RATE),
        (E::PcmF32le, FAKE_RATE),
        (E::Mulaw, 8_000),
        (E::Alaw, 8_000),
        (E::OggOpus, 16_000),
        (E::Flac, FAKE_RATE),
        (E::Mp3, FAKE_RATE),
        (E::Aac, FAKE_RATE),
    ] {
        let mut call: Call = server.call().await;
        call.send(config(asked(encoding, 0))).await;
        let resolved = call.ready().await.resolved.unwrap();
        assert_eq!(
            resolved.output.unwrap().format.unwrap().sample_rate_hz,
            hz,
            "{encoding:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn speed_and_gain_change_how_long_and_how_loud_speech_is_and_not_its_pitch() {
    let server = server().await;
    let (plain, resolved) = spoken(&server, asked(E::PcmS16le, 0)).await;
    assert_eq!((resolved.speed, resolved.volume_gain_db), (Some(1.0), Some(0.0)));
    let plain = decoded(&plain, E::PcmS16le, FAKE_RATE);
    for (speed, gain) in [
        (0.25, 0.0),
        (0.5, 3.0),
        (0.8, -6.0),
        (1.5, -12.0),
        (2.0, 0.0),
        (4.0, -3.0),
    ] {
        let settings = v1::SpeechConfig {
            speed: Some(speed),
            volume_gain_db: Some(gain),
            ..asked(E::PcmS16le, 0)
        };
        let (chunks, resolved) = spoken(&server, settings).await;
        assert_eq!(
            (resolved.speed, resolved.volume_gain_db),
            (Some(speed), Some(gain))
        );
        let samples = decoded(&chunks, E::PcmS16le, FAKE_RATE);
        let length = plain.len() as f64 / speed;
        assert!(
            (samples.len() as f64 - length).abs() <= 2.0,
            "{speed}: {}",
            samples.len()
        );
        // With the gain removed, as loud as the plain ones, except for soft limiting.
        let back = 10f32.powf(-gain as f32 / 20.0);
        let samples: Vec<f32> = samples.iter().map(|sample| sample * back).collect();
        assert_same_sound(
            (&samples, FAKE_RATE),
            (&plain, FAKE_RATE),
            &format!("{speed}, {gain} dB"),
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn the_silence_before_speech_is_as_long_as_was_asked_for() {
    let server = server().await;
    let silence = |nanos| {
        let mut settings = asked(E::PcmS16le, 0);
        let output = settings.output.as_mut().unwrap();
        output.leading_silence = Some(omni_proto::Duration { seconds: 0, nanos });
        settings
    };
    // The model is silent for every underscore.
    let said = "____ loud";
    let mut leading = Vec::new();
    for settings in [silence(0), silence(100_000_000), asked(E::PcmS16le, 0)] {
        let (pcm, outcome) = audio_of(&mut server.speech(), settings, said).await.unwrap();
        let samples: Vec<f32> = omni_audio::i16_from_s16le(&pcm)
            .map(omni_audio::from_i16)
            .collect();
        let measured = rate(FAKE_RATE).duration(leading_silence(&samples, rate(FAKE_RATE)));
        let told = outcome.timings.unwrap().leading_silence.unwrap();
        assert_eq!(std::time::Duration::try_from(told).unwrap(), measured);
        leading.push(measured.as_millis());
    }
    // A fade of 3 ms is silence too, to a window of 5 ms.
    assert!(leading[0] <= 5 && (95..=105).contains(&leading[1]), "{leading:?}");
    assert!((15..=25).contains(&leading[2]), "{leading:?}");
    server.stop().await;
}
