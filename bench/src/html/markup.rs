//! Text that the parts of the page share.

use crate::level::Offered;

/// Text that may stand anywhere in the page.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

pub(super) fn load_of(offered: Offered) -> String {
    match offered {
        Offered::Streams(1) => "1 stream".to_owned(),
        _ => format!("{offered} {}", offered.title()),
    }
}
