//! Callers of `Speak` and `Synthesize`.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::AudioEncoding as E;
use omni_proto::v1::speak_response::Event;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Call, Dice, Ending, cancel, config, endless, finish, flush, named, text};
use tonic::{Code, Request};

use super::callers::{Visit, ended_well, refused};

const RATES: [u32; 7] = [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000];
const OPUS_RATES: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];
const TEXTS: [&str; 10] = [
    "Hello.",
    "This is a sentence. And here is one more, a longer one, to be spoken after it.",
    "It costs $3.50 on May 5th, 2026, at 3:15 p.m.",
    "  ",
    "Dr. Smith's U.S. office: 12 km/h, 40 %, #7; see https://example.org/a?b=c.",
    "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten.",
    "A rather long sentence that goes on for a while, and then, because nobody stops it, for a while more.",
    "Caf\u{e9} na\u{ef}ve \u{1f600} \u{4f60}\u{597d} and back.",
    "1 2 3 4 5 6 7 8 9 10 100 1,000 1e9 -0.5",
    "Is it? It is! \u{201c}Quoted,\u{201d} he said \u{2014} and left\u{2026}",
];

/// Any settings that are offered.
pub(super) fn settings(dice: &mut Dice) -> v1::SpeechConfig {
    use v1::TextBuffering as B;
    let buffering = [B::Unspecified, B::Sentence, B::Clause, B::Eager, B::Manual];
    v1::SpeechConfig {
        output: Some(v1::AudioDelivery {
            format: Some(format(dice)),
            ..v1::AudioDelivery::default()
        }),
        speed: dice.one_in(4).then(|| 0.5 + dice.below(16) as f64 / 10.0),
        volume_gain_db: dice.one_in(4).then(|| dice.below(20) as f64 - 10.0),
        sampling: Some(v1::SamplingParams {
            seed: dice.one_in(2).then(|| dice.below(100)),
            max_tokens: dice.one_in(8).then(|| 1 + dice.below(50) as u32),
            ..v1::SamplingParams::default()
        }),
        buffering: dice.of(&buffering).into(),
        max_buffer_delay: dice.one_in(4).then(|| omni_proto::Duration {
            seconds: 0,
            nanos: 1_000_000 * (1 + dice.below(200) as i32),
        }),
        ..v1::SpeechConfig::default()
    }
}

fn format(dice: &mut Dice) -> v1::AudioFormat {
    let encodings = [
        E::Unspecified,
        E::PcmS16le,
        E::PcmF32le,
        E::Mulaw,
        E::Alaw,
        E::Opus,
        E::OggOpus,
        E::Wav,
        E::Flac,
    ];
    let encoding = dice.of(&encodings);
    let hz = match encoding {
        E::Mulaw | E::Alaw => dice.of(&[8_000, 16_000]),
        E::Opus | E::OggOpus => dice.of(&OPUS_RATES),
        _ => dice.of(&RATES),
    };
    v1::AudioFormat {
        encoding: encoding.into(),
        sample_rate_hz: if dice.one_in(3) { 0 } else { hz },
        channels: dice.below(2) as u32,
    }
}

pub(super) fn words(dice: &mut Dice) -> String {
    let count = 1 + dice.below(3);
    (0..count).map(|_| dice.of(&TEXTS)).collect()
}

fn client(visit: &Visit) -> SpeechServiceClient<tonic::transport::Channel> {
    SpeechServiceClient::new(visit.channel())
}

/// A call with settings; why it is none otherwise.
async fn begun(visit: &mut Visit) -> Result<Call, String> {
    let call = Call::try_open(&mut client(visit), None).await;
    let mut call = call.map_err(|status| refused(&status))?;
    call.send(config(settings(&mut visit.dice))).await;
    call.ready().await;
    Ok(call)
}

