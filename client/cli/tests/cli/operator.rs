//! For operators: figures, the screen without a screen, steering.

use serde_json::Value;

use crate::fake::{Fake, Script, Seen};
use crate::program::{Place, Terminal, finish};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

#[test]
fn stats_are_a_page_for_people_and_json_for_programs() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let page = text(place.run(&["stats"]).stdout);
    for line in [
        "omni-server 9.9.9 on 192.0.2.1:1: fake-model",
        "sessions 1 of 256   running 1 of 64   waiting 0 of 128   next wait none   refused 4",
        "last minute: 0.5 requests/s ended, 1.5 s of audio/s, first audio p50 40 ms p95 70 ms p99 90 ms, 100.0 % without a gap",
        "talker  1   cordoned  2       1    0     25%  1000   cpu",
        "00ff     SpeechService/Speak  backend  192.0.2.7  5s   1         2.5 s  -0.25 s",
    ] {
        assert!(page.contains(line), "{line} is missing:\n{page}");
    }
    let json: Value = serde_json::from_slice(&place.run(&["stats", "--json"]).stdout).unwrap();
    assert_eq!(json["first_packet"]["p95_ms"], 70.0);
    assert_eq!(json["ready"], true);
    assert_eq!(json["stages"][0]["replicas"][1]["state"], "cordoned");
    assert_eq!(json["session_list"][0]["playback_lead_s"], -0.25);
}

#[test]
fn top_prints_a_line_for_every_look_where_there_is_no_terminal() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["top", "--interval", "100ms"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines: Vec<_> = text(outcome.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("omni-server 9.9.9"));
    assert!(lines[1].contains("talker 1/2 ready 2+0 kv 25%"), "{}", lines[1]);
}

#[test]
fn steering_does_what_was_asked_and_says_what_came_of_it() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    for (args, told, said) in [
        (
            &["cordon", "talker", "1"][..],
            "talker 1 REPLICA_STATE_CORDONED",
            "talker 1 is cordoned, with 2 requests to finish\n",
        ),
        (
            &["uncordon", "talker", "1"],
            "talker 1 REPLICA_STATE_READY",
            "talker 1 is ready\n",
        ),
        (
            &["remove", "talker", "1"],
            "talker 1 REPLICA_STATE_REMOVED",
            "talker 1 is removed\n",
        ),
        (&["add", "talker"], "add talker", "talker 2 is loading\n"),
        (
            &["cancel", "00ff", "--reason", "too long"],
            "cancel too long",
            "session 00ff is ended\n",
        ),
    ] {
        let outcome = place.run(&[&["admin"], args].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_eq!(fake.next(), Seen::Steered(told.to_owned()));
        assert_eq!(outcome.stderr, said);
    }
    let unknown = place.run(&["admin", "cancel", "beef"]);
    assert_eq!(unknown.code, Some(64 + 5));
    assert!(unknown.stderr.contains("no such session"), "{}", unknown.stderr);
}

#[test]
fn the_last_replica_of_a_stage_goes_only_after_a_yes() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    for verb in ["remove", "cordon"] {
        let refused = place.run(&["admin", verb, "talker", "0"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        for word in ["talker 0 is the last", "refuses all speech", "--yes"] {
            assert!(refused.stderr.contains(word), "{}", refused.stderr);
        }
        assert!(fake.saw_nothing());
        let done = place.run(&["admin", verb, "talker", "0", "--yes"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(matches!(fake.next(), Seen::Steered(_)));
    }
    // At a terminal a person is asked.
    for (answer, code) in [("n\r", 2), ("y\r", 0)] {
        let mut command = place.command(&["admin", "remove", "talker", "0"]);
        command.env("TERM", "xterm");
        let (child, mut screen) = Terminal::open().watch(command);
        screen.until("[y/N] ");
        screen.types(answer);
        assert_eq!(finish(child).code, Some(code));
        assert_eq!(fake.rest().len(), usize::from(code == 0));
    }
}

#[test]
fn a_drain_is_waited_for_and_told() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["admin", "drain", "--timeout", "2m"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(fake.next(), Seen::Steered("drain 120".to_owned()));
    let told: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(told[0], "draining: 2 sessions are open, 30 s are left");
    assert_eq!(told[3], "nothing is left, the server ends");
}

#[test]
fn a_server_that_serves_no_operators_is_named_and_so_is_the_way_to_one_that_does() {
    let place = Place::at("http://127.0.0.1:1");
    let outcome = place.run(&["stats"]);
    assert_eq!(outcome.code, Some(64 + 14));
    assert!(outcome.stderr.contains("127.0.0.1:1"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--admin-listen"), "{}", outcome.stderr);
    let fake = Fake::start(Script {
        operators: false,
        ..Script::default()
    });
    for command in [&["stats"][..], &["top"], &["admin", "add", "talker"]] {
        let outcome = Place::with(&fake).run(command);
        assert_eq!(outcome.code, Some(64 + 12), "{outcome:?}");
        assert!(
            outcome.stderr.contains("the port for callers?"),
            "{}",
            outcome.stderr
        );
    }
    let wrong = place.run(&["top", "--interval", "99ms"]);
    assert_eq!(wrong.code, Some(2));
}
