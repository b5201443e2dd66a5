//! Riva's zero-shot requests, with a model that clones.

use omni_proto::riva::AudioEncoding;
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::riva::tts::{SynthesizeSpeechRequest, ZeroShotData};
use omni_tests::TestServer;
use tonic::{Code, Status};

use crate::support::{TEXT, babble, base, wav};

fn request(recording: Vec<u8>, encoding: AudioEncoding, transcript: &str) -> SynthesizeSpeechRequest {
    SynthesizeSpeechRequest {
        text: TEXT.to_owned(),
        language_code: "en-US".to_owned(),
        encoding: AudioEncoding::LinearPcm.into(),
        sample_rate_hz: 24_000,
        zero_shot_data: Some(ZeroShotData {
            audio_prompt: recording,
            sample_rate_hz: 24_000,
            encoding: encoding.into(),
            transcript: transcript.to_owned(),
            ..ZeroShotData::default()
        }),
        ..SynthesizeSpeechRequest::default()
    }
}

async fn spoken(server: &TestServer, request: SynthesizeSpeechRequest) -> Result<usize, Status> {
    let mut client = RivaSpeechSynthesisClient::new(server.channel.clone());
    let whole = client.synthesize(request.clone()).await?.into_inner().audio.len();
    let mut pieces = client
        .synthesize_online(tokio_stream::iter([request]))
        .await?
        .into_inner();
    let mut streamed = 0;
    while let Some(piece) = pieces.message().await? {
        streamed += piece.audio.len();
    }
    assert!(whole > 0 && streamed > 0);
    Ok(streamed)
}

#[tokio::test]
async fn a_prompt_is_spoken_like_as_a_file_and_as_samples_with_a_transcript_and_without() {
    let server = base(&[]).await;
    let said = babble(2.0, 120.0);
    let mut samples = Vec::new();
    omni_audio::encode_s16le(&said, &mut samples);
    for (recording, encoding) in [
        (wav(&said), AudioEncoding::LinearPcm),
        (samples, AudioEncoding::LinearPcm),
    ] {
        for transcript in ["Short ref.", ""] {
            let request = request(recording.clone(), encoding, transcript);
            spoken(&server, request).await.expect("audio");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn prompts_that_are_no_good_say_why_in_rivas_own_fields() {
    let server = base(&[]).await;
    let hush = vec![0; 96_000];
    for (prompt, says) in [
        (
            request(Vec::new(), AudioEncoding::LinearPcm, ""),
            "zero_shot_data.audio_prompt",
        ),
        (request(hush, AudioEncoding::LinearPcm, ""), "silent"),
        (
            request(wav(&babble(0.4, 120.0)), AudioEncoding::LinearPcm, ""),
            "at least 1 s",
        ),
        (
            request(b"no audio".to_vec(), AudioEncoding::Flac, ""),
            "unsupported format of the recording",
        ),
    ] {
        let refused = spoken(&server, prompt).await.expect_err(says);
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(says), "{says}: {refused:?}");
    }
    let unknown = SynthesizeSpeechRequest {
        voice_name: "unknown".to_owned(),
        zero_shot_data: None,
        ..request(Vec::new(), AudioEncoding::LinearPcm, "")
    };
    let refused = spoken(&server, unknown).await.expect_err("there is no voice");
    assert!(
        refused.message().contains("there are no voices yet"),
        "{refused:?}"
    );
    server.stop().await;
}
