//! Tags of HTML in text that is not a document: what they say of pauses is followed, the others are left out.

use super::notation::{Context, Edit, Judged};
use crate::list::listed;

/// Most characters of a tag or a comment.
const LONGEST: usize = 2048;

/// Tags that begin or end a line or a block.
static BLOCKS: &str = "\
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure \
    footer form h1 h2 h3 h4 h5 h6 head header hr html li main menu nav ol optgroup option p pre section select \
    summary table tbody tfoot thead title tr ul video";
/// Tags within a line.
static INLINE: &str = "\
    a abbr acronym area audio b base bdi bdo big button canvas cite code col colgroup data del dfn em embed font i \
    iframe img input ins kbd label legend link map mark meta meter nobr noscript object output picture progress q s \
    samp small source span strike strong sub sup svg textarea time tt u var wbr ruby";
/// Tags whose text is not read.
static HIDDEN: &str = "script style template";
/// Attributes that have no value.
static FLAGS: &str = "\
    allowfullscreen async autoplay checked controls defer disabled hidden loop muted nowrap open required selected";

/// Judges characters from "<" on.
pub(super) fn judge(held: &[char], context: &Context, whole: bool) -> Judged {
    match held {
        [_] | [_, '/'] => Judged::Open(""),
        [_, '!' | '?', ..] => declaration(held),
        [_, '/', c, ..] | [_, c, ..] if c.is_ascii_alphabetic() => match Tag::read(held) {
            Ok(tag) => tag.judged(held, context, whole),
            Err(judged) => judged,
        },
        _ => Judged::Text,
    }
}

/// A comment, a declaration or an instruction.
fn declaration(held: &[char]) -> Judged {
    let text: String = held.iter().collect();
    let end = match text.as_str() {
        _ if "<!--".starts_with(&text) && text != "<!--" => return Judged::Open(""),
        _ if text.starts_with("<!--") => {
            return Judged::Taken(vec![Edit::Skip(4), Edit::Until("-->".to_owned())]);
        }
        _ if text.starts_with("<?") && !text[2..].starts_with(char::is_whitespace) => "?>",
        _ if "<!doctype".starts_with(&text.to_ascii_lowercase()) => return Judged::Open(""),
        _ if text.to_ascii_lowercase().starts_with("<!doctype") => ">",
        _ => return Judged::Text,
    };
    match text.find(end) {
        Some(at) => Judged::Taken(vec![Edit::Skip(text[..at + end.len()].chars().count())]),
        None if held.len() > LONGEST => Judged::Text,
        None => Judged::Open(">"),
    }
}

/// A whole tag, or an address in pointed brackets.
struct Tag {
    name: String,
    closes: bool,
    address: bool,
    /// The place of the words that an image has in its stead.
    alt: Option<core::ops::Range<usize>>,
    len: usize,
}

impl Tag {
    /// Reads the tag at the beginning; it is `Open` or `Text` while or because there is none.
    fn read(held: &[char]) -> Result<Self, Judged> {
        let closes = held[1] == '/';
        let from = 1 + usize::from(closes);
        let word_end = held[from..]
            .iter()
            .position(|c| c.is_whitespace() || matches!(c, '>' | '<' | ','));
        let open = if held.len() > LONGEST {
            Judged::Text
        } else {
            Judged::Open("")
        };
        let Some(word_end) = word_end.map(|end| from + end) else {
            return Err(open);
        };
        let word: String = held[from..word_end].iter().collect();
        let mut tag = Self {
            name: word.trim_end_matches('/').to_ascii_lowercase(),
            closes,
            address: is_address(&word),
            alt: None,
            len: word_end + 1,
        };
        let named = tag
            .name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'));
        match held[word_end] {
            '>' if named || tag.address => return Ok(tag),
            c if c.is_whitespace() && named => {}
            _ => return Err(Judged::Text),
        }
        let mut at = word_end;
        loop {
            at += held[at..]
                .iter()
                .take_while(|c| c.is_whitespace() || **c == '/')
                .count();
            match held.get(at) {
                None => return Err(open),
                Some('>') => {
                    tag.len = at + 1;
                    return Ok(tag);
                }
                Some(_) => at = tag.attribute(held, at).ok_or(Judged::Text)?.ok_or(open.clone())?,
            }
        }
    }

