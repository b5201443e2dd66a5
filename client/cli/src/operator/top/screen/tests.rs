use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use omni_client::{Percentiles, Replica, ServerInfo, Session, Stage, Stats};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::state::Action;
use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn replica(id: u32, state: ReplicaState) -> Replica {
    Replica {
        id: id.to_string(),
        device: "cpu".to_owned(),
        state,
        in_flight: 2,
        running: 2,
        waiting: 1,
        kv_usage: 0.375,
        steps: 1_234,
        busy: Duration::from_secs(75),
        deaths: 1,
        last_error: "out of luck".to_owned(),
    }
}

fn session(id: &str, lead: Option<f64>) -> Session {
    Session {
        id: id.to_owned(),
        method: "SpeechService/Speak".to_owned(),
        principal: "backend".to_owned(),
        peer: "192.0.2.7".to_owned(),
        age: Duration::from_secs(70),
        active: true,
        requests: 3,
        audio: MS(12_300),
        lead,
    }
}

fn state() -> State {
    let info = ServerInfo {
        version: "0.1.0".to_owned(),
        started: None,
        models: vec!["omni-embedded".to_owned()],
        draining: false,
        listens: "127.0.0.1:50051".to_owned(),
        max_sessions: 256,
        max_active: 64,
        max_waiting: 128,
        max_wait: Duration::from_secs(20),
    };
    let stage = |name: &str, replicas| Stage {
        name: name.to_owned(),
        replicas,
        threads_left_behind: 0,
    };
    let stats = Stats {
        time: Some(SystemTime::UNIX_EPOCH),
        stages: vec![
            stage(
                "talker",
                vec![
                    replica(0, ReplicaState::Ready),
                    replica(1, ReplicaState::Cordoned),
                    replica(2, ReplicaState::Removed),
                ],
            ),
            stage("code2wav", vec![replica(0, ReplicaState::Restarting)]),
        ],
        sessions: 2,
        running: 2,
        waiting: 1,
        expected_wait: Some(MS(1_500)),
        refused: 7,
        first_packet: Percentiles {
            count: 40,
            p50: Some(MS(45)),
            p95: Some(MS(80)),
            p99: Some(MS(91)),
        },
        requests_per_second: 1.25,
        audio_per_second: 3.5,
        continuity: Some(0.995),
        draining: false,
        session_list: vec![session("aaaa", Some(0.75)), session("bbbb", Some(-0.2))],
    };
    State::new(info, stats)
}

fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect())
        .collect()
}

