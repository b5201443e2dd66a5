//! Clients of NVIDIA Riva: requests and answers, by our stubs and by NVIDIA's own client.

use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::riva::tts::{RivaSynthesisConfigRequest, SynthesizeSpeechRequest, ZeroShotData};
use omni_proto::riva::{AudioEncoding, RequestId};
use omni_proto::v1;
use omni_tests::{FAKE_RATE, FakeScript, TestServer, audio_of, python};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

const TEXT: &str = "Hello there. How are you?";

fn client(server: &TestServer) -> RivaSpeechSynthesisClient<Channel> {
    RivaSpeechSynthesisClient::new(server.channel.clone())
}

/// As NVIDIA's clients send it where only the rate is chosen.
fn request(text: &str) -> SynthesizeSpeechRequest {
    SynthesizeSpeechRequest {
        text: text.to_owned(),
        encoding: AudioEncoding::LinearPcm.into(),
        sample_rate_hz: FAKE_RATE.try_into().expect("a rate"),
        ..SynthesizeSpeechRequest::default()
    }
}

fn named(text: &str, id: &str) -> SynthesizeSpeechRequest {
    let id = RequestId { value: id.to_owned() };
    SynthesizeSpeechRequest {
        id: Some(id),
        ..request(text)
    }
}

/// Audio of one `SynthesizeOnline` call that sends all `requests`, with the id of every piece.
async fn online(
    server: &TestServer,
    requests: Vec<SynthesizeSpeechRequest>,
) -> Result<Vec<(String, Vec<u8>)>, Status> {
    let requests = tokio_stream::iter(requests);
    let mut answers = client(server).synthesize_online(requests).await?.into_inner();
    let mut pieces = Vec::new();
    while let Some(answer) = answers.message().await? {
        assert!(!answer.audio.is_empty(), "no message without audio");
        assert_eq!(answer.audio.len() % 2, 0, "whole samples");
        pieces.push((answer.id.unwrap_or_default().value, answer.audio.to_vec()));
    }
    Ok(pieces)
}

fn joined(pieces: &[(String, Vec<u8>)]) -> Vec<u8> {
    pieces.iter().flat_map(|(_, audio)| audio.clone()).collect()
}

#[tokio::test]
async fn one_text_gives_as_much_audio_as_other_callers_get() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let own = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT)
        .await
        .unwrap()
        .0
        .len();
    let whole = client(&server)
        .synthesize(named(TEXT, "a"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(whole.audio.len(), own);
    assert_eq!(whole.id.unwrap().value, "a");
    let pieces = online(&server, vec![named(TEXT, "b")]).await.unwrap();
    assert!(pieces.len() > 1, "audio comes as it is made");
    assert!(pieces.iter().all(|(id, _)| id == "b"));
    assert_eq!(joined(&pieces).len(), own);
    server.idle(3).await;
    server.stop().await;
}

#[tokio::test]
async fn text_of_several_messages_is_one_stream_of_audio() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let requests = ["Hello there.", "", " How are you?"].map(request).to_vec();
    let pieces = online(&server, requests).await.unwrap();
    server.idle(1).await;
    let whole = client(&server)
        .synthesize(request(TEXT))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(joined(&pieces).len(), whole.audio.len());
    server.stop().await;
}

#[tokio::test]
async fn a_message_is_spoken_before_the_next_one_comes() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let (sender, requests) = mpsc::channel(4);
    let mut riva = client(&server);
    let answers = riva.synthesize_online(ReceiverStream::new(requests)).await;
    let mut answers = answers.unwrap().into_inner();
    sender.send(request("no full stop here")).await.unwrap();
    let first = answers.message().await.unwrap().expect("audio");
    assert!(!first.audio.is_empty());
    drop(sender);
    while answers.message().await.unwrap().is_some() {}
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn a_long_call_is_cut_into_utterances_before_any_is_too_long() {
    let server = TestServer::fake(FakeScript::default(), &["--max-text-bytes", "20"]).await;
    let requests = vec![named("Hello there.", "1"); 5];
    let pieces = online(&server, requests).await.unwrap();
    assert!(pieces.iter().all(|(id, _)| id == "1"));
    server.idle(5).await;
    server.stop().await;
}

#[tokio::test]
async fn a_caller_who_sends_more_than_may_wait_is_held_back_and_everything_is_spoken() {
    const MESSAGES: usize = 200;
    // Bounded by the number of utterances, and by their text.
    let few_bytes = ["--max-text-bytes", "200", "--max-buffered-text-bytes", "1000"];
    for args in [&[][..], &few_bytes[..]] {
        let script = FakeScript::default();
        let server = TestServer::fake(script.clone(), args).await;
        script.talker.close();
        let text = "word ".repeat(20);
        let messages: Vec<_> = (0..MESSAGES).map(|n| named(&text, &n.to_string())).collect();
        let work = online(&server, messages);
        let open = async {
            script.talker.reached().await;
            script.talker.open();
        };
        let (pieces, ()) = tokio::join!(work, open);
        let mut ids: Vec<_> = pieces.unwrap().into_iter().map(|(id, _)| id).collect();
        ids.dedup();
        let expected: Vec<_> = (0..MESSAGES).map(|n| n.to_string()).collect();
        assert_eq!(ids, expected);
        server.idle(MESSAGES).await;
        server.stop().await;
    }
}

