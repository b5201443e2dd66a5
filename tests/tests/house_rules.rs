//! House rules that the compiler does not check: the direction of imports, and forbidden patterns.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use omni_engine::StageKind;
use omni_models::GRAPHS;
use omni_tests::parsers::PARSERS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

/// Every file below `directory` with one of these extensions, generated and built ones left out.
fn files(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
    {
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if entry.is_dir() {
            let skipped =
                name.starts_with('.') || ["target", "generated", "work", "node_modules"].contains(&name);
            if !skipped {
                found.extend(files(&entry, extensions));
            }
        } else if extensions.iter().any(|extension| name.ends_with(extension)) {
            found.push(entry);
        }
    }
    found
}

/// The code of a file without its comments and without its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a text file");
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The levels of the crate that runs stages, lowest first, as in its `lib.rs`.
const PIPELINE: &[&[&str]] = &[
    &[
        "clock", "item", "request", "seq_ids", "settings", "tenant", "trace",
    ],
    &["stage"],
    &["connector"],
    &["orchestrator"],
    &["lib"],
];

fn level(levels: &[&[&str]], module: &str) -> usize {
    levels
        .iter()
        .position(|level| level.contains(&module))
        .unwrap_or_else(|| panic!("module {module} has no level: add it to the list in lib.rs and here"))
}

/// Pairs of a file below `source` and a module that it imports, with the file's own module.
fn imports(source: &Path) -> Vec<(PathBuf, String, String)> {
    let mut found = Vec::new();
    for path in files(source, &[".rs"]) {
        let relative = path.strip_prefix(source).expect("below the source").to_owned();
        let module = relative.iter().next().and_then(|first| first.to_str());
        let module = module.expect("a name").trim_end_matches(".rs").to_owned();
        for imported in code(&path).split("crate::").skip(1) {
            let name = imported.chars().take_while(|c| c.is_alphanumeric() || *c == '_');
            let imported: String = name.collect();
            if !imported.is_empty() {
                found.push((relative.clone(), module.clone(), imported));
            }
        }
    }
    found
}

fn imports_run_down(crate_: &str, levels: &[&[&str]]) {
    for (file, module, imported) in imports(&root().join(crate_).join("src")) {
        let from = level(levels, &module);
        let to = level(levels, &imported);
        assert!(
            to <= from,
            "{crate_}: {} (level {}) imports {imported} (level {})",
            file.display(),
            from + 1,
            to + 1
        );
    }
}

/// A stage knows receivers and senders, not their other ends.
#[test]
fn imports_in_the_crate_that_runs_stages_run_down_the_list_only() {
    imports_run_down("pipeline", PIPELINE);
}

/// Folders of the server's crates.
const SERVER: [&str; 11] = [
    "server",
    "server/config",
    "server/core",
    "server/grpc",
    "server/json",
    "server/openai",
    "server/services",
    "server/session",
    "server/studio",
    "server/transport",
    "server/wyoming",
];

/// Only a stage's family names it: elsewhere names come from graphs.
#[test]
fn stages_are_named_in_their_family_only() {
    let names: Vec<_> = GRAPHS.iter().flat_map(|graph| graph.stages.iter()).collect();
    for crate_ in ["pipeline"].into_iter().chain(SERVER) {
        let source = root().join(crate_).join("src");
        for path in files(&source, &[".rs"]) {
            // Settings show a stage in their examples; an encoder is more than a stage.
            let relative = path.strip_prefix(&source).expect("below the source");
            if relative.ends_with("tests.rs") {
                continue;
            }
            let code = code(&path).to_lowercase();
            let named = names.iter().filter(|stage| stage.kind != StageKind::OneShot);
            for stage in named.map(|stage| stage.name) {
                let examples = code.matches(&format!("stages.{stage}")).count()
                    + code.matches(&format!("of a {stage}")).count();
                let found = code.matches(stage).count() - examples;
                assert!(
                    found == 0,
                    "{crate_}: {} names the stage {stage}",
                    relative.display()
                );
            }
        }
    }
}

/// The protocol between processes is one of its own.
#[test]
fn what_runs_stages_knows_no_callers_protocol() {
    for path in files(&root().join("pipeline/src"), &[".rs"]) {
        let code = code(&path);
        let names: Vec<_> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for never in ["tonic", "hyper", "axum", "serde", "serde_json", "riva"] {
            assert!(!names.contains(&never), "{} names {never}", path.display());
        }
        assert!(
            !code.contains("omni_proto::v1"),
            "{} names what callers send",
            path.display()
        );
    }
}

