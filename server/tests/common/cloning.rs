//! A small checkpoint that clones voices, and voices of it, for programs as they are run.

use std::f32::consts::TAU;
use std::path::Path;

use omni_audio::{SampleRate, Samples, WavHeader, encode_s16le};
use omni_proto::v1;
use omni_proto::v1::create_voice_request::Origin;
use omni_proto::v1::voice_service_client::VoiceServiceClient;
use tempfile::TempDir;
use tonic::Status;
use tonic::transport::Channel;

/// Small checkpoints: one that clones voices, and one with the codec that both have.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/data");

/// The checkpoint that clones, as it is published.
pub(crate) fn checkpoint() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("speech_tokenizer")).expect("a folder");
    let own = [
        "config.json",
        "generation_config.json",
        "merges.txt",
        "model.safetensors",
        "tokenizer_config.json",
        "vocab.json",
        "speech_tokenizer/config.json",
    ];
    let own = own.map(|name| ("qwen3-tts-tiny-base", name));
    let codec = (
        "qwen3-tts-tiny-custom-voice",
        "speech_tokenizer/model.safetensors",
    );
    for (from, name) in own.into_iter().chain([codec]) {
        let from = Path::new(DATA).join(from).join(name);
        std::os::unix::fs::symlink(from, dir.path().join(name)).expect("a link");
    }
    dir
}

/// Something like two seconds of speech, as a WAV file.
fn recording() -> Vec<u8> {
    let sample = |n: u32| {
        let t = n as f32 / 24_000.0;
        let syllable = (0.5 - 0.5 * (TAU * 4.0 * t).cos()).powi(2);
        let pitch = TAU * (120.0 * t + 0.4 * (TAU * 1.5 * t).sin());
        let tone: f32 = (1_u8..20)
            .map(|k| (pitch * f32::from(k)).sin() / f32::from(k))
            .sum();
        0.25 * syllable * tone
    };
    let samples: Vec<f32> = (0..48_000).map(sample).collect();
    let header = WavHeader::mono(SampleRate::new(24_000).expect("a rate"));
    let mut file = header.finished(Samples::of(&samples)).to_vec();
    encode_s16le(&samples, &mut file);
    file
}

pub(crate) async fn voices(address: &str) -> VoiceServiceClient<Channel> {
    let address = format!("http://{address}");
    VoiceServiceClient::connect(address).await.expect("it listens")
}

/// Keeps a voice of the recording; without a transcript its vector alone.
pub(crate) async fn keep(address: &str, name: &str, transcript: &str) -> Result<(), Status> {
    let recording = v1::VoiceRecording {
        audio: recording().into(),
        transcript: transcript.to_owned(),
        x_vector_only: transcript.is_empty(),
        consent: "She agreed on paper.".to_owned(),
        ..v1::VoiceRecording::default()
    };
    let request = v1::CreateVoiceRequest {
        name: name.to_owned(),
        origin: Some(Origin::Recording(recording)),
        ..v1::CreateVoiceRequest::default()
    };
    voices(address).await.create_voice(request).await.map(drop)
}
