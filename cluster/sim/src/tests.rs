//! Invariants of every simulation.

use super::*;

fn costs() -> Costs {
    Costs {
        frame_ms: 80.0,
        talker: cost::TalkerCosts {
            base_us: 8_000.0,
            row_us: 400.0,
            prefill_us: 20.0,
        },
        code2wav: cost::VocoderCosts {
            base_us: 2_000.0,
            stream_us: 100.0,
            frame_us: 300.0,
        },
        hop_us: 50.0,
        begin_us: 0.0,
        varies: 0.0,
        silent_frames: 0,
        context_frames: 10,
        beside: cost::BesideCosts {
            talker_frame_us: 30.0,
            code2wav_frame_us: 40.0,
            front_begin_us: 500.0,
            front_frame_us: 100.0,
            front_end_us: 300.0,
            caller_begin_us: 200.0,
            caller_frame_us: 20.0,
            caller_end_us: 50.0,
        },
    }
}

fn plan_of(more: &[&str]) -> Plan {
    let length: &[&str] = if more.contains(&"--length") {
        &[]
    } else {
        &["--length", "60"]
    };
    let args = [&["omni-plan", "--costs", "-"], length, more].concat();
    plan(&Args::parse_from(args), costs()).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_seed_another() {
    let plan = plan_of(&["--callers", "20"]);
    let first = simulate(&plan, [1, 1]);
    assert!(first.done > 50, "{first:?}");
    assert_eq!(first, simulate(&plan, [1, 1]));
    let other = Plan { seed: 1, ..plan };
    assert_ne!(first, simulate(&other, [1, 1]));
}

#[test]
fn one_caller_waits_for_its_prompt_one_frame_and_one_chunk() {
    let plan = plan_of(&["--callers", "1"]);
    let outcome = simulate(&plan, [1, 1]);
    // Hop, prompt of 16 with the first row, hop, a chunk of one frame, hop.
    let expected = 50.0 + (8_000.0 + 400.0 + 16.0 * 20.0) + 50.0 + (2_000.0 + 100.0 + 300.0) + 50.0;
    assert!(
        (outcome.first_audio_at(0.5) * 1e6 - expected).abs() < 1.0,
        "{outcome:?}"
    );
    assert_eq!((outcome.gapped, outcome.again), (0, 0));
}

#[test]
fn without_pauses_a_talker_gives_what_its_steps_allow() {
    let plan = plan_of(&["--callers", "32", "--pause", "0", "--unpaced", "--length", "120"]);
    let outcome = simulate(&plan, [1, 8]);
    // 32 rows in each step, and hardly any prompts.
    let most = 32.0 * 0.080 / (0.008 + 32.0 * 0.000_4);
    let given = outcome.audio / outcome.counted;
    assert!(given < most && given > most * 0.9, "{given} of {most}");
    assert!(outcome.busy[0] > 0.97, "{outcome:?}");
}

#[test]
fn more_callers_need_more_replicas_and_the_fewest_keep_what_is_asked() {
    let of = |callers: &str| {
        let args = Args::parse_from([
            "omni-plan",
            "--costs",
            "-",
            "--length",
            "30",
            "--callers",
            callers,
        ]);
        fewest(&args, &plan(&args, costs()).unwrap()).unwrap()
    };
    let (few, _) = of("10");
    let (many, outcome) = of("400");
    assert!(many[0] > few[0] && many[1] >= few[1], "{few:?}, {many:?}");
    assert!(outcome.first_audio_at(0.95) <= 0.3 && outcome.gaps() <= 0.01);
}

#[test]
fn what_is_lost_goes_on_and_is_heard_once() {
    let plan = plan_of(&["--callers", "40", "--lose", "0.5,0"]);
    let lost = simulate(&plan, [4, 2]);
    let whole = simulate(&plan_of(&["--callers", "40"]), [4, 2]);
    assert!(lost.again > 0 && whole.again == 0);
    assert!(
        lost.done as f64 > whole.done as f64 * 0.9,
        "{} of {}",
        lost.done,
        whole.done
    );
    let of = |outcome: &Outcome| outcome.audio / outcome.done as f64;
    assert!(
        (of(&lost) / of(&whole) - 1.0).abs() < 0.05,
        "{} and {} s",
        of(&lost),
        of(&whole)
    );
}

#[test]
fn what_goes_on_is_not_computed_from_its_beginning() {
    // Long utterances, so that most of one has been heard when the talkers are lost.
    let load = [
        "--callers",
        "24",
        "--seconds",
        "30",
        "--spread",
        "0",
        "--pause",
        "0",
        "--lose",
        "0.5,0",
    ];
    let lost = |prefill_us: f64| {
        let plan = plan_of(&load);
        let costs = Costs {
            talker: cost::TalkerCosts {
                prefill_us,
                ..costs().talker
            },
            ..costs()
        };
        simulate(&Plan { costs, ..plan }, [4, 2])
    };
    let free = lost(0.0);
    let dear = lost(2_000.0);
    assert_eq!(free.gapped, 0, "{free:?}");
    // Heard frames become a prompt: a hundred of them take a fifth of a second, and none is spoken twice.
    assert!(dear.again > 0 && dear.busy[0] > free.busy[0], "{dear:?}");
    let of = |outcome: &Outcome| outcome.audio / outcome.done as f64;
    assert!((of(&free) / 30.0 - 1.0).abs() < 0.02, "{} s", of(&free));
}

#[test]
fn a_hundred_replicas_of_each_stage_serve_thousands_of_callers() {
    let plan = plan_of(&["--callers", "4000", "--length", "30", "--lose", "0.1,0.1"]);
    let outcome = simulate(&plan, [120, 120]);
    assert!(outcome.done > 4_000 && outcome.again > 100, "{outcome:?}");
    assert!(
        outcome.gaps() < 0.01 && outcome.first_audio_at(0.95) < 0.3,
        "{outcome:?}"
    );
}

#[test]
fn replicas_come_with_callers_and_go_with_them() {
    let args = [
        "--callers",
        "160",
        "--pause",
        "0",
        "--ramp",
        "40",
        "--length",
        "60",
        "--scale",
        "40,80",
        "--start",
        "10",
    ];
    let outcome = simulate(&plan_of(&args), [1, 1]);
    assert!(outcome.most[0] > 1 && outcome.most[0] < 160, "{outcome:?}");
    assert!(outcome.mean[0] < outcome.most[0] as f64, "{outcome:?}");
}

#[test]
fn on_shared_cores_replicas_are_given_and_none_are_lost() {
    let parses = |more: &[&str]| {
        let args = ["omni-plan", "--costs", "-", "--callers", "4", "--cores", "2"];
        Args::try_parse_from([&args, more].concat()).is_ok()
    };
    assert!(parses(&["--replicas", "1,1"]));
    assert!(!parses(&[]));
    assert!(!parses(&["--replicas", "1,1", "--lose", "0.5,0"]));
}

#[test]
fn on_shared_cores_one_caller_waits_for_all_parts_one_after_the_other() {
    let plan = plan_of(&["--callers", "1", "--cores", "8", "--replicas", "1,1"]);
    let outcome = simulate(&plan, [1, 1]);
    let stages = 50.0 + (8_000.0 + 400.0 + 16.0 * 20.0) + 50.0 + (2_000.0 + 100.0 + 300.0) + 50.0;
    let beside = (200.0 + 500.0) + (30.0 + 20.0) + (20.0 + 100.0 + 20.0);
    assert!(
        (outcome.first_audio_at(0.5) * 1e6 - stages - beside).abs() < 5.0,
        "{outcome:?}"
    );
}

#[test]
fn what_a_machine_gives_is_bound_by_its_cores_however_many_replicas_share_them() {
    let args = |cores: &'static str| {
        let load = ["--callers", "64", "--pause", "0", "--unpaced", "--length", "120"];
        plan_of(&[&load[..], &["--cores", cores, "--replicas", "1,1"]].concat())
    };
    let given = |cores, replicas| {
        let outcome = simulate(&args(cores), replicas);
        outcome.audio / outcome.counted
    };
    let one = given("1", [1, 1]);
    assert!(given("1", [4, 4]) < one, "smaller batches cost more: {one}");
    let two = given("2", [2, 2]);
    assert!(two > one * 1.2 && two <= one * 2.0, "{one} and {two}");
    let slow = simulate(&args("1"), [1, 1]).first_audio_at(0.5);
    let fast = simulate(&args("4"), [1, 1]).first_audio_at(0.5);
    assert!(slow > fast * 1.5, "{slow} and {fast} s");
}

