//! `multipart/form-data` (RFC 7578), read as a whole.

use axum::body::Bytes;

/// Most fields of a form.
const MOST: usize = 32;
/// Longest boundary (RFC 2046).
const BOUNDARY: usize = 70;

/// Reason why a body is not a form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MultipartError {
    #[error("no part of the form begins with the boundary of the content type")]
    NoBoundary,
    #[error("a part of the form has no end boundary")]
    Open,
    #[error("a part of the form has no content-disposition header with a name")]
    Head,
    #[error("the form has more than {MOST} parts")]
    TooMany,
}

/// A field of a form; for a file, its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) data: Bytes,
}

/// See the module's text.
pub(super) struct Multipart;

impl Multipart {
    /// The boundary that a content type names.
    pub(super) fn boundary(content_type: &str) -> Option<String> {
        let (kind, parameters) = content_type.split_once(';')?;
        if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
            return None;
        }
        let boundary = parameter(parameters, "boundary")?;
        (1..=BOUNDARY).contains(&boundary.len()).then_some(boundary)
    }

    /// The fields of a body, in order.
    pub(super) fn read(body: &Bytes, boundary: &str) -> Result<Vec<Field>, MultipartError> {
        let first = format!("--{boundary}");
        let next = format!("\r\n--{boundary}");
        let mut at = if body.starts_with(first.as_bytes()) {
            first.len()
        } else {
            find(body, next.as_bytes()).ok_or(MultipartError::NoBoundary)? + next.len()
        };
        let mut fields = Vec::new();
        loop {
            let rest = &body[at..];
            if rest.starts_with(b"--") {
                return Ok(fields);
            }
            if fields.len() == MOST {
                return Err(MultipartError::TooMany);
            }
            // Spaces may follow a boundary.
            let line = find(rest, b"\r\n").ok_or(MultipartError::Open)? + 2;
            let end = find(&rest[line - 2..], next.as_bytes()).ok_or(MultipartError::Open)? + line - 2;
            let part = rest.get(line..end).ok_or(MultipartError::Head)?;
            let head = find(part, b"\r\n\r\n").ok_or(MultipartError::Head)?;
            let name = name(&part[..head]).ok_or(MultipartError::Head)?;
            let from = at + line + head + 4;
            fields.push(Field {
                name,
                data: body.slice(from..at + end),
            });
            at += end + next.len();
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Name in the head of a part.
fn name(head: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(head).ok()?;
    let lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut dispositions =
        lines.filter(|(header, _)| header.trim().eq_ignore_ascii_case("content-disposition"));
    let (kind, parameters) = dispositions.next()?.1.split_once(';')?;
    kind.trim().eq_ignore_ascii_case("form-data").then_some(())?;
    parameter(parameters, "name")
}

/// A parameter of a header, without its quotes.
fn parameter(mut text: &str, wanted: &str) -> Option<String> {
    while !text.trim().is_empty() {
        let (name, rest) = text.split_once('=')?;
        let rest = rest.trim_start();
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (value, after) = quoted.split_once('"')?;
                (value, after.split_once(';').map_or("", |(_, after)| after))
            }
            None => rest.split_once(';').unwrap_or((rest, "")),
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value.trim().to_owned());
        }
        text = after;
    }
    None
}

/// Parses a form; for tests.
pub(super) fn take(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    if let Ok(fields) = Multipart::read(&body, "x") {
        let all: usize = fields.iter().map(|field| field.data.len()).sum();
        assert!(all <= bytes.len(), "fields are parts of the body");
    }
    let _ = Multipart::boundary(&String::from_utf8_lossy(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<(String, String)>, MultipartError> {
        let fields = Multipart::read(&Bytes::from(body.to_owned()), "XX")?;
        let text = |field: Field| (field.name, String::from_utf8(field.data.to_vec()).unwrap());
        Ok(fields.into_iter().map(text).collect())
    }

    #[test]
    fn fields_come_as_curl_and_browsers_send_them() {
        let body = "--XX\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nAnna\r\n--XX\r\n\
             content-disposition: form-data; filename=\"a;name=b.wav\"; name=audio_sample\r\nContent-Type: audio/wav\r\n\r\n\
             RI\r\nFF--XX\r\n--XX\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n--XX--\r\n";
        let expected = [("name", "Anna"), ("audio_sample", "RI\r\nFF--XX"), ("empty", "")];
        let expected = expected.map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(read(body).unwrap(), expected);
        assert_eq!(read(&format!("preamble\r\n{body}")).unwrap(), expected);
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let part = "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n";
        for (body, error) in [
            ("", MultipartError::NoBoundary),
            ("--YY\r\n", MultipartError::NoBoundary),
            ("--XX\r\nno end", MultipartError::Open),
            ("--XX\r\n\r\n--XX--", MultipartError::Head),
            ("--XX\r\nx: y\r\n\r\nb\r\n--XX--", MultipartError::Head),
            (&part.repeat(33), MultipartError::TooMany),
        ] {
            assert_eq!(read(body), Err(error), "{body:?}");
        }
    }

    #[test]
    fn the_boundary_is_in_the_content_type() {
        let of = Multipart::boundary;
        assert_eq!(of("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
        assert_eq!(
            of("Multipart/Form-Data; charset=x; Boundary=\"a b\"").as_deref(),
            Some("a b")
        );
        for bad in [
            "multipart/form-data",
            "multipart/mixed; boundary=a",
            "text/plain; boundary=a",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
