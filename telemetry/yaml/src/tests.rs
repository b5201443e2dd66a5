use super::*;

fn follow(text: &str) -> Result<Node, Problem> {
    parse("f.yaml", text, Aliases::Follow)
}

fn entries(node: &Node) -> &[(Key, Node)] {
    match &node.value {
        Value::Map(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn at(line: usize, column: usize) -> Place {
    Place::of("f.yaml").at(Mark { line, column })
}

#[test]
fn every_key_and_value_has_its_line_and_column() {
    let node = follow("# a comment\na: 1\nb:\n  c: [x, \"2\"]\n").unwrap();
    let (a, one) = &entries(&node)[0];
    assert_eq!((a.place.clone(), one.place.clone()), (at(2, 1), at(2, 4)));
    let (_, b) = &entries(&node)[1];
    let (_, list) = &entries(b)[0];
    let Value::List(items) = &list.value else {
        panic!("{list:?}")
    };
    assert_eq!(items[1].place, at(4, 10));
    assert_eq!((items[0].shown(), items[1].shown()), ("x".into(), "\"2\"".into()));
}

#[test]
fn a_place_is_a_line_of_a_file_or_a_flag_as_a_whole() {
    let node = follow("a: 1\n").unwrap();
    let (_, one) = &entries(&node)[0];
    assert_eq!(
        (one.place.to_string().as_str(), one.place.short().as_str()),
        ("f.yaml:1:4", "f.yaml:1")
    );
    let flag = Place::of("--set a=[1, 2]");
    let node = parse_value(&flag, "[1, 2]").unwrap();
    let Value::List(items) = &node.value else {
        panic!("{node:?}")
    };
    assert_eq!((items.len(), &items[1].place), (2, &flag));
    assert!(parse_value(&flag, "").unwrap().is_null());
    let error = parse_value(&flag, "[").unwrap_err().to_string();
    assert!(error.starts_with("--set a=[1, 2]: this is not YAML"), "{error}");
}

#[test]
fn a_text_without_a_document_is_null_and_null_is_never_quoted() {
    assert!(follow("# nothing\n").unwrap().is_null());
    for text in ["~", "null", "''"] {
        let node = follow(text).unwrap();
        assert_eq!(node.is_null(), text != "''", "{text}");
    }
    let node = follow("a:\n").unwrap();
    let (_, nothing) = &entries(&node)[0];
    assert!(nothing.is_null() && nothing.shown() == "nothing");
}

#[test]
fn an_alias_has_the_value_of_its_anchor_and_the_place_of_its_use() {
    let node = follow("a: &x [1, two]\nb: *x\n").unwrap();
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
        ("a: 1\na: 2\n", "2:1: key \"a\" is there already, at f.yaml:1:1"),
        ("a: 1\n---\nb: 1\n", "3:1: there is a second document"),
        ("a: [1\n", "this is not YAML"),
        ("b: {<<: 1}\n", "expected a key"),
        ("? [a]\n: 1\n", "expected a key"),
    ] {
        let error = follow(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let error = parse("f.yaml", "a: &x 1\nb: *x\n", Aliases::Refuse).unwrap_err();
    assert!(error.to_string().starts_with("f.yaml:2:4: aliases"), "{error}");
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
