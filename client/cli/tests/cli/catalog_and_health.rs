//! Looking around: voices, models, health, completions.

use serde_json::Value;

use crate::fake::{Fake, Script, Seen};
use crate::program::{Place, Terminal, finish};

#[test]
fn voices_of_all_pages_are_listed_with_the_default_marked() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run(&["voices"]);
    assert_eq!(
        String::from_utf8(outcome.stdout).unwrap(),
        "VOICE            LANGUAGES  DESCRIPTION     ALIASES\n\
         amber (default)  en         Higher, bright  alloy, nova\n\
         onyx             en         Lower, calm\n"
    );
    let json: Value = serde_json::from_slice(&place.run(&["voices", "--json"]).stdout).unwrap();
    assert_eq!(
        (&json[0]["id"], &json[0]["default"]),
        (&"amber".into(), &true.into())
    );
    assert_eq!(json[1]["id"], "onyx");
}

#[test]
fn models_are_listed() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let table = String::from_utf8(place.run(&["models"]).stdout).unwrap();
    assert!(
        table.starts_with("MODEL       READY  CAN     NAME\nfake-model  yes    speech  "),
        "{table}"
    );
    let json: Value = serde_json::from_slice(&place.run(&["models", "--json"]).stdout).unwrap();
    assert_eq!(json[0]["capabilities"][0], "speech");
}

#[test]
fn health_tells_by_word_and_exit_code() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let serving = place.run(&["health"]);
    assert_eq!(
        (serving.code, serving.stdout.as_slice()),
        (Some(0), &b"SERVING\n"[..])
    );
    let quiet = place.run(&["health", "-q"]);
    assert_eq!(
        (quiet.code, quiet.stdout.len()),
        (Some(0), 0),
        "the exit code says it"
    );
    fake.set_serving(false);
    let not = place.run(&["health", "--json"]);
    assert_eq!(not.code, Some(1));
    let json: Value = serde_json::from_slice(&not.stdout).unwrap();
    assert_eq!(json["status"], "NOT_SERVING");
    let unknown = place.run(&["health", "--service", "no.such"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("no service \"no.such\""),
        "{}",
        unknown.stderr
    );
}

#[test]
fn health_waits_until_the_server_is_ready() {
    let fake = Fake::start(Script::default());
    fake.set_serving(false);
    let child = Place::with(&fake)
        .command(&["health", "--wait", "--timeout", "60s"])
        .spawn()
        .unwrap();
    // It has asked twice and was told no.
    assert_eq!([fake.next(), fake.next()], [Seen::Health, Seen::Health]);
    fake.set_serving(true);
    let outcome = finish(child);
    assert_eq!(
        (outcome.code, outcome.stdout.as_slice()),
        (Some(0), &b"SERVING\n"[..])
    );
}

#[test]
fn health_gives_up_waiting_in_the_end() {
    let fake = Fake::start(Script::default());
    fake.set_serving(false);
    let outcome = Place::with(&fake).run(&["health", "--wait", "--timeout", "100ms"]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("was not ready within 0.1 s"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn help_and_completions_go_to_standard_output() {
    let place = Place::at("nowhere");
    for args in [
        &["--help"][..],
        &["speak", "--help"],
        &["completions", "bash"],
        &["--version"],
    ] {
        let outcome = place.run(args);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(!outcome.stdout.is_empty());
    }
}

#[test]
fn manual_pages_are_there_for_every_command() {
    let place = Place::at("nowhere");
    let page = String::from_utf8(place.run(&["man"]).stdout).unwrap();
    assert!(
        page.contains(".TH omni-client 1") && page.contains("bench"),
        "{page}"
    );
    for section in [".SH \"EXAMPLES\"", ".SH \"EXIT STATUS\""] {
        assert!(page.contains(section), "{section} in {page}");
    }
    assert!(!page.contains("EXTRA"), "{page}");
    let mut command = place.command(&["man", "pages/man1"]);
    command.env("SOURCE_DATE_EPOCH", "951827696");
    let outcome = finish(command.spawn().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    for name in [
        "omni-client",
        "omni-client-speak",
        "omni-client-doctor",
        "omni-client-voices-add",
    ] {
        let page = std::fs::read_to_string(place.path(&format!("pages/man1/{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1 2000")), "{name}: {page}");
    }
    std::fs::write(place.path("file"), "").unwrap();
    assert_eq!(place.run(&["man", "file"]).code, Some(4));
}

#[test]
fn who_waits_for_long_is_told_what_for() {
    let fake = Fake::start(Script::default());
    fake.set_serving(false);
    let place = Place::with(&fake);
    let mut command = place.command(&["health", "--wait", "--timeout", "60s"]);
    command.env("TERM", "xterm");
    let (child, mut screen) = Terminal::open().watch(command);
    screen.until(&format!("waiting for {}", fake.endpoint()));
    fake.set_serving(true);
    screen.until("SERVING");
    assert_eq!(finish(child).code, Some(0));
}
