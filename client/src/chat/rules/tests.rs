use super::*;
use crate::chat::message::Role;
use crate::checker::Checker;

fn ready(modalities: &[v1::Modality], rate: Option<u32>) -> Event {
    let format = |rate| v1::AudioDelivery {
        format: Some(v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: rate,
            channels: 1,
        }),
        ..Default::default()
    };
    Event::Ready(v1::ChatSessionReady {
        resolved: Some(v1::ChatConfig {
            output_modalities: modalities.iter().map(|&modality| modality.into()).collect(),
            output_audio: rate.map(format),
            ..Default::default()
        }),
        ..Default::default()
    })
}

fn speaking() -> Event {
    ready(&[v1::Modality::Text, v1::Modality::Audio], Some(24_000))
}

fn started() -> Event {
    Event::ResponseStarted(v1::ResponseStarted {})
}

fn text(text: &str) -> Event {
    Event::Text(v1::TextDelta { text: text.into() })
}

fn audio(start: u64, samples: u32, last: bool) -> Event {
    Event::Audio(v1::AudioChunk {
        data: vec![0; samples as usize * 2].into(),
        start_sample: start,
        sample_count: samples,
        last,
    })
}

fn message(role: Role) -> v1::ChatMessage {
    Message {
        role,
        ..Message::user("Hello.")
    }
    .to_proto()
}

fn added(role: Role) -> Event {
    Event::MessageAdded(v1::MessageAdded {
        message: Some(message(role)),
        audio_duration: None,
    })
}

fn cut() -> Event {
    Event::MessageCut(v1::MessageCut {
        message: Some(message(Role::Assistant)),
    })
}

fn done(role: Role) -> Event {
    Event::ResponseDone(v1::ResponseDone {
        outcome: Some(v1::Outcome {
            finish_reason: v1::FinishReason::Stop.into(),
            ..Default::default()
        }),
        message: Some(message(role)),
    })
}

/// Plays `(response, event)` pairs with consecutive numbers; returns the first error, or that of the end.
fn complaint_of(mut checker: Checker<ChatRules>, events: Vec<(&str, Event)>) -> Option<String> {
    for (i, (id, event)) in events.into_iter().enumerate() {
        let message = Incoming {
            seq: Some(i as u64 + 1),
            id: id.into(),
            event: Some(event),
        };
        if let Err(what) = checker.event(message) {
            return Some(what);
        }
    }
    checker.end().err()
}

fn complaint(events: Vec<(&str, Event)>) -> Option<String> {
    complaint_of(Checker::session(ChatRules), events)
}

#[test]
fn a_good_conversation_passes() {
    let turns = vec![
        ("", speaking()),
        ("", added(Role::User)),
        ("a", started()),
        ("a", text("Hel")),
        ("a", audio(0, 5, false)),
        ("a", text("lo.")),
        ("a", audio(5, 7, true)),
        ("a", done(Role::Assistant)),
        ("a", cut()),
        ("", speaking()),
        ("", added(Role::User)),
        ("b", started()),
        ("b", audio(0, 1, false)),
        ("b", done(Role::Assistant)),
    ];
    assert_eq!(complaint(turns), None);
}

#[test]
fn a_model_that_only_writes_needs_no_sample_rate() {
    let written = || vec![("", ready(&[v1::Modality::Text], None)), ("a", started())];
    let mut good = written();
    good.extend([("a", text("Hello.")), ("a", done(Role::Assistant))]);
    assert_eq!(complaint(good), None);
    let mut bad = written();
    bad.push(("a", audio(0, 1, false)));
    assert_eq!(
        complaint(bad).unwrap(),
        "it sent audio without having said its rate"
    );
}

