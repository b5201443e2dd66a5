//! Stop strings in a stream against a plain search over the whole text.

use omni_text::StopStrings;
use proptest::prelude::*;

/// The text before the stop string that is complete first (of several, the longest), and which that is.
fn whole(text: &str, stops: &[String]) -> (String, Option<usize>) {
    let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
    for end in ends {
        let complete = stops
            .iter()
            .enumerate()
            .filter(|(_, s)| text[..end].ends_with(s.as_str()));
        if let Some((index, stop)) = complete.max_by_key(|(i, s)| (s.len(), std::cmp::Reverse(*i))) {
            return (text[..end - stop.len()].to_owned(), Some(index));
        }
    }
    (text.to_owned(), None)
}

/// The text in pieces that end at these characters.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (chars.len() + 1)).collect();
    cuts.extend([0, chars.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|c| chars[c[0]..c[1]].iter().collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_chunking_stops_where_the_whole_text_does(
        text in "[abé]{0,24}",
        stops in prop::collection::vec("[abé]{1,5}", 0..4),
        cuts in prop::collection::vec(0..30_usize, 0..6),
    ) {
        let (expected, stop) = whole(&text, &stops);
        let mut stream = StopStrings::new(&stops).expect("none is empty");
        let mut released = String::new();
        let mut found = None;
        let mut seen = String::new();
        for piece in pieces(&text, &cuts) {
            let now = stream.push(&piece);
            seen.push_str(&piece);
            released.push_str(&now.text);
            found = found.or(now.stop);
            prop_assert!(expected.starts_with(&released), "{released:?} came too early");
            if found.is_none() {
                // No more is held back than may become a stop string.
                let held = &seen[released.len()..];
                prop_assert!(held.is_empty() || stops.iter().any(|s| s.starts_with(held)), "{held:?} is held back");
            }
        }
        released.push_str(&stream.finish());
        prop_assert_eq!((released, found), (expected, stop));
    }
}