/// Sends text in random pieces; the utterance stays open.
async fn say(call: &Call, name: &str, dice: &mut Dice) {
    let words: Vec<char> = words(dice).chars().collect();
    let mut rest = &words[..];
    while !rest.is_empty() {
        let (piece, more) = rest.split_at((1 + dice.below(40) as usize).min(rest.len()));
        call.send(named(name, &piece.iter().collect::<String>())).await;
        if dice.one_in(6) {
            call.send(flush()).await;
        }
        if dice.one_in(6) {
            tokio::time::sleep(dice.moment(Duration::from_millis(30))).await;
        }
        rest = more;
    }
}

/// Receives until `count` utterances are done, or the call has ended; returns their ends.
async fn dones(call: &mut Call, count: usize) -> Vec<&'static str> {
    let mut ends = Vec::new();
    while ends.len() < count {
        match call.next().await {
            Some((_, Event::Done(done))) => ends.push(end_of(&done)),
            Some(_) => {}
            None => break,
        }
    }
    ends
}

fn end_of(done: &v1::UtteranceDone) -> &'static str {
    let outcome = done.outcome.as_ref().expect("an outcome");
    let error = omni_tests::error_reason(outcome);
    // Some texts have nothing that a voice can say.
    if error == "NOTHING_SPEAKABLE" {
        return "nothing to say";
    }
    ended_well(outcome.finish_reason(), &error)
}

/// Several utterances, waiting for each or not, in several settings.
pub(super) async fn speaks(visit: &mut Visit) -> String {
    let mut call = match begun(visit).await {
        Ok(call) => call,
        Err(refused) => return refused,
    };
    let mut came = "answered";
    for round in 0..=visit.dice.below(2) {
        if round > 0 {
            call.send(config(settings(&mut visit.dice))).await;
            call.ready().await;
        }
        let count = 1 + visit.dice.below(3) as usize;
        for n in 0..count {
            let name = if visit.dice.one_in(2) {
                format!("{round}-{n}")
            } else {
                String::new()
            };
            say(&call, &name, &mut visit.dice).await;
            call.send(finish()).await;
        }
        let ends = dones(&mut call, count).await;
        assert_eq!(ends.len(), count, "{:?}", call.history().ending);
        assert!(!ends.contains(&"interrupted"), "there was no interruption");
        if ends.contains(&"overloaded") {
            came = "overloaded";
        }
    }
    call.hang_up();
    call.end().await.expect("it ends well");
    came.to_owned()
}

/// Cancels at a random moment, and continues.
pub(super) async fn cancels(visit: &mut Visit) -> String {
    let mut call = match begun(visit).await {
        Ok(call) => call,
        Err(refused) => return refused,
    };
    let mut came = "too late";
    for _ in 0..=visit.dice.below(3) {
        say(&call, "", &mut visit.dice).await;
        if visit.dice.one_in(2) {
            call.send(finish()).await;
        }
        match visit.dice.below(3) {
            0 => {}
            1 => tokio::time::sleep(visit.dice.moment(Duration::from_millis(60))).await,
            _ => _ = call.next().await,
        }
        call.send(cancel("")).await;
        // Cancelling an ended call is no error, and neither is what follows.
        call.send(config(v1::SpeechConfig::default())).await;
        while let Some((_, event)) = call.next().await {
            match event {
                Event::Done(done) if end_of(&done) == "interrupted" => came = "interrupted",
                Event::Ready(_) => break,
                _ => {}
            }
        }
    }
    call.hang_up();
    call.end().await.expect("it ends well");
    came.to_owned()
}

/// The connection breaks somewhere on the way.
pub(super) async fn vanishes(visit: &mut Visit) -> String {
    let mut call = match begun(visit).await {
        Ok(call) => call,
        Err(refused) => return refused,
    };
    say(&call, "", &mut visit.dice).await;
    for _ in 0..visit.dice.below(4) {
        call.next().await;
    }
    if visit.dice.one_in(2) {
        tokio::time::sleep(visit.dice.moment(Duration::from_millis(100))).await;
    }
    visit.cut();
    // What still arrives keeps the rules, too.
    call.broken().await;
    "gone".to_owned()
}

