//! How values are read, checked and shown: one rule per type, used by every knob of that type.

use super::settings::{Acks, Class, Idempotence, RecoveryStrategy, RetryAmbiguous};
use crate::protocol::compression::Codec;
use std::time::Duration;

/// What a knob accepts within its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    min: i64,
    max: i64,
    unit: Unit,
    /// Words for "none"; the first is how it is shown.
    none: &'static [&'static str],
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Plain,
    Bytes,
    Millis,
    Micros,
}

/// Times above this count as this: "for ever" is often written as the largest number there is, and adding that to a clock
/// overflows.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The largest 32-bit number: how Java's users write "no limit".
pub(super) const JAVA_MAX: &str = "2147483647";

impl Limits {
    /// No numbers: words or text.
    pub(super) const TEXT: Limits = Limits::numbers(0, i64::MAX, Unit::Plain);

    const fn numbers(min: i64, max: i64, unit: Unit) -> Limits {
        Limits { min, max, unit, none: &[] }
    }

    pub(super) const fn count(min: i64, max: i64) -> Limits {
        Limits::numbers(min, max, Unit::Plain)
    }

    pub(super) const fn bytes(min: i64, max: i64) -> Limits {
        Limits::numbers(min, max, Unit::Bytes)
    }

    /// Milliseconds, as long as one likes.
    pub(super) const fn millis(min: i64) -> Limits {
        Limits::numbers(min, i64::MAX, Unit::Millis)
    }

    pub(super) const fn millis_to(min: i64, max: i64) -> Limits {
        Limits::numbers(min, max, Unit::Millis)
    }

    pub(super) const fn micros_to(min: i64, max: i64) -> Limits {
        Limits::numbers(min, max, Unit::Micros)
    }

    /// The words that mean "none".
    pub(super) const fn none(self, words: &'static [&'static str]) -> Limits {
        Limits { none: words, ..self }
    }

    fn is_none(&self, text: &str) -> bool {
        self.none.iter().any(|word| word.eq_ignore_ascii_case(text))
    }

    fn unit_text(&self) -> &'static str {
        match self.unit {
            Unit::Plain => "",
            Unit::Bytes => " bytes",
            Unit::Millis => " ms",
            Unit::Micros => " µs",
        }
    }

    fn range_text(&self) -> String {
        let unit = self.unit_text();
        if self.max == i64::MAX {
            format!("{}{unit} or more", self.min)
        } else {
            format!("{} to {}{unit}", self.min, self.max)
        }
    }

    fn nanos_a_unit(&self) -> u128 {
        match self.unit {
            Unit::Micros => 1_000,
            _ => 1_000_000,
        }
    }
}

/// A type that knobs can have.
pub(super) trait Value: Clone {
    /// From the text of a property; the error says what is wrong with it.
    fn read(text: &str, limits: &Limits) -> Result<Self, String>;
    /// As the text of a property.
    fn show(&self, limits: &Limits) -> String;
    /// Within the limits, or what is wrong with it.
    fn fit(self, _limits: &Limits) -> Result<Self, String> {
        Ok(self)
    }
    /// What is accepted, for the documentation and for errors.
    fn allowed(limits: &Limits) -> String;
}

fn wrong<T: Value>(text: &str, limits: &Limits) -> String {
    format!("`{text}` is not accepted; allowed: {}", T::allowed(limits))
}

impl Value for Duration {
    fn read(text: &str, limits: &Limits) -> Result<Self, String> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return Err(wrong::<Self>(text, limits));
        }
        // More digits than fit are for ever.
        let whole = whole.parse::<u64>().unwrap_or(u64::MAX);
        let fraction = format!("{fraction:0<9}").parse::<u64>().unwrap_or(0);
        let a_unit = limits.nanos_a_unit();
        let nanos = u128::from(whole) * a_unit + u128::from(fraction) * a_unit / 1_000_000_000;
        Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn show(&self, limits: &Limits) -> String {
        let a_unit = limits.nanos_a_unit();
        let (whole, rest) = (self.as_nanos() / a_unit, self.as_nanos() % a_unit);
        if rest == 0 {
            return whole.to_string();
        }
        let fraction = format!("{:09}", rest * (1_000_000_000 / a_unit));
        format!("{whole}.{}", fraction.trim_end_matches('0'))
    }

    fn fit(self, limits: &Limits) -> Result<Self, String> {
        let at = |bound: i64| u128::from(bound.unsigned_abs()) * limits.nanos_a_unit();
        let nanos = self.as_nanos();
        if nanos < at(limits.min) || limits.max != i64::MAX && nanos > at(limits.max) {
            return Err(wrong::<Self>(&self.show(limits), limits));
        }
        Ok(self.min(LONGEST))
    }

    fn allowed(limits: &Limits) -> String {
        limits.range_text()
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Value for $ty {
            fn read(text: &str, limits: &Limits) -> Result<Self, String> {
                text.parse::<$ty>().map_err(|_| wrong::<Self>(text, limits))
            }

            fn show(&self, _: &Limits) -> String {
                self.to_string()
            }

            fn fit(self, limits: &Limits) -> Result<Self, String> {
                match i64::try_from(self) {
                    Ok(n) if (limits.min..=limits.max).contains(&n) => Ok(self),
                    _ => Err(wrong::<Self>(&self.show(limits), limits)),
                }
            }

            fn allowed(limits: &Limits) -> String {
                limits.range_text()
            }
        }
    )*};
}
integers!(i32 u32 u64 usize);

