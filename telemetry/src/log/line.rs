//! One update as a line of TorchServe's `ts_metrics.log` and `model_metrics.log`.

use std::fmt::Write;
use std::time::SystemTime;

use metrics::Key;

use super::time::stamp;

/// What a series' lines have in common: `name.unit:` and `|#k:v,...|#hostname:h,timestamp:`.
#[derive(Debug, Clone)]
pub(super) struct Template {
    before: String,
    after: String,
}

impl Template {
    /// For the series `key` in that unit. The label for the host's name moves to the end, as there.
    pub(super) fn new(key: &Key, unit: &str) -> Self {
        let mut host = "";
        let mut after = String::from("|#");
        for label in key.labels() {
            if label.key().eq_ignore_ascii_case("hostname") {
                host = label.value();
                continue;
            }
            if after.len() > 2 {
                after.push(',');
            }
            let _ = write!(after, "{}:", label.key());
            escape(&mut after, label.value());
        }
        after.push_str("|#hostname:");
        escape(&mut after, host);
        after.push_str(",timestamp:");
        // Their parser takes letters, digits and _ only.
        let name = key.name().replace(':', "_");
        Self {
            before: format!("{name}.{unit}:"),
            after,
        }
    }

    /// The line for `value` at that moment, without its end.
    pub(super) fn line(&self, value: f64, at: SystemTime) -> String {
        let (seconds, moment) = stamp(at);
        format!("{moment} - {}{value:?}{}{seconds}", self.before, self.after)
    }
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
    use std::time::{Duration, UNIX_EPOCH};

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
            Template::new(&key, "ms").line(581.7, at),
            "2022-03-30T10:58:39,358 - HandlerTime.ms:581.7|#ModelName:bench,Level:Model|#hostname:h1,timestamp:1648637919"
        );
    }

    #[test]
    fn what_separates_fields_is_encoded() {
        let key = key("vllm:x", &[("a", "1:2,3|4#5%\n")]);
        let line = Template::new(&key, "s").line(1.0, UNIX_EPOCH);
        assert!(
            line.ends_with("vllm_x.s:1.0|#a:1%3A2%2C3%7C4%235%25%0A|#hostname:,timestamp:0"),
            "{line}"
        );
    }
}
