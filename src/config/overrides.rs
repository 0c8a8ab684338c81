//! `class.override.<CODE>`: the user's own class for single error codes.

use super::settings::Class;
use super::value::{Limits, Value};
use crate::protocol::error_code::ErrorCode;
use std::collections::HashMap;

pub(super) const PREFIX: &str = "class.override.";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides(pub HashMap<ErrorCode, Class>);

/// An error code by its name or its number. Success has no other class.
pub(super) fn code(text: &str) -> Result<ErrorCode, String> {
    let known = match text.parse::<i16>() {
        Ok(number) => Some(ErrorCode::from(number)),
        Err(_) => ErrorCode::ALL.iter().copied().find(|code| code.name().eq_ignore_ascii_case(text)),
    };
    match known {
        Some(code) if is_success(code) => Err(unchangeable(text)),
        Some(code) => Ok(code),
        None => {
            Err(format!("`{text}` is not an error code: take a name or number, as in docs/classification.md"))
        }
    }
}

fn is_success(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::None | ErrorCode::DuplicateSequenceNumber)
}

fn unchangeable(code: &str) -> String {
    format!("`{code}` says that the messages are in the log; that can't be changed")
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
            self.0.iter().map(|(code, class)| format!("{}={}", shown(*code), class.show(limits))).collect();
        entries.sort();
        entries.join(", ")
    }

    fn fit(self, _: &Limits) -> Result<Self, String> {
        match self.0.keys().find(|code| is_success(**code)) {
            Some(code) => Err(unchangeable(code.name())),
            None => Ok(self),
        }
    }

    fn allowed(limits: &Limits) -> String {
        Class::allowed(limits)
    }
}

/// As `code` reads it: the name, or the number of a code without one.
fn shown(code: ErrorCode) -> String {
    match code {
        ErrorCode::Unknown(number) => number.to_string(),
        code => code.name().to_owned(),
    }
}
