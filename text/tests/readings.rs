//! What is written, and how it is read.

use omni_text::{Language, Normalizer};

fn check(cases: &[(&str, &str)]) {
    let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;").unwrap();
    let read = |written| {
        normalizer
            .normalize(written)
            .map_or_else(|e| e.to_string(), |n| n.text)
    };
    let wrong: Vec<String> = cases
        .iter()
        .map(|&(written, expected)| (written, expected, read(written)))
        .filter(|(_, expected, got)| got != expected)
        .map(|(written, expected, got)| format!("{written:?}\n  expected {expected:?}\n  got      {got:?}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} read wrongly:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn numbers() {
    check(&[
        ("0", "zero"),
        ("7", "seven"),
        ("15 birds", "fifteen birds"),
        ("42", "forty-two"),
        ("100", "one hundred"),
        ("365 days", "three hundred sixty-five days"),
        ("1,234", "one thousand two hundred thirty-four"),
        ("10,000", "ten thousand"),
        (
            "1,234,567",
            "one million two hundred thirty-four thousand five hundred sixty-seven",
        ),
        ("1 000 000 people", "one million people"),
        ("1'000'000", "one million"),
        ("1000000", "one million"),
        (
            "2147483648",
            "two billion one hundred forty-seven million four hundred eighty-three thousand six hundred forty-eight",
        ),
        ("007", "zero zero seven"),
        ("00", "zero zero"),
        ("3.14", "three point one four"),
        ("0.5", "zero point five"),
        (".5", "point five"),
        ("1.50", "one point five zero"),
        ("1,234.5", "one thousand two hundred thirty-four point five"),
        ("-5", "minus five"),
        ("\u{2212}5", "minus five"),
        ("it was -3.5 there", "it was minus three point five there"),
        ("(-5)", "minus five"),
        ("+5", "plus five"),
        ("1e6", "one times ten to the power of six"),
        ("1e-9", "one times ten to the power of minus nine"),
        ("5%", "five percent"),
        ("5.5 %", "five point five percent"),
        ("100% sure", "one hundred percent sure"),
        ("10-20 people", "ten to twenty people"),
        ("10\u{2013}20", "ten to twenty"),
        ("5-10%", "five to ten percent"),
        ("3:1", "three to one"),
        ("16:9", "sixteen to nine"),
        ("a 3-1 win", "a three to one win"),
        ("#5", "number five"),
        ("~5", "about five"),
        ("call 911", "call nine one one"),
        ("10k users", "ten thousand users"),
        ("5M users", "five million users"),
        ("a 7B model", "a seven billion model"),
        ("room 204B", "room two hundred four b"),
        ("221B Baker St.", "two hundred twenty-one b baker street."),
        ("2x faster", "two times faster"),
        (
            "1920x1080",
            "one thousand nine hundred twenty by one thousand eighty",
        ),
        ("3 x 4 m", "three by four meters"),
        ("90 000", "ninety thousand"),
        ("1, 2, 3", "one, two, three"),
        ("1,2", "one, two"),
        ("10^33", "ten to the power of thirty-three"),
        ("1000000000000000000000000000000000", "one decillion"),
        (
            "12345678901234567890123456789012345678",
            "one two three four five six seven eight nine zero one two three four five six seven eight nine zero one two three four five six seven eight nine zero one two three four five six seven eight",
        ),
    ]);
}

#[test]
fn ordinals_and_fractions() {
    check(&[
        ("1st", "first"),
        ("2nd place", "second place"),
        ("3rd", "third"),
        ("11th", "eleventh"),
        ("21st", "twenty-first"),
        ("100th", "one hundredth"),
        ("1,000th", "one thousandth"),
        ("1/2", "one half"),
        ("1/3", "one third"),
        ("3/4 of it", "three quarters of it"),
        ("7/8", "seven eighths"),
        ("1/100", "one one hundredth"),
        ("2 1/2 cups", "two and a half cups"),
        ("2\u{bd}", "two and a half"),
        ("\u{bd} cup", "one half cup"),
        ("1\u{be}", "one and three quarters"),
        ("12/25", "twelve slash twenty-five"),
        ("50/50", "fifty fifty"),
        ("3/4 tsp. salt", "three quarters of a teaspoon salt"),
        ("24/7", "twenty-four seven"),
        ("9/11", "nine eleven"),
    ]);
}

#[test]
fn years() {
    check(&[
        ("in 1984", "in nineteen eighty-four"),
        ("in 1905", "in nineteen oh five"),
        ("in 1900", "in nineteen hundred"),
        ("in 2000", "in two thousand"),
        ("in 2007", "in two thousand seven"),
        ("by 2026.", "by twenty twenty-six."),
        ("the 1990s", "the nineteen nineties"),
        ("the 1900s", "the nineteen hundreds"),
        ("the 1980's", "the nineteen eighties"),
        ("the '90s", "the nineties"),
        ("the 80s", "the eighties"),
        ("1990-1995", "nineteen ninety to nineteen ninety-five"),
        (
            "between 1939-1945",
            "between nineteen thirty-nine and nineteen forty-five",
        ),
        ("1990-95", "nineteen ninety to ninety-five"),
        ("2048 tokens", "two thousand forty-eight tokens"),
        ("1984 people", "one thousand nine hundred eighty-four people"),
        ("1,984", "one thousand nine hundred eighty-four"),
        ("4096", "four thousand ninety-six"),
        ("(1999)", "nineteen ninety-nine"),
        ("2024/25", "twenty twenty-four slash twenty-five"),
    ]);
}

#[test]
fn dates() {
    check(&[
        ("2026-11-20", "november twentieth, twenty twenty-six"),
        ("11/20/2026", "november twentieth, twenty twenty-six"),
        ("31/12/1999", "december thirty-first, nineteen ninety-nine"),
        ("20.11.2026", "november twentieth, twenty twenty-six"),
        ("3/4/21", "march fourth, twenty-one"),
        ("1/1/05", "january first, oh five"),
        ("Nov 20, 2026", "november twentieth, twenty twenty-six"),
        ("Nov. 20", "november twentieth"),
        ("November 20th", "november twentieth"),
        ("Nov 20-25", "november twentieth to twenty-fifth"),
        ("Nov 2026", "november twenty twenty-six"),
        ("20 November", "the twentieth of november"),
        (
            "the 20th of November 2026",
            "the twentieth of november twenty twenty-six",
        ),
        ("4 July 1776", "the fourth of july seventeen seventy-six"),
        ("May 5", "may fifth"),
        ("I may 5 times", "i may five times"),
        ("on Jan. 3rd, 2025.", "on january third, twenty twenty-five."),
        ("Mon, Nov 20", "monday, november twentieth"),
        ("Mon-Fri", "monday to friday"),
        ("since Sept.", "since september."),
        ("on 11/20", "on november twentieth"),
        ("closed Sat. & Sun.", "closed saturday and sunday."),
        ("the Sun.", "the sun."),
        (
            "2026-11-20T10:30:00Z",
            "november twentieth, twenty twenty-six, ten thirty and zero seconds u t c",
        ),
        ("2026-13-40", "twenty twenty-six to thirteen to forty"),
    ]);
}

#[test]
fn times() {
    check(&[
        ("10:30", "ten thirty"),
        ("at 7:05", "at seven oh five"),
        ("10:00", "ten o'clock"),
        ("14:05", "fourteen oh five"),
        ("14:00", "fourteen hundred"),
        ("7:00 a.m.", "seven a m."),
        ("7:00 a.m. sharp", "seven a m sharp"),
        ("at 7 a.m. Then we left", "at seven a m. then we left"),
        ("5 p.m. Friday", "five p m friday"),
        ("3 pm", "three p m"),
        ("3:30pm", "three thirty p m"),
        ("12:30:45", "twelve thirty and forty-five seconds"),
        ("9am-5pm", "nine a m to five p m"),
        ("8:00-9:30 am", "eight o'clock to nine thirty a m"),
        ("14:30 GMT", "fourteen thirty g m t"),
        ("UTC-5", "u t c minus five"),
        ("25:61", "twenty-five to sixty-one"),
        ("5 o'clock", "five o'clock"),
    ]);
}

#[test]
fn money() {
    check(&[
        ("$5", "five dollars"),
        ("$1", "one dollar"),
        ("$1.00", "one dollar"),
        ("$5.20", "five dollars and twenty cents"),
        ("$1.01", "one dollar and one cent"),
        ("$0.99", "ninety-nine cents"),
        ("$0.01", "one cent"),
        (
            "$1,299.99",
            "one thousand two hundred ninety-nine dollars and ninety-nine cents",
        ),
        ("$3.5 billion", "three point five billion dollars"),
        ("$3.5B", "three point five billion dollars"),
        ("$50K/yr", "fifty thousand dollars per year"),
        ("$20/month", "twenty dollars per month"),
        ("-$20", "minus twenty dollars"),
        ("$5-10", "five to ten dollars"),
        ("$5\u{2013}$10", "five to ten dollars"),
        ("€3", "three euros"),
        ("5€", "five euros"),
        ("€1", "one euro"),
        ("£1m", "one million pounds"),
        ("£2.50", "two pounds and fifty pence"),
        ("¥500", "five hundred yen"),
        ("50¢", "fifty cents"),
        ("US$5", "five u s dollars"),
        ("5 USD", "five dollars"),
        ("USD 5", "five dollars"),
        ("5 dollars", "five dollars"),
        ("$", "dollar"),
        ("$HOME", "dollar home"),
        ("$1.234", "one point two three four dollars"),
    ]);
}

#[test]
fn units() {
    check(&[
        ("5 km", "five kilometers"),
        ("1 km", "one kilometer"),
        ("5km", "five kilometers"),
        ("60 mph", "sixty miles per hour"),
        ("100 km/h", "one hundred kilometers per hour"),
        ("10 m/s", "ten meters per second"),
        ("20°C", "twenty degrees celsius"),
        ("-5 °F", "minus five degrees fahrenheit"),
        ("45°", "forty-five degrees"),
        ("1°", "one degree"),
        ("5 kg", "five kilograms"),
        ("3 GB", "three gigabytes"),
        ("2 GB/s", "two gigabytes per second"),
        ("12 ms", "twelve milliseconds"),
        ("5µs", "five microseconds"),
        ("3.5 GHz", "three point five gigahertz"),
        ("5ft", "five feet"),
        ("5 ft. tall", "five feet tall"),
        ("3 in. wide", "three inches wide"),
        ("12 in the box", "twelve in the box"),
        ("6'2\"", "six feet two inches"),
        ("5 m²", "five square meters"),
        ("5m^3", "five cubic meters"),
        ("100 sq ft", "one hundred square feet"),
        ("10-20 km", "ten to twenty kilometers"),
        (
            "20°C-25°C",
            "twenty degrees celsius to twenty-five degrees celsius",
        ),
        ("a 30s timeout", "a thirty seconds timeout"),
        ("1h 30min", "one hour thirty minutes"),
        ("25 tok/s", "twenty-five tokens per second"),
        ("100 Ω", "one hundred ohms"),
        ("16-bit", "sixteen bit"),
        ("4K", "four k"),
        ("5G", "five g"),
        ("3D", "three d"),
        ("60fps", "sixty frames per second"),
        ("1/2 km", "one half of a kilometer"),
        ("2 1/2 km", "two and a half kilometers"),
        ("1/4 oz", "one quarter of an ounce"),
    ]);
}

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

#[test]
fn abbreviations() {
    check(&[
        ("Dr. Smith", "doctor smith"),
        ("Mr. and Mrs. Jones", "mister and missus jones"),
        ("Mr Smith", "mister smith"),
        ("Prof. Jones", "professor jones"),
        ("Elm St.", "elm street."),
        ("St. Louis", "saint louis"),
        ("at St. Mary's", "at saint mary's"),
        ("Main St. is long", "main street is long"),
        ("Mt. Everest", "mount everest"),
        ("Mill Dr.", "mill drive."),
        ("cats vs. dogs", "cats versus dogs"),
        ("etc.", "et cetera."),
        ("fruit, etc., too", "fruit, et cetera, too"),
        ("e.g. this", "for example this"),
        ("i.e., that", "that is, that"),
        ("No. 5", "number five"),
        ("No. I won't.", "no. i won't."),
        ("approx. 5", "approximately five"),
        ("Fig. 3", "figure three"),
        ("p. 12", "page twelve"),
        ("pp. 12-14", "pages twelve to fourteen"),
        ("Apple Inc. is", "apple incorporated is"),
        ("Jones & Co.", "jones and company."),
        ("Martin Luther King Jr. spoke", "martin luther king junior spoke"),
        ("the U.S. army", "the u s army"),
        ("the U.S. Senate", "the u s senate"),
        ("in the U.S. The army", "in the u s. the army"),
        ("a Ph.D. in", "a p h d in"),
        ("J. K. Rowling", "j k rowling"),
        ("plan B. Then go", "plan b. then go"),
        ("a.k.a. Bob", "also known as bob"),
    ]);
}

#[test]
fn acronyms_and_numerals() {
    check(&[
        ("HTTP", "h t t p"),
        ("the APIs", "the a p i's"),
        ("IBM's", "i b m's"),
        ("NASA", "nasa"),
        ("R&D", "r and d"),
        ("OK", "okay"),
        ("WE ARE HERE AND IT IS GOOD", "we are here and it is good"),
        ("MP3", "m p three"),
        ("GPT-4", "g p t four"),
        ("COVID-19", "covid nineteen"),
        ("H264", "h two hundred sixty-four"),
        ("GPU-based", "g p u based"),
        ("OpenAI and GitHub", "open a i and git hub"),
        ("Henry VIII", "henry the eighth"),
        ("Elizabeth II's reign", "elizabeth the second's reign"),
        ("World War II", "world war two"),
        ("Chapter IV", "chapter four"),
        ("Part I", "part one"),
        ("Rocky III", "rocky three"),
        ("I am", "i am"),
        ("MIX it", "m i x it"),
    ]);
}

#[test]
fn symbols_and_punctuation() {
    check(&[
        ("2 + 2 = 4", "two plus two equals four"),
        ("10 - 5", "ten minus five"),
        ("3 \u{d7} 4", "three times four"),
        ("10 \u{f7} 2", "ten divided by two"),
        ("3 < 5", "three is less than five"),
        ("5 > 3", "five is greater than three"),
        ("x\u{b2} + y^3", "x squared plus y cubed"),
        ("10^-6", "ten to the power of minus six"),
        ("\u{b1}5", "plus or minus five"),
        ("\u{3c0} \u{2248} 3.14", "pi is about three point one four"),
        ("salt & pepper", "salt and pepper"),
        ("\"Quoted\" (in brackets) text", "quoted, in brackets, text"),
        (
            "\u{201c}smart\u{201d} \u{2018}quotes\u{2019} don\u{2019}t",
            "smart quotes don't",
        ),
        ("one \u{2014} two\u{2014}three -- four", "one, two, three, four"),
        ("Wait... what", "wait, what"),
        ("Wait\u{2026} What", "wait. what"),
        ("Hello!!!!", "hello!"),
        ("What?!", "what?"),
        ("yes,, no;; so", "yes, no; so"),
        ("**bold** and *italic* and `code`", "bold and italic and code"),
        ("# Heading\n\nText", "heading. text"),
        ("- one\n- two", "one. two"),
        ("1. one\n2. two", "one. one. two. two"),
        ("hard\nwrapped", "hard wrapped"),
        ("one\n\ntwo", "one. two"),
        ("a | b", "a, b"),
        ("end.Next", "end. next"),
        ("rock 'n' roll", "rock n roll"),
        ("hi :)", "hi"),
        ("<b>bold</b>", "b bold slash b"),
        ("well-known", "well-known"),
        ("5-year-old", "five year-old"),
        ("...so", "so"),
        (", and", "and"),
        ("\u{a0}non\u{a0}breaking\u{3000}", "non breaking"),
    ]);
}

#[test]
fn letters_of_other_alphabets_are_folded_where_they_have_an_equivalent() {
    check(&[
        ("caf\u{e9}", "cafe"),
        ("cafe\u{301}", "cafe"),
        ("na\u{ef}ve Stra\u{df}e", "naive strasse"),
        ("\u{c6}sop \u{141}\u{f3}d\u{17a} \u{f8}re", "aesop lodz ore"),
        ("\u{fb01}ne", "fine"),
        ("\u{ff28}\u{ff49}\u{ff01}", "hi!"),
        ("\u{1d407}\u{1d422}", "hi"),
        ("\u{bf}Qu\u{e9}?", "que?"),
        ("zero\u{200b}width", "zerowidth"),
        ("soft\u{ad}hyphen", "softhyphen"),
        ("\u{feff}mark", "mark"),
        ("bell\u{7}", "bell"),
        ("O\u{2019}Brien", "o'brien"),
    ]);
}