#[tokio::test]
async fn other_settings_begin_another_utterance() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let requests = vec![named("One.", "1"), named("Two.", "2"), named("Three.", "2")];
    let pieces = online(&server, requests).await.unwrap();
    let mut ids: Vec<_> = pieces.iter().map(|(id, _)| id.as_str()).collect();
    ids.dedup();
    assert_eq!(ids, ["1", "2"]);
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_nothing_behind() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let (sender, requests) = mpsc::channel(4);
    let answers = client(&server)
        .synthesize_online(ReceiverStream::new(requests))
        .await;
    sender.send(request(TEXT)).await.unwrap();
    drop((sender, answers));
    script.talker.open();
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    server.stop().await;
}

#[tokio::test]
async fn audio_has_the_rate_and_the_encoding_that_was_asked_for() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let own = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT).await;
    let seconds = own.unwrap().0.len() as f64 / 2.0 / f64::from(FAKE_RATE);
    // What NVIDIA's clients ask for unless told otherwise, and telephones.
    for (encoding, rate, bytes) in [
        (AudioEncoding::LinearPcm, 22_050, 2.0),
        (AudioEncoding::Mulaw, 8_000, 1.0),
        (AudioEncoding::Alaw, 8_000, 1.0),
    ] {
        let asked = SynthesizeSpeechRequest {
            encoding: encoding.into(),
            sample_rate_hz: rate,
            ..request(TEXT)
        };
        let audio = client(&server)
            .synthesize(asked)
            .await
            .unwrap()
            .into_inner()
            .audio;
        let heard = audio.len() as f64 / bytes / f64::from(rate);
        assert!(
            (heard - seconds).abs() < 1e-3,
            "{encoding:?}: {heard} s instead of {seconds}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_the_name_that_riva_has_for_it() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let cases = [
        (
            SynthesizeSpeechRequest {
                sample_rate_hz: -1,
                ..request(TEXT)
            },
            "sample_rate_hz",
        ),
        (
            SynthesizeSpeechRequest {
                sample_rate_hz: 1,
                ..request(TEXT)
            },
            "sample_rate_hz",
        ),
        (
            SynthesizeSpeechRequest {
                encoding: 7,
                ..request(TEXT)
            },
            "encoding",
        ),
        (
            SynthesizeSpeechRequest {
                voice_name: "nobody".to_owned(),
                ..request(TEXT)
            },
            "nobody",
        ),
        (
            SynthesizeSpeechRequest {
                language_code: "xx".to_owned(),
                ..request(TEXT)
            },
            "xx",
        ),
        (
            SynthesizeSpeechRequest {
                zero_shot_data: Some(ZeroShotData::default()),
                ..request(TEXT)
            },
            "zero_shot_data",
        ),
        (
            SynthesizeSpeechRequest {
                custom_dictionary: "a  b".to_owned(),
                ..request(TEXT)
            },
            "custom_dictionary",
        ),
        (
            SynthesizeSpeechRequest {
                custom_configuration: [("a".to_owned(), "b".to_owned())].into(),
                ..request(TEXT)
            },
            "custom_configuration",
        ),
    ];
    for (request, name) in cases {
        let refused = client(&server).synthesize(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(name), "{name}: {refused}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_without_text_is_refused_and_a_stream_without_any_is_a_silence() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for text in ["", " ", "\n"] {
        let refused = client(&server).synthesize(named(text, "a")).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{text:?}");
        assert!(refused.message().contains("text is empty"), "{refused}");
        let pieces = online(&server, vec![named(text, "b")]).await.unwrap();
        assert!(pieces.iter().all(|(id, _)| id == "b"));
        let audio = joined(&pieces);
        assert!(
            !audio.is_empty() && audio.iter().all(|&byte| byte == 0),
            "{text:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn opus_at_the_rate_that_clients_send_has_the_next_one_that_it_takes() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (hz, expected) in [(22_050, 24_000), (44_100, 48_000), (16_000, 16_000)] {
        let asked = SynthesizeSpeechRequest {
            encoding: AudioEncoding::Oggopus.into(),
            sample_rate_hz: hz,
            ..request(TEXT)
        };
        let audio = client(&server)
            .synthesize(asked)
            .await
            .unwrap()
            .into_inner()
            .audio;
        // The rate in the Opus head, after the page's 28 bytes, the magic, the version, the channels and the
        // pre-skip.
        let rate = u32::from_le_bytes(audio[40..44].try_into().unwrap());
        assert_eq!(rate, expected, "{hz}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_whole_answer_that_is_too_long_is_refused_and_its_record_says_so() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let long = SynthesizeSpeechRequest {
        sample_rate_hz: 48_000,
        ..request(&"a word and another ".repeat(250))
    };
    let refused = client(&server).synthesize(long).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("SynthesizeOnline"), "{refused}");
    server.idle(1).await;
    let record = &server.records.all()[0];
    let error = record.error.as_ref().expect("it failed").to_string();
    assert!(error.contains("SynthesizeOnline"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn words_come_with_their_times_where_they_are_asked_for() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let asked = SynthesizeSpeechRequest {
        enable_word_time_offsets: true,
        ..request("one two, three.")
    };
    let answer = client(&server)
        .synthesize(asked.clone())
        .await
        .unwrap()
        .into_inner();
    let words = answer.meta.expect("times").words;
    let said: Vec<_> = words.iter().map(|word| word.word.as_str()).collect();
    assert_eq!(said, ["one", "two,", "three."]);
    assert!(words.iter().all(|word| word.start_time <= word.end_time));
    assert!(words.is_sorted_by(|a, b| a.end_time <= b.start_time));
    // Two bytes a sample, sixteen samples a millisecond.
    assert!(words[2].end_time as usize <= answer.audio.len() / 32);

    let mut audio = client(&server)
        .synthesize_online(tokio_stream::iter([asked]))
        .await
        .unwrap()
        .into_inner();
    let mut streamed = Vec::new();
    while let Some(response) = audio.message().await.unwrap() {
        assert!(!response.audio.is_empty());
        streamed.extend(response.meta.map(|meta| meta.words).unwrap_or_default());
    }
    let streamed: Vec<_> = streamed.iter().map(|word| word.word.as_str()).collect();
    assert_eq!(streamed, said);
    let plain = client(&server).synthesize(request("one.")).await.unwrap();
    assert_eq!(plain.into_inner().meta, None);
    server.stop().await;
}

#[tokio::test]
async fn voices_are_found_by_the_names_they_are_listed_under_and_nvidias_own_mean_the_default() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let listed = client(&server)
        .get_riva_synthesis_config(RivaSynthesisConfigRequest::default())
        .await;
    let config = listed.unwrap().into_inner().model_config.remove(0);
    let prefix = &config.parameters["voice_name"];
    for voice in config.parameters["subvoices"].split(',') {
        let (voice, _) = voice.split_once(':').expect("a name and an index");
        let voice_name = format!("{prefix}.{voice}");
        let request = SynthesizeSpeechRequest {
            voice_name,
            ..request(TEXT)
        };
        assert!(client(&server).synthesize(request).await.is_ok(), "{voice}");
    }
    for own in ["Magpie-Multilingual.EN-US.Leo", "English-US.Female-1"] {
        let request = SynthesizeSpeechRequest {
            voice_name: own.to_owned(),
            ..request(TEXT)
        };
        assert!(client(&server).synthesize(request).await.is_ok(), "{own}");
    }
    let other = RivaSynthesisConfigRequest {
        model_name: "other".to_owned(),
    };
    let refused = client(&server)
        .get_riva_synthesis_config(other)
        .await
        .unwrap_err();
    assert!(refused.message().contains(&config.model_name), "{refused}");
    server.stop().await;
}

/// Script of a user of NVIDIA's client.
const SCRIPT: &str = r#"
import sys
import riva.client
import riva.client.proto.riva_tts_pb2 as tts

server, rate, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
service = riva.client.SpeechSynthesisService(riva.client.Auth(uri=server, use_ssl=False))
for model in service.stub.GetRivaSynthesisConfig(tts.RivaSynthesisConfigRequest()).model_config:
    p = model.parameters
    for voice in p["subvoices"].split(","):
        print("voice", p["language_code"], p["voice_name"] + "." + voice.split(":")[0])
options = dict(language_code="en-US", encoding=riva.client.AudioEncoding.LINEAR_PCM, sample_rate_hz=rate)
print("whole", len(service.synthesize(text, **options).audio))
print("default", len(service.synthesize(text).audio))
print("online", *[len(piece.audio) for piece in service.synthesize_online(text, **options)])
try:
    service.synthesize(text, voice_name="nobody", **options)
except Exception as error:
    print("refused", error.code().name, error.details())
try:
    service.synthesize(" ", **options)
except Exception as error:
    print("empty", error.code().name, error.details())
"#;

#[tokio::test]
async fn nvidias_own_client_lists_voices_and_synthesises() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let own = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT).await;
    let bytes = own.unwrap().0.len();
    let address = server.app.address().to_string();
    let rate = FAKE_RATE.to_string();
    let Some(said) = python("riva", "nvidia-riva-client", SCRIPT, &[&address, &rate, TEXT]).await else {
        return;
    };
    let line = |name: &str| {
        let line = said.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {said}")).to_owned()
    };
    assert!(line("voice").starts_with("voice en"), "{said}");
    assert_eq!(line("whole"), format!("whole {bytes}"));
    assert_ne!(line("default"), "default 0");
    let pieces: Vec<usize> = line("online")
        .split_whitespace()
        .skip(1)
        .map(|piece| piece.parse().expect("a length"))
        .collect();
    assert!(pieces.len() > 1, "{said}");
    assert_eq!(pieces.iter().sum::<usize>(), bytes);
    assert!(line("refused").starts_with("refused INVALID_ARGUMENT"), "{said}");
    assert_eq!(
        line("empty"),
        "empty INVALID_ARGUMENT text is empty; expected text to speak"
    );
    server.stop().await;
}
