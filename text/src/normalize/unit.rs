//! Units of measure: how they are written after a number, and what they are called.

/// How close to its number a unit has to stand to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Near {
    /// With or without a space.
    Any,
    /// Directly after the number.
    Touching,
    /// With a space.
    Apart,
}

/// One unit.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

type Row = (&'static str, &'static str, &'static str, Near);

#[rustfmt::skip]
static TABLE: [Row; 103] = {
    use Near::{Any, Apart, Touching};
    [
        ("km", "kilometer", "kilometers", Any), ("m", "meter", "meters", Any), ("cm", "centimeter", "centimeters", Any),
        ("mm", "millimeter", "millimeters", Any), ("µm", "micrometer", "micrometers", Any), ("um", "micrometer", "micrometers", Any),
        ("nm", "nanometer", "nanometers", Any), ("mi", "mile", "miles", Any), ("ft", "foot", "feet", Any),
        ("in", "inch", "inches", Touching), ("yd", "yard", "yards", Any), ("yds", "yard", "yards", Any), ("ha", "hectare", "hectares", Any),
        ("kg", "kilogram", "kilograms", Any), ("g", "gram", "grams", Any), ("mg", "milligram", "milligrams", Any),
        ("µg", "microgram", "micrograms", Any), ("lb", "pound", "pounds", Any), ("lbs", "pound", "pounds", Any), ("oz", "ounce", "ounces", Any),
        ("t", "ton", "tons", Touching), ("l", "liter", "liters", Touching), ("L", "liter", "liters", Any), ("ml", "milliliter", "milliliters", Any),
        ("mL", "milliliter", "milliliters", Any), ("cl", "centiliter", "centiliters", Any), ("gal", "gallon", "gallons", Any),
        ("tsp", "teaspoon", "teaspoons", Any), ("tbsp", "tablespoon", "tablespoons", Any), ("pt", "pint", "pints", Any), ("qt", "quart", "quarts", Any),
        ("s", "second", "seconds", Any), ("sec", "second", "seconds", Any), ("secs", "second", "seconds", Any),
        ("ms", "millisecond", "milliseconds", Any), ("µs", "microsecond", "microseconds", Any), ("us", "microsecond", "microseconds", Touching),
        ("ns", "nanosecond", "nanoseconds", Any), ("min", "minute", "minutes", Any), ("mins", "minute", "minutes", Any),
        ("h", "hour", "hours", Any), ("hr", "hour", "hours", Any), ("hrs", "hour", "hours", Any), ("d", "day", "days", Touching),
        ("wk", "week", "weeks", Any), ("wks", "week", "weeks", Any), ("mo", "month", "months", Any), ("yr", "year", "years", Any), ("yrs", "year", "years", Any),
        ("mph", "mile per hour", "miles per hour", Any), ("kph", "kilometer per hour", "kilometers per hour", Any), ("kmh", "kilometer per hour", "kilometers per hour", Any),
        ("Hz", "hertz", "hertz", Any), ("kHz", "kilohertz", "kilohertz", Any), ("KHz", "kilohertz", "kilohertz", Any), ("MHz", "megahertz", "megahertz", Any),
        ("GHz", "gigahertz", "gigahertz", Any), ("THz", "terahertz", "terahertz", Any),
        ("B", "byte", "bytes", Apart), ("kB", "kilobyte", "kilobytes", Any), ("KB", "kilobyte", "kilobytes", Any), ("MB", "megabyte", "megabytes", Any),
        ("GB", "gigabyte", "gigabytes", Any), ("TB", "terabyte", "terabytes", Any), ("PB", "petabyte", "petabytes", Any),
        ("KiB", "kibibyte", "kibibytes", Any), ("MiB", "mebibyte", "mebibytes", Any), ("GiB", "gibibyte", "gibibytes", Any), ("TiB", "tebibyte", "tebibytes", Any),
        ("bps", "bit per second", "bits per second", Any), ("kbps", "kilobit per second", "kilobits per second", Any),
        ("Kbps", "kilobit per second", "kilobits per second", Any), ("Mbps", "megabit per second", "megabits per second", Any),
        ("Gbps", "gigabit per second", "gigabits per second", Any), ("Gb", "gigabit", "gigabits", Any), ("Mb", "megabit", "megabits", Any),
        ("W", "watt", "watts", Any), ("kW", "kilowatt", "kilowatts", Any), ("MW", "megawatt", "megawatts", Any), ("GW", "gigawatt", "gigawatts", Any),
        ("mW", "milliwatt", "milliwatts", Any), ("kWh", "kilowatt hour", "kilowatt hours", Any), ("Wh", "watt hour", "watt hours", Any),
        ("V", "volt", "volts", Any), ("kV", "kilovolt", "kilovolts", Any), ("mV", "millivolt", "millivolts", Any), ("mA", "milliamp", "milliamps", Any),
        ("mAh", "milliamp hour", "milliamp hours", Any), ("Ω", "ohm", "ohms", Any), ("J", "joule", "joules", Touching), ("kJ", "kilojoule", "kilojoules", Any),
        ("cal", "calorie", "calories", Any), ("kcal", "kilocalorie", "kilocalories", Any), ("kPa", "kilopascal", "kilopascals", Any),
        ("hPa", "hectopascal", "hectopascals", Any), ("dB", "decibel", "decibels", Any), ("px", "pixel", "pixels", Any), ("dpi", "dot per inch", "dots per inch", Any),
        ("fps", "frame per second", "frames per second", Any), ("rpm", "revolution per minute", "revolutions per minute", Any), ("RPM", "revolution per minute", "revolutions per minute", Any),
        ("psi", "pound per square inch", "pounds per square inch", Any), ("tok", "token", "tokens", Any),
    ]
};

/// The unit written `sign`, if it may stand where it does.
pub(super) fn find(sign: &str, touching: bool) -> Option<Unit> {
    TABLE
        .iter()
        .find(|&&(written, _, _, near)| {
            written == sign && near != (if touching { Near::Apart } else { Near::Touching })
        })
        .map(|&(_, one, many, _)| Unit { one, many })
}

/// Whether a unit has an area and a volume.
pub(super) fn is_length(sign: &str) -> bool {
    matches!(
        sign,
        "km" | "m" | "cm" | "mm" | "mi" | "ft" | "in" | "yd" | "nm" | "µm"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_written_in_one_way_only() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|other| other.0 != row.0), "{}", row.0);
        }
    }
}
