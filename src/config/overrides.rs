//! `class.override.<CODE>`: the user's own class for single error codes.

use super::settings::Class;
use super::value::{Limits, Value};
use crate::protocol::error_code::ErrorCode;
use std::collections::HashMap;

pub const PREFIX: &str = "class.override.";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(pub HashMap<ErrorCode, Class>);

/// An error code by its name or its number.
pub fn code(text: &str) -> Result<ErrorCode, String> {
    if let Ok(number) = text.parse::<i16>() {
        return Ok(ErrorCode(number));
    }
    Err(format!("`{text}` is not an error code; take its name (`POLICY_VIOLATION`) or number (`44`)"))
}

impl Value for Overrides {
    /// As `44=drop, 19=retry-after-refresh`.
    fn read(text: &str, limits: &Limits) -> Result<Self, String> {
        let mut overrides = Overrides::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, class) = entry.split_once('=').ok_or_else(|| format!("`{entry}` has no `=`"))?;
            overrides.0.insert(code(name.trim())?, Class::read(class.trim(), limits)?);
        }
        Ok(overrides)
    }

    fn show(&self, limits: &Limits) -> String {
        let mut entries: Vec<_> =
            self.0.iter().map(|(code, class)| format!("{}={}", code.0, class.show(limits))).collect();
        entries.sort();
        entries.join(", ")
    }

    fn allowed(limits: &Limits) -> String {
        Class::allowed(limits)
    }
}