fn press(state: &mut State, code: KeyCode) -> Option<Action> {
    state.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn everything_that_an_operator_asks_for_is_on_the_screen() {
    let shown = screen(&mut state(), 120, 24).join("\n");
    for word in [
        "omni-server 0.1.0 on 127.0.0.1:50051: omni-embedded",
        "sessions 2 of 256",
        "running 2 of 64",
        "waiting 1 of 128",
        "next wait 1500 ms",
        "refused 7",
        "p50 45 ms p95 80 ms p99 91 ms",
        "99.5 % without a gap",
        "talker    0   ready            2",
        "talker    1   cordoned         2",
        "code2wav  0   restarting       2",
        "NOT READY: no replica of code2wav takes work (0 is restarting)",
        "38%",
        "out of luck (died once)",
        "aaaa",
        "+0.75 s",
        "-0.20 s",
        "c cordon",
    ] {
        assert!(shown.contains(word), "{word} is missing:\n{shown}");
    }
    assert!(!shown.contains("removed"), "{shown}");
}

#[test]
fn nothing_that_matters_is_cut_on_a_screen_of_eighty_columns() {
    let mut state = state();
    state
        .stats
        .session_list
        .iter_mut()
        .for_each(|session| session.principal.clear());
    let replicas = state
        .stats
        .stages
        .iter_mut()
        .flat_map(|stage| &mut stage.replicas);
    replicas.for_each(|replica| (replica.deaths, replica.last_error) = (0, String::new()));
    let mut later = state.stats.clone();
    later.time = later.time.map(|time| time + Duration::from_secs(1));
    state.take(later);
    let shown = screen(&mut state, 80, 24).join("\n");
    for word in [
        "refused 7",
        "99.5 % without a gap",
        "d drain",
        "LEAD",
        "BUSY",
        "DEVICE",
        "cpu",
    ] {
        assert!(shown.contains(word), "{word} is missing:\n{shown}");
    }
    assert!(!shown.contains("KEY"), "no session has one:\n{shown}");
}

#[test]
fn a_replica_shows_the_share_of_the_time_since_the_last_look_in_which_it_computed() {
    let mut state = state();
    let first = screen(&mut state, 120, 24).join("\n");
    assert!(!first.contains("BUSY"), "nothing is known yet:\n{first}");
    let mut later = state.stats.clone();
    later.time = later.time.map(|time| time + Duration::from_secs(2));
    later.stages[0].replicas[0].busy += MS(500);
    later.stages[0].replicas[1].busy += MS(2_500);
    // It began again.
    later.stages[1].replicas[0].busy = MS(100);
    state.take(later.clone());
    let shown = screen(&mut state, 120, 24);
    let row = |of: &str| shown.iter().find(|row| row.contains(of)).expect("a row");
    let head = row("BUSY");
    let column = head
        .find("BUSY")
        .map(|at| head[..at].chars().count())
        .expect("a head");
    let busy = |of: &str| {
        let cell: String = row(of).chars().skip(column).take(4).collect();
        cell.trim().to_owned()
    };
    assert_eq!(
        ["talker    0", "talker    1", "code2wav  0"].map(busy),
        ["25%", "100%", ""],
        "{}",
        shown.join("\n")
    );
    // Figures of another process are no interval.
    state.take(later);
    state.renew(state.info.clone());
    assert!(!screen(&mut state, 120, 24).join("\n").contains("BUSY"));
}

#[test]
fn a_session_shows_the_address_that_it_comes_from() {
    let shown = screen(&mut state(), 140, 24).join("\n");
    assert!(shown.contains("FROM") && shown.contains("192.0.2.7"), "{shown}");
}

#[test]
fn what_came_of_a_key_is_gone_with_the_next() {
    let mut state = state();
    press(&mut state, KeyCode::Char('k'));
    assert!(!state.message.is_empty());
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.message, "");
}

#[test]
fn threads_left_behind_are_told_where_there_are_any() {
    let mut state = state();
    assert!(!screen(&mut state, 120, 24).join("\n").contains("left behind"));
    state.stats.stages[1].threads_left_behind = 2;
    let shown = screen(&mut state, 120, 24).join("\n");
    assert!(
        shown.contains("threads left behind in a step: code2wav 2"),
        "{shown}"
    );
}

#[test]
fn a_replica_that_comes_to_stand_under_the_cursor_is_not_cordoned() {
    let mut state = state();
    // The cursor was not moved: it stands on the first.
    let mut stats = state.stats.clone();
    stats.stages[0].replicas.remove(0);
    state.take(stats.clone());
    assert_eq!(press(&mut state, KeyCode::Char('c')), None);
    assert!(
        state.message.contains("talker 0 is no longer there"),
        "{}",
        state.message
    );
    press(&mut state, KeyCode::Down);
    // The one that goes is not that under the cursor, which stays.
    stats.stages[0].replicas.clear();
    state.take(stats);
    let stage = "code2wav".to_owned();
    let replica = "0".to_owned();
    let state_wanted = ReplicaState::Cordoned;
    assert_eq!(
        press(&mut state, KeyCode::Char('c')),
        Some(Action::Set {
            stage,
            replica,
            state: state_wanted
        })
    );
    state.take(Stats {
        stages: Vec::new(),
        ..state.stats.clone()
    });
    assert_eq!(press(&mut state, KeyCode::Char('c')), None);
    assert_eq!(press(&mut state, KeyCode::Char('c')), None);
    assert_eq!(state.message, "there is no replica");
}

