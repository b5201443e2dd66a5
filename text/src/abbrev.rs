//! Abbreviations written with a full stop: how they read, and whether that full stop can also end a sentence.
//! One table for both, so that segmentation and reading never disagree.

use crate::list::listed;

/// What has to stand beside an abbreviation for it to be one. Those without a condition are read with or without the
/// full stop; all others need it, and a capital where the lower-case word is an ordinary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Nothing: the word is never anything else.
    Always,
    /// A number follows ("No. 5", "p. 12").
    BeforeDigit,
    /// It is capitalised and has its full stop ("Gen. Grant", "Elm Ave.").
    Capital,
    /// It has its full stop, and something follows that goes on with it: a small letter, a number, or a capital that begins no
    /// sentence where no article makes it a noun ("max. of", "incl. VAT", but "the max. Bob").
    Inside,
}

/// Whether the full stop of an abbreviation may be that of the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Something always follows ("Dr.").
    Never,
    /// Yes, if a capital follows ("etc.").
    Maybe,
}

/// One abbreviation.
#[derive(Debug)]
pub(crate) struct Abbreviation {
    pub(crate) key: &'static str,
    pub(crate) words: &'static str,
    pub(crate) when: When,
    pub(crate) ends: Ends,
}

const fn row(key: &'static str, words: &'static str, when: When, ends: Ends) -> Abbreviation {
    Abbreviation {
        key,
        words,
        when,
        ends,
    }
}

/// Words that make what follows them a noun: "the max.", "that's a feat."
pub(crate) static ARTICLES: &str =
    "a an another each every her his its my no our that that's the their this to your";

