//! Units of measure: how they are written after a number, and what they are called.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::list::listed;

/// The distance from its number at which a unit is one.
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
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) one: String,
    pub(super) many: String,
}

/// Units by how close to their numbers they stand: sign, name, plural where it is not the name with "s", and the prefixes
/// that they are written with, which stand close or not. With the spellings of Home Assistant's own list (homeassistant
/// 2026.2.3, homeassistant/const.py).
static TABLE: [(Near, &str); 5] = [
    (
        Near::Any,
        "\
        m = meter + k c m µ u n d; mi = mile; ft = foot / feet; yd = yard; yds = yard; ha = hectare; \
        g = gram + k m µ u n; lb = pound; lbs = pound; oz = ounce; l = liter + m c d h; L = liter + m d c µ; \
        gal = gallon; tsp = teaspoon; tbsp = tablespoon; Tbsp = tablespoon; pt = pint; qt = quart; \
        s = second + m µ n; sec = second; secs = second; min = minute; mins = minute; h = hour; hr = hour; hrs = hour; d = day; wk = week; \
        wks = week; mo = month; mos = month; yr = year; yrs = year; mph = mile per hour / miles per hour; \
        kph = kilometer per hour / kilometers per hour; kmh = kilometer per hour / kilometers per hour; \
        Hz = hertz / hertz + k K M G T; bps = bit per second / bits per second + k K M G; Gb = gigabit; \
        Mb = megabit; W = watt + k M G m T; Wh = watt hour + k m M G T; V = volt + k m µ M; Ω = ohm + k M; \
        J = joule + k M G; cal = calorie + k M G; dB = decibel; px = pixel; dpi = dot per inch / dots per inch; \
        fps = frame per second / frames per second; rpm = revolution per minute / revolutions per minute; \
        RPM = revolution per minute / revolutions per minute; \
        psi = pound per square inch / pounds per square inch; tok = token; VA = volt ampere + m k M; \
        BTU = b t u / b t u; Btu = b t u / b t u; var = volt ampere reactive / volt amperes reactive + m k; \
        varh = volt ampere reactive hour + k; Ah = amp hour + m; nmi = nautical mile; ac = acre; \
        Pa = pascal + k h m M; bar = bar / bar + c; mbar = millibar; \
        mmHg = millimeter of mercury / millimeters of mercury; inHg = inch of mercury / inches of mercury; \
        atm = atmosphere; dBA = a weighted decibel; dBm = decibel milliwatt; \
        CCF = hundred cubic feet / hundred cubic feet; MCF = thousand cubic feet / thousand cubic feet; \
        cfm = cubic foot per minute / cubic feet per minute; gpm = gallon per minute / gallons per minute; \
        lx = lux / lux + k; lux = lux / lux; lm = lumen; ppm = part per million / parts per million; \
        ppb = part per billion / parts per billion; mol = mole + m µ; mpg = mile per gallon / miles per gallon; \
        kn = knot; kt = knot; kts = knot; Nm = newton meter; hp = horsepower / horsepower; Bq = becquerel; \
        mSv = millisievert; µSv = microsievert; lbf = pound of force / pounds of force",
    ),
    (
        Near::Sure,
        "\
        in = inch / inches; A = amp + m µ k; K = kelvin / kelvin; C = degree celsius / degrees celsius; \
        F = degree fahrenheit / degrees fahrenheit; S = siemens / siemens + m µ u",
    ),
    (
        Near::Touching,
        "\
        t = ton; us = microsecond; w = week; y = year; days = day; cd = candela; bit = bit + k K M G T",
    ),
    (
        Near::Apart,
        "\
        B = byte + k K M G T P Ki Mi Gi Ti E Z Y Pi Ei Zi Yi; st = stone / stone; N = newton",
    ),
    (
        Near::Per,
        "\
        p = particle",
    ),
];
/// Prefixes of units and their names.
#[rustfmt::skip]
static PREFIXES: &[(&str, &str)] = &[
    ("Ki", "kibi"), ("Mi", "mebi"), ("Gi", "gibi"), ("Ti", "tebi"), ("Pi", "pebi"), ("Ei", "exbi"), ("Zi", "zebi"),
    ("Yi", "yobi"), ("k", "kilo"), ("K", "kilo"), ("M", "mega"), ("G", "giga"), ("T", "tera"), ("P", "peta"),
    ("E", "exa"), ("Z", "zetta"), ("Y", "yotta"), ("h", "hecto"), ("d", "deci"), ("c", "centi"), ("m", "milli"),
    ("µ", "micro"), ("u", "micro"), ("n", "nano"),
];

static BY_SIGN: LazyLock<HashMap<String, (Unit, Near)>> = LazyLock::new(|| rows().collect());

/// The unit written `sign`, and how close to its number it has to stand.
pub(super) fn find(sign: &str) -> Option<&'static (Unit, Near)> {
    BY_SIGN.get(sign)
}

/// True if a unit or a measure of a kitchen is called so.
pub(super) fn is_name(word: &str) -> bool {
    listed(
        "cup cups degree degrees kilometre kilometres litre litres metre metres",
        word,
    ) || BY_SIGN
        .values()
        .any(|(unit, _)| unit.one == word || unit.many == word)
}

fn rows() -> impl Iterator<Item = (String, (Unit, Near))> {
    let rows = TABLE
        .iter()
        .flat_map(|&(near, rows)| rows.split("; ").map(move |row| (near, row)));
    rows.flat_map(|(near, row)| {
        let (row, prefixes) = row.split_once(" + ").unwrap_or((row, ""));
        let (sign, names) = row.split_once(" = ").unwrap_or((row, row));
        let (one, many) = names.split_once(" / ").map_or_else(
            || (names, format!("{names}s")),
            |(one, many)| (one, many.to_owned()),
        );
        let named = move |prefix: &str, name: &str, near| {
            let unit = Unit {
                one: format!("{name}{one}"),
                many: format!("{name}{many}"),
            };
            (format!("{prefix}{sign}"), (unit, near))
        };
        let plain = named("", "", near);
        let prefixed = PREFIXES.iter().filter(|(prefix, _)| listed(prefixes, prefix));
        let prefixed: Vec<_> = prefixed
            .map(|(prefix, name)| named(prefix, name, Near::Any))
            .collect();
        std::iter::once(plain).chain(prefixed)
    })
}

/// True if a unit has an area and a volume.
pub(super) fn is_length(sign: &str) -> bool {
    listed("km m cm mm mi ft in yd nm µm dm", sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_written_in_one_way_only() {
        let mut signs: Vec<String> = rows().map(|(sign, _)| sign).collect();
        signs.sort_unstable();
        let twice = signs.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!((twice, signs.len()), (None, 204));
    }
}