/// Crates of this workspace that each crate may depend on.
fn arrows() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("proto", &[] as &[_]),
        ("audio", &[]),
        ("text", &[]),
        ("text/phonemes", &[]),
        ("engine", &[]),
        ("pipeline", &["omni-engine", "omni-proto"]),
        ("telemetry/yaml", &[]),
        ("telemetry", &["omni-yaml"]),
        ("models/gpu", &[]),
        ("client/manual", &[]),
        ("models/backend", &["omni-engine", "omni-gpu"]),
        ("models", &["omni-backend", "omni-engine", "omni-gpu"]),
        (
            "models/family",
            &[
                "omni-audio",
                "omni-engine",
                "omni-models",
                "omni-pipeline",
                "omni-text",
            ],
        ),
        (
            "server",
            &[
                "omni-audio",
                "omni-config",
                "omni-core",
                "omni-engine",
                "omni-family",
                "omni-grpc",
                "omni-manual",
                "omni-models",
                "omni-openai",
                "omni-pipeline",
                "omni-services",
                "omni-session",
                "omni-studio",
                "omni-telemetry",
                "omni-transport",
                "omni-wyoming",
            ],
        ),
        (
            "server/config",
            &[
                "omni-engine",
                "omni-family",
                "omni-models",
                "omni-pipeline",
                "omni-telemetry",
                "omni-yaml",
            ],
        ),
        (
            "server/core",
            &[
                "omni-config",
                "omni-engine",
                "omni-family",
                "omni-pipeline",
                "omni-telemetry",
            ],
        ),
        (
            "server/grpc",
            &[
                "omni-audio",
                "omni-config",
                "omni-core",
                "omni-engine",
                "omni-family",
                "omni-pipeline",
                "omni-proto",
                "omni-services",
                "omni-session",
                "omni-telemetry",
                "omni-text",
                "omni-transport",
            ],
        ),
        ("server/json", &[]),
        (
            "server/openai",
            &[
                "omni-audio",
                "omni-config",
                "omni-core",
                "omni-family",
                "omni-json",
                "omni-pipeline",
                "omni-services",
                "omni-session",
                "omni-telemetry",
                "omni-text",
                "omni-transport",
            ],
        ),
        (
            "server/services",
            &[
                "omni-audio",
                "omni-core",
                "omni-engine",
                "omni-family",
                "omni-json",
                "omni-pipeline",
                "omni-session",
                "omni-telemetry",
                "omni-text",
            ],
        ),
        (
            "server/session",
            &[
                "omni-audio",
                "omni-core",
                "omni-engine",
                "omni-family",
                "omni-pipeline",
                "omni-telemetry",
                "omni-text",
            ],
        ),
        ("server/studio", &[]),
        (
            "server/transport",
            &[
                "omni-config",
                "omni-core",
                "omni-pipeline",
                "omni-proto",
                "omni-session",
                "omni-telemetry",
            ],
        ),
        (
            "server/wyoming",
            &[
                "omni-audio",
                "omni-config",
                "omni-core",
                "omni-json",
                "omni-pipeline",
                "omni-services",
                "omni-session",
                "omni-telemetry",
                "omni-transport",
            ],
        ),
        ("client", &["omni-audio", "omni-proto"]),
        ("client/bench", &["omni-client"]),
        (
            "client/cli",
            &["omni-audio", "omni-bench", "omni-client", "omni-manual"],
        ),
    ])
}

/// Names of the dependencies in a section of a manifest.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let body = manifest.split(&format!("[{section}]")).nth(1).unwrap_or_default();
    let body = body.lines().take_while(|line| !line.starts_with('['));
    body.filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_depend_on_each_other_along_the_arrows_only() {
    for (name, allowed) in arrows() {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).expect("a manifest");
        for dependency in dependencies(&manifest, "dependencies") {
            if dependency.starts_with("omni-") {
                assert!(
                    allowed.contains(&dependency.as_str()),
                    "{name} depends on {dependency}"
                );
            }
        }
    }
}