/// Sorted by key.
#[rustfmt::skip]
static TABLE: &[Abbreviation] = {
    use Ends::{Maybe, Never};
    use When::{Always, BeforeDigit, Capital, Inside};
    &[
        row("adm", "admiral", Capital, Never),
        row("agg", "aggregate", Inside, Maybe),
        row("amb", "ambassador", Capital, Never),
        row("app", "appendix", BeforeDigit, Never),
        row("approx", "approximately", Always, Never),
        row("apprx", "approximately", Always, Never),
        row("appt", "appointment", Always, Maybe),
        row("apt", "apartment", BeforeDigit, Never),
        row("arr", "arrives", Inside, Maybe),
        row("art", "article", BeforeDigit, Never),
        row("assn", "association", Always, Maybe),
        row("assoc", "associate", Capital, Maybe),
        row("asst", "assistant", Always, Never),
        row("atty", "attorney", Capital, Never),
        row("ave", "avenue", Capital, Maybe),
        row("avg", "average", Always, Maybe),
        row("b", "born", BeforeDigit, Never),
        row("bldg", "building", Always, Maybe),
        row("blvd", "boulevard", Always, Maybe),
        row("bros", "brothers", Capital, Maybe),
        row("c", "circa", BeforeDigit, Never),
        row("ca", "circa", BeforeDigit, Never),
        row("capt", "captain", Capital, Never),
        row("cf", "compare", Always, Never),
        row("ch", "chapter", BeforeDigit, Never),
        row("chap", "chapter", BeforeDigit, Never),
        row("cmdr", "commander", Capital, Never),
        row("co", "company", Capital, Maybe),
        row("col", "colonel", Capital, Never),
        row("cont", "continued", Inside, Maybe),
        row("corp", "corporation", Capital, Maybe),
        row("cpl", "corporal", Capital, Never),
        row("d", "died", BeforeDigit, Never),
        row("dep", "departs", Inside, Maybe),
        row("dept", "department", Always, Maybe),
        row("det", "detective", Capital, Never),
        row("diam", "diameter", Inside, Maybe),
        row("dist", "district", Capital, Never),
        row("div", "division", Capital, Never),
        row("dr", "doctor", Always, Never),
        row("ed", "edition", BeforeDigit, Never),
        row("eq", "equation", BeforeDigit, Never),
        row("esp", "especially", Inside, Maybe),
        row("esq", "esquire", Always, Maybe),
        row("est", "established", BeforeDigit, Never),
        row("etc", "et cetera", Always, Maybe),
        row("excl", "excluding", Always, Never),
        row("exp", "expires", Inside, Maybe),
        row("ext", "extension", BeforeDigit, Never),
        row("feat", "featuring", Inside, Maybe),
        row("fig", "figure", BeforeDigit, Never),
        row("figs", "figures", BeforeDigit, Never),
        row("fl", "floor", BeforeDigit, Never),
        row("fr", "father", Capital, Never),
        row("ft", "fort", Capital, Never),
        row("gen", "general", Capital, Never),
        row("gov", "governor", Capital, Never),
        row("govt", "government", Always, Maybe),
        row("hon", "honorable", Capital, Never),
        row("hwy", "highway", Always, Maybe),
        row("inc", "incorporated", Capital, Maybe),
        row("incl", "including", Always, Never),
        row("insp", "inspector", Capital, Never),
        row("intl", "international", Always, Never),
        row("jr", "junior", Always, Maybe),
        row("lt", "lieutenant", Capital, Never),
        row("ltd", "limited", Always, Maybe),
        row("maj", "major", Capital, Never),
        row("max", "maximum", Inside, Maybe),
        row("messrs", "messieurs", Always, Never),
        row("mgr", "manager", Capital, Maybe),
        row("min", "minimum", Inside, Maybe),
        row("misc", "miscellaneous", Always, Never),
        row("mr", "mister", Always, Never),
        row("mrs", "missus", Always, Never),
        row("ms", "miz", Capital, Never),
        row("mt", "mount", Capital, Never),
        row("natl", "national", Always, Never),
        row("no", "number", BeforeDigit, Never),
        row("nos", "numbers", BeforeDigit, Never),
        row("nr", "number", BeforeDigit, Never),
        row("num", "number", Inside, Maybe),
        row("op", "opus", BeforeDigit, Never),
        row("orig", "original", Inside, Maybe),
        row("p", "page", BeforeDigit, Never),
        row("para", "paragraph", BeforeDigit, Never),
        row("pg", "page", BeforeDigit, Never),
        row("pkwy", "parkway", Always, Maybe),
        row("pp", "pages", BeforeDigit, Never),
        row("pres", "president", Capital, Never),
        row("prof", "professor", Capital, Never),
        row("pt", "part", BeforeDigit, Never),
        row("pvt", "private", Capital, Never),
        row("qty", "quantity", Always, Never),
        row("rd", "road", Capital, Maybe),
        row("ref", "reference", BeforeDigit, Never),
        row("rep", "representative", Capital, Never),
        row("resp", "respectively", Inside, Maybe),
        row("rev", "reverend", Capital, Never),
        row("rm", "room", BeforeDigit, Never),
        row("rs", "rupees", BeforeDigit, Never),
        row("sec", "section", BeforeDigit, Never),
        row("sect", "section", BeforeDigit, Never),
        row("sen", "senator", Capital, Never),
        row("sgt", "sergeant", Capital, Never),
        row("sr", "senior", Always, Maybe),
        row("std", "standard", Inside, Maybe),
        row("ste", "suite", BeforeDigit, Never),
        row("supt", "superintendent", Capital, Never),
        row("tel", "telephone", BeforeDigit, Never),
        row("temp", "temperature", Inside, Maybe),
        row("univ", "university", Capital, Never),
        row("ver", "version", BeforeDigit, Never),
        row("viz", "namely", Inside, Maybe),
        row("vol", "volume", BeforeDigit, Never),
        row("vols", "volumes", BeforeDigit, Never),
        row("vs", "versus", Always, Never),
    ]
};

/// The abbreviation that a lower-case word without its full stop is, if it is one.
pub(crate) fn find(word: &str) -> Option<&'static Abbreviation> {
    TABLE
        .binary_search_by_key(&word, |row| row.key)
        .ok()
        .map(|i| &TABLE[i])
}

/// Months and weekdays: short form, whole word. Sorted by nothing but the calendar.
pub(crate) static MONTHS: [(&str, &str); 12] = [
    ("jan", "january"),
    ("feb", "february"),
    ("mar", "march"),
    ("apr", "april"),
    ("may", "may"),
    ("jun", "june"),
    ("jul", "july"),
    ("aug", "august"),
    ("sep", "september"),
    ("oct", "october"),
    ("nov", "november"),
    ("dec", "december"),
];

/// Short forms of weekdays.
pub(crate) static WEEKDAYS: [(&str, &str); 11] = [
    ("mon", "monday"),
    ("tue", "tuesday"),
    ("tues", "tuesday"),
    ("wed", "wednesday"),
    ("thu", "thursday"),
    ("thur", "thursday"),
    ("thurs", "thursday"),
    ("fri", "friday"),
    ("sat", "saturday"),
    ("sun", "sunday"),
    ("weds", "wednesday"),
];

