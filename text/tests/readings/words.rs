//! Abbreviations, symbols and letters.

use crate::check;

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
        ("<b>bold</b>", "bold"),
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
