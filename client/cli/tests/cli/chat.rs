//! Conversations of scripts: turns on standard input, answers on standard output.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use omni_proto::v1::{FinishReason, Modality, Role};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::fake::{ChatScript, Fake, Seen};
use crate::program::{Outcome, Place, finish, interrupt, terminate};

fn run(script: ChatScript, args: &[&str], input: &str) -> Outcome {
    let fake = Fake::chat(script);
    let mut all = vec!["chat"];
    all.extend(args);
    Place::with(&fake).run_with(&all, input.as_bytes())
}

fn stdout(outcome: &Outcome) -> &str {
    std::str::from_utf8(&outcome.stdout).unwrap()
}

fn holding() -> ChatScript {
    ChatScript {
        hold: true,
        ..ChatScript::default()
    }
}

fn status(code: Code, message: &str, reason: &str) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, "omni", []))
}

#[test]
fn a_script_gets_its_answers_in_order_and_nothing_else() {
    let fake = Fake::chat(ChatScript::default());
    let outcome = Place::with(&fake).run_with(&["chat"], b"One.\n\n  Two.\r\nThree.");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(
        stdout(&outcome),
        "You said: One.\nYou said: Two.\nYou said: Three.\n"
    );
    assert_eq!(outcome.stderr, "");
    let seen = fake.until(&Seen::Closed);
    let Seen::ChatConfig(config) = &seen[0] else {
        panic!("{seen:?}")
    };
    assert_eq!(config.output_modalities, [i32::from(Modality::Text)]);
}

#[test]
fn an_answer_is_shown_before_it_is_done() {
    let fake = Fake::chat(holding());
    let mut child = Place::with(&fake).command(&["chat", "Tell me."]).spawn().unwrap();
    let mut shown = [0; 18];
    child.stdout.as_mut().unwrap().read_exact(&mut shown).unwrap();
    assert_eq!(&shown, b"You said: Tell me.");
    interrupt(&child);
    assert_eq!(finish(child).code, Some(130));
}

#[test]
fn text_cut_between_its_characters_marks_arrives_as_it_was() {
    let pieces = vec!["ne\u{301}", "e", "\u{301} ", "👩", "\u{200d}", "👩 ", "𝄞\n"];
    let script = ChatScript {
        answer: Some(pieces.clone()),
        ..ChatScript::default()
    };
    let outcome = run(script, &["Hello."], "");
    assert_eq!(stdout(&outcome), pieces.concat(), "with the line ended once");
}

#[test]
fn what_the_arguments_say_comes_first() {
    let fake = Fake::chat(ChatScript::default());
    let args = [
        "chat",
        "Hello",
        "there.",
        "--system",
        "Be brief.",
        "--seed",
        "7",
        "--temperature",
        "0",
        "--max-tokens",
        "50",
        "-m",
        "some-model",
    ];
    let outcome = Place::with(&fake).run_with(&args, b"And then?\n");
    assert_eq!(stdout(&outcome), "You said: Hello there.\nYou said: And then?\n");
    let Seen::ChatConfig(config) = fake.next() else {
        panic!("no config")
    };
    assert_eq!(
        (config.instructions.as_str(), config.model.as_str()),
        ("Be brief.", "some-model")
    );
    let sampling = config.text_sampling.unwrap();
    assert_eq!(
        (sampling.seed, sampling.temperature, sampling.max_tokens),
        (Some(7), Some(0.0), Some(50))
    );
    assert_eq!(config.speech_sampling, None);
}