/// Capitalised words that begin a sentence more often than they go on with a name.
static STARTERS: &str = "\
    A After All Also Although An And Another Anyone Anything Are As At Because Before Beyond Both But By Can Could \
    Did Do Does During Each Either Enough Even Every Everybody Everyone Everything Few Finally First For From Had \
    Has Have He Hello Hence Her Here His How However I If In Instead Is It Its Just Later Let Many Maybe Meanwhile \
    More Moreover Most My Neither Never Next No Nobody None Not Nothing Now Often Okay On Once Only Or Other Others \
    Our Overall Perhaps Please Same Several She Should Since So Some Somebody Someone Something Sometimes Soon Sorry \
    Still Such Thank Thanks That The Their Then There Therefore These They This Those Though Thus Today Tomorrow \
    Unless Until Use Was We Were What Whatever When Where Which While Who Whoever Why Will With Would Yeah Yes \
    Yesterday Yet You Your ";

/// Whether a word, as written, is one that begins sentences. Contractions count as their first word.
pub(crate) fn starts_sentence(word: &str) -> bool {
    let first = word.split(['\'', '\u{2019}']).next().unwrap_or(word);
    listed(STARTERS, first)
}

/// Units that are often written with a full stop.
static DOTTED_UNITS: &str = "\
    cal cu fl ft gal hr hrs in lb lbs mi min mins mo oz pt qt sec secs sq tbsp tsp wk wks yd yds yr yrs";

/// Whether a full stop after this unit may be part of it.
pub(crate) fn is_dotted_unit(word: &str) -> bool {
    listed(DOTTED_UNITS, word)
}

/// Words that say what a number behind them is. Sorted.
static BEFORE_NUMBERS: &str = "\
    about account address after age aged ages apartment appendix at beat before between billion block booking box \
    building by card case chapter chapters circa code confirmation door during each early exit extension figure \
    final flat flight form from gate grade group hall hundred id in invoice is late level license lost lot member \
    mid million minus model number of on order over page pages passcode password percent phase pin plate platform \
    plus point policy postcode reference registration room route row score seat section serial since sku step suite \
    table than the thousand through ticket times to track tracking trillion type under unit until version versions \
    versus vitamin was win won year zip";

/// True if a number behind this lower-case word is read by it.
pub(crate) fn goes_before_number(word: &str) -> bool {
    find(word).is_some() || month(word).is_some() || listed(BEFORE_NUMBERS, word)
}

/// Words behind a number that belong to it. Sorted.
static BEHIND_NUMBERS: &str = "\
    academic and billion cbar cents days degree degrees divided dollars euros feet fiscal gbit half hour hours \
    hundred inches inhg kbit kilometers kilometres kvar kvarh kwh mbar mbit meters metres miles million minus minute \
    minutes mmhg mmol months o'clock over people percent plus point pounds quarter quarters school season second \
    seconds third thirds thousand times tokens trillion weeks years";

/// Short words that never belong to the number before them.
static FREE: &str = "\
    are but for from had has he her his how if is it its my on our she so that the their then they this to was we were \
    when who why with you your";

/// True if this lower-case word never belongs to a number before it, whatever that is.
pub(crate) fn is_free(word: &str) -> bool {
    listed(FREE, word)
}

/// True if this lower-case word belongs to the number before it.
pub(crate) fn goes_with_number(word: &str) -> bool {
    month(word).is_some() || is_dotted_unit(word) || listed(BEHIND_NUMBERS, word)
}

/// The month a lower-case word names, 1 to 12.
pub(crate) fn month(word: &str) -> Option<usize> {
    let word = if word == "sept" { "sep" } else { word };
    MONTHS
        .iter()
        .position(|&(short, long)| word == short || word == long)
        .map(|i| i + 1)
}

/// The weekday that a lower-case word or short form names.
pub(crate) fn weekday(word: &str) -> Option<&'static str> {
    WEEKDAYS
        .iter()
        .find(|&&(short, long)| short == word || long == word)
        .map(|&(_, long)| long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_row_is_found() {
        assert!(TABLE.windows(2).all(|w| w[0].key < w[1].key), "sort the table");
        assert!(
            TABLE
                .iter()
                .all(|row| find(row.key).is_some_and(|f| f.words == row.words))
        );
    }

    #[test]
    fn sentence_starters_are_whole_words() {
        assert!(starts_sentence("It's") && !starts_sentence("Senate") && !starts_sentence("the"));
    }

    #[test]
    fn no_reading_is_itself_an_abbreviation() {
        for row in TABLE {
            assert!(row.words.split(' ').all(|w| find(w).is_none()), "{}", row.key);
        }
    }
}
