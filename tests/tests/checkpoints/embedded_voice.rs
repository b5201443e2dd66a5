//! The server with its embedded model: its output sounds like speech, and is deterministic.

use std::time::Duration;

use hyper::StatusCode;
use omni_audio::{Level, SampleRate, from_i16, i16_from_s16le, worst_join};
use omni_config::{ModelSource, deploy::resolve};
use omni_proto::riva::AudioEncoding;
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::v1;
use omni_server::app::load_model;
use omni_tests::{Call, TestServer, audio_of, cancel, config, finish, http, reason, seeded, text};
use tonic::Status;

const SENTENCE: &str = "The quick brown fox jumps over the lazy dog.";
/// Well away from anything the voice does by itself.
const SEED: u64 = 1;

async fn server(args: &[&str]) -> TestServer {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let mut server =
        TestServer::launch(args, move || load_model(&ModelSource::Embedded, &deploy, false)).await;
    server.app.ready().await.expect("the embedded model loads");
    server
}

fn samples(audio: &[u8]) -> Vec<f32> {
    i16_from_s16le(audio).map(from_i16).collect()
}

async fn rate(server: &TestServer) -> SampleRate {
    let models = server
        .catalog()
        .list_models(v1::ListModelsRequest::default())
        .await
        .unwrap()
        .into_inner();
    SampleRate::new(models.models[0].native_output.unwrap().sample_rate_hz).unwrap()
}