#[test]
fn a_small_screen_shows_the_head_and_some_of_each_table() {
    let shown = screen(&mut state(), 40, 14).join("\n");
    for word in ["omni-server", "talker", "Sessions (2)", "aaaa", "q quit"] {
        assert!(shown.contains(word), "{word} is missing:\n{shown}");
    }
    // However small: it does not break.
    for (width, height) in [(1, 1), (5, 3), (80, 2)] {
        screen(&mut state(), width, height);
    }
}

#[test]
fn keys_choose_and_steer_and_what_cannot_be_undone_is_asked_first() {
    let mut state = state();
    let set = |replica: &str, state| {
        Some(Action::Set {
            stage: "talker".to_owned(),
            replica: replica.to_owned(),
            state,
        })
    };
    // The last of its stage that takes work.
    assert_eq!(press(&mut state, KeyCode::Char('c')), None);
    for width in [80, 160] {
        let shown = screen(&mut state, width, 24).join("");
        for word in ["talker 0 is the last", "cordon it?", "d drain"] {
            assert!(shown.contains(word), "{word} is missing:\n{shown}");
        }
    }
    assert_eq!(press(&mut state, KeyCode::Esc), None);
    assert!(state.asks.is_none(), "Esc takes the question away");
    assert_eq!(press(&mut state, KeyCode::Char('c')), None);
    assert_eq!(
        press(&mut state, KeyCode::Char('y')),
        set("0", ReplicaState::Cordoned)
    );
    press(&mut state, KeyCode::Down);
    assert_eq!(
        press(&mut state, KeyCode::Char('c')),
        set("1", ReplicaState::Ready)
    );
    // With another that takes work nothing is asked.
    state.stats.stages[0].replicas[1].state = ReplicaState::Ready;
    assert_eq!(
        press(&mut state, KeyCode::Char('c')),
        set("1", ReplicaState::Cordoned)
    );
    state.stats.stages[0].replicas[1].state = ReplicaState::Cordoned;

    assert_eq!(press(&mut state, KeyCode::Char('k')), None);
    assert!(state.asks.is_none() && state.message.contains("Tab"));
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Down);
    assert_eq!(press(&mut state, KeyCode::Char('k')), None);
    // The session under the cursor stays chosen when others end.
    state.stats.session_list.remove(0);
    let shown = screen(&mut state, 120, 24).join("\n");
    assert!(
        shown.contains("end session bbbb (SpeechService/Speak)?  y: yes"),
        "{shown}"
    );
    let session = "bbbb".to_owned();
    assert_eq!(
        press(&mut state, KeyCode::Char('y')),
        Some(Action::Cancel { session })
    );

    assert_eq!(press(&mut state, KeyCode::Char('d')), None);
    assert_eq!(press(&mut state, KeyCode::Char('n')), None);
    assert_eq!(press(&mut state, KeyCode::Char('y')), None, "it was declined");
    press(&mut state, KeyCode::Char('d'));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Some(Action::Drain));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Action::Quit));
}

#[test]
fn a_question_mark_explains_keys_and_columns_and_any_key_goes_back() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char('?')), None);
    let shown = screen(&mut state, 80, 24).join("\n");
    for word in ["shut the server down", "FLIGHT", "LEAD", "any key goes back"] {
        assert!(shown.contains(word), "{word} is missing:\n{shown}");
    }
    assert_eq!(press(&mut state, KeyCode::Char('q')), None);
    assert!(screen(&mut state, 80, 24).join("\n").contains("Sessions (2)"));
    // Esc takes away what is shown, and never the program.
    assert_eq!(press(&mut state, KeyCode::Esc), None);
}
