pub mod settings;

use crate::error::ConfigError;

/// Placeholder until the real one lands: replace this file.
#[derive(Clone, Debug, Default)]
pub struct Config {
    _private: (),
}

impl Config {
    pub fn settings(&self) -> Result<settings::Settings, ConfigError> {
        Err(ConfigError { property: "bootstrap.servers".into(), reason: "not there yet".into() })
    }
}
