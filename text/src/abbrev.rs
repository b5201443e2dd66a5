//! Abbreviations written with a full stop: how they read, and whether that full stop can also end a sentence.
//! One table for both, so that segmentation and reading never disagree.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::list::listed;

/// The words that have to stand beside an abbreviation for it to be one. Those without a condition are read with or without the
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

/// The full stop of an abbreviation, which may or may not be that of the sentence.
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

/// Words that make what follows them a noun: "the max.", "that's a feat."
pub(crate) static ARTICLES: &str =
    "a an another each every her his its my no our that that's the their this to your";

/// Abbreviations and their words.
static TABLE: [(When, Ends, &str); 6] = [
    (
        When::Capital,
        Ends::Never,
        "\
        adm admiral, amb ambassador, atty attorney, capt captain, cmdr commander, col colonel, cpl corporal, det \
        detective, dist district, div division, fr father, ft fort, gen general, gov governor, hon honorable, insp \
        inspector, lt lieutenant, maj major, ms miz, mt mount, pres president, prof professor, pvt private, rep \
        representative, rev reverend, sen senator, sgt sergeant, supt superintendent, univ university",
    ),
    (
        When::Inside,
        Ends::Maybe,
        "\
        agg aggregate, arr arrives, cont continued, dep departs, diam diameter, esp especially, exp expires, feat \
        featuring, max maximum, min minimum, num number, orig original, resp respectively, std standard, temp \
        temperature, viz namely",
    ),
    (
        When::BeforeDigit,
        Ends::Never,
        "\
        app appendix, apt apartment, art article, b born, c circa, ca circa, ch chapter, chap chapter, d died, ed \
        edition, eq equation, est established, ext extension, fig figure, figs figures, fl floor, no number, nos \
        numbers, nr number, op opus, p page, para paragraph, pg page, pp pages, pt part, ref reference, rm room, rs \
        rupees, sec section, sect section, ste suite, tel telephone, ver version, vol volume, vols volumes",
    ),
    (
        When::Always,
        Ends::Never,
        "\
        approx approximately, apprx approximately, asst assistant, cf compare, dr doctor, excl excluding, incl \
        including, intl international, messrs messieurs, misc miscellaneous, mr mister, mrs missus, natl national, \
        qty quantity, vs versus",
    ),
    (
        When::Always,
        Ends::Maybe,
        "\
        appt appointment, assn association, avg average, bldg building, blvd boulevard, dept department, esq \
        esquire, etc et cetera, govt government, hwy highway, jr junior, ltd limited, pkwy parkway, sr senior",
    ),
    (
        When::Capital,
        Ends::Maybe,
        "\
        assoc associate, ave avenue, bros brothers, co company, corp corporation, inc incorporated, mgr manager, rd \
        road",
    ),
];

/// The abbreviation that a lower-case word without its full stop is, if it is one.
pub(crate) fn find(word: &str) -> Option<&'static Abbreviation> {
    static BY_KEY: LazyLock<HashMap<&str, Abbreviation>> = LazyLock::new(|| {
        let rows = TABLE.iter().flat_map(|&(when, ends, rows)| {
            let rows = rows.split(", ").filter_map(|row| row.split_once(' '));
            rows.map(move |(key, words)| Abbreviation {
                key,
                words,
                when,
                ends,
            })
        });
        rows.map(|row| (row.key, row)).collect()
    });
    BY_KEY.get(word)
}

/// Months and weekdays: short form, whole word. Sorted by nothing but the calendar.
#[rustfmt::skip]
pub(crate) static MONTHS: [(&str, &str); 12] = [
    ("jan", "january"), ("feb", "february"), ("mar", "march"), ("apr", "april"), ("may", "may"), ("jun", "june"),
    ("jul", "july"), ("aug", "august"), ("sep", "september"), ("oct", "october"), ("nov", "november"),
    ("dec", "december"),
];

/// Short forms of weekdays.
#[rustfmt::skip]
pub(crate) static WEEKDAYS: [(&str, &str); 11] = [
    ("mon", "monday"), ("tue", "tuesday"), ("tues", "tuesday"), ("wed", "wednesday"), ("thu", "thursday"),
    ("thur", "thursday"), ("thurs", "thursday"), ("fri", "friday"), ("sat", "saturday"), ("sun", "sunday"),
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

/// True if a word, as written, is one that begins sentences. Contractions count as their first word.
pub(crate) fn starts_sentence(word: &str) -> bool {
    let first = word.split(['\'', '\u{2019}']).next().unwrap_or(word);
    listed(STARTERS, first)
}

/// Units that are often written with a full stop.
static DOTTED_UNITS: &str = "\
    Tbsp cal cu fl ft gal hr hrs in lb lbs mi min mins mo mos oz pt qt sec secs sq tbsp tsp wk wks yd yds yr yrs";

/// True if a full stop after this unit may be part of it.
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
    fn sentence_starters_are_whole_words() {
        assert!(starts_sentence("It's") && !starts_sentence("Senate") && !starts_sentence("the"));
    }

    #[test]
    fn no_reading_is_itself_an_abbreviation() {
        for row in TABLE.iter().flat_map(|(.., rows)| rows.split(", ")) {
            let (key, words) = row.split_once(' ').unwrap();
            assert_eq!(find(key).unwrap().words, words);
            assert!(words.split(' ').all(|w| find(w).is_none()), "{key}");
        }
    }
}