#[test]
fn silence_at_the_head_of_an_utterance_is_made_and_waited_for_and_not_heard() {
    let of = |silent_frames| {
        let plan = plan_of(&["--callers", "1"]);
        let costs = Costs {
            silent_frames,
            ..costs()
        };
        simulate(&Plan { costs, ..plan }, [1, 1])
    };
    let without = of(0);
    let with = of(3);
    // Chunks of one, two and four frames: the first audible audio is in the third, at least three talker steps
    // later.
    let later = with.first_audio_at(0.5) - without.first_audio_at(0.5);
    assert!((0.025..0.060).contains(&later), "{later} s");
    let mean = |outcome: &Outcome| outcome.audio / outcome.done as f64;
    assert!((mean(&with) / mean(&without) - 1.0).abs() < 0.15, "{with:?}");
    assert_eq!(with.gapped, 0);
}

#[test]
fn callers_that_stay_together_wait_for_each_others_heads() {
    let costs: Costs = serde_json::from_str(include_str!("../costs/embedded-cpu.json")).unwrap();
    // The fitted value changes from day to day; the larger it is, the sooner they drift apart.
    let costs = Costs { varies: 0.5, ..costs };
    let load = [
        "--callers",
        "4",
        "--cores",
        "2",
        "--replicas",
        "1,1",
        "--pause",
        "0",
        "--unpaced",
    ];
    let first = |more: &[&str]| {
        let plan = plan_of(&[&load, more].concat());
        simulate(&Plan { costs, ..plan }, [1, 1]).first_audio_at(0.5)
    };
    let apart = first(&[]);
    let together = first(&["--together", "--spread", "0.06"]);
    assert!(together > 1.2 * apart, "{together} and {apart} s");
}

#[test]
fn an_utterance_that_no_replica_has_a_place_for_waits_and_is_not_begun_again() {
    let plan = plan_of(&["--callers", "400", "--pause", "0", "--unpaced", "--together"]);
    let outcome = simulate(&plan, [1, 1]);
    assert!(outcome.done > 50 && outcome.again == 0, "{outcome:?}");
}

#[test]
#[should_panic(expected = "--costs: varies")]
fn work_that_varies_by_more_than_itself_is_refused() {
    let args = Args::parse_from(["omni-plan", "--costs", "-", "--callers", "1"]);
    let costs = Costs {
        varies: 1.5,
        ..costs()
    };
    plan(&args, costs).unwrap();
}
