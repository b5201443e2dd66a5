//! Telephones, versions, addresses and code.

use crate::check;

#[test]
fn telephones_versions_and_addresses_of_machines() {
    check(&[
        (
            "(555) 123-4567",
            "five five five, one two three, four five six seven",
        ),
        (
            "555-123-4567",
            "five five five, one two three, four five six seven",
        ),
        (
            "555.123.4567",
            "five five five, one two three, four five six seven",
        ),
        (
            "+1 555 123 4567",
            "plus one, five five five, one two three, four five six seven",
        ),
        (
            "1-800-555-0199",
            "one, eight zero zero, five five five, zero one nine nine",
        ),
        ("555-1234", "five five five, one two three four"),
        (
            "020 7946 0958",
            "zero two zero, seven nine four six, zero nine five eight",
        ),
        ("v1.2.3", "version one point two point three"),
        ("v2", "version two"),
        ("1.2.3", "one point two point three"),
        ("version 2.0", "version two point zero"),
        ("192.168.1.1", "one nine two dot one six eight dot one dot one"),
        (
            "127.0.0.1:8080",
            "one two seven dot zero dot zero dot one colon eight zero eight zero",
        ),
        ("10.0.0.0/8", "ten dot zero dot zero dot zero slash eight"),
    ]);
}

#[test]
fn addresses_and_code() {
    check(&[
        ("info@example.com", "info at example dot com"),
        (
            "Write to john.doe99@mail.co.uk.",
            "write to john dot doe ninety-nine at mail dot co dot u k.",
        ),
        (
            "a_b-c+d@x-y.org!",
            "a underscore b dash c plus d at x dash y dot org!",
        ),
        ("mailto:me@example.com", "me at example dot com"),
        (
            "https://www.example.com/path?x=1",
            "w w w dot example dot com slash path question mark x equals one",
        ),
        ("(see https://example.org/a/).", "see example dot org slash a."),
        ("www.rust-lang.org", "w w w dot rust dash lang dot org"),
        ("example.org/foo", "example dot org slash foo"),
        ("docs.rs", "docs dot r s"),
        (
            "http://localhost:8080/health",
            "localhost colon eight zero eight zero slash health",
        ),
        ("ftp://example.com", "f t p colon slash slash example dot com"),
        ("#rustlang", "hashtag rustlang"),
        ("@user_name", "at user name"),
        ("/usr/local/bin", "slash usr slash local slash bin"),
        ("./run.sh", "dot slash run dot sh"),
        ("~/notes.md", "tilde slash notes dot m d"),
        ("C:\\Users\\me", "c colon backslash users backslash me"),
        ("src/main.rs", "s r c slash main dot r s"),
        ("config.json", "config dot json"),
        ("--flag", "dash dash flag"),
        ("--max-len=5", "dash dash max dash len equals five"),
        ("-v", "dash v"),
        ("snake_case", "snake case"),
        ("camelCase", "camel case"),
        ("foo::bar()", "foo bar"),
        ("C++ and C#", "c plus plus and c sharp"),
        ("Node.js", "node dot j s"),
        ("and/or", "and slash or"),
        ("w/o sugar", "without sugar"),
        ("w/ milk", "with milk"),
        ("a -> b", "a, b"),
        ("x != 3", "x is not equal to three"),
        ("x <= 5", "x is at most five"),
        ("a && b", "a and b"),
    ]);
}
