//! Word times: reported before the words are heard, and for interrupted speech.

use std::ops::Range;

use omni_config::{ModelSource, deploy::resolve};
use omni_proto::v1;
use omni_proto::v1::AudioEncoding as E;
use omni_proto::v1::speak_response::Event;
use omni_proto::v1::synthesize_response::Event as Synthesized;
use omni_server::app::load_model;
use omni_tests::{
    Call, FAKE_SAMPLES_PER_FRAME, FakeScript, TestServer, cancel, endless, finish, flush, seeded, text,
};

fn aligned(seed: u64) -> v1::SpeechConfig {
    v1::SpeechConfig {
        alignment: true,
        ..seeded(seed)
    }
}

/// Words reported to a call, in order. Every call checks that they follow the rules.
fn words(call: &Call) -> Vec<v1::TimedText> {
    let responses = call.history().responses.iter();
    let told = responses.filter_map(|response| match &response.event {
        Some(Event::Alignment(alignment)) => Some(alignment.spans.clone()),
        _ => None,
    });
    told.flatten().collect()
}

fn texts(words: &[v1::TimedText]) -> Vec<&str> {
    words.iter().map(|word| word.text.as_str()).collect()
}

fn samples(call: &Call) -> u64 {
    let responses = call.history().responses.iter();
    let counts = responses.map(|response| match &response.event {
        Some(Event::Audio(audio)) => u64::from(audio.sample_count),
        _ => 0,
    });
    counts.sum()
}

#[tokio::test]
async fn every_word_is_told_of_once_and_together_they_are_the_text() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let story = "  One (two) three, \u{201c}four\u{201d}. Five\u{2014}six!\n\nSeven ate n\u{ef}ne. ";
    for buffering in [
        v1::TextBuffering::Sentence,
        v1::TextBuffering::Clause,
        v1::TextBuffering::Eager,
        v1::TextBuffering::Manual,
    ] {
        let settings = v1::SpeechConfig {
            buffering: buffering.into(),
            ..aligned(3)
        };
        let mut call = server.call().await.configured(settings).await;
        for c in story.chars() {
            call.send(text(&c.to_string())).await;
        }
        call.send(finish()).await;
        call.utterance().await;
        let words = words(&call);
        assert_eq!(texts(&words).concat(), story.trim_end(), "{buffering:?}");
        assert!(words.len() >= 7, "{words:?}");
        let last = words.last().expect("words");
        assert!(last.end_sample <= samples(&call) && last.start_sample > samples(&call) / 2);
    }
    server.stop().await;
}

#[tokio::test]
async fn words_are_where_their_sound_is_at_any_rate_speed_and_format() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (encoding, hz, speed) in [
        (E::PcmS16le, 0, 1.0),
        (E::PcmS16le, 48_000, 0.5),
        (E::Mulaw, 8_000, 2.0),
        (E::Opus, 24_000, 1.0),
        (E::OggOpus, 48_000, 1.0),
        (E::Flac, 22_050, 1.5),
    ] {
        let format = v1::AudioFormat {
            encoding: encoding.into(),
            sample_rate_hz: hz,
            channels: 1,
        };
        let settings = v1::SpeechConfig {
            output: Some(v1::AudioDelivery {
                format: Some(format),
                ..v1::AudioDelivery::default()
            }),
            speed: Some(speed),
            ..aligned(3)
        };
        let mut call = server.call().await.configured(settings).await;
        // The aligner finds pauses in any voice.
        call.send(text("aaaaaaaa________________, bbbbbbbb.")).await;
        call.send(finish()).await;
        call.utterance().await;
        let words = words(&call);
        assert_eq!(words.len(), 2, "{words:?}");
        // Of 35 frames the second word has the last nine.
        let whole = samples(&call) as f64;
        let begins = words[1].start_sample as f64 / whole;
        assert!(
            (0.6..0.85).contains(&begins),
            "{encoding:?} at {hz}: {words:?} of {whole}"
        );
        assert!(words[1].end_sample as f64 > 0.9 * whole, "{words:?} of {whole}");
    }
    server.stop().await;
}

/// Of text without spaces every syllable is a word of its own.
#[tokio::test]
async fn chinese_has_a_time_for_every_character() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut call = server.call().await.configured(aligned(3)).await;
    let said = "你好世界，再见吧朋友。";
    call.send(text(said)).await;
    call.send(finish()).await;
    call.utterance().await;
    let words = words(&call);
    assert_eq!(
        texts(&words),
        ["你", "好", "世", "界，", "再", "见", "吧", "朋", "友。"]
    );
    assert!(
        words
            .windows(2)
            .all(|pair| pair[0].end_sample <= pair[1].start_sample)
    );
    assert!(words.last().expect("words").end_sample <= samples(&call));
    server.stop().await;
}

