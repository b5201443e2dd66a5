//! Layers of a deploy configuration: the user's file, the files it builds on, and `--set`, merged into one tree.
//!
//! `base: other.yaml` (relative to the file that says it) is read first and overlaid key by key; lists are replaced as
//! a whole, and `null` takes back what the base says. `--set path=value` comes last.

use std::fs;
use std::path::{Path, PathBuf};

use omni_yaml::{Aliases, Key, Node, Place, Problem, Value, parse, parse_value};

use super::problem::{self, problem};

/// Longest chain of files.
const MAX_BASES: usize = 16;
/// Largest file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads everything. Returns the readable part along with all problems.
pub(super) fn read(file: Option<&Path>, sets: &[String]) -> (Node, Vec<Problem>) {
    let (mut tree, mut problems) = match file {
        Some(file) => or_nothing(chain(file, &mut Vec::new())),
        None => (nothing(), Vec::new()),
    };
    for set in sets {
        match flag(set) {
            Ok(node) => overlay(&mut tree, node),
            Err(problem) => problems.push(problem),
        }
    }
    (tree, problems)
}

/// Reads a text that builds on nothing.
pub(super) fn read_text(source: &str, text: &str) -> (Node, Vec<Problem>) {
    or_nothing(parse(source, text, Aliases::Refuse))
}

fn or_nothing(read: Result<Node, Problem>) -> (Node, Vec<Problem>) {
    match read {
        Ok(tree) => (tree, Vec::new()),
        Err(problem) => (nothing(), vec![problem]),
    }
}

fn nothing() -> Node {
    Node {
        place: problem::flag(""),
        value: Value::null(),
    }
}

/// A file laid over its base. `above` are the files that led here.
fn chain(path: &Path, above: &mut Vec<PathBuf>) -> Result<Node, Problem> {
    let source = path.display().to_string();
    let text = load(path).map_err(|message| problem(&Place::of(&source), "", message))?;
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    above.push(real);
    let mut node = parse(&source, &text, Aliases::Refuse)?;
    if node.is_null() {
        return Ok(node);
    }
    let Value::Map(entries) = &mut node.value else {
        let message = format!("found {}, expected a map with keys like stages", node.shown());
        return Err(problem(&node.place, "", message));
    };
    let Some(at) = entries.iter().position(|(key, _)| key.value == "base") else {
        return Ok(node);
    };
    let (_, base) = entries.remove(at);
    let named = match &base.value {
        Value::Scalar { text, .. } if !base.is_null() => text,
        _ => {
            let message = format!("found {}, expected the path of a file", base.shown());
            return Err(problem(&base.place, "base", message));
        }
    };
    let base_path = path.parent().unwrap_or(Path::new("")).join(named);
    let real = base_path.canonicalize().unwrap_or_else(|_| base_path.clone());
    if above.contains(&real) || above.len() == MAX_BASES {
        let message = if above.contains(&real) {
            format!("{} builds on itself", base_path.display())
        } else {
            format!("more than {MAX_BASES} files build on each other")
        };
        return Err(problem(&base.place, "base", message));
    }
    if !base_path.is_file() {
        let message = format!("there is no file {}", base_path.display());
        return Err(problem(&base.place, "base", message));
    }
    let mut below = chain(&base_path, above)?;
    overlay(&mut below, node);
    Ok(below)
}

fn load(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path)
        .map_err(|error| format!("cannot be read: {error}"))?
        .len();
    if size > MAX_BYTES {
        return Err(format!("the file has {size} bytes, expected at most {MAX_BYTES}"));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))
}

/// `a.b=value` as the tree `{a: {b: value}}`.
fn flag(text: &str) -> Result<Node, Problem> {
    let place = problem::flag(text);
    let wrong = |message: &str| problem(&place, "", message);
    let (path, value) = text
        .split_once('=')
        .ok_or_else(|| wrong("expected a path and a value, like stages.talker.replicas=2"))?;
    let path = path.trim();
    if path.split('.').any(str::is_empty) {
        return Err(wrong(
            "expected a path of words joined by dots, like stages.talker.replicas",
        ));
    }
    let value = parse_value(&place, value)?;
    Ok(path.rsplit('.').fold(value, |inner, name| {
        let key = Key {
            value: name.to_owned(),
            place: place.clone(),
        };
        Node {
            place: place.clone(),
            value: Value::Map(vec![(key, inner)]),
        }
    }))
}

/// Lays `over` on `under`.
fn overlay(under: &mut Node, over: Node) {
    match (&mut under.value, over) {
        (
            Value::Map(below),
            Node {
                value: Value::Map(above),
                ..
            },
        ) => {
            for (key, node) in above {
                match below.iter_mut().find(|(known, _)| known.value == key.value) {
                    Some((place, known)) => {
                        place.place = key.place;
                        overlay(known, node);
                    }
                    None => below.push((key, node)),
                }
            }
        }
        (_, over) => *under = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn at<'a>(node: &'a Node, path: &str) -> &'a Node {
        path.split('.').fold(node, |node, name| match &node.value {
            Value::Map(entries) => &entries.iter().find(|(key, _)| key.value == name).unwrap().1,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_file_overlays_its_base_and_flags_overlay_both() {
        let directory = files(&[
            ("base/one.yaml", "a: {x: 1, y: 2, z: [1, 2]}\n"),
            ("two.yaml", "base: base/one.yaml\na:\n  y: 3\n  z: [4]\n"),
        ]);
        let (tree, problems) = read(Some(&directory.path().join("two.yaml")), &["a.x=9".to_owned()]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(at(&tree, "a.x").shown(), "9");
        assert_eq!(at(&tree, "a.x").place.short(), "--set a.x=9");
        assert!(at(&tree, "a.y").place.short().ends_with("two.yaml:3"));
        assert!(matches!(&at(&tree, "a.z").value, Value::List(items) if items.len() == 1));
    }

    #[test]
    fn files_that_build_on_each_other_are_refused() {
        let directory = files(&[("a.yaml", "base: b.yaml\n"), ("b.yaml", "x: 1\nbase: ./a.yaml\n")]);
        let (_, problems) = read(Some(&directory.path().join("a.yaml")), &[]);
        let message = problems[0].to_string();
        assert!(
            message.contains("b.yaml:2:7: base:") && message.contains("builds on itself"),
            "{message}"
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let directory = files(&[("a.yaml", "base: gone.yaml\n"), ("list.yaml", "- 1\n")]);
        for (name, expected) in [
            ("a.yaml", "there is no file"),
            ("list.yaml", "expected a map"),
            ("none.yaml", "cannot be read"),
        ] {
            let (_, problems) = read(Some(&directory.path().join(name)), &[]);
            assert!(problems[0].to_string().contains(expected), "{problems:?}");
        }
    }

    #[test]
    fn every_flag_is_looked_at() {
        let sets = ["a", "a..b=1", "a=[", "a.b=2"].map(str::to_owned);
        let (tree, problems) = read(None, &sets);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(at(&tree, "a.b").shown(), "2");
    }
}
