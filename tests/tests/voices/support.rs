//! A server with a checkpoint that clones, and things to make voices of.

use std::ops::Deref;

use omni_audio::{from_i16, i16_from_s16le};
use omni_config::{ModelSource, deploy::resolve};
use omni_models::testing::{Goldens, TINY_TTS, TINY_TTS_BASE, file_of};
use omni_proto::v1;
use omni_proto::v1::voice_service_client::VoiceServiceClient;
use omni_server::app::load_model;
use omni_tests::{TestServer, audio_of};
pub(crate) use omni_tests::{babble, wav};
use tempfile::TempDir;
use tonic::Status;
use tonic::transport::Channel;

pub(crate) const TEXT: &str = "Hello, the user!";
pub(crate) const CONSENT: &str = "She agreed on paper.";

/// A checkpoint as files.
pub(crate) fn checkpoint(files: &[(&str, &[u8])], kind: Option<&str>) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("speech_tokenizer")).expect("a folder");
    for (name, content) in files {
        let mut content = content.to_vec();
        if let ("config.json", Some(kind)) = (*name, kind) {
            let json = String::from_utf8(content).expect("JSON");
            let relabelled = json.replace("\"custom_voice\"", &format!("\"{kind}\""));
            content = relabelled.into_bytes();
        }
        std::fs::write(dir.path().join(name), content).expect("written");
    }
    dir
}

/// A server and the checkpoint that it reads from.
pub(crate) struct Served {
    server: TestServer,
    _checkpoint: TempDir,
}

impl Deref for Served {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl Served {
    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

pub(crate) async fn served(checkpoint: TempDir, args: &[&str]) -> Served {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let model = ModelSource::Directory(checkpoint.path().to_owned());
    let load = move || load_model(&model, &deploy, false);
    let mut server = TestServer::launch(args, load).await;
    server.app.ready().await.expect("the checkpoint loads");
    Served {
        server,
        _checkpoint: checkpoint,
    }
}

/// A server with the checkpoint that clones.
pub(crate) async fn base(args: &[&str]) -> Served {
    served(checkpoint(TINY_TTS_BASE, None), args).await
}

/// A server with a checkpoint that follows descriptions.
pub(crate) async fn design(args: &[&str]) -> Served {
    served(checkpoint(TINY_TTS, Some("voice_design")), args).await
}

pub(crate) fn voices(server: &TestServer) -> VoiceServiceClient<Channel> {
    VoiceServiceClient::new(server.channel.clone())
}

pub(crate) fn goldens() -> Goldens {
    Goldens::new(file_of(TINY_TTS_BASE, "goldens.safetensors"))
}

/// Asks for a voice in context.
pub(crate) fn recorded(name: &str, audio: Vec<u8>) -> v1::CreateVoiceRequest {
    let recording = v1::VoiceRecording {
        audio: audio.into(),
        transcript: "Short ref.".to_owned(),
        consent: CONSENT.to_owned(),
        ..v1::VoiceRecording::default()
    };
    v1::CreateVoiceRequest {
        name: name.to_owned(),
        description: "calm".to_owned(),
        origin: Some(v1::create_voice_request::Origin::Recording(recording)),
    }
}

/// As above, with changes.
pub(crate) fn recorded_with(
    name: &str,
    audio: Vec<u8>,
    change: impl FnOnce(&mut v1::VoiceRecording),
) -> v1::CreateVoiceRequest {
    let mut request = recorded(name, audio);
    if let Some(v1::create_voice_request::Origin::Recording(recording)) = &mut request.origin {
        change(recording);
    }
    request
}

/// A file of a voice, written by hand: another program can do so, too.
pub(crate) fn file(name: &str, x_vector: &[f32], reference: Option<(&[u32], usize, &[u32])>) -> Vec<u8> {
    let mut data: Vec<u8> = x_vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut tensors = format!(
        r#","x_vector":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}"#,
        x_vector.len(),
        data.len()
    );
    let mut add = |name: &str, shape: String, ids: &[u32]| {
        let from = data.len();
        data.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        let to = data.len();
        tensors += &format!(r#","{name}":{{"dtype":"U32","shape":[{shape}],"data_offsets":[{from},{to}]}}"#);
    };
    if let Some((codes, groups, text)) = reference {
        add("codes", format!("{},{groups}", codes.len() / groups), codes);
        add("text", text.len().to_string(), text);
    }
    let said = format!(
        r#""format":"omni.voice","version":"1","name":"{name}","model":"tiny","created":"1790000000","duration_ms":"1200","consent":"{CONSENT}""#
    );
    let header = format!(r#"{{"__metadata__":{{{said}}}{tensors}}}"#);
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &data].concat()
}

/// Deterministic settings.
pub(crate) fn greedy(voice: &str, language: &str, frames: u32) -> v1::SpeechConfig {
    v1::SpeechConfig {
        voice: voice.to_owned(),
        language: language.to_owned(),
        sampling: Some(v1::SamplingParams {
            temperature: Some(0.0),
            seed: Some(3),
            max_tokens: Some(frames),
            ..v1::SamplingParams::default()
        }),
        ..v1::SpeechConfig::default()
    }
}

pub(crate) async fn spoken(server: &TestServer, config: v1::SpeechConfig) -> Result<Vec<f32>, Status> {
    let (audio, _) = audio_of(&mut server.speech(), config, TEXT).await?;
    Ok(i16_from_s16le(&audio).map(from_i16).collect())
}
