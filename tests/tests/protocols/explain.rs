//! Explanations of a text: the same over every protocol, and the same as the speech.

use omni_config::{ModelSource, deploy::resolve};
use omni_proto::v1;
use omni_server::app::load_model;
use omni_tests::{TestServer, http, reason};
use serde_json::{Value, json};
use tonic::Code;

const PATH: &str = "/v1/audio/speech/explain";

async fn embedded(args: &[&str]) -> TestServer {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Embedded, &deploy, false);
    let mut server = TestServer::launch(args, load).await;
    server.app.ready().await.expect("the embedded model loads");
    server
}

async fn explain(
    server: &TestServer,
    config: v1::SpeechConfig,
    text: &str,
) -> Result<v1::ExplainResponse, tonic::Status> {
    let request = v1::ExplainRequest {
        config: Some(config),
        text: text.to_owned(),
    };
    Ok(server.speech().explain(request).await?.into_inner())
}

async fn post(server: &TestServer, body: &Value) -> (u16, Value) {
    let json = [("content-type", "application/json")];
    let answer = http(server, "POST", PATH, &json, body.to_string()).await;
    (
        answer.status.as_u16(),
        serde_json::from_slice(&answer.body).expect("JSON"),
    )
}

#[tokio::test]
async fn a_text_is_shown_as_the_model_is_given_it_with_the_place_of_every_word() {
    let server = embedded(&[]).await;
    let text = "Dr. Smith paid $3.50. Thanks!";
    let explained = explain(&server, v1::SpeechConfig::default(), text)
        .await
        .expect("it is explained");
    assert_eq!(explained.model, "omni-embedded");
    let segments: Vec<_> = explained
        .segments
        .iter()
        .map(|segment| segment.text.as_str())
        .collect();
    assert_eq!(
        segments,
        ["doctor smith paid three dollars and fifty cents.", "thanks!"]
    );
    let chars: Vec<char> = text.chars().collect();
    let words = explained.segments.iter().flat_map(|segment| &segment.words);
    let words: Vec<(String, &str)> = words
        .map(|word| {
            let written = &chars[word.char_start as usize..word.char_end as usize];
            (
                written.iter().collect::<String>().trim().to_owned(),
                word.spoken.as_str(),
            )
        })
        .collect();
    for pair in [("Smith", "smith"), ("Thanks", "thanks")] {
        assert!(
            words
                .iter()
                .any(|(written, spoken)| written.starts_with(pair.0) && *spoken == pair.1),
            "{words:?}"
        );
    }
    assert!(
        words
            .iter()
            .any(|(written, spoken)| written.starts_with("$3.50") && spoken.contains("three dollars")),
        "{words:?}"
    );
    assert_eq!(explained.segments[0].end(), v1::SegmentEnd::Sentence);

    let (status, told) = post(
        &server,
        &json!({"model": "tts-1", "voice": "aria", "input": text}),
    )
    .await;
    assert_eq!(status, 200, "{told}");
    let texts: Vec<_> = told["segments"]
        .as_array()
        .expect("segments")
        .iter()
        .map(|segment| &segment["text"])
        .collect();
    assert_eq!(texts, segments);
    let places = |segment: &v1::ExplainedSegment| (segment.char_start, segment.char_end);
    assert_eq!(
        told["segments"][1]["char_start"],
        places(&explained.segments[1]).0
    );
    assert_eq!(told["segments"][0]["ends_at"], "sentence");
    server.stop().await;
}

#[tokio::test]
async fn what_is_shown_is_what_a_session_speaks() {
    let server = embedded(&[]).await;
    for text in [
        "Dr. Smith paid $3.50 on 5/6. Thanks, and good bye!",
        "Meet me at 9:30 a.m. [pause:500ms] Bring 4 apples; 2 pears, too.",
        "A text without an end",
        "One.\n\nTwo, three.",
    ] {
        let config = v1::SpeechConfig {
            alignment: true,
            ..Default::default()
        };
        let explained = explain(&server, config.clone(), text)
            .await
            .expect("it is explained");
        let request = v1::SynthesizeRequest {
            config: Some(config),
            text: text.to_owned(),
        };
        let mut answers = server
            .speech()
            .synthesize(request)
            .await
            .expect("it is taken")
            .into_inner();
        let mut spans = Vec::new();
        while let Some(answer) = answers.message().await.expect("it is spoken") {
            if let Some(v1::synthesize_response::Event::Alignment(alignment)) = answer.event {
                spans.extend(alignment.spans);
            }
        }
        let words = explained
            .segments
            .iter()
            .map(|segment| segment.words.len())
            .sum::<usize>();
        assert_eq!(words, spans.len(), "{text}: {explained:#?} {spans:#?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_spoken_is_told_and_what_would_be_refused_is_refused() {
    let server = embedded(&["--max-text-bytes", "50"]).await;
    let explained = explain(&server, v1::SpeechConfig::default(), "\u{4F60}\u{597D}")
        .await
        .expect("it is explained");
    assert!(explained.segments.is_empty(), "{explained:?}");
    assert!(
        explained
            .warnings
            .iter()
            .any(|warning| warning.reason == "NOTHING_SPEAKABLE"),
        "{explained:?}"
    );
    let voice = v1::SpeechConfig {
        voice: "nobody".into(),
        ..Default::default()
    };
    let refused = explain(&server, voice, "Hello.")
        .await
        .expect_err("no such voice");
    assert_eq!(reason(&refused), "VOICE_NOT_FOUND");
    let long = "a ".repeat(30);
    let refused = explain(&server, v1::SpeechConfig::default(), &long)
        .await
        .expect_err("too long");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "TEXT_TOO_LONG")
    );
    let (status, told) = post(
        &server,
        &json!({"model": "tts-1", "voice": "aria", "input": long}),
    )
    .await;
    assert_eq!(
        (status, &told["error"]["param"]),
        (400, &json!("input")),
        "{told}"
    );
    let (status, told) = post(&server, &json!({"model": "tts-1", "voice": "aria"})).await;
    assert_eq!(status, 400, "{told}");
    server.stop().await;
}