    /// Reads an attribute and returns where it ends. None inside: it goes on; none outside: it is none.
    #[allow(clippy::option_option, reason = "it goes on and it is none are two things")]
    fn attribute(&mut self, held: &[char], from: usize) -> Option<Option<usize>> {
        let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | '@');
        let name_len = held[from..].iter().take_while(|c| is_name(c)).count();
        let at = from + name_len;
        let name: String = held[from..at].iter().collect::<String>().to_ascii_lowercase();
        if name.is_empty() {
            return None;
        }
        let Some(next) = held.get(at) else {
            return Some(None);
        };
        if *next != '=' {
            let plain = listed(FLAGS, &name) && (next.is_whitespace() || matches!(next, '>' | '/'));
            return plain.then_some(Some(at));
        }
        let (open, rest) = match held.get(at + 1) {
            None => return Some(None),
            Some(quote @ ('"' | '\'')) => (Some(*quote), at + 2),
            Some(_) => (None, at + 1),
        };
        let ends = |c: &char| open.map_or(c.is_whitespace() || *c == '>', |quote| *c == quote);
        let Some(len) = held[rest..].iter().position(ends) else {
            return Some(None);
        };
        if name == "alt" {
            self.alt = Some(rest..rest + len);
        }
        Some(Some(rest + len + usize::from(open.is_some())))
    }

    fn judged(&self, held: &[char], context: &Context, whole: bool) -> Judged {
        let name = self.name.as_str();
        let skip = Edit::Skip(self.len);
        if self.address {
            return Judged::Taken(vec![Edit::Skip(1), Edit::Text(self.len - 2), Edit::Skip(1)]);
        }
        if let (Some(alt), "img") = (&self.alt, name) {
            return Judged::Taken(vec![
                Edit::Skip(alt.start),
                Edit::Text(alt.len()),
                Edit::Skip(self.len - alt.end),
            ]);
        }
        match name {
            "sup" if !self.closes && context.last.is_alphanumeric() => match held.get(self.len) {
                None if !whole => Judged::Open(""),
                Some(c) if c.is_ascii_digit() || *c == '-' => {
                    Judged::Taken(vec![Edit::Words("^".to_owned(), self.len)])
                }
                _ => Judged::Taken(vec![skip]),
            },
            "td" | "th" if self.closes => Judged::Taken(vec![Edit::Words(", ".to_owned(), self.len)]),
            "td" | "th" => Judged::Taken(vec![skip]),
            _ if listed(BLOCKS, name) => Judged::Taken(vec![Edit::Break(self.len)]),
            _ if listed(INLINE, name) => Judged::Taken(vec![skip]),
            // What is said of a tag: "the <script> tag".
            _ if listed(HIDDEN, name) && !self.closes && context.last == ' ' => match held.get(self.len) {
                None if !whole => Judged::Open(""),
                None | Some(' ' | '.' | ',') => Judged::Taken(vec![skip, Edit::Ignored(format!("<{name}>"))]),
                _ => Judged::Taken(vec![skip, Edit::Until(format!("</{name}>"))]),
            },
            _ if listed(HIDDEN, name) && !self.closes => {
                Judged::Taken(vec![skip, Edit::Until(format!("</{name}>"))])
            }
            // Types of programs: "Vec<String>".
            _ if !self.closes && context.last.is_alphanumeric() => Judged::Text,
            _ => Judged::Taken(vec![
                skip,
                Edit::Ignored(format!("<{}{name}>", if self.closes { "/" } else { "" })),
            ]),
        }
    }
}

fn is_address(word: &str) -> bool {
    let mail = word
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    word.contains("://") || word.starts_with("mailto:") || word.starts_with("tel:") || mail
}
