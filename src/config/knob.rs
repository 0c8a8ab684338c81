//! What a knob is, and the macro that makes setters, property names, documentation and defaults out of one table.

use super::knobs::Given;
use super::value::{Limits, Value};
use crate::error::ConfigError;

/// One setting, as the property parser and the documentation see it.
pub(super) struct Knob {
    pub group: &'static str,
    /// How it is set in Rust.
    pub rust: &'static str,
    /// Names as a property; the first is the one errors use.
    pub properties: &'static [&'static str],
    /// As the text of a property.
    pub default: &'static str,
    pub meaning: &'static str,
    /// Why the default is what it is.
    pub reason: &'static str,
    /// What is accepted, in words.
    pub allowed: fn() -> String,
    /// Sets it from the text of a property.
    pub write: fn(&mut Given, &str) -> Result<(), String>,
    /// What was set, as the text of a property.
    pub read: fn(&Given) -> Option<String>,
}

impl Knob {
    pub(super) fn property(&self) -> &'static str {
        self.properties[0]
    }
}

pub(super) fn error(property: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError { property: property.to_owned(), reason: reason.into() }
}

/// What was set, or the default, within its limits.
pub(super) fn choose<T: Value>(
    given: Option<&T>,
    property: &str,
    default: &str,
    limits: &Limits,
) -> Result<T, ConfigError> {
    let value = match given {
        Some(value) => Ok(value.clone()),
        None => T::read(default, limits),
    };
    value.and_then(|value| value.fit(limits)).map_err(|reason| error(property, reason))
}

/// The names of a property, as they stand in a sentence.
macro_rules! names {
    ([$first:literal $(, $other:literal)*]) => {
        concat!("`", $first, "`" $(, ", also `", $other, "`")*)
    };
}

/// From a table of knobs: `Given` (what was set), `Chosen` (that or the default), `KNOBS`, and the setters of `Config`.
macro_rules! knobs {
    ($($group:literal: {$(
        $name:ident: $ty:ty, $(fn($arg:ty))? $(by $by:literal)?;
        properties: $properties:tt, default: $default:literal, limits: $limits:expr;
        $meaning:literal;
        because $reason:literal;
    )*})*) => {
        /// What was set, by whichever way; the last one wins.
        #[derive(Clone, Default)]
        pub(super) struct Given {
            $($(pub $name: Option<$ty>,)*)*
        }

        /// What was set, or the default; each within its limits, not yet fitted to each other.
        pub(super) struct Chosen {
            $($(pub $name: $ty,)*)*
        }

        impl Given {
            pub(super) fn choose(&self) -> Result<Chosen, ConfigError> {
                Ok(Chosen {
                    $($($name: choose(self.$name.as_ref(), $properties[0], $default, &$limits)?,)*)*
                })
            }
        }

        /// Every knob, in the order of the documentation.
        pub(super) static KNOBS: &[Knob] = &[$($(Knob {
            group: $group,
            rust: concat!($(stringify!($name), "(", stringify!($arg), ")")? $($by)?),
            properties: &$properties,
            default: $default,
            meaning: $meaning,
            reason: $reason,
            allowed: || <$ty as Value>::allowed(&$limits),
            write: |given, text| {
                given.$name = Some(<$ty as Value>::read(text, &$limits)?.fit(&$limits)?);
                Ok(())
            },
            read: |given| given.$name.as_ref().map(|value| value.show(&$limits)),
        },)*)*];

        #[allow(clippy::useless_conversion)] // some take `impl Into`, some the value itself
        impl Config {
            $($($(
                #[doc = $meaning]
                #[doc = ""]
                #[doc = concat!("Property ", names!($properties), ". Default `", $default, "`: ", $reason)]
                pub fn $name(mut self, value: $arg) -> Config {
                    self.given.$name = Some(value.into());
                    self
                }
            )?)*)*
        }
    };
}
pub(super) use {knobs, names};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::knobs::KNOBS;
    use std::collections::HashSet;

    #[test]
    fn defaults_are_values_that_are_shown_as_they_are_written() {
        for knob in KNOBS {
            let mut given = Given::default();
            assert_eq!((knob.read)(&given), None, "{}", knob.property());
            (knob.write)(&mut given, knob.default).unwrap_or_else(|e| panic!("{}: {e}", knob.property()));
            assert_eq!((knob.read)(&given).as_deref(), Some(knob.default), "{}", knob.property());
        }
    }

    #[test]
    fn every_name_is_of_one_knob_and_every_knob_is_explained() {
        let mut names = HashSet::new();
        for knob in KNOBS {
            for property in knob.properties {
                assert!(names.insert(*property), "{property} is there twice");
            }
            for text in [knob.meaning, knob.reason] {
                assert!(text.ends_with('.') && !text.contains("  "), "{}: {text:?}", knob.property());
            }
            assert!(!(knob.allowed)().is_empty());
        }
    }
}