#[tokio::test]
async fn a_sentence_sounds_like_one() {
    let server = server(&[]).await;
    let rate = rate(&server).await;
    for voice in ["aria", "basil"] {
        let settings = v1::SpeechConfig {
            voice: voice.into(),
            ..seeded(SEED)
        };
        let (audio, outcome) = audio_of(&mut server.speech(), settings, SENTENCE).await.unwrap();
        assert_eq!(
            outcome.finish_reason(),
            v1::FinishReason::Stop,
            "{voice} comes to an end"
        );
        let samples = samples(&audio);
        let seconds = samples.len() as f64 / f64::from(rate.hz());
        assert!(
            (1.5..6.0).contains(&seconds),
            "{voice} takes {seconds} s for 44 characters"
        );
        let level = Level::of(&samples);
        assert!(level.rms() > 0.01, "{voice} is silent: {level:?}");
        assert_eq!(level.clipped(), 0, "{voice} clips");
        // The measure counts soft consonants as silence; the model itself begins with 200 ms of it.
        let silence = Duration::try_from(outcome.timings.unwrap().leading_silence.unwrap()).unwrap();
        assert!(
            silence <= Duration::from_millis(150),
            "{voice} begins with {silence:?} of silence"
        );
        let head = &samples[..rate.samples(Duration::from_millis(40)).len()];
        assert!(
            Level::of(head).rms() > 0.002,
            "{voice} does not begin within 40 ms"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn the_same_seed_is_the_same_audio_alone_and_beside_others() {
    let server = server(&[]).await;
    let (alone, _) = audio_of(&mut server.speech(), seeded(SEED), "Nothing changes.")
        .await
        .unwrap();
    let crowd = (0..9).map(|n| {
        let mut client = server.speech();
        let (seed, text) = if n == 4 {
            (SEED, "Nothing changes.")
        } else {
            (100 + n, "Somebody else is here.")
        };
        async move { audio_of(&mut client, seeded(seed), text).await.unwrap().0 }
    });
    let heard = futures::future::join_all(crowd).await;
    assert!(!alone.is_empty() && heard[4] == alone);
    server.stop().await;
}

#[tokio::test]
async fn streamed_text_sounds_like_whole_text() {
    let server = server(&[]).await;
    let story = "It was late. Nobody came, not even the cat!";
    for buffering in [v1::TextBuffering::Sentence, v1::TextBuffering::Eager] {
        let settings = v1::SpeechConfig {
            buffering: buffering.into(),
            ..seeded(SEED)
        };
        let (whole, _) = audio_of(&mut server.speech(), settings.clone(), story)
            .await
            .unwrap();
        let mut call = server.call().await;
        call.send(config(settings)).await;
        for word in story.split_inclusive(' ') {
            call.send(text(word)).await;
        }
        call.send(finish()).await;
        let streamed = call.utterance().await;
        assert!(
            streamed.audio == whole,
            "{buffering:?}: {} and {} bytes",
            streamed.audio.len(),
            whole.len()
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn sentences_are_joined_without_clicks_or_long_silence() {
    let server = server(&[]).await;
    let rate = rate(&server).await;
    let mut call = server.call().await;
    call.send(config(seeded(SEED))).await;
    call.send(text("One is here. Two is there. Three is gone. "))
        .await;
    call.send(finish()).await;
    let utterance = call.utterance().await;
    let starts: Vec<usize> = call
        .history()
        .responses
        .iter()
        .filter_map(|response| match &response.event {
            Some(v1::speak_response::Event::Audio(audio)) if audio.start_sample > 0 => {
                Some(audio.start_sample as usize)
            }
            _ => None,
        })
        .collect();
    let samples = samples(&utterance.audio);
    let join = worst_join(&samples, rate, &starts);
    assert!(join.is_some_and(|join| join.score < 3.0), "{join:?}");
    let window = rate.hz() as usize / 100;
    let quiet: Vec<bool> = samples
        .chunks(window)
        .map(|chunk| Level::of(chunk).rms() < 0.004)
        .collect();
    let longest = quiet.split(|quiet| !quiet).map(<[bool]>::len).max().unwrap_or(0);
    assert!(longest < 60, "{} ms of silence", longest * 10);
    server.stop().await;
}

#[tokio::test]
async fn numbers_are_read_and_what_cannot_be_spoken_is_warned_of() {
    let server = server(&[]).await;
    let mut call = Call::open(&mut server.speech()).await;
    call.send(config(seeded(SEED))).await;
    call.send(text("It costs $5 \u{4f60}\u{597d}.")).await;
    call.send(finish()).await;
    let spoken = call.utterance().await;
    assert!(spoken.samples() > 0);
    assert_eq!(spoken.warnings[0].reason, "CHARACTERS_SKIPPED");
    let all = spoken.samples();
    let silence = 3_200;
    assert!(all > silence);
    for (said, reasons) in [
        ("", &["NOTHING_SPEAKABLE"][..]),
        (" \n", &["NOTHING_SPEAKABLE"][..]),
        ("...", &["NOTHING_SPEAKABLE"][..]),
        (
            "\u{4f60}\u{597d}",
            &["CHARACTERS_SKIPPED", "NOTHING_SPEAKABLE"][..],
        ),
        ("\u{1f600}", &["CHARACTERS_SKIPPED", "NOTHING_SPEAKABLE"][..]),
    ] {
        call.send(text(said)).await;
        call.send(finish()).await;
        let silent = call.utterance().await;
        assert_eq!(silent.finish(), v1::FinishReason::Stop, "{said:?}");
        assert_eq!(silent.samples(), silence, "{said:?}");
        assert!(silent.audio.iter().all(|&byte| byte == 0), "{said:?}");
        let told = silent.warnings.iter().map(|warning| warning.reason.as_str());
        assert_eq!(told.collect::<Vec<_>>(), reasons, "{said:?}");
        assert_eq!(
            silent.outcome.warnings, silent.warnings,
            "the summary has them too"
        );
    }
    server.stop().await;
}

/// Result of a request for the whole of a text by each protocol that has one: a reason and a message, or its audio.
async fn whole(server: &TestServer, text: &str) -> [Result<Vec<u8>, (String, String)>; 3] {
    let refused = |status: Status| (reason(&status), status.message().to_owned());
    let own = audio_of(&mut server.speech(), seeded(SEED), text).await;
    let riva = SynthesizeSpeechRequest {
        text: text.to_owned(),
        encoding: AudioEncoding::LinearPcm.into(),
        sample_rate_hz: 16_000,
        ..SynthesizeSpeechRequest::default()
    };
    let riva = RivaSpeechSynthesisClient::new(server.channel.clone())
        .synthesize(riva)
        .await;
    let body = serde_json::json!({"input": text, "response_format": "pcm"});
    let headers = [("content-type", "application/json")];
    let answer = http(server, "POST", "/v1/audio/speech", &headers, body.to_string()).await;
    let over_http = match answer.status {
        StatusCode::OK => Ok(answer.body),
        StatusCode::BAD_REQUEST => {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
            let told = |name: &str| body["error"][name].as_str().expect("text").to_owned();
            assert_eq!(told("param"), "input");
            Err((told("code").to_uppercase(), told("message")))
        }
        _ => panic!("{answer:?}"),
    };
    [
        own.map(|(audio, _)| audio).map_err(refused),
        riva.map(|answer| answer.into_inner().audio.to_vec())
            .map_err(refused),
        over_http,
    ]
}

#[tokio::test]
async fn a_whole_text_in_letters_that_the_voice_does_not_know_is_an_error_that_names_its_languages() {
    let server = server(&[]).await;
    for text in [
        "\u{4f60}\u{597d}",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        "\u{645}\u{631}\u{62d}\u{628}\u{627} \u{1f600}",
        "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}!",
    ] {
        for refused in whole(&server, text).await {
            let (reason, message) = refused.expect_err(text);
            assert_eq!(reason, "NOTHING_SPEAKABLE", "{text}: {message}");
            assert!(message.contains("en-US"), "{text}: {message}");
        }
    }
    for text in ["", "  ", "\n\t"] {
        for refused in whole(&server, text).await {
            let (_, message) = refused.expect_err("no text");
            assert!(message.contains("is empty; expected text to speak"), "{message}");
        }
    }
    for text in ["...", "\u{1f600}", "\u{1f44d}\u{1f3fd}", "\u{2014} !"] {
        for silence in whole(&server, text).await {
            let silence = silence.unwrap_or_else(|refused| panic!("{text}: {refused:?}"));
            assert!(
                !silence.is_empty() && silence.iter().all(|&byte| byte == 0),
                "{text}"
            );
        }
    }
    for text in ["\u{4f60}\u{597d} Bob", "7"] {
        for audio in whole(&server, text).await {
            let audio = audio.unwrap_or_else(|refused| panic!("{text}: {refused:?}"));
            assert!(audio.iter().any(|&byte| byte != 0), "{text}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn another_region_of_a_language_is_spoken_as_the_one_that_is_there_and_the_answer_says_so() {
    let asked = |language: &str| serde_json::json!({"input": "Hello.", "language": language}).to_string();
    let headers = [("content-type", "application/json")];
    let path = "/v1/audio/speech";
    let own = server(&[]).await;
    for (language, ignored) in [
        ("en-US", ""),
        ("en", ""),
        ("en-GB", "language"),
        ("en_AU", "language"),
        ("English", ""),
    ] {
        let answer = http(&own, "POST", path, &headers, asked(language)).await;
        assert_eq!(answer.status, StatusCode::OK, "{language}: {answer:?}");
        assert_eq!(answer.header("x-omni-ignored"), ignored, "{language}");
    }
    let other = http(&own, "POST", path, &headers, asked("nl-BE")).await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST, "{other:?}");
    let riva = SynthesizeSpeechRequest {
        text: "Hello.".to_owned(),
        language_code: "en-GB".to_owned(),
        sample_rate_hz: 16_000,
        ..SynthesizeSpeechRequest::default()
    };
    let mut client = RivaSpeechSynthesisClient::new(own.channel.clone());
    assert!(
        !client
            .synthesize(riva)
            .await
            .unwrap()
            .into_inner()
            .audio
            .is_empty()
    );
    let mut call = own.call().await;
    call.send(config(v1::SpeechConfig {
        language: "en-GB".to_owned(),
        ..seeded(SEED)
    }))
    .await;
    assert_eq!(call.ready().await.resolved.unwrap().language, "en-US");
    own.stop().await;
    let strict = server(&["--strict"]).await;
    let refused = http(&strict, "POST", path, &headers, asked("en-GB")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    strict.stop().await;
}

#[tokio::test]
async fn text_with_nothing_to_speak_is_refused_by_a_strict_server() {
    let server = server(&["--strict"]).await;
    let mut call = Call::open(&mut server.speech()).await;
    call.send(config(seeded(SEED))).await;
    for said in ["", "...", "\u{4f60}\u{597d}"] {
        call.send(text(said)).await;
        call.send(finish()).await;
        let failed = call.utterance().await;
        assert_eq!(
            (failed.samples(), failed.error_reason().as_str()),
            (0, "NOTHING_SPEAKABLE"),
            "{said:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn cancel_and_a_caller_that_vanishes_free_their_places() {
    let server = server(&["--max-active", "1"]).await;
    let long = "This sentence is one of very many that follow each other without an end. ".repeat(50);
    let mut call = server.call().await;
    call.send(config(seeded(SEED))).await;
    call.send(text(&long)).await;
    call.first_audio().await;
    call.send(cancel("")).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Interrupted);
    call.send(text(&long)).await;
    call.first_audio().await;
    drop(call);
    server.idle(2).await;
    let (audio, _) = audio_of(&mut server.speech(), seeded(SEED), "Free again.")
        .await
        .unwrap();
    assert!(!audio.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn sixteen_callers_are_served_at_once() {
    let server = server(&[]).await;
    let crowd = (0..16).map(|n| {
        let mut client = server.speech();
        async move { audio_of(&mut client, seeded(n), SENTENCE).await.unwrap() }
    });
    for (audio, outcome) in futures::future::join_all(crowd).await {
        assert!(!audio.is_empty());
        assert_ne!(outcome.finish_reason(), v1::FinishReason::Error);
    }
    server.idle(16).await;
    server.stop().await;
}

/// As people write them: clauses, numbers that are written out, names, short words one after the other.
const SENTENCES: [&str; 20] = [
    "Please send me the report before you leave for the weekend.",
    "If it rains tomorrow, we will stay at home and bake a cake.",
    "She opened the window, looked outside, and smiled at the children.",
    "Can you tell me how to get to the station from here?",
    "The museum opens at nine and closes at half past five.",
    "I do not know what to say about it, to be honest with you.",
    "We have three apples, two pears and a bag of oranges.",
    "Turn left at the second light, then go straight on for a mile.",
    "My brother works in the city, but he lives out in the country.",
    "Thank you for calling, how may I help you today?",
    "It is what it is, and there is nothing we can do about it.",
    "The train to the coast was late again, so they took the bus.",
    "He put the keys on the table and went up to his room.",
    "You can change the order at any time before it is shipped.",
    "Nobody knew why the lights went out all over the street.",
    "Good morning, this is your wake up call.",
    "When the soup is hot, add the salt and stir it well.",
    "As far as I can see, all of us are on the list.",
    "They walked along the river until it was too dark to see.",
    "Let me check that for you, it will only take a moment.",
];

#[tokio::test]
async fn words_of_everyday_sentences_take_time() {
    let server = server(&[]).await;
    let rate = rate(&server).await;
    let mut words = 0;
    let mut bare = Vec::new();
    for (number, sentence) in SENTENCES.iter().enumerate() {
        for voice in ["aria", "basil"] {
            let settings = v1::SpeechConfig {
                voice: voice.into(),
                alignment: true,
                ..seeded(number as u64 + 1)
            };
            let request = v1::SynthesizeRequest {
                config: Some(settings),
                text: (*sentence).to_owned(),
            };
            let mut responses = server.speech().synthesize(request).await.unwrap().into_inner();
            let mut told = Vec::new();
            while let Some(response) = responses.message().await.unwrap() {
                if let Some(v1::synthesize_response::Event::Alignment(alignment)) = response.event {
                    told.extend(alignment.spans);
                }
            }
            assert_eq!(told.len(), sentence.split(' ').count(), "{sentence}");
            words += told.len();
            let ms = |samples: u64| samples * 1_000 / u64::from(rate.hz());
            for span in told {
                assert!(
                    span.end_sample > span.start_sample,
                    "{voice}: {span:?} of {sentence:?}"
                );
                let begin = ms(span.start_sample);
                let end = ms(span.end_sample);
                if end < begin + 20 {
                    bare.push(format!(
                        "{voice}: {:?} of {sentence:?} at {begin} to {end} ms",
                        span.text
                    ));
                }
            }
        }
    }
    // Three are found when the audio in which they end has left.
    assert!(
        100 * bare.len() <= words,
        "{} of {words} words: {bare:#?}",
        bare.len()
    );
    server.stop().await;
}