/// A crate that no list names would escape every rule, and be built without what finds mistakes.
#[test]
fn every_crate_has_its_arrows_and_its_profile() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    let members = manifest
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let members: Vec<_> = members
        .expect("members")
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .filter(|name| !name.is_empty())
        .collect();
    let arrows = arrows();
    let cluster = fs::read_to_string(root().join("server/cluster/Cargo.toml")).expect("a manifest");
    let lock = fs::read_to_string(root().join("server/cluster/Cargo.lock")).expect("a lock file");
    let hashed = fs::read_to_string(root().join("server/cluster/build.rs")).expect("a build script");
    for member in members {
        let of_tests = ["tests", "tools", "models/tests"].contains(&member);
        assert!(of_tests || arrows.contains_key(member), "{member} has no arrows");
        assert!(
            !member.starts_with("server/") || SERVER.contains(&member),
            "{member}"
        );
        let own = fs::read_to_string(root().join(member).join("Cargo.toml")).expect("a manifest");
        let name = own
            .split("name = \"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("a name");
        let profile = format!("[profile.dev.package.{name}]");
        assert!(manifest.contains(&profile), "{profile}");
        if lock.contains(&format!("name = \"{name}\"\n")) {
            assert!(cluster.contains(&profile), "server/cluster/Cargo.toml: {profile}");
            // What the parts of a cluster are built from; the client is for its tests only.
            assert!(
                name == "omni-client" || hashed.contains(&format!("\"{member}\"")),
                "server/cluster/build.rs: {member}"
            );
        }
    }
}

#[test]
fn pure_crates_stay_pure() {
    let never: [(&str, &[&str]); 20] = [
        ("server/config", &["axum", "hyper", "prost", "tokio", "tonic"]),
        ("server/json", &["axum", "hyper", "prost", "tokio", "tonic"]),
        ("server/openai", &["prost", "tonic"]),
        ("server/studio", &["prost", "tonic"]),
        ("server/core", &["axum", "hyper", "prost", "serde_json", "tonic"]),
        (
            "server/session",
            &["axum", "hyper", "prost", "serde_json", "tonic"],
        ),
        ("server/services", &["axum", "hyper", "prost", "tonic"]),
        ("server/wyoming", &["axum", "hyper", "prost", "tonic"]),
        ("engine", &["tokio", "tonic", "candle-core", "metrics", "tracing"]),
        ("audio", &["tokio", "tonic", "candle-core", "metrics"]),
        ("text", &["tokio", "tonic", "candle-core", "metrics"]),
        ("text/phonemes", &["tokio", "tonic", "candle-core", "metrics"]),
        (
            "models/gpu",
            &["tokio", "tonic", "candle-core", "metrics", "tracing"],
        ),
        ("models", &["tokio", "tonic", "metrics"]),
        (
            "models/backend",
            &["metrics", "serde_json", "tokenizers", "tokio", "tonic"],
        ),
        ("models/family", &["tokio", "tonic", "metrics", "candle-core"]),
        (
            "pipeline",
            &[
                "axum",
                "candle-core",
                "http",
                "hyper",
                "metrics",
                "serde",
                "serde_json",
                "tonic",
            ],
        ),
        ("telemetry", &["tonic", "candle-core"]),
        (
            "client",
            &[
                "clap",
                "crossterm",
                "indicatif",
                "ratatui",
                "rustyline",
                "serde_json",
            ],
        ),
        (
            "client/bench",
            &["clap", "crossterm", "indicatif", "ratatui", "tonic"],
        ),
    ];
    for (name, never) in never {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).expect("a manifest");
        let dependencies = dependencies(&manifest, "dependencies");
        let found: Vec<_> = dependencies
            .iter()
            .filter(|found| never.contains(&found.as_str()))
            .collect();
        assert!(found.is_empty(), "{name} depends on {found:?}");
    }
    for (name, never) in [
        ("engine", ["std::time::Instant", "SystemTime", "std::thread"]),
        // Lengths of time are core's, which has no clock.
        ("text", ["std::time", "SystemTime", "std::thread"]),
    ] {
        for path in files(&root().join(name).join("src"), &[".rs"]) {
            let code = code(&path);
            for never in never {
                assert!(!code.contains(never), "{} uses {never}", path.display());
            }
        }
    }
}

#[test]
fn nothing_unfinished_is_left_lying_about() {
    let marks = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["XX", "X:"].concat(),
        ["todo", "!("].concat(),
    ];
    for path in files(&root(), &[".rs", ".proto", ".toml", ".md"]) {
        let text = fs::read_to_string(&path).expect("a text file");
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{} says {mark}", path.display());
        }
    }
}

