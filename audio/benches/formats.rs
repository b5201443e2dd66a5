//! Cost of turning one second of speech into a listener's format, and back, on one thread.
//!
//! The speech is a second of voice-like sound at 24 kHz, in the chunks of a codec frame (80 ms).

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use omni_audio::{
    Decoder, Encoder, Encoding, Format, Gain, InputEncoding, InputFormat, Renderer, Rendering, SampleRate,
    Samples, Speed,
};

const MADE: u32 = 24_000;
const CHUNK: usize = 1_920;
const HEARD: u32 = 16_000;

fn rate(hz: u32) -> SampleRate {
    SampleRate::new(hz).expect("a rate in range")
}

/// Harmonics of a pitch that glides, in syllables.
fn speech(hz: u32) -> Vec<f32> {
    let mut phase = 0.0f64;
    let step = 1.0 / f64::from(hz);
    (0..hz)
        .map(|n| {
            let t = f64::from(n) * step;
            phase += step * (120.0 + 30.0 * (t * 4.4).sin());
            let loud = 0.55 + 0.45 * (t * 25.0).sin();
            let tone: f64 = (1..20)
                .map(|k| (std::f64::consts::TAU * f64::from(k) * phase).sin() / f64::from(k))
                .sum();
            (0.2 * loud * tone) as f32
        })
        .collect()
}

fn rendered(samples: &[f32], to: u32, rendering: Rendering) -> Vec<f32> {
    let mut renderer = Renderer::new(rate(MADE), rate(to), rendering);
    let mut out = Vec::new();
    samples
        .chunks(CHUNK)
        .for_each(|chunk| renderer.push(chunk, &mut out));
    renderer.finish(&mut out);
    out
}

fn rendering(criterion: &mut Criterion) {
    let speech = speech(MADE);
    let mut group = criterion.benchmark_group("second_of_speech");
    group.throughput(Throughput::Elements(1));
    for to in [48_000, 44_100, 22_050, 16_000, 8_000] {
        group.bench_function(format!("resample_24000_to_{to}"), |bencher| {
            bencher.iter(|| rendered(black_box(&speech), to, Rendering::default()));
        });
    }
    for speed in [0.5, 1.5, 2.0] {
        let speed = Speed::new(speed).expect("a speed in range");
        let rendering = Rendering {
            speed,
            ..Rendering::default()
        };
        group.bench_function(format!("speed_{}", speed.factor()), |bencher| {
            bencher.iter(|| rendered(black_box(&speech), MADE, rendering));
        });
    }
    let louder = Rendering {
        gain: Gain::new(6.0).expect("a gain in range"),
        ..Rendering::default()
    };
    group.bench_function("gain_6_db", |bencher| {
        bencher.iter(|| rendered(black_box(&speech), MADE, louder));
    });
    group.finish();
}

fn encoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("second_of_speech");
    group.throughput(Throughput::Elements(1));
    for (name, encoding, hz) in [
        ("pcm_24000", Encoding::Pcm16, 24_000),
        ("mulaw_8000", Encoding::Mulaw, 8_000),
        ("alaw_8000", Encoding::Alaw, 8_000),
        ("opus_24000", Encoding::Opus, 24_000),
        ("ogg_opus_24000", Encoding::OggOpus, 24_000),
        ("ogg_opus_48000", Encoding::OggOpus, 48_000),
        ("flac_24000", Encoding::Flac, 24_000),
        ("mp3_24000", Encoding::Mp3, 24_000),
        ("aac_24000", Encoding::Aac, 24_000),
    ] {
        let speech = speech(hz);
        let format = Format::new(encoding, hz).expect("a rate that the encoding takes");
        group.bench_function(format!("encode_{name}"), |bencher| {
            bencher.iter(|| encoded(black_box(&speech), format));
        });
    }
    group.finish();
}

fn encoded(samples: &[f32], format: Format) -> Vec<u8> {
    let mut encoder = Encoder::new(format, 1);
    let mut chunks = Vec::new();
    let frame = (format.rate().hz() as usize * CHUNK) / MADE as usize;
    samples
        .chunks(frame)
        .for_each(|chunk| encoder.push(chunk, &mut chunks));
    encoder.finish(&mut chunks);
    chunks.into_iter().flat_map(|chunk| chunk.data).collect()
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("second_of_speech");
    group.throughput(Throughput::Elements(1));
    for (name, from, to, hz) in [
        ("mulaw_8000", InputEncoding::Mulaw, Encoding::Mulaw, 8_000),
        ("pcm_48000", InputEncoding::Pcm16, Encoding::Pcm16, 48_000),
        (
            "ogg_opus_48000",
            InputEncoding::OggOpus,
            Encoding::OggOpus,
            48_000,
        ),
    ] {
        let format = Format::new(to, hz).expect("a rate that the encoding takes");
        let bytes = encoded(&speech(hz), format);
        let input = InputFormat {
            encoding: from,
            rate: rate(hz),
            channels: 1,
        };
        group.bench_function(format!("decode_{name}"), |bencher| {
            bencher.iter(|| {
                let limit = Samples(2 * u64::from(HEARD));
                let mut decoder = Decoder::new(input, rate(HEARD), limit).expect("a rate in range");
                let mut out = Vec::new();
                decoder
                    .push(black_box(&bytes), &mut out)
                    .expect("bytes that were encoded");
                decoder.finish(&mut out).expect("bytes that were encoded");
                out
            });
        });
    }
    group.finish();
}

criterion_group!(benches, rendering, encoding, decoding);
criterion_main!(benches);
