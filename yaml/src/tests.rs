use super::*;

fn follow(text: &str) -> Result<Option<Node>, SyntaxError> {
    parse(text, Aliases::Follow, |mark| mark)
}

fn entries(node: &Node) -> &[(Located<String>, Node)] {
    match &node.value {
        Value::Map(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn at(line: usize, column: usize) -> Mark {
    Mark { line, column }
}

#[test]
fn every_key_and_value_has_its_line_and_column() {
    let node = follow("# a comment\na: 1\nb:\n  c: [x, \"2\"]\n")
        .unwrap()
        .unwrap();
    let (a, one) = &entries(&node)[0];
    assert_eq!((a.place, one.place), (at(2, 1), at(2, 4)));
    let (_, b) = &entries(&node)[1];
    let (_, list) = &entries(b)[0];
    let Value::List(items) = &list.value else {
        panic!("{list:?}")
    };
    assert_eq!(items[1].place, at(4, 10));
    assert_eq!((items[0].shown(), items[1].shown()), ("x".into(), "\"2\"".into()));
}

#[test]
fn the_caller_chooses_what_a_place_is() {
    let place = |mark: Mark| format!("f.yaml:{mark}");
    let error = parse("a: 1\na: 2\n", Aliases::Refuse, place).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f.yaml:2:1: key \"a\" is there already, at f.yaml:1:1"
    );
}

#[test]
fn a_text_without_a_document_is_none_and_null_is_never_quoted() {
    assert_eq!(follow("# nothing\n").unwrap(), None);
    for text in ["~", "null", "''"] {
        let node = follow(text).unwrap().unwrap();
        assert_eq!(node.is_null(), text != "''", "{text}");
    }
    let node = follow("a:\n").unwrap().unwrap();
    let (_, nothing) = &entries(&node)[0];
    assert!(nothing.is_null() && nothing.shown() == "nothing");
}

#[test]
fn an_alias_has_the_value_of_its_anchor_and_the_place_of_its_use() {
    let node = follow("a: &x [1, two]\nb: *x\n").unwrap().unwrap();
    let [(_, anchor), (_, alias)] = entries(&node) else {
        panic!("{node:?}")
    };
    assert_eq!(alias.value, anchor.value);
    assert_eq!(alias.place, at(2, 4));
}

#[test]
fn what_configuration_does_not_need_is_refused_with_its_place() {
    for (text, expected) in [
        ("a: *x\n", "1:4: this is not YAML"),
        ("a: &x [*x]\n", "1:8: an alias inside"),
        ("a: !!int 1\n", "1:4: tags"),
        ("a: 1\na: 2\n", "2:1: key \"a\" is there already, at 1:1"),
        ("a: 1\n---\nb: 1\n", "3:1: there is a second document"),
        ("a: [1\n", "this is not YAML"),
        ("b: {<<: 1}\n", "expected a key"),
        ("? [a]\n: 1\n", "expected a key"),
    ] {
        let error = follow(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let error = parse("a: &x 1\nb: *x\n", Aliases::Refuse, |mark| mark).unwrap_err();
    assert!(error.to_string().starts_with("2:4: aliases"), "{error}");
}

#[test]
fn aliases_of_aliases_cannot_grow_without_bound() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &format!("a{level}: &a{level} [{before}]\n");
    }
    let error = follow(&text).unwrap_err().to_string();
    assert!(error.contains("more than 50000 values"), "{error}");
}

#[test]
fn nesting_is_bounded() {
    let text = "[".repeat(40) + &"]".repeat(40);
    let error = follow(&text).unwrap_err().to_string();
    assert!(error.contains("nested more than 16 deep"), "{error}");
}