impl<T: Value> Value for Option<T> {
    fn read(text: &str, limits: &Limits) -> Result<Self, String> {
        if limits.is_none(text) {
            return Ok(None);
        }
        T::read(text, limits).map(Some).map_err(|_| wrong::<Self>(text, limits))
    }

    fn show(&self, limits: &Limits) -> String {
        match self {
            Some(value) => value.show(limits),
            None => limits.none.first().copied().unwrap_or_default().to_owned(),
        }
    }

    fn fit(self, limits: &Limits) -> Result<Self, String> {
        match self {
            Some(value) => {
                let text = value.show(limits);
                value.fit(limits).map(Some).map_err(|_| wrong::<Self>(&text, limits))
            }
            None => Ok(None),
        }
    }

    fn allowed(limits: &Limits) -> String {
        let words: Vec<_> = limits
            .none
            .iter()
            .map(|w| if w.is_empty() { "empty".to_owned() } else { format!("`{w}`") })
            .collect();
        format!("{}; {} for `None`", T::allowed(limits), words.join(" or "))
    }
}

impl Value for String {
    fn read(text: &str, _: &Limits) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self, _: &Limits) -> String {
        self.clone()
    }

    /// Kafka's strings carry their length in 16 bits, and every request carries these.
    fn fit(self, _: &Limits) -> Result<Self, String> {
        if self.len() > 32_767 {
            return Err(format!("{} bytes long; allowed: up to 32767", self.len()));
        }
        Ok(self)
    }

    fn allowed(_: &Limits) -> String {
        "text".to_owned()
    }
}

/// Words for the values of a type: the first of each is how it is shown, the others are understood too.
macro_rules! words {
    ($($ty:ty { $($value:path: $first:literal $(| $other:literal)*),* $(,)? })*) => {$(
        impl Value for $ty {
            fn read(text: &str, limits: &Limits) -> Result<Self, String> {
                let is = |word: &str| word.eq_ignore_ascii_case(text);
                $(if is($first) $(|| is($other))* {
                    return Ok($value);
                })*
                Err(wrong::<Self>(text, limits))
            }

            fn show(&self, _: &Limits) -> String {
                match *self {
                    $($value => $first,)*
                }.to_owned()
            }

            fn allowed(_: &Limits) -> String {
                [$(concat!("`", $first, "`" $(, " (or `", $other, "`)")*)),*].join(", ")
            }
        }
    )*};
}

/// `true` and `false` as values, so that they can stand in a list of words.
const TRUE: bool = true;
const FALSE: bool = false;

words! {
    bool { TRUE: "true", FALSE: "false" }
    Acks { Acks::Zero: "0", Acks::One: "1", Acks::All: "all" | "-1" }
    Idempotence {
        Idempotence::Off: "off" | "false",
        Idempotence::Preferred: "preferred",
        Idempotence::Required: "required" | "true",
    }
    RetryAmbiguous {
        RetryAmbiguous::Auto: "auto" | "true",
        RetryAmbiguous::Always: "always",
        RetryAmbiguous::Never: "never" | "false",
    }
    RecoveryStrategy { RecoveryStrategy::None: "none", RecoveryStrategy::Rebootstrap: "rebootstrap" }
    Codec {
        Codec::None: "none",
        Codec::Gzip: "gzip",
        Codec::Snappy: "snappy",
        Codec::Lz4: "lz4",
        Codec::Zstd: "zstd",
    }
    Class {
        Class::RetryAfterRefresh: "retry-after-refresh",
        Class::RetryAfterBackoff: "retry-after-backoff",
        Class::Drop: "drop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_being_shown_and_read() {
        for (unit, nanos) in [(Limits::millis(0), 1_500_000), (Limits::micros_to(0, 10_000), 1_500)] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(time.show(&unit), "1.5");
            assert_eq!(Duration::read("1.5", &unit), Ok(time));
        }
        let ms = Limits::millis(0);
        for text in ["0", "5", "0.000001", "120000"] {
            assert_eq!(Duration::read(text, &ms).expect("good").show(&ms), text);
        }
        for text in ["", ".", ".5", "-1", "5ms", "1e3", "+5", "1.5.2", "5,0", " 5"] {
            assert!(Duration::read(text, &ms).is_err(), "{text}");
        }
    }

    #[test]
    fn for_ever_is_ten_years() {
        let ms = Limits::millis(0);
        for text in ["9223372036854775807", "18446744073709551615", "99999999999999999999999999"] {
            let time = Duration::read(text, &ms).expect("a number");
            assert_eq!(time.fit(&ms), Ok(LONGEST), "{text}");
        }
        assert_eq!(Duration::MAX.fit(&ms), Ok(LONGEST));
    }

    #[test]
    fn numbers_end_where_their_limits_end() {
        let limits = Limits::count(1, 9).none(&["-1"]);
        for (n, good) in [(0, false), (1, true), (9, true), (10, false)] {
            assert_eq!(n.fit(&limits).is_ok(), good, "{n}");
            assert_eq!(Some(n).fit(&limits).is_ok(), good, "{n}");
        }
        assert_eq!(Option::<i32>::read("-1", &limits), Ok(None));
        assert_eq!(
            Option::<i32>::read("x", &limits),
            Err("`x` is not accepted; allowed: 1 to 9; `-1` for `None`".to_owned())
        );
        assert!(u64::MAX.fit(&Limits::bytes(0, i64::MAX)).is_err());
    }
}
