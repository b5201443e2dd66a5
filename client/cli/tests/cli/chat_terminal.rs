//! Conversations of people at terminals.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use omni_proto::v1::Role;
use rustix::termios::tcgetattr;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::fake::{ChatScript, Fake, Seen};
use crate::program::{Place, Screen, Terminal, finish, interrupt, terminate};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

/// `omni-client chat` at a terminal.
struct Chat {
    child: Child,
    screen: Screen,
}

impl Chat {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(&[&["chat"], args].concat());
        command.env("TERM", "xterm");
        let (child, screen) = Terminal::open().watch(command);
        Self { child, screen }
    }

    /// Types a line at the prompt.
    fn enter(&mut self, line: &str) {
        self.screen.until("> ");
        self.screen.types(&format!("{line}\r"));
    }

    /// Ends the program at the prompt.
    fn leave(mut self) {
        self.screen.until("> ");
        self.screen.types(CTRL_D);
        assert_eq!(finish(self.child).code, Some(0));
    }
}

#[test]
fn a_person_types_and_is_answered() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &["-o", "all.wav"]);
    chat.enter("Hello.");
    chat.screen.until("You said: Hello.\r\n");
    chat.screen.until("first text ");
    chat.screen.until(" · gaps ");
    chat.screen.until("> ");
    // Lines of before can be had again.
    chat.screen.types(UP);
    chat.screen.types("\r");
    chat.screen.until("You said: Hello.\r\n");
    chat.leave();
    fake.until(&Seen::Closed);
    assert!(!place.wav("all.wav").is_empty());
}