#[test]
fn a_turn_is_answered_before_the_next_one_is_written() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut command = place.command(&["chat"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for text in ["One.", "Two."] {
        stdin.write_all(format!("{text}\n").as_bytes()).unwrap();
        let mut shown = [0; 15];
        child.stdout.as_mut().unwrap().read_exact(&mut shown).unwrap();
        assert_eq!(shown, format!("You said: {text}\n").as_bytes());
    }
    drop(stdin);
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn ctrl_c_stops_the_answer_and_ends_a_script() {
    let fake = Fake::chat(holding());
    let place = Place::with(&fake);
    let mut command = place.command(&["chat", "A long story."]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Another one.\n").unwrap();
    fake.until(&Seen::Holding);
    interrupt(&child);
    fake.until(&Seen::Interrupt(None));
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert!(
        !fake
            .rest()
            .contains(&Seen::Message(Role::User, "Another one.".into()))
    );
}

#[test]
fn termination_is_as_gentle_as_ctrl_c() {
    let fake = Fake::chat(holding());
    let place = Place::with(&fake);
    let child = place.command(&["chat", "A long story."]).spawn().unwrap();
    fake.until(&Seen::Holding);
    terminate(&child);
    fake.until(&Seen::Interrupt(None));
    assert_eq!(finish(child).code, Some(143));
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_a_server_that_does_not_hear() {
    let fake = Fake::chat(ChatScript {
        deaf: true,
        ..holding()
    });
    let place = Place::with(&fake);
    let child = place.command(&["chat", "A long story."]).spawn().unwrap();
    fake.until(&Seen::Holding);
    interrupt(&child);
    fake.until(&Seen::Interrupt(None));
    interrupt(&child);
    assert_eq!(finish(child).code, Some(130));
}

#[test]
fn a_server_that_does_not_stop_is_left() {
    let fake = Fake::chat(ChatScript {
        deaf: true,
        ..holding()
    });
    let place = Place::with(&fake);
    let child = place.command(&["chat", "A long story."]).spawn().unwrap();
    fake.until(&Seen::Holding);
    interrupt(&child);
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(64 + 13), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("the server did not stop the answer within 2 s"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_failed_answer_ends_a_script_with_its_code_behind_the_good_ones() {
    let fake = Fake::chat(ChatScript {
        fail: Some((2, status(Code::InvalidArgument, "no room", "CONTEXT_TOO_LONG"))),
        ..ChatScript::default()
    });
    let outcome = Place::with(&fake).run_with(&["chat"], b"One.\nTwo.\nThree.\n");
    assert_eq!(outcome.code, Some(64 + 3), "{outcome:?}");
    assert_eq!(stdout(&outcome), "You said: One.\nYou said: Two.\n");
    assert!(
        outcome
            .stderr
            .contains("error: no room (INVALID_ARGUMENT, CONTEXT_TOO_LONG)"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("/clear"), "{}", outcome.stderr);
    assert!(!fake.rest().contains(&Seen::Message(Role::User, "Three.".into())));
}

#[test]
fn a_refused_conversation_exits_with_its_code() {
    let script = ChatScript {
        refuse: Some(status(Code::ResourceExhausted, "full", "SERVER_OVERLOADED")),
        ..ChatScript::default()
    };
    let outcome = run(script, &["Hello."], "");
    assert_eq!(outcome.code, Some(64 + 8), "{outcome:?}");
    assert_eq!(stdout(&outcome), "");
}

#[test]
fn a_script_outlives_a_session_that_was_idle_for_too_long() {
    let fake = Fake::chat(ChatScript {
        end_after: Some((1, status(Code::Aborted, "idle for a minute", "SESSION_IDLE"))),
        ..ChatScript::default()
    });
    let outcome = Place::with(&fake).run_with(&["chat"], b"One.\nTwo.\n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(stdout(&outcome), "You said: One.\nYou said: Two.\n");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_server_that_dies_in_the_middle_is_a_lost_connection() {
    let mut fake = Fake::chat(holding());
    let mut child = Place::with(&fake).command(&["chat", "Tell me."]).spawn().unwrap();
    // The first text is on standard output, so it has arrived.
    let mut shown = [0; 18];
    child.stdout.as_mut().unwrap().read_exact(&mut shown).unwrap();
    fake.die();
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(64 + 14), "{outcome:?}");
    assert!(
        outcome.stderr.contains("lost the connection to"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_comes_after_the_end_of_an_answer_is_a_broken_protocol() {
    let script = ChatScript {
        leaky: true,
        ..ChatScript::default()
    };
    let fake = Fake::chat(script);
    let outcome = Place::with(&fake).run_with(&["chat", "-o", "a.wav"], b"One.\nTwo.\n");
    assert_eq!(outcome.code, Some(64 + 13), "{outcome:?}");
    assert!(
        outcome.stderr.contains("which is not the open one"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_answer_that_takes_too_long_is_deadline_exceeded() {
    let outcome = run(holding(), &["Hello.", "--timeout", "300ms"], "");
    assert_eq!(outcome.code, Some(64 + 4), "{outcome:?}");
}

#[test]
fn warnings_and_cuts_are_said_unless_quiet() {
    let script = ChatScript {
        warning: Some(("DRAINING", "the server will stop soon")),
        finish: FinishReason::Length,
        ..ChatScript::default()
    };
    let outcome = run(script.clone(), &["Hello."], "");
    assert_eq!(
        outcome.stderr,
        "warning: the server will stop soon (DRAINING)\n\
         warning: the answer was cut: it reached the longest the server gives\n"
    );
    assert_eq!(run(script, &["Hello.", "-q"], "").stderr, "");
}

#[test]
fn an_answer_that_repeated_itself_is_told() {
    let script = ChatScript {
        finish: FinishReason::Repetition,
        ..ChatScript::default()
    };
    assert_eq!(
        run(script, &["Hello."], "").stderr,
        "warning: the answer was stopped: the model repeated itself\n"
    );
}

#[test]
fn a_reader_that_leaves_ends_the_program_silently() {
    let fake = Fake::chat(ChatScript::default());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let place = Place::with(&fake);
    let mut command = place.command(&["chat", "Hello."]);
    let outcome = finish(command.stdout(Stdio::from(writer)).spawn().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn what_cannot_be_said_is_refused() {
    for (args, input, code) in [
        (&[][..], &b""[..], 2),
        (&[], b"\n \n", 2),
        (&[], b"\xFF\n", 4),
        (&["  "], b"", 2),
        (&["Hello.", "--voice", "amber"], b"", 2),
        (&["Hello.", "--text-only", "-o", "a.wav"], b"", 2),
        (&["Hello.", "-q", "--verbose"], b"", 2),
        (&["Hello.", "--max-tokens", "0"], b"", 2),
        (&["Hello.", "-o", "a.m4a"], b"", 2),
    ] {
        let fake = Fake::chat(ChatScript::default());
        let mut all = vec!["chat"];
        all.extend(args);
        let outcome = Place::with(&fake).run_with(&all, input);
        assert_eq!(outcome.code, Some(code), "{args:?} {input:?}: {outcome:?}");
        assert_eq!(stdout(&outcome), "");
    }
}