#[tokio::test]
async fn one_text_is_told_of_too_and_text_without_sound_with_it() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let request = v1::SynthesizeRequest {
        config: Some(aligned(1)),
        text: "so it is. ***".to_owned(),
    };
    let mut responses = server.speech().synthesize(request).await.unwrap().into_inner();
    let mut words = Vec::new();
    while let Some(response) = responses.message().await.unwrap() {
        if let Some(Synthesized::Alignment(alignment)) = response.event {
            words.extend(alignment.spans);
        }
    }
    assert_eq!(texts(&words), ["so", " it", " is.", " ***"]);
    let silent = words.last().expect("words");
    assert_eq!(silent.start_sample, silent.end_sample, "it has no sound");
    server.stop().await;
}

#[tokio::test]
async fn nobody_is_told_of_words_who_did_not_ask() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut call = server.call().await.configured(seeded(1)).await;
    call.send(text("quietly.")).await;
    call.send(finish()).await;
    let utterance = call.utterance().await;
    assert!(utterance.samples() > 0 && words(&call).is_empty());
    server.stop().await;
}

fn cancel_at(played: Option<u64>) -> v1::speak_request::Event {
    v1::speak_request::Event::Cancel(v1::CancelUtterance {
        utterance_id: String::new(),
        played_samples: played,
    })
}

/// Heard and unheard text of the next utterance that is interrupted, by its `done`.
async fn heard(call: &mut Call) -> (String, String) {
    let done = loop {
        match call.next().await {
            Some((_, Event::Done(done))) => break done,
            Some(_) => {}
            None => panic!("the call ended without done"),
        }
    };
    let reason = done.outcome.expect("an outcome").finish_reason();
    assert_eq!(reason, v1::FinishReason::Interrupted);
    (done.text_spoken, done.text_remaining)
}

#[tokio::test]
async fn an_interruption_tells_what_was_heard_by_the_account_that_was_given() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let story = endless();
    for alignment in [true, false] {
        let settings = v1::SpeechConfig {
            alignment,
            ..seeded(5)
        };
        let mut call = server.call().await.configured(settings).await;
        for part in [0, 1, 3] {
            call.send(text(&story)).await;
            call.send(finish()).await;
            let first = call.first_audio().await;
            let mut sent = first.start_sample + u64::from(first.sample_count);
            while sent < 40 * u64::from(FAKE_SAMPLES_PER_FRAME) {
                sent += u64::from(call.first_audio().await.sample_count);
            }
            let before = words(&call).len();
            let played = sent * part / 3;
            call.send(cancel_at(Some(played))).await;
            let (spoken, remaining) = heard(&mut call).await;
            assert_eq!(format!("{spoken}{remaining}"), story);
            assert_eq!(part == 0, spoken.is_empty(), "{spoken:?}");
            if alignment {
                let told = words(&call);
                let from = told
                    .iter()
                    .rposition(|word| word.char_start == 0)
                    .expect("a beginning");
                assert!(before > from);
                let ended = told[from..].iter().filter(|word| word.end_sample <= played);
                let expected: Vec<_> = ended.map(|word| word.text.as_str()).collect();
                assert_eq!(spoken, expected.concat());
            }
        }
        call.hang_up();
        call.end().await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn who_does_not_say_what_was_played_is_not_told_and_what_waited_was_not_heard() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut call = server.call().await.configured(seeded(5)).await;
    call.send(text(&endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    call.send(cancel("")).await;
    assert_eq!(heard(&mut call).await, (String::new(), String::new()));
    call.send(text(&endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    call.send(text("this one waits")).await;
    call.send(flush()).await;
    call.send(cancel_at(Some(u64::MAX))).await;
    let (spoken, _) = heard(&mut call).await;
    // Never more than was sent.
    assert!(spoken.len() < endless().len() / 2, "{} characters", spoken.len());
    assert_eq!(
        heard(&mut call).await,
        (String::new(), "this one waits".to_owned())
    );
    server.stop().await;
}

/// Characters of the text that belong to a word.
fn range(words: &[v1::TimedText], text: &str) -> Range<u32> {
    let word = words.iter().find(|word| word.text.trim() == text);
    let word = word.unwrap_or_else(|| panic!("{text} is in {words:?}"));
    word.char_start..word.char_end
}

#[tokio::test]
async fn numbers_that_are_spoken_as_words_are_told_of_as_they_were_written() {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let mut server =
        TestServer::launch(&[], move || load_model(&ModelSource::Embedded, &deploy, false)).await;
    server.app.ready().await.expect("the embedded model loads");
    let mut call = server.call().await.configured(aligned(1)).await;
    let said = "Dr. Smith paid $5.20 at 3 pm, ***. Well?";
    call.send(text(said)).await;
    call.send(finish()).await;
    call.utterance().await;
    let words = words(&call);
    assert_eq!(texts(&words).concat(), said);
    assert_eq!(range(&words, "$5.20"), 14..20);
    let paid = words
        .iter()
        .find(|word| word.text.trim() == "$5.20")
        .expect("it is there");
    let dr = words
        .iter()
        .find(|word| word.text.trim() == "Dr.")
        .expect("it is there");
    // Five dollars and twenty cents take longer than a doctor.
    assert!(
        paid.end_sample - paid.start_sample > 2 * (dr.end_sample - dr.start_sample),
        "{words:?}"
    );
    server.stop().await;
}