#[test]
fn each_broken_rule_is_named() {
    let after_ready = |id, event| vec![("", speaking()), (id, event)];
    let inside = |id, event| vec![("", speaking()), ("a", started()), (id, event)];
    for (events, expected) in [
        (vec![("a", started())], "before ready"),
        (vec![("", ready(&[], Some(24_000)))], "forms of answers"),
        (
            vec![("", ready(&[v1::Modality::Audio], None))],
            "where 16-bit mono",
        ),
        (after_ready("a", text("x")), "not the open one"),
        (after_ready("a", audio(0, 1, false)), "not the open one"),
        (after_ready("a", done(Role::Assistant)), "not the open one"),
        (inside("b", started()), "response b came inside response a"),
        (inside("", added(Role::User)), "a message came inside response a"),
        (inside("", speaking()), "new settings came inside response a"),
        (inside("a", cut()), "a cut message came inside response a"),
        (inside("a", text("")), "empty"),
        (inside("b", text("x")), "not the open one"),
        (inside("a", audio(1, 1, false)), "expected 0"),
        (inside("a", audio(0, 0, false)), "says 0 samples"),
        (inside("a", done(Role::User)), "not the assistant's"),
        (inside("a", text("x")), "inside response a"),
    ] {
        let what = complaint(events).unwrap_or_default();
        assert!(what.contains(expected), "{what:?} does not say {expected:?}");
    }
}

#[test]
fn nothing_of_a_response_may_come_after_its_end() {
    for late in [text("x"), audio(0, 1, false), done(Role::Assistant)] {
        let events = vec![
            ("", speaking()),
            ("a", started()),
            ("a", done(Role::Assistant)),
            ("a", late),
        ];
        let what = complaint(events).unwrap_or_default();
        assert!(what.contains("not the open one"), "{what:?}");
    }
    let events = vec![
        ("", speaking()),
        ("a", started()),
        ("a", audio(0, 1, true)),
        ("a", audio(1, 1, false)),
    ];
    assert_eq!(complaint(events).unwrap(), "it sent audio after the last");
}

#[test]
fn a_call_of_one_response_begins_with_it_and_ends_with_it() {
    let single = |events| complaint_of(Checker::single(ChatRules), events);
    let good = || {
        vec![
            ("", speaking()),
            ("", text("Hello.")),
            ("", done(Role::Assistant)),
        ]
    };
    assert_eq!(single(good()), None);
    assert_eq!(
        single(vec![("", speaking())]).unwrap(),
        "it ended the stream before the response"
    );
    for late in [done(Role::Assistant), text("x")] {
        let mut events = good();
        events.push(("", late));
        assert!(single(events).unwrap().contains("after its end"));
    }
    assert!(
        single(vec![("", speaking()), ("", speaking())])
            .unwrap()
            .contains("call of one response")
    );
}

#[test]
fn a_lost_message_is_noticed_and_events_of_a_later_version_are_skipped() {
    let mut checker = Checker::session(ChatRules);
    let message = |seq, event| Incoming {
        seq: Some(seq),
        id: String::new(),
        event,
    };
    assert_eq!(checker.event(message(1, None)), Ok(None));
    assert!(checker.event(message(2, Some(speaking()))).is_ok());
    assert_eq!(
        checker.event(message(4, Some(speaking()))).unwrap_err(),
        "message 4 came after message 2"
    );
}

#[test]
fn a_response_of_which_nothing_is_kept_has_no_message() {
    let mut checker = Checker::single(ChatRules);
    let mut event = |event| {
        checker
            .event(Incoming {
                seq: None,
                id: String::new(),
                event: Some(event),
            })
            .unwrap()
    };
    event(speaking());
    let nothing = v1::ChatMessage {
        id: "r".into(),
        role: v1::Role::Assistant.into(),
        parts: Vec::new(),
    };
    let outcome = v1::Outcome {
        finish_reason: v1::FinishReason::Interrupted.into(),
        ..Default::default()
    };
    let ended = event(Event::ResponseDone(v1::ResponseDone {
        outcome: Some(outcome),
        message: Some(nothing),
    }));
    assert!(matches!(ended, Some(ChatEvent::Done(_, done)) if done.message.is_none()));
}
