//! Units of measure: how they are written after a number, and what they are called.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How close to its number a unit has to stand to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Near {
    /// With or without a space.
    Any,
    /// Directly after the number.
    Touching,
    /// With a space.
    Apart,
    /// Only where no other word could stand.
    Sure,
    /// Only with what it is counted by: "100 p/m³".
    Per,
}

/// One unit.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

type Row = (&'static str, &'static str, &'static str, Near);

#[rustfmt::skip]
static TABLE: &[Row] = {
    use Near::{Any, Apart, Per, Sure, Touching};
    &[
        ("km", "kilometer", "kilometers", Any), ("m", "meter", "meters", Any), ("cm", "centimeter", "centimeters", Any),
        ("mm", "millimeter", "millimeters", Any), ("µm", "micrometer", "micrometers", Any), ("um", "micrometer", "micrometers", Any),
        ("nm", "nanometer", "nanometers", Any), ("mi", "mile", "miles", Any), ("ft", "foot", "feet", Any),
        ("in", "inch", "inches", Sure), ("yd", "yard", "yards", Any), ("yds", "yard", "yards", Any), ("ha", "hectare", "hectares", Any),
        ("kg", "kilogram", "kilograms", Any), ("g", "gram", "grams", Any), ("mg", "milligram", "milligrams", Any),
        ("µg", "microgram", "micrograms", Any), ("lb", "pound", "pounds", Any), ("lbs", "pound", "pounds", Any), ("oz", "ounce", "ounces", Any),
        ("t", "ton", "tons", Touching), ("l", "liter", "liters", Any), ("L", "liter", "liters", Any), ("ml", "milliliter", "milliliters", Any),
        ("mL", "milliliter", "milliliters", Any), ("cl", "centiliter", "centiliters", Any), ("gal", "gallon", "gallons", Any),
        ("tsp", "teaspoon", "teaspoons", Any), ("tbsp", "tablespoon", "tablespoons", Any), ("pt", "pint", "pints", Any), ("qt", "quart", "quarts", Any),
        ("s", "second", "seconds", Any), ("sec", "second", "seconds", Any), ("secs", "second", "seconds", Any),
        ("ms", "millisecond", "milliseconds", Any), ("µs", "microsecond", "microseconds", Any), ("us", "microsecond", "microseconds", Touching),
        ("ns", "nanosecond", "nanoseconds", Any), ("min", "minute", "minutes", Any), ("mins", "minute", "minutes", Any),
        ("h", "hour", "hours", Any), ("hr", "hour", "hours", Any), ("hrs", "hour", "hours", Any), ("d", "day", "days", Any),
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
        ("mAh", "milliamp hour", "milliamp hours", Any), ("Ω", "ohm", "ohms", Any), ("J", "joule", "joules", Any), ("kJ", "kilojoule", "kilojoules", Any),
        ("cal", "calorie", "calories", Any), ("kcal", "kilocalorie", "kilocalories", Any), ("kPa", "kilopascal", "kilopascals", Any),
        ("hPa", "hectopascal", "hectopascals", Any), ("dB", "decibel", "decibels", Any), ("px", "pixel", "pixels", Any), ("dpi", "dot per inch", "dots per inch", Any),
        ("fps", "frame per second", "frames per second", Any), ("rpm", "revolution per minute", "revolutions per minute", Any), ("RPM", "revolution per minute", "revolutions per minute", Any),
        ("psi", "pound per square inch", "pounds per square inch", Any), ("tok", "token", "tokens", Any),
        // Of a home; with the spellings of Home Assistant's own list (homeassistant 2026.2.3, homeassistant/const.py).
        ("mVA", "millivolt ampere", "millivolt amperes", Any), ("VA", "volt ampere", "volt amperes", Any), ("kVA", "kilovolt ampere", "kilovolt amperes", Any),
        ("MVA", "megavolt ampere", "megavolt amperes", Any), ("TW", "terawatt", "terawatts", Any), ("BTU", "b t u", "b t u", Any), ("Btu", "b t u", "b t u", Any),
        ("mvar", "millivolt ampere reactive", "millivolt amperes reactive", Any), ("var", "volt ampere reactive", "volt amperes reactive", Any),
        ("kvar", "kilovolt ampere reactive", "kilovolt amperes reactive", Any), ("varh", "volt ampere reactive hour", "volt ampere reactive hours", Any),
        ("kvarh", "kilovolt ampere reactive hour", "kilovolt ampere reactive hours", Any), ("MJ", "megajoule", "megajoules", Any), ("GJ", "gigajoule", "gigajoules", Any),
        ("mWh", "milliwatt hour", "milliwatt hours", Any), ("MWh", "megawatt hour", "megawatt hours", Any), ("GWh", "gigawatt hour", "gigawatt hours", Any),
        ("TWh", "terawatt hour", "terawatt hours", Any), ("Mcal", "megacalorie", "megacalories", Any), ("Gcal", "gigacalorie", "gigacalories", Any),
        ("A", "amp", "amps", Sure), ("µA", "microamp", "microamps", Any), ("kA", "kiloamp", "kiloamps", Any), ("Ah", "amp hour", "amp hours", Any), ("µV", "microvolt", "microvolts", Any),
        ("MV", "megavolt", "megavolts", Any), ("K", "kelvin", "kelvin", Sure), ("C", "degree celsius", "degrees celsius", Sure), ("F", "degree fahrenheit", "degrees fahrenheit", Sure),
        ("w", "week", "weeks", Touching), ("y", "year", "years", Touching), ("days", "day", "days", Touching), ("nmi", "nautical mile", "nautical miles", Any), ("ac", "acre", "acres", Any),
        ("mPa", "millipascal", "millipascals", Any), ("Pa", "pascal", "pascals", Any), ("MPa", "megapascal", "megapascals", Any), ("bar", "bar", "bar", Any), ("cbar", "centibar", "centibar", Any),
        ("mbar", "millibar", "millibars", Any), ("mmHg", "millimeter of mercury", "millimeters of mercury", Any), ("inHg", "inch of mercury", "inches of mercury", Any),
        ("atm", "atmosphere", "atmospheres", Any), ("dBA", "a weighted decibel", "a weighted decibels", Any), ("dBm", "decibel milliwatt", "decibel milliwatts", Any),
        ("CCF", "hundred cubic feet", "hundred cubic feet", Any), ("MCF", "thousand cubic feet", "thousand cubic feet", Any), ("cfm", "cubic foot per minute", "cubic feet per minute", Any),
        ("gpm", "gallon per minute", "gallons per minute", Any), ("dl", "deciliter", "deciliters", Any), ("dL", "deciliter", "deciliters", Any), ("cL", "centiliter", "centiliters", Any),
        ("µL", "microliter", "microliters", Any), ("hl", "hectoliter", "hectoliters", Any), ("dm", "decimeter", "decimeters", Any), ("ug", "microgram", "micrograms", Any),
        ("ng", "nanogram", "nanograms", Any), ("st", "stone", "stone", Apart), ("S", "siemens", "siemens", Sure), ("mS", "millisiemens", "millisiemens", Any), ("µS", "microsiemens", "microsiemens", Any),
        ("uS", "microsiemens", "microsiemens", Any), ("lx", "lux", "lux", Any), ("lux", "lux", "lux", Any), ("klx", "kilolux", "kilolux", Any), ("lm", "lumen", "lumens", Any), ("cd", "candela", "candelas", Touching),
        ("ppm", "part per million", "parts per million", Any), ("ppb", "part per billion", "parts per billion", Any), ("mol", "mole", "moles", Any), ("mmol", "millimole", "millimoles", Any),
        ("µmol", "micromole", "micromoles", Any), ("mpg", "mile per gallon", "miles per gallon", Any), ("kn", "knot", "knots", Any), ("kt", "knot", "knots", Any), ("kts", "knot", "knots", Any),
        ("bit", "bit", "bits", Touching), ("kbit", "kilobit", "kilobits", Any), ("Kbit", "kilobit", "kilobits", Any), ("Mbit", "megabit", "megabits", Any), ("Gbit", "gigabit", "gigabits", Any), ("Tbit", "terabit", "terabits", Any),
        ("EB", "exabyte", "exabytes", Any), ("ZB", "zettabyte", "zettabytes", Any), ("YB", "yottabyte", "yottabytes", Any),
        ("PiB", "pebibyte", "pebibytes", Any), ("EiB", "exbibyte", "exbibytes", Any), ("ZiB", "zebibyte", "zebibytes", Any), ("YiB", "yobibyte", "yobibytes", Any),
        ("kΩ", "kiloohm", "kiloohms", Any), ("MΩ", "megaohm", "megaohms", Any), ("N", "newton", "newtons", Apart), ("Nm", "newton meter", "newton meters", Any), ("hp", "horsepower", "horsepower", Any),
        ("Bq", "becquerel", "becquerels", Any), ("mSv", "millisievert", "millisieverts", Any), ("µSv", "microsievert", "microsieverts", Any), ("p", "particle", "particles", Per),         ("lbf", "pound of force", "pounds of force", Any),
    ]
};

/// The unit written `sign`, and how close to its number it has to stand.
pub(super) fn find(sign: &str) -> Option<(Unit, Near)> {
    static BY_SIGN: LazyLock<HashMap<&str, &Row>> =
        LazyLock::new(|| TABLE.iter().map(|row| (row.0, row)).collect());
    let &(_, one, many, near) = *BY_SIGN.get(sign)?;
    Some((Unit { one, many }, near))
}

/// Whether a unit has an area and a volume.
pub(super) fn is_length(sign: &str) -> bool {
    matches!(
        sign,
        "km" | "m" | "cm" | "mm" | "mi" | "ft" | "in" | "yd" | "nm" | "µm" | "dm"
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
