//! One update as a line of TorchServe's `ts_metrics.log` and `model_metrics.log`.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use metrics::Key;

thread_local! {
    static REQUEST: RefCell<Option<String>> = const { RefCell::new(None) };
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Calls `record` without writing log lines. For values updated for a reader: reading is no event of the server.
pub(crate) fn without_lines(record: impl FnOnce()) {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            SILENT.set(self.0);
        }
    }
    let _restore = Restore(SILENT.replace(true));
    record();
}

/// Returns true if lines are left out on this thread now.
pub(super) fn is_silent() -> bool {
    SILENT.get()
}

/// Calls `record`; its log lines carry the request's id.
pub fn with_request<T>(id: &str, record: impl FnOnce() -> T) -> T {
    struct Restore(Option<String>);
    impl Drop for Restore {
        fn drop(&mut self) {
            REQUEST.set(self.0.take());
        }
    }
    let _restore = Restore(REQUEST.replace(Some(id.to_owned())));
    record()
}

/// Form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineFormat {
    /// As TorchServe writes it.
    #[default]
    Text,
    /// As an object of the shape that the log's other lines have, with TorchServe's line as its message.
    Json,
}

/// The common part of a series' lines: `name.unit:` and `|#k:v,...|#hostname:h`.
#[derive(Debug, Clone)]
pub(super) struct Template {
    before: String,
    after: String,
    format: LineFormat,
    /// For objects.
    fields: serde_json::Value,
}

impl Template {
    /// For the series `key` in that unit. The label for the host's name moves to the end, as there; a series without
    /// one has `hostname`.
    pub(super) fn new(key: &Key, unit: &str, hostname: &str, format: LineFormat) -> Self {
        let mut host = hostname;
        let mut labels = serde_json::Map::new();
        let mut after = String::from("|#");
        for label in key.labels() {
            if label.key().eq_ignore_ascii_case("hostname") {
                host = label.value();
                continue;
            }
            if after.len() > 2 {
                after.push(',');
            }
            labels.insert(label.key().to_owned(), label.value().into());
            let _ = write!(after, "{}:", label.key());
            escape(&mut after, label.value());
        }
        after.push_str("|#hostname:");
        escape(&mut after, host);
        // Their parser takes letters, digits and _ only.
        let name = key.name().replace(':', "_");
        Self {
            fields: serde_json::json!({"name": name, "unit": unit, "labels": labels, "hostname": host}),
            before: format!("{name}.{unit}:"),
            after,
            format,
        }
    }

    /// The line for `value` at that moment, without its end.
    pub(super) fn line(&self, value: f64, at: SystemTime) -> String {
        let (seconds, moment) = stamp(at);
        let request = REQUEST.with_borrow(Clone::clone);
        let mut line = format!("{}{value:?}{}", self.before, self.after);
        if let Some(request) = &request {
            line.push_str(",requestID:");
            escape(&mut line, request);
        }
        let _ = write!(line, ",timestamp:{seconds}");
        match self.format {
            LineFormat::Text => format!("{moment} - {line}"),
            LineFormat::Json => {
                let mut object = self.fields.clone();
                object["timestamp"] = format!("{}Z", moment.replace(',', ".")).into();
                object["level"] = "INFO".into();
                object["target"] = "metrics".into();
                object["message"] = line.into();
                object["value"] = value.into();
                object["request_id"] = request.into();
                object.to_string()
            }
        }
    }
}

/// Seconds since 1970, and the moment as `2022-03-30T10:58:39,358` in UTC.
fn stamp(at: SystemTime) -> (u64, String) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut moment = String::with_capacity(24);
    // Fails after the year 9999.
    let _ = write!(moment, "{}", format_rfc3339_millis(UNIX_EPOCH + since));
    (since.as_secs(), moment.trim_end_matches('Z').replace('.', ","))
}

/// Percent-encodes what separates fields.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        if matches!(c, ':' | ',' | '|' | '#' | '%') || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::recorder::tests::key;

    #[test]
    fn a_line_reads_as_torchserves() {
        let key = key(
            "HandlerTime",
            &[("ModelName", "bench"), ("Level", "Model"), ("Hostname", "h1")],
        );
        let at = UNIX_EPOCH + Duration::from_millis(1_648_637_919_358);
        assert_eq!(
            Template::new(&key, "ms", "", LineFormat::Text).line(581.7, at),
            "2022-03-30T10:58:39,358 - HandlerTime.ms:581.7|#ModelName:bench,Level:Model|#hostname:h1,timestamp:1648637919"
        );
    }

    #[test]
    fn a_line_recorded_for_a_request_has_its_id() {
        let key = key("HandlerTime", &[("ModelName", "bench")]);
        let template = Template::new(&key, "ms", "h2", LineFormat::Text);
        let line = with_request("s/u1", || template.line(5.0, UNIX_EPOCH));
        assert!(
            line.ends_with("HandlerTime.ms:5.0|#ModelName:bench|#hostname:h2,requestID:s/u1,timestamp:0"),
            "{line}"
        );
        assert!(!template.line(5.0, UNIX_EPOCH).contains("requestID"));
    }

    #[test]
    fn as_an_object_a_line_has_its_parts_by_name() {
        let key = key("HandlerTime", &[("ModelName", "bench"), ("Hostname", "h1")]);
        let template = Template::new(&key, "ms", "", LineFormat::Json);
        let line = with_request("r1", || template.line(5.5, UNIX_EPOCH));
        let object: serde_json::Value = serde_json::from_str(&line).expect("an object");
        let fields = &object;
        assert_eq!(object["timestamp"], "1970-01-01T00:00:00.000Z");
        assert_eq!(
            (
                &fields["name"],
                &fields["unit"],
                &fields["value"],
                &fields["request_id"]
            ),
            (&"HandlerTime".into(), &"ms".into(), &5.5.into(), &"r1".into())
        );
        assert_eq!(fields["labels"]["ModelName"], "bench");
        assert_eq!(fields["hostname"], "h1");
    }

    #[test]
    fn what_separates_fields_is_encoded() {
        let key = key("vllm:x", &[("a", "1:2,3|4#5%\n")]);
        let line = Template::new(&key, "s", "", LineFormat::Text).line(1.0, UNIX_EPOCH);
        assert!(
            line.ends_with("vllm_x.s:1.0|#a:1%3A2%2C3%7C4%235%25%0A|#hostname:,timestamp:0"),
            "{line}"
        );
    }
}