#[test]
fn lines_of_an_earlier_session_come_back_unless_none_are_kept() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let kept = place.path("state/omni/chat-history");
    let start = |args: &[&str], settings: &[(&str, &std::path::Path)]| {
        let mut command = place.command(&[&["chat"], args].concat());
        command.env("TERM", "xterm").env_remove("OMNI_CHAT_HISTORY");
        command.env("XDG_STATE_HOME", place.path("state"));
        command.envs(settings.iter().copied());
        let (child, screen) = Terminal::open().watch(command);
        Chat { child, screen }
    };
    let empty = ("OMNI_CHAT_HISTORY", std::path::Path::new(""));
    for mut chat in [start(&["--no-history"], &[]), start(&[], &[empty])] {
        chat.enter("A secret.");
        chat.screen.until("You said: A secret.");
        chat.leave();
        assert!(!kept.exists());
    }
    let mut chat = start(&[], &[]);
    chat.enter("Hello.");
    chat.screen.until("You said: Hello.");
    chat.leave();
    let lines = fs::read_to_string(&kept).unwrap();
    assert!(lines.ends_with("Hello.\n"), "{lines}");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    let mut chat = start(&[], &[]);
    chat.enter(UP);
    chat.screen.until("You said: Hello.");
    chat.leave();
    // A folder that cannot be made is said, and the conversation goes on.
    let file = place.path("file/history");
    fs::write(place.path("file"), "").unwrap();
    let mut chat = start(&[], &[("OMNI_CHAT_HISTORY", file.as_path())]);
    chat.screen.until("lines are not kept in ");
    chat.leave();
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_program() {
    let fake = Fake::chat(ChatScript {
        hold: true,
        heard: "You",
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    for text in ["A story.", "Another."] {
        chat.enter(text);
        chat.screen.until(&format!("You said: {text}"));
        interrupt(&chat.child);
        fake.until(&Seen::Interrupt(None));
        chat.screen.until("interrupted · first text ");
    }
    chat.enter("/save all.txt");
    chat.screen.until("4 messages saved to all.txt");
    assert_eq!(
        fs::read_to_string(place.path("all.txt")).unwrap(),
        "user: A story.\n\nassistant: You\n\nuser: Another.\n\nassistant: You\n",
        "what was heard is kept"
    );
    chat.enter("/quit");
    assert_eq!(finish(chat.child).code, Some(0));
}

#[test]
fn an_answer_that_was_done_before_ctrl_c_was_heard_is_cut_all_the_same() {
    let fake = Fake::chat(ChatScript {
        hold: true,
        late: true,
        heard: "You",
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &["-o", "all.wav"]);
    for text in ["A story.", "Another."] {
        chat.enter(text);
        chat.screen.until(&format!("You said: {text}"));
        interrupt(&chat.child);
        chat.screen.until("first text ");
    }
    chat.screen.until("> ");
    // The new settings come behind the cut.
    chat.screen.types("/voice other\r");
    chat.screen.until("voice: other");
    chat.screen.types("/save all.txt\r");
    chat.screen.until("4 messages saved to all.txt");
    assert_eq!(
        fs::read_to_string(place.path("all.txt")).unwrap(),
        "user: A story.\n\nassistant: You\n\nuser: Another.\n\nassistant: You\n",
    );
    chat.enter("/quit");
    assert_eq!(finish(chat.child).code, Some(0));
}

#[test]
fn a_second_ctrl_c_gives_up_a_server_that_does_not_hear_and_stays() {
    let fake = Fake::chat(ChatScript {
        hold: true,
        deaf: true,
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.enter("A story.");
    chat.screen.until("You said: A story.");
    interrupt(&chat.child);
    fake.until(&Seen::Interrupt(None));
    interrupt(&chat.child);
    chat.screen.until("(given up)");
    chat.enter("/save all.txt");
    chat.screen.until("0 messages saved");
    chat.leave();
}

#[test]
fn lines_that_are_typed_ahead_are_all_answered() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.enter("One.\rTwo.\r/system Be brief.\rThree.");
    for text in ["One.", "Two.", "Three."] {
        chat.screen.until(&format!("You said: {text}"));
    }
    chat.leave();
}

#[test]
fn a_line_that_is_typed_while_an_answer_comes_is_said_after_it() {
    let fake = Fake::chat(ChatScript {
        hold: true,
        heard: "You",
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.enter("A story.");
    chat.screen.until("You said: A story.");
    // The terminal sends Ctrl-C away with what was typed; a signal leaves it.
    chat.screen.types("Another.\r");
    interrupt(&chat.child);
    chat.screen.until("interrupted");
    chat.screen.until("You said: Another.");
    interrupt(&chat.child);
    chat.screen.until("interrupted");
    chat.leave();
}

#[test]
fn a_person_is_told_what_is_talked_with_and_tab_completes_commands() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &["-o", "all.wav"]);
    let greeting = chat.screen.until("> ");
    for part in ["fake-model at http://127.0.0.1:", ", voice fake. /help lists"] {
        assert!(greeting.contains(part), "{greeting:?}");
    }
    chat.screen.types("/cl\t\r");
    chat.screen.until("(a new conversation)");
    chat.leave();
}

#[test]
fn ctrl_c_clears_what_was_typed_before_it_leaves() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.screen.until("> ");
    chat.screen.types(CTRL_C);
    chat.screen.until("leaves)");
    chat.screen.until("> ");
    // Typing begins the count anew, and what was typed is gone.
    chat.screen.types("half a line");
    chat.screen.types(CTRL_C);
    let shown = chat.screen.until("> ");
    assert!(!shown.contains("leaves"), "{shown:?}");
    chat.screen.types("Hello.\r");
    chat.screen.until("You said: Hello.");
    chat.leave();
}

#[test]
fn ctrl_c_at_the_prompt_leaves_when_pressed_twice() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.screen.until("> ");
    chat.screen.types(CTRL_C);
    chat.screen.until("(Ctrl-C again or Ctrl-D leaves)");
    chat.screen.until("> ");
    // Something else in between begins the count anew.
    chat.screen.types("Hello.\r");
    chat.screen.until("You said: Hello.");
    chat.screen.until("> ");
    chat.screen.types(CTRL_C);
    chat.screen.until("leaves)");
    chat.screen.until("> ");
    chat.screen.types(CTRL_C);
    assert_eq!(finish(chat.child).code, Some(0));
    let seen = fake.until(&Seen::Closed);
    let said = seen
        .iter()
        .filter(|seen| matches!(seen, Seen::Message(..)))
        .count();
    assert_eq!(said, 1);
}

#[test]
fn a_failed_answer_is_told_and_the_conversation_goes_on() {
    let details = ErrorDetails::with_error_info("STAGE_FAILED", "omni", []);
    let fake = Fake::chat(ChatScript {
        fail: Some((
            1,
            Status::with_error_details(Code::Internal, "the talker died", details),
        )),
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.enter("One.");
    chat.screen.until("the talker died (INTERNAL, STAGE_FAILED)");
    chat.enter("/sing");
    chat.screen.until("there is no /sing");
    chat.enter("Two.");
    chat.screen.until("You said: Two.");
    chat.leave();
}

#[test]
fn a_lost_session_is_followed_by_one_that_knows_what_was_said() {
    let fake = Fake::chat(ChatScript {
        end_after: Some((
            1,
            Status::with_error_details(
                Code::Aborted,
                "nothing happened for a minute",
                ErrorDetails::with_error_info("SESSION_IDLE", "omni", []),
            ),
        )),
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &["--system", "Be brief."]);
    for text in ["One.", "Two."] {
        chat.enter(text);
        chat.screen.until(&format!("You said: {text}"));
        fake.until(&Seen::Left);
    }
    chat.enter("Three.");
    chat.screen.until("You said: Three.");
    chat.leave();
    let last = fake
        .rest()
        .into_iter()
        .find_map(|seen| match seen {
            Seen::ChatConfig(config) => Some(config),
            _ => None,
        })
        .expect("a third session");
    assert_eq!(last.instructions, "Be brief.");
    let roles: Vec<Role> = last
        .history
        .iter()
        .map(omni_proto::v1::ChatMessage::role)
        .collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant]);
}

#[test]
fn a_vanished_server_is_told_and_what_was_said_can_still_be_saved() {
    let mut fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &[]);
    chat.enter("One.");
    chat.screen.until("You said: One.");
    chat.screen.until("> ");
    fake.die();
    chat.screen.until("the next message opens a new session");
    chat.screen.types("Two.\r");
    // Refused, or reset if the last of the dying server still answered.
    chat.screen.until("error:");
    chat.enter("/save all.txt");
    chat.screen.until("2 messages saved");
    chat.leave();
}

#[test]
fn a_model_cannot_command_the_terminal() {
    let fake = Fake::chat(ChatScript {
        answer: Some(vec!["a\x1b]0;title\x07b\x1b[2J", "c\n\n\td"]),
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let mut chat = Chat::start(&place, &["Hello."]);
    chat.screen.until("a]0;titleb[2Jc\r\n\r\n\td\r\n");
    chat.leave();
}

#[test]
fn termination_at_the_prompt_gives_the_terminal_back_as_it_was() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let terminal = Terminal::open();
    let kept = terminal.programs.try_clone().unwrap();
    let before = tcgetattr(&kept).unwrap();
    let mut command = place.command(&["chat"]);
    command.env("TERM", "xterm");
    let (child, mut screen) = terminal.watch(command);
    screen.until("> ");
    terminate(&child);
    assert_eq!(finish(child).code, Some(143));
    let after = tcgetattr(&kept).unwrap();
    assert_eq!(
        (after.local_modes, after.input_modes, after.output_modes),
        (before.local_modes, before.input_modes, before.output_modes)
    );
}

#[test]
fn ctrl_c_cuts_an_answer_that_is_done_but_still_heard() {
    // More than a minute of speech, which the server gives at once.
    let fake = Fake::chat(ChatScript {
        chunks: 1_000,
        heard: "You",
        ..ChatScript::default()
    });
    let place = Place::with(&fake);
    let terminal = Terminal::open();
    let end = || Stdio::from(terminal.programs.try_clone().unwrap());
    let mut command = place.command(&["chat", "-o", "-"]);
    // Without editing, so that the tester's own terminal is not taken for the prompt.
    command.env("TERM", "dumb").stdin(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut stdout = child.stdout.take().unwrap();
    let listener = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    let mut screen = Screen::of(terminal);
    screen.until("> ");
    screen.types("A story.\n");
    screen.until("You said: A story.");
    screen.until("> ");
    interrupt(&child);
    screen.until("(cut to what was heard)");
    screen.types("/save all.txt\n");
    screen.until("2 messages saved");
    assert_eq!(
        fs::read_to_string(place.path("all.txt")).unwrap(),
        "user: A story.\n\nassistant: You\n"
    );
    let heard = fake.rest().into_iter().find_map(|seen| match seen {
        Seen::Interrupt(heard) => heard,
        _ => None,
    });
    assert!(heard.is_some_and(|heard| heard < 1_000 * u64::from(crate::fake::CHUNK)));
    screen.types("/quit\n");
    assert_eq!(finish(child).code, Some(0));
    listener.join().unwrap().unwrap();
}
