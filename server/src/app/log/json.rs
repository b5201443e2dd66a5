//! One JSON object per line: time, level, target, then the fields of the request's spans, then those of the event.

use std::error::Error;
use std::fmt::{self, Debug};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Fields whose values are JSON objects.
const OBJECTS: [&str; 1] = ["stage_ms"];

/// See the module's text. Fields of spans must be formatted by [`JsonFields`](tracing_subscriber::fmt::format::JsonFields).
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Line::default();
        line.set("timestamp", time.into());
        line.set("level", event.metadata().level().as_str().into());
        line.set("target", event.metadata().target().into());
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            if let Some(Ok(Value::Object(fields))) = fields.map(|fields| serde_json::from_str(fields)) {
                for (name, value) in fields {
                    line.set(&name, value);
                }
            }
        }
        event.record(&mut line);
        line.write(&mut writer)
    }
}

/// Fields in order. A later one replaces an earlier one of the same name.
#[derive(Default)]
struct Line(Vec<(String, Value)>);

impl Line {
    fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn record(&mut self, field: &Field, value: Value) {
        match field.name() {
            // Of the crate `log`: the rest is where in its source it was written.
            "log.target" => self.set("target", value),
            name if name.starts_with("log.") => {}
            name => self.set(name.trim_start_matches("r#"), value),
        }
    }

    fn write(&self, writer: &mut Writer<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            write!(writer, "{before}{}:{value}", Value::from(name.as_str()))?;
        }
        writeln!(writer, "}}")
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.record(field, value.to_string().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        let object = OBJECTS
            .contains(&field.name())
            .then(|| serde_json::from_str(&text).ok());
        self.record(field, object.flatten().unwrap_or_else(|| text.into()));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::fmt::format::JsonFields;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nothing panics").write(data)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Times;

    impl Debug for Times {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_map().entry(&"talker/0", &1.5).finish()
        }
    }

    /// The lines that `work` writes.
    fn lines(work: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(written.0.lock().expect("nothing panics").clone()).expect("text");
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        text.lines().map(read).collect()
    }

    #[test]
    fn what_a_request_is_stands_beside_what_happened_to_it() {
        let lines = lines(|| {
            let span = tracing::error_span!("request", request_id = "req_1", peer = %"::1", key = tracing::field::Empty);
            span.record("key", "alice");
            span.in_scope(|| {
                tracing::info!(total_ms = 375.1, frames = 3_u32, text = true, stage_ms = ?Times, "utterance");
            });
        });
        let line = lines[0].as_object().expect("an object");
        for (name, value) in [
            ("level", json!("INFO")),
            ("message", json!("utterance")),
            ("request_id", json!("req_1")),
            ("peer", json!("::1")),
            ("key", json!("alice")),
            ("total_ms", json!(375.1)),
            ("frames", json!(3)),
            ("text", json!(true)),
            ("stage_ms", json!({"talker/0": 1.5})),
        ] {
            assert_eq!(line[name], value, "{name}");
        }
        assert!(!line.contains_key("span") && !line.contains_key("spans"));
    }

    #[test]
    fn values_of_callers_stay_strings_whatever_they_look_like() {
        let path = "{\"level\":\"ERROR\"}\n";
        let lines = lines(|| tracing::warn!(path = %path, voice = "\"", "failed"));
        assert_eq!(
            (&lines[0]["path"], &lines[0]["voice"]),
            (&json!(path), &json!("\""))
        );
        assert_eq!((lines.len(), &lines[0]["level"]), (1, &json!("WARN")));
    }
}
