//! Dates, times of day and money.

use crate::check;

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