#[test]
fn no_file_speaks_of_the_machine_it_was_written_on() {
    let marks = [
        ["../", "shared"].concat(),
        ["/wo", "rk/"].concat(),
        ["/ro", "ot/"].concat(),
    ];
    for path in files(
        &root(),
        &[".rs", ".proto", ".toml", ".md", ".py", ".sh", "Makefile"],
    ) {
        let text = fs::read_to_string(&path).expect("a text file");
        for mark in &marks {
            assert!(
                !text.contains(mark.as_str()),
                "{} mentions {mark}",
                path.display()
            );
        }
    }
}

/// Folders whose comments keep to [`comments_say_what_acts`].
const PROSE: [&str; 10] = [
    "audio",
    "client",
    "engine",
    "models",
    "pipeline",
    "server",
    "telemetry",
    "tests",
    "text",
    "tools",
];

#[test]
fn comments_say_what_acts() {
    let never = ["whoever", "nobody", "somebody", "everybody", "anybody"];
    for folder in PROSE {
        for path in files(&root().join(folder), &[".rs", ".cu", ".cuh"]) {
            let text = fs::read_to_string(&path).expect("a text file").to_lowercase();
            let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
            for comment in comments {
                let mut words = comment.split(|c: char| !c.is_alphanumeric());
                let found = words.find(|word| never.contains(word));
                assert!(found.is_none(), "{}: {}", path.display(), comment.trim());
            }
        }
    }
}

/// Figures of speech that named types and modules once, and the field's words for them.
const FIGURES: [(&str, &str); 9] = [
    ("bell", "notifier"),
    ("desk", "the service that it is"),
    ("door", "listener or admission"),
    ("drought", "idle or starved"),
    ("ear", "receiver or extractor"),
    ("fleet", "replicas"),
    ("lane", "stream"),
    ("parcel", "envelope or message"),
    ("seat", "slot or handle"),
];

/// The words of a name in snake or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c.is_uppercase() || c == '_' {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[test]
fn types_and_modules_have_the_words_of_the_field() {
    for path in files(&root(), &[".rs"]) {
        let code = code(&path);
        let names: Vec<_> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let items = names
            .windows(2)
            .filter(|pair| ["struct", "enum", "trait", "mod", "type"].contains(&pair[0]));
        for name in items.map(|pair| pair[1]) {
            for (figure, instead) in FIGURES {
                let found = words(name)
                    .iter()
                    .any(|word| word.trim_end_matches('s') == figure);
                assert!(!found, "{}: {name}: say {instead}", path.display());
            }
        }
    }
}

#[test]
fn unbounded_channels_are_not_used() {
    let marks = [
        ["unbounded", "_channel"].concat(),
        ["mpsc::", "unbounded"].concat(),
    ];
    let others = ["pipeline", "client", "client/bench", "client/cli", "telemetry"];
    for name in others.into_iter().chain(SERVER) {
        for path in files(&root().join(name).join("src"), &[".rs"]) {
            let code = code(&path);
            assert!(
                !marks.iter().any(|mark| code.contains(mark.as_str())),
                "{} has one",
                path.display()
            );
        }
    }
}

#[test]
fn every_parser_of_bytes_from_outside_has_a_fuzz_target() {
    let parsers: Vec<_> = PARSERS.map(|parser| parser.name.to_owned()).to_vec();
    let fuzz = root().join("tests/fuzz");
    for name in &parsers {
        let target = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs")));
        let expected = format!("#![no_main]\n\nomni_fuzz::target!(\"{name}\");\n");
        assert_eq!(
            target.unwrap_or_default(),
            expected,
            "tests/fuzz/fuzz_targets/{name}.rs"
        );
    }
    let there = files(&fuzz.join("fuzz_targets"), &[".rs"]);
    assert_eq!(there.len(), parsers.len(), "a target is of no parser");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("a manifest");
    let targets: Vec<_> = manifest.split("[[bin]]").skip(1).collect();
    let expected = |name: &String| {
        format!(
            "\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\ntest = false\ndoc = false\nbench = false"
        )
    };
    assert_eq!(
        targets.iter().map(|target| target.trim_end()).collect::<Vec<_>>(),
        parsers.iter().map(expected).collect::<Vec<_>>(),
        "in the order of the parsers"
    );
}