/// The call is dropped somewhere on the way; the connection stays.
pub(super) async fn leaves(visit: &mut Visit) -> String {
    let mut call = match begun(visit).await {
        Ok(call) => call,
        Err(refused) => return refused,
    };
    if visit.dice.one_in(8) {
        return "gone".to_owned();
    }
    call.send(text(&endless())).await;
    call.send(finish()).await;
    for _ in 0..visit.dice.below(6) {
        call.next().await;
    }
    "gone".to_owned()
}

/// With a deadline that is often too short.
pub(super) async fn in_time(visit: &mut Visit) -> String {
    let time = visit.dice.moment(Duration::from_millis(600));
    let mut call = match Call::try_open(&mut client(visit), Some(time)).await {
        Ok(call) => call,
        Err(status) if late(status.code()) => return "late".to_owned(),
        Err(status) => return refused(&status),
    };
    call.send(config(settings(&mut visit.dice))).await;
    say(&call, "", &mut visit.dice).await;
    call.hang_up();
    match call.end().await {
        Ok(_) => "answered".to_owned(),
        Err(status) => {
            assert!(late(status.code()), "{status:?}");
            "late".to_owned()
        }
    }
}

/// True for a deadline's code: the client has a clock of its own, and reports cancellation if it is first.
fn late(code: Code) -> bool {
    matches!(code, Code::DeadlineExceeded | Code::Cancelled)
}

/// Reads slowly with pauses, or not at all for a while.
pub(super) async fn reads_slowly(visit: &mut Visit) -> String {
    let mut call = match begun(visit).await {
        Ok(call) => call,
        Err(refused) => return refused,
    };
    call.send(text(&endless())).await;
    call.hang_up();
    if visit.dice.one_in(3) {
        tokio::time::sleep(visit.dice.moment(Duration::from_secs(15))).await;
    }
    let most = 10 + visit.dice.below(200);
    let pause = visit.dice.moment(Duration::from_millis(200));
    for _ in 0..most {
        tokio::time::sleep(pause).await;
        if call.next().await.is_none() {
            break;
        }
    }
    match &call.history().ending {
        Ending::Open => "gone".to_owned(),
        Ending::Status(Code::Aborted) => "let go".to_owned(),
        Ending::Ok => "answered".to_owned(),
        Ending::Status(code) => panic!("ended with {code:?}"),
    }
}

/// Says nothing for a while, perhaps for longer than is waited for.
pub(super) async fn idles(visit: &mut Visit) -> String {
    let mut call = match begun(visit).await {
        Ok(call) => call,
        Err(refused) => return refused,
    };
    let time = visit.dice.moment(Duration::from_secs(9));
    let told = tokio::time::timeout(time, call.next()).await;
    if told.is_ok() {
        assert_eq!(call.history().ending, Ending::Status(Code::Aborted), "{told:?}");
        return "let go".to_owned();
    }
    call.send(text("Here I am again.")).await;
    call.hang_up();
    match call.end().await {
        Ok(_) => "answered".to_owned(),
        // It was dropped at that moment.
        Err(status) if status.code() == Code::Aborted => "let go".to_owned(),
        Err(status) => panic!("{status:?}"),
    }
}

/// One text.
pub(super) async fn synthesizes(visit: &mut Visit) -> String {
    let request = v1::SynthesizeRequest {
        config: Some(settings(&mut visit.dice)),
        text: words(&mut visit.dice),
    };
    let answer = client(visit).synthesize(Request::new(request)).await;
    let mut answer = match answer {
        Ok(answer) => answer.into_inner(),
        Err(status) => return refused(&status),
    };
    let mut checker = omni_tests::Whole::default();
    let mut came = "gone";
    let most = if visit.dice.one_in(4) {
        visit.dice.below(5)
    } else {
        u64::MAX
    };
    for _ in 0..most {
        let Some(response) = answer.message().await.expect("it ends well") else {
            checker.closed();
            break;
        };
        if let Some(done) = checker.response(&response) {
            came = end_of(done);
        }
    }
    came.to_owned()
}
