//! Numbers as Python's client writes them, which is what dashboards and rules match on: `1.0`, `0.005`, `+Inf`.

use std::fmt::Write;

/// Appends `value`.
pub(super) fn real(out: &mut String, value: f64) {
    let _ = match value {
        _ if value.is_nan() => out.write_str("NaN"),
        f64::INFINITY => out.write_str("+Inf"),
        f64::NEG_INFINITY => out.write_str("-Inf"),
        _ => write!(out, "{value:?}"),
    };
}

/// Appends an integer in the same format.
pub(super) fn whole(out: &mut String, value: u64) {
    let _ = write!(out, "{value}.0");
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_read_as_pythons() {
        let cases = [
            (1.0, "1.0"),
            (0.005, "0.005"),
            (0.0, "0.0"),
            (-2.5, "-2.5"),
            (1e20, "1e20"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            let mut out = String::new();
            super::real(&mut out, value);
            assert_eq!(out, expected);
        }
        let mut out = String::new();
        super::whole(&mut out, 12);
        assert_eq!(out, "12.0");
    }
}
