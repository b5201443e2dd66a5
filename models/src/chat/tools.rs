//! Tools in chat templates: JSON in the order in which it was written, printed as Python prints it.

use std::io;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize as _;
use serde_json::ser::Formatter;

use super::ChatError;

/// JSON as a value of a template; `guard` is applied to every text in it, names of fields included.
pub(super) fn value(
    what: &'static str,
    json: &str,
    guard: &impl Fn(&str) -> String,
) -> Result<Value, ChatError> {
    let parsed: Value = serde_json::from_str(json).map_err(|error| ChatError::ToolJson {
        what,
        reason: error.to_string(),
    })?;
    guarded(&parsed, guard).map_err(|error| ChatError::Template(error.to_string()))
}

fn guarded(value: &Value, guard: &impl Fn(&str) -> String) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => Ok(Value::from(guard(value.as_str().unwrap_or_default()))),
        ValueKind::Seq => {
            let items = value.try_iter()?.map(|item| guarded(&item, guard));
            items.collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        ValueKind::Map => {
            let fields = value.try_iter()?.map(|key| {
                let field = guarded(&value.get_item(&key)?, guard)?;
                Ok::<_, Error>((guarded(&key, guard)?, field))
            });
            Ok(Value::from_pairs(fields.collect::<Result<Vec<_>, _>>()?))
        }
        _ => Ok(value.clone()),
    }
}

/// The filter `tojson` as transformers has it (`json.dumps` with `ensure_ascii=False`): nothing is escaped for HTML.
#[expect(clippy::needless_pass_by_value, reason = "filters take values")]
pub(super) fn tojson(value: Value, _options: Kwargs) -> Result<String, Error> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Python);
    let unprintable = |problem: String| Error::new(ErrorKind::BadSerialization, problem);
    value
        .serialize(&mut serializer)
        .map_err(|error| unprintable(error.to_string()))?;
    String::from_utf8(out).map_err(|error| unprintable(error.to_string()))
}

/// A blank behind every comma and colon.
struct Python;

impl Python {
    fn next<W: io::Write + ?Sized>(writer: &mut W, is_first: bool) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }
}

impl Formatter for Python {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        Self::next(writer, first)
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        Self::next(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
