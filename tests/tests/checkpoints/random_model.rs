//! The server with random weights: it says of itself that it is noise, and speaks and converses as long as it says.

use omni_audio::{Level, from_i16, i16_from_s16le};
use omni_config::{ModelSource, deploy::resolve};
use omni_proto::v1;
use omni_server::app::load_model;
use omni_tests::{TestServer, audio_of, chat_config, seeded};

async fn server() -> TestServer {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let model = ModelSource::Random("random:embedded@7".parse().expect("a name"));
    let mut server = TestServer::launch(&[], move || load_model(&model, &deploy, false)).await;
    server.app.ready().await.expect("the random model loads");
    server
}

async fn card(server: &TestServer) -> v1::Model {
    let request = v1::ListModelsRequest::default();
    let models = server.catalog().list_models(request).await.expect("a list");
    models.into_inner().models.remove(0)
}

fn seconds(samples: usize, card: &v1::Model) -> f64 {
    let rate = card.native_output.expect("a format").sample_rate_hz;
    samples as f64 / f64::from(rate)
}

#[tokio::test]
async fn it_speaks_five_seconds_of_noise_and_says_so() {
    let server = server().await;
    let card = card(&server).await;
    assert!(card.display_name.contains("random:embedded@7"), "{card:?}");
    assert!(card.description.contains("Noise"), "{card:?}");
    let text = "Nothing of this can be heard in it.";
    let (audio, outcome) = audio_of(&mut server.speech(), seeded(1), text)
        .await
        .expect("audio");
    assert_eq!(outcome.finish_reason(), v1::FinishReason::Stop);
    let samples: Vec<f32> = i16_from_s16le(&audio).map(from_i16).collect();
    let seconds = seconds(samples.len(), &card);
    assert!((4.7..=5.0).contains(&seconds), "{seconds} s");
    let level = Level::of(&samples);
    assert!((0.02..0.5).contains(&level.rms()), "{level:?}");
    assert!(level.clipped() * 100 < samples.len() as u64, "{level:?}");
    let (again, _) = audio_of(&mut server.speech(), seeded(1), text)
        .await
        .expect("audio");
    assert!(again == audio, "the same seeds are the same noise");
    server.stop().await;
}

#[tokio::test]
async fn it_answers_as_long_as_it_says_and_aloud() {
    let server = server().await;
    let card = card(&server).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    for question in ["Who is there?", "And who else?"] {
        let answer = chat.turn(question).await;
        assert_eq!(answer.finish(), v1::FinishReason::Stop, "{answer:?}");
        assert!(answer.text.chars().count() > 50, "{:?}", answer.text);
        let seconds = seconds(answer.samples(), &card);
        assert!((4.7..=5.0).contains(&seconds), "{seconds} s");
    }
    chat.hang_up();
    chat.end().await.expect("a good end");
    server.stop().await;
}
